//! Inputs that come in chunks, before or after their tasks are asked for.
//!
//! **Invariant:** an input is counted as what is under way, byte by byte and chunk by chunk.
//! **Invariant:** those that come before their tasks are few, and not kept for long.

use std::{
    collections::{HashMap, hash_map::Entry},
    mem,
    net::IpAddr,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use serde_json::Value;
use tokio::time::Instant;

use super::peers::{Peer, share};
use crate::acmp::{
    chunks::Chunks,
    wire::{self, Error},
};

/// How much room a chunk takes besides its data, about, in bytes.
const AROUND: usize = 128;
/// How many inputs may wait for their tasks.
const EARLY: usize = 256;
/// How long they do.
const WAIT: Duration = Duration::from_secs(10);

/// Room for what is under way, in bytes.
pub(super) struct Room {
    most: usize,
    taken: usize,
}

/// An input as it comes.
pub(super) struct Input {
    pub(super) chunks: Arc<Chunks>,
    peer: Arc<Peer>,
    /// How much room it has for itself, and for its chunks.
    around: usize,
    bytes: usize,
    broken: Option<Error>,
}

/// Inputs whose tasks nobody has asked for yet, by address and task, and since when.
#[derive(Default)]
pub(super) struct Early(HashMap<(IpAddr, String), (Input, Instant)>);

impl Room {
    pub(super) fn new(most: usize) -> Room {
        Room { most, taken: 0 }
    }

    /// Takes so much for those at an address. False if it is not there, or not for more from there.
    pub(super) fn take(&mut self, bytes: usize, peer: &Peer) -> bool {
        let of_peer = peer.open_bytes.load(Relaxed).saturating_add(bytes);
        let of_all = self.taken.saturating_add(bytes);
        if of_all > self.most || of_peer > share(self.most) {
            return false;
        }
        self.taken = of_all;
        // There is one room, and it changes here alone.
        peer.open_bytes.store(of_peer, Relaxed);
        true
    }

    pub(super) fn give(&mut self, bytes: usize, peer: &Peer) {
        self.taken -= bytes;
        peer.open_bytes.fetch_sub(bytes, Relaxed);
    }
}

impl Input {
    /// That of a task, of no more than so many bytes, if there is room.
    pub(super) fn new(id: &str, limit: usize, peer: &Arc<Peer>, room: &mut Room) -> Option<Input> {
        let around = id.len() + AROUND;
        room.take(around, peer).then(|| Input {
            chunks: Arc::new(Chunks::new(limit)),
            peer: Arc::clone(peer),
            around,
            bytes: 0,
            broken: None,
        })
    }

    /// Whether it comes from there.
    pub(super) fn is_of(&self, peer: &Arc<Peer>) -> bool {
        Arc::ptr_eq(&self.peer, peer)
    }

    /// Puts in what the params of a notification say.
    ///
    /// # Errors
    /// What is wrong with it, or was before.
    pub(super) fn put(&mut self, params: &Value, room: &mut Room) -> Result<(), Error> {
        if let Some(why) = &self.broken {
            return Err(why.clone());
        }
        let put = self.chunks.put(params);
        let put = put.map_err(|wrong| Error::new(wire::BAD_PARAMS, wrong.to_string()));
        let put = put.and_then(|()| {
            let (number, bytes) = self.chunks.size();
            let bytes = bytes + number * AROUND;
            let has_room = room.take(bytes - self.bytes, &self.peer);
            self.bytes = if has_room { bytes } else { self.bytes };
            has_room.then_some(()).ok_or_else(full)
        });
        if let Err(why) = &put {
            self.broken = Some(why.clone());
            room.give(mem::take(&mut self.bytes), &self.peer);
            self.chunks = Arc::new(Chunks::new(0));
        }
        put
    }

    /// What is wrong with it.
    pub(super) fn broken(&self) -> Option<Error> {
        self.broken.clone()
    }

    /// Gives up what it holds.
    pub(super) fn leave(self, room: &mut Room) {
        room.give(self.around + self.bytes, &self.peer);
    }
}

impl Early {
    /// Puts in what the params of a notification say.
    pub(super) fn put(
        &mut self,
        id: &str,
        params: &Value,
        limit: usize,
        peer: &Arc<Peer>,
        room: &mut Room,
    ) {
        self.forget(room);
        let key = (peer.address, id.to_owned());
        if !self.0.contains_key(&key) {
            let of_peer = self.0.keys().filter(|it| it.0 == peer.address);
            if self.0.len() >= EARLY || of_peer.count() >= share(EARLY) {
                return;
            }
        }
        let input = match self.0.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => match Input::new(id, limit, peer, room) {
                Some(input) => place.insert((input, Instant::now())),
                None => return,
            },
        };
        // What is wrong with it is said to whoever asks for the task.
        let _ = input.0.put(params, room);
    }

    /// What there is of the input of a task.
    pub(super) fn take(&mut self, id: &str, peer: &Peer, room: &mut Room) -> Option<Input> {
        self.forget(room);
        let taken = self.0.remove(&(peer.address, id.to_owned()));
        taken.map(|(input, _)| input)
    }

    /// Those that have waited for too long leave.
    fn forget(&mut self, room: &mut Room) {
        let late = |_: &_, it: &mut (Input, Instant)| it.1.elapsed() > WAIT;
        for (_, (input, _)) in self.0.extract_if(late) {
            input.leave(room);
        }
    }
}

/// There is no room.
pub(super) fn full() -> Error {
    Error::new(wire::INTERNAL, "too much is under way")
}
