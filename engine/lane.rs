//! When a call to a provider may be made: its slots, its rates, and the waits it asks for.
//!
//! **Invariant:** a lane is a pure state machine: it is told the time, and its chances.
//! **Invariant:** calls are let in in the order in which they came.
//! **Invariant:** in any minute no more is let in than the rates allow, but for what was estimated too low.
//!
//! A rate is kept by remembering the last minute, because a call's tokens are known only when it has ended: a limiter
//! that counts drops, as `governor` does, cannot be told afterwards.

use std::{collections::VecDeque, time::Duration};

use crate::schedule::{Backoff, Jitter};

/// What a provider allows. What is not said has no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Calls under way at once.
    pub concurrency: Option<u32>,
    /// Calls in a minute.
    pub requests: Option<u64>,
    /// Tokens in a minute.
    pub tokens: Option<u64>,
}

/// How long a lane waits, on top of what the endpoint asks for, when it is refused time and again.
const BACKOFF: Backoff = Backoff {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(60),
    jitter: Jitter::Full,
};

const MINUTE: Duration = Duration::from_secs(60);

/// No call counts for more, whatever an endpoint says: so no sum overflows.
const MOST: u64 = u32::MAX as u64;

/// A place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// A call that was let in. It is to be given back with [`Lane::leave`].
#[derive(Debug, PartialEq, Eq)]
pub struct Pass {
    ticket: Ticket,
    /// How many pauses there had been.
    pauses: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    Go(Pass),
    /// Ask again then, or, without a time, when somebody has left.
    Wait(Option<Duration>),
}

/// How a call ended, as far as others meet it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    Answered,
    /// The endpoint wants everybody to wait, at least for so long.
    Refused {
        floor: Duration,
    },
    /// In a way that says nothing of the endpoint.
    Otherwise,
}

/// A limit of ours that keeps somebody waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    Slots,
    Requests,
    Tokens,
}

impl Kept {
    /// Its name in the files of authors.
    pub fn name(self) -> &'static str {
        match self {
            Kept::Slots => "max_concurrency",
            Kept::Requests => "requests_per_minute",
            Kept::Tokens => "tokens_per_minute",
        }
    }
}

/// Who is to be let in next has to wait for one of the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldUp {
    pub ticket: Ticket,
    pub by: Kept,
    pub since: Duration,
    /// When it is let in, unless others use less than was thought. Nobody knows when a slot is left.
    pub until: Option<Duration>,
}

/// Nobody is let in because the endpoint refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// How many there have been.
    pub number: u64,
    pub until: Duration,
}

/// The calls to one provider. Times are since any one beginning.
#[derive(Debug, Default)]
pub struct Lane {
    limits: Limits,
    running: u32,
    waiting: VecDeque<Ticket>,
    held_up: Option<HeldUp>,
    tickets: u64,
    requests: Minute,
    tokens: Minute,
    /// Until then nobody is let in.
    closed_until: Duration,
    /// After a pause those who waited are let in one after the other, spread over the time until then.
    eased_until: Duration,
    next_at: Duration,
    /// How often it was refused without an answer in between, those that were under way at the time counted as one.
    refusals: u32,
    pauses: u64,
}

impl Lane {
    pub fn new(limits: Limits) -> Lane {
        Lane {
            limits,
            ..Lane::default()
        }
    }

    /// How many wait to be let in.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Until when nobody is let in because the endpoint refused.
    pub fn paused(&self, now: Duration) -> Option<Pause> {
        let until = self.closed_until.max(self.next_at);
        let number = self.pauses;
        (until > now).then_some(Pause { number, until })
    }

    /// What keeps the first of those who wait, if it is one of the limits.
    pub fn held_up(&self) -> Option<HeldUp> {
        self.held_up.filter(|it| self.first() == Some(it.ticket))
    }

    /// Who is to be let in next.
    pub fn first(&self) -> Option<Ticket> {
        self.waiting.front().copied()
    }

