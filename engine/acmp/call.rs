//! Calls over one connection, and which answer is whose.

use std::{
    collections::{HashMap, VecDeque},
    mem,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    sync::{Notify, mpsc, oneshot},
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    buyer::{Course, Failed, Features, Streams},
    chunks::Chunks,
    link::{Gone, Link},
    wire::{self, Error, Message},
};

/// How long the end of a connection may take.
const FAREWELL: Duration = Duration::from_secs(1);
/// Of how many calls that are over it is known that they were ours.
const PAST: usize = 1000;

/// A connection to a provider, shared by all that ask it.
pub(super) struct Connection {
    outgoing: mpsc::Sender<String>,
    open: Arc<Mutex<Open>>,
    /// The longest silence about a task under way.
    pub(super) patience: Option<Duration>,
    pub(super) features: Features,
    /// Reads what comes in.
    reader: JoinSet<()>,
}

/// What is waited for.
#[derive(Default)]
struct Open {
    calls: HashMap<String, Call>,
    /// The ids of the last that nobody waits for any more, and that may be answered all the same.
    past: VecDeque<String>,
    /// Why nothing comes any more.
    lost: Option<Failed>,
}

struct Call {
    answer: oneshot::Sender<Result<Value, Failed>>,
    /// Told of each sign of life.
    beat: Arc<Notify>,
    output: Option<Arc<Chunks>>,
    course: Arc<Course>,
}

impl Open {
    /// Whether there is, or was, a call of this id.
    fn knows(&self, id: &str) -> bool {
        self.calls.contains_key(id) || self.past.iter().any(|it| it == id)
    }

    /// An answer came with this id, which is of no call: any of those who wait may wait for it.
    fn strays(&self, id: &Value) {
        self.calls.values().for_each(|it| it.course.strays(id));
    }
}

