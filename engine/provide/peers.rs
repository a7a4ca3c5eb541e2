//! Buyers by where they come from: they all show the same token, so the address is all that tells one from another.
//!
//! **Invariant:** of whatever there is for all, those at one address get no more than their share, which leaves some of it to others.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError, Weak, atomic::AtomicUsize},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Limits;

/// The part of everything that nobody gets alone: one in so many.
const KEPT: usize = 8;

/// What those at one address may have of so much.
pub(super) fn share(most: usize) -> usize {
    most - most / KEPT
}

/// Everybody who is there, or has tasks under way.
pub(super) struct Peers {
    running: usize,
    unsent_bytes: usize,
    /// For results that are on their way.
    unsent: Arc<Semaphore>,
    known: Mutex<HashMap<IpAddr, Weak<Peer>>>,
}

/// Those at one address.
pub(super) struct Peer {
    pub(super) address: IpAddr,
    /// For tasks that are carried out.
    pub(super) running: Semaphore,
    /// How large their tasks under way are, and what comes of inputs.
    pub(super) open_bytes: AtomicUsize,
    unsent: Arc<Semaphore>,
}

/// The results that are on their way over one connection.
pub(super) struct Unsent {
    peer: Arc<Peer>,
    /// That of all; none where nobody sees what is taken.
    all: Option<Arc<Semaphore>>,
    most: usize,
    held: Mutex<Vec<OwnedSemaphorePermit>>,
}

impl Peers {
    pub(super) fn new(limits: &Limits) -> Peers {
        // No more fits into a number of permits.
        let unsent_bytes = limits.unsent_bytes.min(u32::MAX as usize);
        Peers {
            running: limits.running,
            unsent_bytes,
            unsent: Arc::new(Semaphore::new(unsent_bytes)),
            known: Mutex::default(),
        }
    }

    /// Those at an address.
    pub(super) fn at(&self, address: IpAddr) -> Arc<Peer> {
        let address = place_of(address);
        // Nothing that is done under the lock can fail half way.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(peer) = known.get(&address).and_then(Weak::upgrade) {
            return peer;
        }
        known.retain(|_, it| it.strong_count() > 0);
        let peer = Arc::new(Peer {
            address,
            running: Semaphore::new(share(self.running)),
            open_bytes: AtomicUsize::new(0),
            unsent: Arc::new(Semaphore::new(share(self.unsent_bytes))),
        });
        known.insert(address, Arc::downgrade(&peer));
        peer
    }

    /// The results on their way over a new connection, if it is seen what is taken of them.
    pub(super) fn unsent(&self, peer: &Arc<Peer>, is_seen: bool) -> Arc<Unsent> {
        Arc::new(Unsent {
            peer: Arc::clone(peer),
            all: is_seen.then(|| Arc::clone(&self.unsent)),
            most: share(self.unsent_bytes),
            held: Mutex::default(),
        })
    }
}

impl Unsent {
    /// Waits until there is room for a result of so many bytes.
    pub(super) async fn add(&self, bytes: usize) {
        let Some(all) = &self.all else { return };
        // One that is larger than all there is gets all there is.
        let bytes = u32::try_from(bytes.min(self.most)).unwrap_or(u32::MAX);
        let mut permits = Vec::new();
        for semaphore in [&self.peer.unsent, all] {
            let permit = Arc::clone(semaphore).acquire_many_owned(bytes).await;
            permits.push(permit.expect("it is never closed"));
        }
        let mut held = self.held();
        match held.as_mut_slice() {
            [] => *held = permits,
            some => some
                .iter_mut()
                .zip(permits)
                .for_each(|(it, more)| it.merge(more)),
        }
    }

    /// So many bytes were taken.
    pub(super) fn take(&self, bytes: usize) {
        for permit in self.held().iter_mut() {
            let bytes = bytes.min(permit.num_permits());
            drop(permit.split(bytes));
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Vec<OwnedSemaphorePermit>> {
        // Nothing that is done under the lock can fail half way.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An address, as one that somebody has: of IPv6 whole networks are given away.
fn place_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(it) => IpAddr::V6(Ipv6Addr::from_bits(it.to_bits() >> 64 << 64)),
        address => address,
    }
}

#[cfg(test)]
mod tests;
