//! One buyer's connection: messages in, answers and heartbeats out.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt;
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    Provider,
    peers::Unsent,
    pieces::Pieces,
    places::Place,
    tasks::{Coming, Done, New, Outcome, Until, Wanted},
    work::Task,
};
use crate::acmp::{
    link::Link,
    wire::{self, Error, Message},
};

/// How much comes with a message at most, in bytes, that is none of it.
const FRAMING: usize = 14;
/// About how much a task takes besides its params, in bytes.
const TASK: usize = 4 << 10;

/// What comes of a message.
pub(super) enum Taken {
    /// It is answered so.
    Answer(String),
    /// It is none, which is answered so.
    Malformed(String),
    /// It is answered when the task is done.
    Task(Asked),
    /// It is not answered.
    Noted,
}

/// A request for a task.
pub(super) struct Asked {
    id: Value,
    task_id: String,
    coming: Coming,
    /// Whether the buyer wants the output in chunks, and can be sent them.
    pub(super) streams: bool,
}

/// Takes in messages until the buyer is gone, or `stop`; then what is under way is answered first.
pub(super) async fn serve(
    provider: &Arc<Provider>,
    mut link: Link,
    place: &Place,
    stop: &CancellationToken,
) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = open.join_next() => (),
            message = link.incoming.recv() => {
                let Some(Ok(text)) = message else { return };
                place.held().take(text.len() + FRAMING);
                match take(provider, &text, place, open.len()) {
                    Taken::Answer(answer) | Taken::Malformed(answer) => {
                        if link.outgoing.send(answer).await.is_err() {
                            return;
                        }
                    }
                    Taken::Task(asked) => {
                        let unsent = Arc::clone(place.unsent());
                        let outgoing = link.outgoing.clone();
                        let waiting = wait(Arc::clone(provider), outgoing, unsent, asked);
                        let busy = place.work();
                        open.spawn(async move {
                            let _busy = busy;
                            waiting.await;
                        });
                    }
                    Taken::Noted => (),
                }
            }
        }
    }
    let answered = async { while open.join_next().await.is_some() {} };
    // What takes longer can be asked for again.
    let _ = timeout(provider.limits.grace, answered).await;
}

/// Takes in a message of a buyer who has so many tasks open.
pub(super) fn take(provider: &Arc<Provider>, text: &str, place: &Place, open: usize) -> Taken {
    match Message::parse(text) {
        Ok(Message::Request { id, method, params }) if method == "acmp/invoke" => {
            match invoke(provider, &params, place, open) {
                Ok((task_id, coming)) => Taken::Task(Asked {
                    id,
                    task_id,
                    coming,
                    streams: params["stream"] == true,
                }),
                Err(error) => Taken::Answer(answer(id, Err(error))),
            }
        }
        Ok(Message::Request { id, method, .. }) => {
            Taken::Answer(answer(id, known(provider, &method)))
        }
        Ok(Message::Notification { method, params }) => {
            match (&*method, params["task_id"].as_str()) {
                ("acmp/cancel", Some(id)) => provider.tasks.cancel(id, place.peer()),
                ("acmp/inputChunk", _) => provider.tasks.put(&params, place.peer()),
                _ => (),
            }
            Taken::Noted
        }
        Ok(Message::Answer { .. }) => Taken::Noted,
        Err(error) => Taken::Malformed(answer(Value::Null, Err(error))),
    }
}

fn answer(id: Value, outcome: Outcome) -> String {
    Message::Answer { id, outcome }.text()
}

