//! A provider's lane on tokio's clock: calls wait in it to be let in.
//!
//! **Invariant:** only the first of those who wait is ever woken, so a crowd costs no more than a queue.

use std::{
    collections::BTreeMap,
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fastrand::Rng;
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

use crate::lane::{Answer, HeldUp, How, Lane, Limits, Pass, Pause, Ticket};

/// The way to one provider.
pub(super) struct Gate {
    begun: Instant,
    state: Mutex<State>,
    /// Whoever wants to know how many wait.
    changed: Arc<Notify>,
}

struct State {
    lane: Lane,
    rng: Rng,
    wakers: BTreeMap<Ticket, Arc<Notify>>,
}

/// How it stands before a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Crowd {
    pub(super) waiting: usize,
    /// Until when nobody is let in because the endpoint refused.
    pub(super) paused: Option<Pause>,
    /// The limit that keeps the first of them.
    pub(super) held_up: Option<HeldUp>,
    /// When this was so, on the clock of the gate.
    pub(super) at: Duration,
}

impl Gate {
    /// `seed` decides what its chances are.
    pub(super) fn new(limits: Limits, seed: u64, changed: Arc<Notify>) -> Gate {
        Gate {
            begun: Instant::now(),
            state: Mutex::new(State {
                lane: Lane::new(limits),
                rng: Rng::with_seed(seed),
                wakers: BTreeMap::new(),
            }),
            changed,
        }
    }

    pub(super) fn crowd(&self) -> Crowd {
        let state = self.state();
        let at = self.begun.elapsed();
        Crowd {
            waiting: state.lane.waiting(),
            paused: state.lane.paused(at),
            held_up: state.lane.held_up(),
            at,
        }
    }

    /// Waits to be let in with a call of about so many tokens. Nothing is lost if the wait is given up.
    pub(super) async fn enter(self: &Arc<Gate>, tokens: u64) -> Inside {
        let ticket = self.state().lane.queue();
        let mut place = Place {
            gate: self,
            ticket: Some(ticket),
        };
        loop {
            let (at, waker) = match self.ask(ticket, tokens) {
                Ok(pass) => {
                    place.ticket = None;
                    return Inside {
                        gate: Arc::clone(self),
                        pass: Some(pass),
                    };
                }
                Err(wait) => wait,
            };
            let time = async {
                match at {
                    Some(at) => sleep(at.saturating_sub(self.begun.elapsed())).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = waker.notified() => (),
                () = time => (),
            }
        }
    }

    /// Lets in, or says until when to wait and what wakes meanwhile.
    fn ask(&self, ticket: Ticket, tokens: u64) -> Result<Pass, (Option<Duration>, Arc<Notify>)> {
        let now = self.begun.elapsed();
        let mut state = self.state();
        let chance = state.rng.f64();
        match state.lane.ask(ticket, tokens, now, chance) {
            Answer::Go(pass) => {
                if state.wakers.remove(&ticket).is_some() {
                    self.changed.notify_one();
                }
                state.wake_first();
                Ok(pass)
            }
            Answer::Wait(at) => {
                self.changed.notify_one();
                let waker = state.wakers.entry(ticket).or_default();
                Err((at, Arc::clone(waker)))
            }
        }
    }

    fn leave(&self, pass: Pass, used: Option<u64>, how: How) {
        let now = self.begun.elapsed();
        let mut state = self.state();
        let chance = state.rng.f64();
        state.lane.leave(pass, used, how, now, chance);
        state.wake_first();
        if matches!(how, How::Refused { .. }) {
            self.changed.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every step of a lane is whole before the lock ends.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wake_first(&self) {
        if let Some(waker) = self.lane.first().and_then(|it| self.wakers.get(&it)) {
            waker.notify_one();
        }
    }
}

/// A place in the queue, given up when it is dropped.
struct Place<'a> {
    gate: &'a Gate,
    ticket: Option<Ticket>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let mut state = self.gate.state();
            state.lane.give_up(ticket);
            state.wakers.remove(&ticket);
            state.wake_first();
            self.gate.changed.notify_one();
        }
    }
}

/// A call that was let in. Dropped, it has left without a word.
pub(super) struct Inside {
    gate: Arc<Gate>,
    pass: Option<Pass>,
}

impl Inside {
    /// The call has ended so, and used so many tokens, if that is known.
    pub(super) fn leave(mut self, used: Option<u64>, how: How) {
        if let Some(pass) = self.pass.take() {
            self.gate.leave(pass, used, how);
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if let Some(pass) = self.pass.take() {
            self.gate.leave(pass, None, How::Otherwise);
        }
    }
}

#[cfg(test)]
mod tests;