fn locked(open: &Mutex<Open>) -> MutexGuard<'_, Open> {
    // Nothing that is done under the lock can fail half way.
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connection {
    pub(super) fn new(link: Link) -> Connection {
        let open = Arc::new(Mutex::new(Open::default()));
        let Link {
            outgoing,
            mut incoming,
            pump,
        } = link;
        let mut reader = JoinSet::new();
        let its = Arc::clone(&open);
        reader.spawn(async move {
            let _pump = pump;
            let why = loop {
                match incoming.recv().await {
                    Some(Ok(text)) => match take(&its, &text) {
                        Ok(()) => (),
                        Err(error) => break Failed::Malformed(error),
                    },
                    Some(Err(Gone { of: None, why })) => break why.into(),
                    Some(Err(Gone { of: Some(id), why })) => settle(&its, &id, Err(why.into())),
                    None => break closed(),
                }
            };
            let mut open = locked(&its);
            let mut calls = mem::take(&mut open.calls).into_values();
            open.lost = Some(match why {
                Failed::Unreadable(why) => {
                    // Of several nobody knows whose answer it was: they ask again.
                    if let (Some(call), None) = (calls.next(), calls.next()) {
                        let _ = call.answer.send(Err(Failed::Unreadable(why.clone())));
                    }
                    Failed::Lost(why)
                }
                why => why,
            });
            // Whoever waits learns that its answer will not come.
            drop(open);
        });
        Connection {
            outgoing,
            open,
            patience: None,
            features: Features::default(),
            reader,
        }
    }

    pub(super) fn is_lost(&self) -> bool {
        locked(&self.open).lost.is_some()
    }

    /// Asks, and waits for the answer. The id is that of one call at a time.
    pub(super) async fn call(
        &self,
        id: &str,
        method: &str,
        params: Value,
        limit: usize,
        (streams, course): (&Streams, &Arc<Course>),
    ) -> Result<Value, Failed> {
        let message = Message::Request {
            id: json!(id),
            method: method.to_owned(),
            params,
        };
        let text = message.text();
        if text.len() > limit {
            let bytes = text.len();
            return Err(Failed::TooLong { bytes, limit });
        }
        let (answer, mut answered) = oneshot::channel();
        let beat = Arc::new(Notify::new());
        let call = Call {
            answer,
            beat: Arc::clone(&beat),
            output: streams.output.clone(),
            course: Arc::clone(course),
        };
        {
            let mut open = locked(&self.open);
            if let Some(why) = &open.lost {
                return Err(why.clone());
            }
            open.calls.insert(id.to_owned(), call);
        }
        let mut waiting = Waiting {
            connection: self,
            id,
            is_sent: false,
        };
        if self.outgoing.send(text).await.is_err() {
            return Err(self.lost());
        }
        waiting.is_sent = method == "acmp/invoke";
        let mut is_fed = streams.input.is_none();
        let mut feeding = pin!(self.feed(id, streams.input.as_deref(), limit));
        loop {
            let patience = self.patience.unwrap_or(Duration::MAX);
            tokio::select! {
                answer = &mut answered => {
                    let answer = answer.unwrap_or_else(|_| Err(self.lost()));
                    // One whose chunks are wrong goes on with the task, and one that lacks some waits for them.
                    waiting.is_sent = match &answer {
                        Err(Failed::OutOfOrder(_) | Failed::TooMuch(_)) => true,
                        Err(Failed::Lost(_) | Failed::Unreadable(_)) => streams.input.is_some(),
                        _ => false,
                    };
                    return match answer {
                        Ok(result) if !is_fed => {
                            let what = "it answers before it has the whole of its input".to_owned();
                            Err(Failed::Spoiled { what, result })
                        }
                        answer => answer,
                    };
                }
                fed = &mut feeding, if !is_fed => {
                    fed?;
                    is_fed = true;
                }
                () = beat.notified() => (),
                () = sleep(patience), if self.patience.is_some() => {
                    return Err(Failed::Silent(patience));
                }
            }
        }
    }

    /// Sends an input as it comes.
    async fn feed(&self, id: &str, input: Option<&Chunks>, limit: usize) -> Result<(), Failed> {
        let Some(input) = input else { return Ok(()) };
        for at in 0.. {
            let chunk = input.get(at).await;
            let none = || Failed::OutOfOrder("its input came to nothing".to_owned());
            let chunk = chunk.ok_or_else(none)?;
            let message = Message::Notification {
                method: "acmp/inputChunk".to_owned(),
                params: chunk.params(id, at),
            };
            let text = message.text();
            if text.len() > limit {
                let bytes = text.len();
                return Err(Failed::TooLong { bytes, limit });
            }
            if self.outgoing.send(text).await.is_err() {
                return Err(self.lost());
            }
            if chunk.is_last {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn notify(&self, method: &str, params: Value) {
        let method = method.to_owned();
        let message = Message::Notification { method, params };
        // Where there is no room, the other side does not listen anyway.
        let _ = self.outgoing.try_send(message.text());
    }

    /// Says that no more is to come, and waits, not for long, until the other side has heard it all and is gone.
    pub(super) async fn close(self) {
        let Connection {
            outgoing,
            mut reader,
            ..
        } = self;
        drop(outgoing);
        let _ = timeout(FAREWELL, reader.join_next()).await;
    }

    fn lost(&self) -> Failed {
        locked(&self.open).lost.clone().unwrap_or_else(closed)
    }
}

fn closed() -> Failed {
    Failed::Lost("it was closed".to_owned())
}

/// A call under way. Given up, it is cancelled.
struct Waiting<'a> {
    connection: &'a Connection,
    id: &'a str,
    is_sent: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut open = locked(&self.connection.open);
        open.calls.remove(self.id);
        open.past.push_back(self.id.to_owned());
        if open.past.len() > PAST {
            open.past.pop_front();
        }
        drop(open);
        if self.is_sent {
            let params = json!({ "task_id": self.id, "reason": "nobody waits for it any more" });
            self.connection.notify("acmp/cancel", params);
        }
    }
}

/// Tells whoever waits for it what came of a call.
fn settle(open: &Mutex<Open>, id: &str, outcome: Result<Value, Failed>) {
    let call = locked(open).calls.remove(id);
    if let Some(call) = call {
        let _ = call.answer.send(outcome);
    }
}

/// Takes in a message. What nobody waits for is dropped.
///
/// # Errors
/// It is none, and nobody can say to whom it is an answer: any of those who wait may wait for it.
fn take(open: &Mutex<Open>, text: &str) -> Result<(), Error> {
    match Message::parse(text) {
        Ok(Message::Answer { id, outcome }) => {
            let ours = id.as_str().filter(|it| locked(open).knows(it));
            match ours {
                Some(id) => settle(open, id, outcome.map_err(Failed::Error)),
                None => locked(open).strays(&id),
            }
        }
        Ok(Message::Notification { method, params }) if method == "acmp/heartbeat" => {
            let task = params["task_id"].as_str();
            if let Some(call) =
                task.and_then(|it| locked(open).calls.get(it).map(|it| Arc::clone(&it.beat)))
            {
                call.notify_one();
            }
        }
        Ok(Message::Notification { method, params }) if method == "acmp/streamChunk" => {
            let task = params["task_id"].as_str().unwrap_or_default();
            let call = |it: &Call| Some((it.output.clone()?, Arc::clone(&it.beat)));
            let of_it = locked(open).calls.get(task).and_then(call);
            let Some((output, beat)) = of_it else {
                return Ok(());
            };
            match output.put(&params) {
                Ok(()) => beat.notify_one(),
                Err(wrong) => settle(open, task, Err(wrong.into())),
            }
        }
        Ok(_) => (),
        // Some say nothing now and then, to hear whether somebody is still there.
        Err(_) if text.trim().is_empty() => (),
        Err(error) => {
            let id = wire::id_in(text).filter(|it| locked(open).calls.contains_key(it));
            let id = id.ok_or_else(|| error.clone())?;
            settle(open, &id, Err(Failed::Malformed(error)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
