//! Calls over one connection, and which answer is whose.

use std::{
    collections::HashMap,
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
    buyer::Failed,
    link::{Gone, Link},
    wire::{self, Error, Message},
};

/// How long the end of a connection may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// A connection to a provider, shared by all that ask it.
pub(super) struct Connection {
    outgoing: mpsc::Sender<String>,
    open: Arc<Mutex<Open>>,
    /// The longest silence about a task under way.
    pub(super) patience: Option<Duration>,
    /// Reads what comes in.
    reader: JoinSet<()>,
}

/// What is waited for.
#[derive(Default)]
struct Open {
    calls: HashMap<String, Call>,
    /// Why nothing comes any more.
    lost: Option<Failed>,
}

struct Call {
    answer: oneshot::Sender<Result<Value, Failed>>,
    /// Told of each heartbeat.
    beat: Arc<Notify>,
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
            open.lost = Some(why);
            // Whoever waits learns that its answer will not come.
            open.calls.clear();
        });
        Connection {
            outgoing,
            open,
            patience: None,
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
        loop {
            let patience = self.patience.unwrap_or(Duration::MAX);
            tokio::select! {
                answer = &mut answered => {
                    waiting.is_sent = false;
                    return match answer {
                        Ok(answer) => answer,
                        Err(_) => Err(self.lost()),
                    };
                }
                () = beat.notified() => (),
                () = sleep(patience), if self.patience.is_some() => {
                    return Err(Failed::Silent(patience));
                }
            }
        }
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
        locked(&self.connection.open).calls.remove(self.id);
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
            if let Some(id) = id.as_str() {
                settle(open, id, outcome.map_err(Failed::Error));
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
