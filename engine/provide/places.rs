//! Who is connected, and who has to go where there is no room, or none for more from the same address.
//!
//! **Invariant:** nobody whose task is under way has to go, and nobody who was let in for somebody who was not.
//! **Invariant:** what was read of messages that are not whole yet is bounded for all together.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use tokio_util::sync::CancellationToken;

use super::peers::{Peer, Peers, Unsent, share};

/// So many connections, and no more.
pub(super) struct Places {
    most: usize,
    taken: Mutex<Taken>,
    most_bytes: usize,
    /// What is held by all.
    held: Arc<AtomicUsize>,
    peers: Peers,
}

#[derive(Default)]
struct Taken {
    places: BTreeMap<u64, Taker>,
    /// Counts up with whatever anybody does.
    now: u64,
}

struct Taker {
    peer: Arc<Peer>,
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
    held: Arc<Held>,
    peer: Arc<Peer>,
    unsent: Arc<Unsent>,
}

/// What was read at one place, and nothing was done about yet.
pub(super) struct Held {
    bytes: AtomicUsize,
    all: Arc<AtomicUsize>,
    most: usize,
    /// So much anybody may have.
    share: usize,
}

/// Whoever has a place has something to do, until this is dropped.
pub(super) struct Busy {
    places: Arc<Places>,
    id: u64,
}

impl Places {
    /// For so many, and so many bytes of messages that are not whole.
    pub(super) fn new(most: usize, most_bytes: usize, peers: Peers) -> Arc<Places> {
        Arc::new(Places {
            most,
            taken: Mutex::default(),
            most_bytes,
            held: Arc::default(),
            peers,
        })
    }

    /// A place for somebody who has come from there. Where there is none, whoever has had nothing to do for the longest time loses
    /// theirs, those first that were never let in; only those of the same address where that has its share. None if all have something to do.
    pub(super) fn enter(self: &Arc<Places>, from: IpAddr, is_seen: bool) -> Option<Place> {
        let peer = self.peers.at(from);
        let mut taken = self.taken();
        let of_peer = |it: &Taker| Arc::ptr_eq(&it.peer, &peer);
        let number = taken.places.values().filter(|it| of_peer(it)).count();
        let has_share = number >= share(self.most);
        if has_share || taken.places.len() >= self.most {
            let may_go = |it: &Taker| it.busy == 0 && (!has_share || of_peer(it));
            let idle = taken.places.iter().filter(|(_, it)| may_go(it));
            let first = idle.min_by_key(|(_, it)| (it.is_let_in, it.last));
            let first = *first?.0;
            if let Some(taker) = taken.places.remove(&first) {
                taker.lost.cancel();
            }
        }
        let lost = CancellationToken::new();
        let id = taken.tick();
        let taker = Taker {
            peer: Arc::clone(&peer),
            busy: 0,
            is_let_in: false,
            last: id,
            lost: lost.clone(),
        };
        taken.places.insert(id, taker);
        Some(Place {
            unsent: self.peers.unsent(&peer, is_seen),
            peer,
            places: Arc::clone(self),
            id,
            lost,
            held: Arc::new(Held {
                bytes: AtomicUsize::new(0),
                all: Arc::clone(&self.held),
                most: self.most_bytes,
                share: self.most_bytes / self.most.max(1),
            }),
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

impl Held {
    /// So much more was read. False if that is too much.
    pub(super) fn add(&self, bytes: usize) -> bool {
        let own = self.bytes.fetch_add(bytes, Relaxed) + bytes;
        let all = self.all.fetch_add(bytes, Relaxed) + bytes;
        own <= self.share || all <= self.most
    }

    /// So much is a whole message now.
    pub(super) fn take(&self, bytes: usize) {
        let less = |it: usize| Some(it.saturating_sub(bytes));
        let before = self.bytes.fetch_update(Relaxed, Relaxed, less);
        self.all
            .fetch_sub(before.unwrap_or_default().min(bytes), Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.take(usize::MAX);
    }
}

impl Place {
    pub(super) fn held(&self) -> &Arc<Held> {
        &self.held
    }

    pub(super) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    pub(super) fn unsent(&self) -> &Arc<Unsent> {
        &self.unsent
    }

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
