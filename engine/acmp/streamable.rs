//! A connection over Streamable HTTP (MCP): each message is a request of its own, and what comes back stands in the response, or in a stream that is listened to besides.
//!
//! **Invariant:** a response is read no further than to the answer that is waited for, and not for longer than somebody waits.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use reqwest::{
    Client, RequestBuilder, Response, StatusCode, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderValue},
};
use serde::Deserialize;
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    link::{Gone, Link, NOT_UTF8, ROOM, Unconnected, too_long},
    wire::{self, Message},
};
use crate::endpoint::{
    self, Unread, cause,
    events::{self, Events},
};

const SESSION: &str = "Mcp-Session-Id";
const VERSION: &str = "MCP-Protocol-Version";
const EITHER: &str = "application/json, text/event-stream";
/// How long the other side may take for what it does not answer.
const NOTING: Duration = Duration::from_secs(5);
/// How long it may take to begin to answer a request before it is spoken about: one that answers with JSON begins late.
const COMING: Duration = Duration::from_millis(500);
const SILENT: &str = "it does not answer";
/// How long to wait before listening again.
const PAUSE: Duration = Duration::from_secs(1);

/// Speaks a request a message. Whether anybody is there shows only then.
pub(super) fn link(url: Url, client: Client, limit: usize) -> Link {
    let (outgoing, to_send) = mpsc::channel(ROOM);
    let (received, incoming) = mpsc::channel(ROOM);
    let session = Session {
        url,
        client,
        limit,
        id: OnceLock::new(),
        received,
    };
    let mut pump = JoinSet::new();
    pump.spawn(Arc::new(session).run(to_send));
    Link {
        outgoing,
        incoming,
        pump,
    }
}

struct Session {
    url: Url,
    client: Client,
    limit: usize,
    /// What the other side calls it, if it does.
    id: OnceLock<HeaderValue>,
    received: mpsc::Sender<Result<String, Gone>>,
}

/// What has to be known of a message.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    id: Option<Id>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Option<Params>,
}

/// Ours are texts.
#[derive(Deserialize)]
#[serde(untagged)]
enum Id {
    Text(String),
    Other(serde::de::IgnoredAny),
}

#[derive(Deserialize)]
struct Params {
    #[serde(default)]
    task_id: Option<String>,
}

/// A request under way.
struct Asking {
    /// Dropped, nobody waits for it any more.
    waits: oneshot::Sender<()>,
    /// Whether the other side has it.
    has_come: watch::Receiver<bool>,
}

/// What is not answered.
struct Note {
    text: String,
    /// It is about a request, which it must not overtake.
    after: Option<watch::Receiver<bool>>,
    /// The request that comes to nothing without it.
    part_of: Option<String>,
}

impl Note {
    fn new(text: String) -> Note {
        Note {
            text,
            after: None,
            part_of: None,
        }
    }
}

impl Session {
    async fn run(self: Arc<Session>, mut to_send: mpsc::Receiver<String>) {
        let (noted, notes) = mpsc::channel(ROOM);
        let mut noting = JoinSet::new();
        noting.spawn(Arc::clone(&self).note(notes));
        let mut asking = JoinSet::new();
        let mut open: HashMap<String, Asking> = HashMap::new();
        loop {
            let text = tokio::select! {
                text = to_send.recv() => text,
                Some(_) = asking.join_next() => {
                    open.retain(|_, it| !it.waits.is_closed());
                    continue;
                }
                Some(_) = noting.join_next() => continue,
            };
            let Some(text) = text else { break };
            let Ok(head) = serde_json::from_str::<Head>(&text) else {
                continue;
            };
            if let Some(Id::Text(id)) = head.id {
                let (waits, given_up) = oneshot::channel();
                let (comes, has_come) = watch::channel(false);
                let one = Asking { waits, has_come };
                open.insert(id.clone(), one);
                asking.spawn(Arc::clone(&self).ask(id, text, comes, given_up));
                continue;
            }
            let is_greeting = head.method.as_deref() == Some("notifications/initialized");
            if is_greeting {
                // Nothing else is said before it.
                self.post_note(Note::new(text)).await;
                asking.spawn(Arc::clone(&self).listen());
                continue;
            }
            let task = head.params.and_then(|it| it.task_id).unwrap_or_default();
            let mut note = Note::new(text);
            note.after = open.get(&task).map(|it| it.has_come.clone());
            if head.method.as_deref() == Some("acmp/inputChunk") {
                note.part_of = Some(task);
            } else if head.method.as_deref() == Some("acmp/cancel") {
                let (given_up, session) = (open.remove(&task), Arc::clone(&self));
                noting.spawn(async move {
                    session.post_note(note).await;
                    drop(given_up);
                });
                continue;
            }
            if noted.send(note).await.is_err() {
                break;
            }
        }
        drop(noted);
        while noting.join_next().await.is_some() {}
        if self.id.get().is_some() {
            let gone = self.with_session(self.client.delete(self.url.clone()));
            let _ = timeout(NOTING, gone.send()).await;
        }
    }

    /// Sends what is not answered, one after the other.
    async fn note(self: Arc<Session>, mut notes: mpsc::Receiver<Note>) {
        while let Some(note) = notes.recv().await {
            self.post_note(note).await;
        }
    }

    async fn post_note(&self, note: Note) {
        if let Some(mut after) = note.after {
            let _ = timeout(COMING, after.wait_for(|it| *it)).await;
        }
        let why = match timeout(NOTING, self.post(note.text).send()).await {
            Ok(Ok(response)) if response.status().is_success() => return,
            Ok(Ok(response)) => format!("status {}", response.status()),
            Ok(Err(error)) => broke(&error),
            Err(_) => SILENT.to_owned(),
        };
        // Of anything else nobody waits to learn that it was not heard.
        if note.part_of.is_some() {
            let why = Unconnected::Lost(format!("a part of the input did not arrive: {why}"));
            let of = note.part_of;
            let _ = self.received.send(Err(Gone { of, why })).await;
        }
    }

