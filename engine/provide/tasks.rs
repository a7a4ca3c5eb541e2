//! Tasks that buyers asked for: under way, or done and remembered.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, Hash, RandomState},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout_at},
};

use super::{
    Limits,
    inputs::{self, Early, Input, Room},
    peers::Peer,
};
use crate::acmp::{
    chunks::Chunks,
    wire::{self, Error},
};

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

/// When the last of its buyers waits for a task no longer.
#[derive(Clone)]
pub(super) struct Until(watch::Receiver<Instant>);

/// Why a task was stopped, if it was.
pub(super) struct Stopped(watch::Receiver<Option<Error>>);

/// The tasks of all connections, by id.
pub(super) struct Tasks {
    known: Mutex<Known>,
    most: usize,
    most_bytes: usize,
    /// How large one input may be.
    most_input_bytes: usize,
    marks: RandomState,
}

/// A task that a buyer asks for.
pub(super) struct Wanted {
    /// How large it is.
    pub(super) bytes: usize,
    pub(super) mark: Mark,
    /// When its buyer waits for it no longer.
    pub(super) until: Instant,
}

/// What tells a task from another one that is given the same id.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    what: u64,
    /// Unless it comes in chunks.
    input: Option<u64>,
}

impl Mark {
    fn is_of_another(self, other: Mark) -> bool {
        let inputs = self.input.zip(other.input);
        self.what != other.what || inputs.is_some_and(|(one, other)| one != other)
    }
}

struct Known {
    tasks: HashMap<String, Task>,
    /// Those that are done, oldest first, and how large their results are.
    done: VecDeque<(String, usize)>,
    bytes: usize,
    /// For those that are under way, and their inputs.
    room: Room,
    early: Early,
}

struct Task {
    done: Arc<watch::Sender<Option<Done>>>,
    stop: watch::Sender<Option<Error>>,
    until: watch::Sender<Instant>,
    bytes: usize,
    mark: Mark,
    peer: Arc<Peer>,
    /// As long as it is under way, if it comes in chunks.
    input: Option<Input>,
}

/// A task that nobody has asked for before.
pub(super) struct New {
    pub(super) stopped: Stopped,
    pub(super) until: Until,
    pub(super) peer: Arc<Peer>,
    /// Its input, if that comes in chunks.
    pub(super) input: Option<Arc<Chunks>>,
    pub(super) buyers: Buyers,
}

/// Those who wait for a task.
pub(super) struct Buyers(Arc<watch::Sender<Option<Done>>>);

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

