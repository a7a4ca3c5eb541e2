//! Tasks that buyers asked for: under way, or done and remembered.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering::Relaxed},
};

use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

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

/// Who waits for a task learns of its outcome.
pub(super) type Coming = watch::Receiver<Option<Done>>;

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
    cancel: CancellationToken,
    bytes: usize,
    peer: Arc<Peer>,
}

/// A task that nobody has asked for before.
pub(super) struct New {
    pub(super) cancel: CancellationToken,
    pub(super) peer: Arc<Peer>,
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
            return Some((task.done.subscribe(), None));
        }
        let of_peer = peer.open_bytes.load(Relaxed).saturating_add(bytes);
        let of_all = known.open_bytes.saturating_add(bytes);
        if of_all > self.most_open_bytes || of_peer > share(self.most_open_bytes) {
            return None;
        }
        known.open_bytes = of_all;
        // It changes under the lock alone.
        peer.open_bytes.store(of_peer, Relaxed);
        let (done, coming) = watch::channel(None);
        let cancel = CancellationToken::new();
        let task = Task {
            done,
            cancel: cancel.clone(),
            bytes,
            peer: Arc::clone(peer),
        };
        known.tasks.insert(id.to_owned(), task);
        let peer = Arc::clone(peer);
        Some((coming, Some(New { cancel, peer })))
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

    /// Stops a task that is under way.
    pub(super) fn cancel(&self, id: &str) {
        if let Some(task) = self.known().tasks.get(id) {
            task.cancel.cancel();
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
