//! Tasks that buyers asked for: under way, or done and remembered.

use std::{
    collections::{HashMap, VecDeque},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed},
};

use serde_json::Value;
use tokio::sync::watch;

use super::{
    Limits,
    peers::{Peer, share},
};
use crate::acmp::wire::{self, Error};

/// What came of a task.
pub(super) type Outcome = Result<Value, Error>;

/// The same, and how large it is.
pub(super) struct Done {
    pub(super) outcome: Outcome,
    pub(super) bytes: usize,
}

/// What is to come of a task, for one who waits for it.
pub(super) struct Coming {
    done: watch::Receiver<Option<Done>>,
    stopped: Stopped,
}

/// Why a task was stopped, if it was.
pub(super) struct Stopped(watch::Receiver<Option<Error>>);

/// The tasks of all connections, by id.
pub(super) struct Tasks {
    known: Mutex<Known>,
    most: usize,
    most_bytes: usize,
    most_open_bytes: usize,
}

#[derive(Default)]
struct Known {
    tasks: HashMap<String, Task>,
    /// Those that are done, oldest first, and how large their results are.
    done: VecDeque<(String, usize)>,
    bytes: usize,
    /// How large those are that are under way.
    open_bytes: usize,
}

struct Task {
    done: watch::Sender<Option<Done>>,
    stop: watch::Sender<Option<Error>>,
    bytes: usize,
    peer: Arc<Peer>,
}

/// A task that nobody has asked for before.
pub(super) struct New {
    pub(super) stopped: Stopped,
    pub(super) peer: Arc<Peer>,
}

impl Coming {
    /// Waits until the task is done.
    pub(super) async fn is_done(&mut self) {
        // Where it is lost, nobody says any more that it is done.
        let _ = self.done.wait_for(Option::is_some).await;
    }

    /// What came of it, if that is known and nobody has cancelled the task since it is waited for.
    pub(super) fn shown<T>(&self, show: impl FnOnce(&Done) -> T) -> Result<T, Error> {
        if let Some(why) = self.stopped.0.borrow().clone() {
            return Err(why);
        }
        let done = self.done.borrow();
        let lost = || Error::new(wire::INTERNAL, "it is lost");
        done.as_ref().map(show).ok_or_else(lost)
    }
}

impl Stopped {
    /// Waits until it is.
    pub(super) async fn wait(mut self) -> Error {
        let why = self.0.wait_for(Option::is_some).await;
        match why.ok().and_then(|it| it.clone()) {
            Some(why) => why,
            // Nobody can stop it any more.
            None => std::future::pending().await,
        }
    }
}

impl Task {
    fn coming(&self) -> Coming {
        Coming {
            done: self.done.subscribe(),
            stopped: Stopped(self.stop.subscribe()),
        }
    }

    /// Stops what is done about it, and lets nobody who comes later know.
    fn stop(&mut self, why: Error) {
        mem::take(&mut self.stop).send_replace(Some(why));
    }
}

impl Tasks {
    pub(super) fn new(limits: &Limits) -> Tasks {
        Tasks {
            known: Mutex::default(),
            most: limits.remembered,
            most_bytes: limits.remembered_bytes,
            most_open_bytes: limits.open_bytes,
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing that is done under the lock can fail half way.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to come of a task of so many bytes. If it is new, whoever asked has to carry it out. None if there is no
    /// room for it, or none for more from there.
    pub(super) fn enter(
        &self,
        id: &str,
        bytes: usize,
        peer: &Arc<Peer>,
    ) -> Option<(Coming, Option<New>)> {
        let mut known = self.known();
        if let Some(task) = known.tasks.get(id) {
            return Some((task.coming(), None));
        }
        let of_peer = peer.open_bytes.load(Relaxed).saturating_add(bytes);
        let of_all = known.open_bytes.saturating_add(bytes);
        if of_all > self.most_open_bytes || of_peer > share(self.most_open_bytes) {
            return None;
        }
        known.open_bytes = of_all;
        // It changes under the lock alone.
        peer.open_bytes.store(of_peer, Relaxed);
        let task = Task {
            done: watch::Sender::default(),
            stop: watch::Sender::default(),
            bytes,
            peer: Arc::clone(peer),
        };
        let new = New {
            stopped: Stopped(task.stop.subscribe()),
            peer: Arc::clone(peer),
        };
        let coming = task.coming();
        known.tasks.insert(id.to_owned(), task);
        Some((coming, Some(new)))
    }

    /// A task is done. The oldest results are forgotten where there are too many, also if somebody still waits to take them.
    pub(super) fn end(&self, id: &str, done: Done) {
        let mut known = self.known();
        let bytes = id.len() + done.bytes;
        if let Some(task) = known.tasks.get(id) {
            let open = task.bytes;
            task.peer.open_bytes.fetch_sub(open, Relaxed);
            task.done.send_replace(Some(done));
            known.open_bytes -= open;
        }
        known.done.push_back((id.to_owned(), bytes));
        known.bytes += bytes;
        while known.done.len() > self.most || known.bytes > self.most_bytes {
            let Some((oldest, bytes)) = known.done.pop_front() else {
                return;
            };
            known.bytes -= bytes;
            if let Some(task) = known.tasks.remove(&oldest) {
                task.done.send_replace(Some(forgotten(&oldest)));
            }
        }
    }

    /// Stops a task that is under way, and the chunks of one that is done.
    pub(super) fn cancel(&self, id: &str) {
        if let Some(task) = self.known().tasks.get_mut(id) {
            task.stop(Error::new(wire::CANCELLED, "it was cancelled").about(id));
        }
    }
}

/// What is there for whoever has not taken a result in time.
fn forgotten(id: &str) -> Done {
    let what = "its result was not taken, and there was no room to keep it";
    Done {
        outcome: Err(Error::new(wire::INTERNAL, what).about(id)),
        bytes: 0,
    }
}

#[cfg(test)]
mod tests;