impl Until {
    /// Waits until then. Whoever asks for the task meanwhile waits longer.
    pub(super) async fn passed(mut self) {
        loop {
            let until = *self.0.borrow_and_update();
            match timeout_at(until, self.0.changed()).await {
                Ok(Ok(())) => (),
                Ok(Err(_)) => return sleep_until(until).await,
                Err(_) => return,
            }
        }
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

    /// Gives up the room for what is under way.
    fn leave(&mut self, room: &mut Room) {
        room.give(self.bytes, &self.peer);
        if let Some(input) = self.input.take() {
            input.leave(room);
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
            known: Mutex::new(Known {
                tasks: HashMap::new(),
                done: VecDeque::new(),
                bytes: 0,
                room: Room::new(limits.open_bytes),
                early: Early::default(),
            }),
            most: limits.remembered,
            most_bytes: limits.remembered_bytes,
            most_input_bytes: limits.message_bytes,
            marks: RandomState::new(),
        }
    }

    /// The mark of a task that is this, and has this input, unless that comes in chunks.
    pub(super) fn mark(&self, what: impl Hash, input: Option<&Value>) -> Mark {
        Mark {
            what: self.marks.hash_one(what),
            input: input.map(|it| self.marks.hash_one(it)),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing that is done under the lock can fail half way.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to come of a task. If it is new, whoever asked has to carry it out.
    ///
    /// # Errors
    /// There is no room for it, or none for more from there; or the id is another task's.
    pub(super) fn enter(
        &self,
        id: &str,
        wanted: Wanted,
        peer: &Arc<Peer>,
    ) -> Result<(Coming, Option<New>), Error> {
        let Wanted { bytes, mark, until } = wanted;
        let in_chunks = mark.input.is_none();
        let full = || inputs::full().about(id);
        let mut known = self.known();
        let Known {
            tasks, room, early, ..
        } = &mut *known;
        if let Some(task) = tasks.get(id) {
            if mark.is_of_another(task.mark) {
                let what = "`task_id` was given to a task with another capability or input";
                return Err(Error::new(wire::BAD_PARAMS, what).about(id));
            }
            if let Some(input) = task.input.as_ref().filter(|it| in_chunks && it.is_of(peer)) {
                // Whoever asks again sends it again, from the first chunk on.
                input.chunks.rewind();
            }
            task.until.send_if_modified(|it| {
                let is_later = until > *it;
                *it = until.max(*it);
                is_later
            });
            return Ok((task.coming(), None));
        }
        let came = early.take(id, peer, room);
        let input = match came {
            Some(came) if !in_chunks => {
                came.leave(room);
                None
            }
            None if in_chunks => {
                let input = Input::new(id, self.most_input_bytes, peer, room);
                Some(input.ok_or_else(full)?)
            }
            came => came,
        };
        if !room.take(bytes, peer) {
            if let Some(input) = input {
                input.leave(room);
            }
            return Err(full());
        }
        let broken = input.as_ref().and_then(Input::broken);
        let mut task = Task {
            done: Arc::default(),
            stop: watch::Sender::default(),
            until: watch::Sender::new(until),
            bytes,
            mark,
            peer: Arc::clone(peer),
            input,
        };
        let new = New {
            stopped: Stopped(task.stop.subscribe()),
            until: Until(task.until.subscribe()),
            peer: Arc::clone(peer),
            input: task.input.as_ref().map(|it| Arc::clone(&it.chunks)),
            buyers: Buyers(Arc::clone(&task.done)),
        };
        if let Some(why) = broken {
            task.stop(why.about(id));
        }
        let coming = task.coming();
        tasks.insert(id.to_owned(), task);
        Ok((coming, Some(new)))
    }

    /// Takes a chunk of an input from somebody.
    pub(super) fn put(&self, params: &Value, peer: &Arc<Peer>) {
        let Some(id) = params["task_id"].as_str() else {
            return;
        };
        let mut known = self.known();
        let Known {
            tasks, room, early, ..
        } = &mut *known;
        let Some(task) = tasks.get_mut(id) else {
            return early.put(id, params, self.most_input_bytes, peer, room);
        };
        let input = task.input.as_mut().filter(|it| it.is_of(peer));
        if let Some(Err(why)) = input.map(|it| it.put(params, room)) {
            task.stop(why.about(id));
        }
    }

    /// A task that has not begun is as if nobody had asked for it, as soon as nobody waits for it any more.
    pub(super) async fn leave(&self, id: &str, buyers: &Buyers) {
        loop {
            buyers.0.closed().await;
            let mut known = self.known();
            // Somebody may have come meanwhile, which is seen under the lock.
            if buyers.0.receiver_count() == 0 {
                if let Some(mut task) = known.tasks.remove(id) {
                    task.leave(&mut known.room);
                }
                return;
            }
        }
    }

    /// A task is done. The oldest results are forgotten where there are too many, also if somebody still waits to take them.
    pub(super) fn end(&self, id: &str, done: Done) {
        let mut known = self.known();
        let bytes = id.len() + done.bytes;
        let Known { tasks, room, .. } = &mut *known;
        if let Some(task) = tasks.get_mut(id) {
            task.leave(room);
            task.done.send_replace(Some(done));
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
    pub(super) fn cancel(&self, id: &str, peer: &Peer) {
        let mut known = self.known();
        let Known {
            tasks, room, early, ..
        } = &mut *known;
        match tasks.get_mut(id) {
            Some(task) => task.stop(Error::new(wire::CANCELLED, "it was cancelled").about(id)),
            None => {
                if let Some(input) = early.take(id, peer, room) {
                    input.leave(room);
                }
            }
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