    /// Takes a place at the end of the queue.
    pub fn queue(&mut self) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.waiting.push_back(ticket);
        ticket
    }

    /// Gives up a place in the queue.
    pub fn give_up(&mut self, ticket: Ticket) {
        self.waiting.retain(|it| *it != ticket);
    }

    /// Asks to be let in with a call of so many tokens. `chance` is between 0 and 1.
    pub fn ask(&mut self, ticket: Ticket, tokens: u64, now: Duration, chance: f64) -> Answer {
        if self.first() != Some(ticket) {
            return Answer::Wait(None);
        }
        let is_full = (self.limits.concurrency).is_some_and(|it| self.running >= it);
        if is_full {
            self.hold_up(ticket, Kept::Slots, (now, None));
            return Answer::Wait(None);
        }
        let requests = self.requests.room(self.limits.requests, 1, now);
        let tokens_at = self.tokens.room(self.limits.tokens, tokens, now);
        let closed_until = self.closed_until.max(self.next_at);
        let (by, rate_at) = match tokens_at > requests {
            true => (Kept::Tokens, tokens_at),
            false => (Kept::Requests, requests),
        };
        let at = rate_at.max(closed_until);
        if at > now {
            match rate_at > closed_until {
                true => self.hold_up(ticket, by, (now, Some(rate_at))),
                false => self.held_up = None,
            }
            return Answer::Wait(Some(at));
        }
        self.waiting.pop_front();
        let others = u32::try_from(self.waiting.len()).unwrap_or(u32::MAX);
        if now < self.eased_until && others > 0 {
            let gap = (self.eased_until - now) / others;
            self.next_at = self.eased_until.min(now + gap.mul_f64(2.0 * chance));
        }
        self.running += 1;
        if self.limits.requests.is_some() {
            self.requests.add(ticket, 1, now);
        }
        if self.limits.tokens.is_some() {
            self.tokens.add(ticket, tokens, now);
        }
        Answer::Go(Pass {
            ticket,
            pauses: self.pauses,
        })
    }

    /// Notes what keeps the first, and since when it is that.
    fn hold_up(&mut self, ticket: Ticket, by: Kept, (now, until): (Duration, Option<Duration>)) {
        let before = self.held_up.filter(|it| (it.ticket, it.by) == (ticket, by));
        self.held_up = Some(HeldUp {
            ticket,
            by,
            since: before.map_or(now, |it| it.since),
            until,
        });
    }

    /// A call has ended, and used so many tokens, if that is known. `chance` is between 0 and 1.
    pub fn leave(&mut self, pass: Pass, used: Option<u64>, how: How, now: Duration, chance: f64) {
        self.running -= 1;
        if let Some(used) = used {
            self.tokens.correct(pass.ticket, used);
        }
        let is_news = pass.pauses == self.pauses;
        match how {
            How::Answered if is_news => self.refusals = 0,
            How::Refused { floor } => {
                if is_news {
                    self.pauses += 1;
                    self.refusals = self.refusals.saturating_add(1);
                }
                let span = BACKOFF.span(self.refusals.max(1));
                let until = now
                    .saturating_add(floor)
                    .saturating_add(span.mul_f64(chance));
                // What others were told meanwhile is a floor as well, but they draw no second wait.
                let until = if is_news {
                    until
                } else {
                    now.saturating_add(floor)
                };
                self.closed_until = self.closed_until.max(until);
                self.eased_until = self.closed_until.saturating_add(span);
            }
            How::Answered | How::Otherwise => (),
        }
    }
}

/// What was let in during the last minute, the oldest first.
#[derive(Debug, Default)]
struct Minute {
    calls: VecDeque<(Ticket, Duration, u64)>,
    sum: u64,
}

impl Minute {
    /// When there is room for so much more. What is more than a minute's worth goes alone.
    fn room(&mut self, limit: Option<u64>, amount: u64, now: Duration) -> Duration {
        let Some(limit) = limit else {
            return Duration::ZERO;
        };
        while let Some((_, at, amount)) = self.calls.front().copied()
            && at + MINUTE <= now
        {
            self.sum -= amount;
            self.calls.pop_front();
        }
        let mut left = self.sum;
        let mut when = now;
        for (_, at, gone) in &self.calls {
            if left.saturating_add(amount) <= limit {
                break;
            }
            left -= gone;
            when = *at + MINUTE;
        }
        when
    }

    fn add(&mut self, ticket: Ticket, amount: u64, now: Duration) {
        let amount = amount.min(MOST);
        self.calls.push_back((ticket, now, amount));
        self.sum += amount;
    }

    /// Counts what a call really used.
    fn correct(&mut self, ticket: Ticket, used: u64) {
        if let Ok(at) = self.calls.binary_search_by_key(&ticket, |it| it.0) {
            let used = used.min(MOST);
            self.sum = self.sum - self.calls[at].2 + used;
            self.calls[at].2 = used;
        }
    }
}

#[cfg(test)]
mod tests;