/// What every provider answers.
fn known(provider: &Provider, method: &str) -> Outcome {
    match method {
        "ping" => Ok(json!({})),
        "initialize" => Ok(json!({
            "protocolVersion": wire::MCP_VERSION,
            "serverInfo": { "name": "mozaiks", "version": env!("CARGO_PKG_VERSION") },
            "capabilities": { "acmp": {
                "version": wire::VERSION,
                "role": "provider",
                "accepts": ["acmp/invoke", "acmp/cancel", "acmp/inputChunk"],
                "emits": ["acmp/streamChunk", "acmp/heartbeat"],
                "features": {
                    "output_streaming": true,
                    "input_streaming": true,
                    "heartbeat_interval_ms": provider.limits.heartbeat.as_millis() as u64,
                },
            } },
        })),
        _ => {
            let method = crate::prompt::cut(method, 100);
            Err(Error::new(
                wire::NO_METHOD,
                format!("there is no method `{method}`"),
            ))
        }
    }
}

/// What is to come of a task, which is carried out if it is new. It goes on when its buyer is gone: a buyer may come
/// back for it.
fn invoke(
    provider: &Arc<Provider>,
    params: &Value,
    place: &Place,
    open: usize,
) -> Result<(String, Coming), Error> {
    let task = Task::read(provider, params)?;
    let id = task.id().to_owned();
    if open >= provider.limits.open {
        let what = format!("this connection has {open} tasks open");
        return Err(Error::new(wire::INTERNAL, what).about(&id));
    }
    let wanted = Wanted {
        bytes: params.to_string().len() + TASK,
        mark: task.mark(&provider.tasks),
        until: task.until(),
    };
    let (coming, new) = provider.tasks.enter(&id, wanted, place.peer())?;
    if let Some(new) = new {
        tokio::spawn(carry_out(Arc::clone(provider), task, new));
    }
    Ok((id, coming))
}

async fn carry_out(provider: Arc<Provider>, mut task: Task, new: New) {
    let id = task.id().to_owned();
    let passed = |it: &Until| it.clone().passed();
    let late = |what| Error::new(wire::TIMEOUT, what).about(&id);
    let carried_out = async {
        if let Some(input) = &new.input {
            tokio::select! {
                () = task.take_in(input) => (),
                () = passed(&new.until) => {
                    return Err(late("its input came to no end in time"));
                }
                () = provider.tasks.leave(&id, &new.buyers) => return Ok(None),
            }
        }
        // Others have room besides those who ask for very much.
        let _share = new.peer.running.acquire().await;
        task.carry_out(&provider).await.map(Some)
    };
    let carried_out = AssertUnwindSafe(carried_out).catch_unwind();
    let outcome = tokio::select! {
        biased;
        outcome = carried_out => outcome.unwrap_or_else(|_| {
            Err(Error::new(wire::INTERNAL, "it broke inside the provider").about(&id))
        }),
        why = new.stopped.wait() => Err(why),
        () = passed(&new.until) => Err(late("nobody waits for it any more")),
    };
    let Some(outcome) = outcome.transpose() else {
        return;
    };
    let bytes = match &outcome {
        Ok(result) => result.to_string().len(),
        Err(error) => error.message.len(),
    };
    provider.tasks.end(&id, Done { outcome, bytes });
}

/// Says that the task is under way until it is done, and then what came of it.
pub(super) async fn wait(
    provider: Arc<Provider>,
    outgoing: mpsc::Sender<String>,
    unsent: Arc<Unsent>,
    asked: Asked,
) {
    let Asked {
        id,
        task_id,
        mut coming,
        streams,
    } = asked;
    let beat = Message::Notification {
        method: "acmp/heartbeat".to_owned(),
        params: json!({ "task_id": task_id }),
    };
    while timeout(provider.limits.heartbeat, coming.is_done())
        .await
        .is_err()
    {
        if outgoing.send(beat.text()).await.is_err() {
            return;
        }
    }
    let mut pieces = Pieces::new(id, task_id, streams);
    // Nothing of a result is copied before there is room for it.
    while !pieces.are_sent()
        && let Ok(room) = outgoing.reserve().await
    {
        let bytes = coming.shown(|it| pieces.bytes(it));
        unsent.add(bytes.unwrap_or_default()).await;
        let text = coming.shown(|it| pieces.next(&it.outcome));
        room.send(text.unwrap_or_else(|why| pieces.next(&Err(why))));
    }
}
