//! Tasks that buyers asked for: under way, or done and remembered.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Limits;
use crate::acmp::wire::Error;

/// What came of a task.
pub(super) type Outcome = Result<Value, Error>;

/// Who waits for a task learns of its outcome.
pub(super) type Coming = watch::Receiver<Option<Outcome>>;

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
    coming: Coming,
    cancel: CancellationToken,
    bytes: usize,
}

/// A task that nobody has asked for before.
pub(super) struct New {
    pub(super) done: watch::Sender<Option<Outcome>>,
    pub(super) cancel: CancellationToken,
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
    /// room for it.
    pub(super) fn enter(&self, id: &str, bytes: usize) -> Option<(Coming, Option<New>)> {
        let mut known = self.known();
        if let Some(task) = known.tasks.get(id) {
            return Some((task.coming.clone(), None));
        }
        if known.open_bytes.saturating_add(bytes) > self.most_open_bytes {
            return None;
        }
        known.open_bytes += bytes;
        let (done, coming) = watch::channel(None);
        let cancel = CancellationToken::new();
        let task = Task {
            coming: coming.clone(),
            cancel: cancel.clone(),
            bytes,
        };
        known.tasks.insert(id.to_owned(), task);
        Some((coming, Some(New { done, cancel })))
    }

    /// Takes note that a task of so many bytes is done. The oldest are forgotten where there are too many.
    pub(super) fn remember(&self, id: &str, bytes: usize) {
        let mut known = self.known();
        known.open_bytes -= known.tasks.get(id).map_or(0, |it| it.bytes);
        known.done.push_back((id.to_owned(), bytes));
        known.bytes += bytes;
        while known.done.len() > self.most || known.bytes > self.most_bytes {
            let Some((oldest, bytes)) = known.done.pop_front() else {
                return;
            };
            known.bytes -= bytes;
            known.tasks.remove(&oldest);
        }
    }

    /// Stops a task that is under way.
    pub(super) fn cancel(&self, id: &str) {
        if let Some(task) = self.known().tasks.get(id) {
            task.cancel.cancel();
        }
    }
}