    /// Sends a request, and hands on what comes back, up to its answer.
    async fn ask(
        self: Arc<Session>,
        id: String,
        text: String,
        comes: watch::Sender<bool>,
        given_up: oneshot::Receiver<()>,
    ) {
        let answered = tokio::select! {
            _ = given_up => return,
            answered = self.answered(&id, text, &comes) => answered,
        };
        if let Err(gone) = answered {
            let _ = self.received.send(Err(gone)).await;
        }
    }

    async fn answered(
        &self,
        id: &str,
        text: String,
        comes: &watch::Sender<bool>,
    ) -> Result<(), Gone> {
        let gone = |why| Gone {
            of: Some(id.to_owned()),
            why,
        };
        let lost = |why: String| gone(Unconnected::Lost(why));
        let sent = self.post(text).send().await;
        let mut response = sent.map_err(|it| lost(broke(&it)))?;
        comes.send_replace(true);
        let status = response.status();
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let why = format!("it answers with status {status}");
                return Err(gone(Unconnected::Refused(why)));
            }
            StatusCode::NOT_FOUND if self.id.get().is_some() => {
                return Err(Gone::all("its session is over"));
            }
            _ => (),
        }
        if let Some(session) = response.headers().get(SESSION) {
            // It is told with the first answer, and stays.
            let _ = self.id.set(session.clone());
        }
        if events::are_in(&response) {
            if self.hear(&mut response, Some(id)).await.map_err(gone)? {
                return Ok(());
            }
            return Err(lost("it was closed without an answer".to_owned()));
        }
        if endpoint::is_of_type(&response, "application/json") {
            let bytes = self.whole(response).await.map_err(gone)?;
            match self.take(bytes, Some(id)).await {
                Ok(true) => return Ok(()),
                Err(why) if status.is_success() => return Err(gone(why)),
                // Where it is an error, the status says more.
                _ => (),
            }
        }
        Err(lost(format!(
            "it answers with status {status}, and not what it was asked"
        )))
    }

    /// Listens to what is said without having been asked.
    async fn listen(self: Arc<Session>) {
        loop {
            let request = self.with_session(self.client.get(self.url.clone()));
            let request = request.header(ACCEPT, "text/event-stream");
            let Ok(mut response) = request.send().await else {
                return;
            };
            // Not everybody has something to say.
            if !response.status().is_success() || !events::are_in(&response) {
                return;
            }
            if let Err(why @ Unconnected::Malformed(_)) = self.hear(&mut response, None).await {
                let _ = self.received.send(Err(Gone { of: None, why })).await;
                return;
            }
            sleep(PAUSE).await;
        }
    }

    /// Hands on the events of a response, up to an answer, and says whether that came.
    async fn hear(
        &self,
        response: &mut Response,
        until: Option<&str>,
    ) -> Result<bool, Unconnected> {
        let lost = Unconnected::Lost;
        let mut events = Events::default();
        while let Some(piece) = response.chunk().await.map_err(|it| lost(broke(&it)))? {
            events.feed(&piece);
            loop {
                let event = events.next(self.limit);
                let event = event.map_err(|it| Unconnected::Unreadable(too_long(it.0)))?;
                let Some(event) = event else { break };
                if events.was_message() && self.take(event, until).await? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Hands on a message, and says whether it is the answer that is waited for.
    ///
    /// # Errors
    /// It is none.
    async fn take(&self, message: Vec<u8>, waited_for: Option<&str>) -> Result<bool, Unconnected> {
        let text = String::from_utf8(message);
        let text = text.map_err(|_| Unconnected::Unreadable(NOT_UTF8.to_owned()))?;
        if text.trim().is_empty() {
            // Some begin a stream with an event that says nothing.
            return Ok(false);
        }
        let head = serde_json::from_str::<Head>(&text).ok();
        let is_it = head.is_some_and(|it| {
            let id = match &it.id {
                Some(Id::Text(id)) => Some(&**id),
                _ => None,
            };
            it.method.is_none() && id.is_some() && id == waited_for
        });
        if !is_it {
            Message::parse(&text).map_err(Unconnected::Malformed)?;
        }
        let _ = self.received.send(Ok(text)).await;
        Ok(is_it)
    }

    /// A whole body, for which whoever waits for the task decides how long to wait.
    async fn whole(&self, response: Response) -> Result<Vec<u8>, Unconnected> {
        let body = endpoint::body(response, self.limit, Duration::MAX).await;
        body.map_err(|it| match it {
            Unread::TooLong(limit) => Unconnected::Unreadable(too_long(limit)),
            Unread::Silent(_) => Unconnected::Lost(SILENT.to_owned()),
            Unread::Broke(error) => Unconnected::Lost(broke(&error)),
        })
    }

    fn post(&self, text: String) -> RequestBuilder {
        let request = self.client.post(self.url.clone());
        let request = request.header(CONTENT_TYPE, "application/json");
        let request = request.header(ACCEPT, EITHER);
        self.with_session(request).body(text)
    }

    fn with_session(&self, request: RequestBuilder) -> RequestBuilder {
        let request = request.header(VERSION, wire::MCP_VERSION);
        match self.id.get() {
            Some(id) => request.header(SESSION, id.clone()),
            None => request,
        }
    }
}

/// What is wrong, without the address, which whoever reads it knows.
fn broke(error: &reqwest::Error) -> String {
    if error.is_connect() {
        return cause::unreached(error);
    }
    match error.is_timeout() {
        true => SILENT.to_owned(),
        false => "the connection broke".to_owned(),
    }
}
