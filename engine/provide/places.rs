//! Who is connected, and who has to go where there is no room.
//!
//! **Invariant:** nobody whose task is under way has to go, and nobody who was let in for somebody who was not.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio_util::sync::CancellationToken;

/// So many connections, and no more.
pub(super) struct Places {
    most: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    places: BTreeMap<u64, Taker>,
    /// Counts up with whatever anybody does.
    now: u64,
}

struct Taker {
    /// Tasks and requests under way.
    busy: usize,
    is_let_in: bool,
    last: u64,
    lost: CancellationToken,
}

/// A place, given up when it is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    id: u64,
    lost: CancellationToken,
}

/// Whoever has a place has something to do, until this is dropped.
pub(super) struct Busy {
    places: Arc<Places>,
    id: u64,
}

impl Places {
    pub(super) fn new(most: usize) -> Arc<Places> {
        Arc::new(Places {
            most,
            taken: Mutex::default(),
        })
    }

    /// A place for somebody who has come. Where there is none, whoever has had nothing to do for the longest time loses
    /// theirs, those first that were never let in. None if all have something to do.
    pub(super) fn enter(self: &Arc<Places>) -> Option<Place> {
        let mut taken = self.taken();
        if taken.places.len() >= self.most {
            let idle = taken.places.iter().filter(|(_, it)| it.busy == 0);
            let first = idle.min_by_key(|(_, it)| (it.is_let_in, it.last));
            let first = *first?.0;
            if let Some(taker) = taken.places.remove(&first) {
                taker.lost.cancel();
            }
        }
        let lost = CancellationToken::new();
        let id = taken.tick();
        let taker = Taker {
            busy: 0,
            is_let_in: false,
            last: id,
            lost: lost.clone(),
        };
        taken.places.insert(id, taker);
        Some(Place {
            places: Arc::clone(self),
            id,
            lost,
        })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        // Nothing that is done under the lock can fail half way.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn change(&mut self, id: u64, change: impl FnOnce(&mut Taker)) {
        let now = self.tick();
        if let Some(taker) = self.places.get_mut(&id) {
            taker.last = now;
            change(taker);
        }
    }
}

impl Place {
    pub(super) fn let_in(&self) {
        self.places
            .taken()
            .change(self.id, |it| it.is_let_in = true);
    }

    pub(super) fn work(&self) -> Busy {
        self.places.taken().change(self.id, |it| it.busy += 1);
        Busy {
            places: Arc::clone(&self.places),
            id: self.id,
        }
    }

    /// Waits until somebody else needs it more.
    pub(super) async fn lost(&self) {
        self.lost.cancelled().await;
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.places.taken().change(self.id, |it| it.busy -= 1);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken().places.remove(&self.id);
    }
}

#[cfg(test)]
mod tests;
