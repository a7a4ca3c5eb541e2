use std::{collections::VecDeque, path::Path, sync::Arc};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Notify, watch},
    task::JoinHandle,
};

use super::super::{Agent, Request, build::BuildError, testing};
use crate::child::env::Env;

mod answers;
mod endings;
mod hostile;

const KEY: &str = "sk-test-5EcReT";

/// How the agent over there reacts to a call.
enum Reaction {
    /// With this as its result.
    Result(Value),
    /// With this as its error.
    Error(Value),
    /// With this as its response, from the status line on.
    Raw(String),
    /// With these results, one event each, and then the end of the stream.
    Events(Vec<Value>),
    /// The same, and then nothing more, until the other side hangs up.
    Silence(Vec<Value>),
    /// As the other, but only when it is told to.
    When(Arc<Notify>, Box<Reaction>),
}

/// An agent on this machine that does as it is told.
struct Over {
    url: String,
    /// What was called so far: the path of a card, or a method, and what with.
    called: watch::Receiver<Vec<(String, Value)>>,
    /// The heads of all requests.
    heads: watch::Receiver<String>,
    serving: JoinHandle<()>,
}

impl Drop for Over {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Over {
    /// One that streams, and reacts so to its calls, in their order.
    async fn new(script: impl IntoIterator<Item = Reaction>) -> Over {
        Over::with_card(|url| card(url, true), script).await
    }

    async fn with_card(
        card: impl Fn(&str) -> Value,
        script: impl IntoIterator<Item = Reaction>,
    ) -> Over {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let card = match card(&url) {
            Value::String(raw) => raw,
            card => response("application/json", &card.to_string()),
        };
        let mut script: VecDeque<Reaction> = script.into_iter().collect();
        let (calls, called) = watch::channel(Vec::new());
        let (seen, heads) = watch::channel(String::new());
        let serving = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let Some((head, body)) = read(&mut stream).await else {
                    continue;
                };
                seen.send_modify(|it| it.push_str(&head));
                if head.starts_with("GET") {
                    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                    calls.send_modify(|it| it.push((path, Value::Null)));
                    let _ = stream.write_all(card.as_bytes()).await;
                    continue;
                }
                let body: Value = serde_json::from_str(&body).unwrap();
                let method = body["method"].as_str().unwrap().to_owned();
                calls.send_modify(|it| it.push((method, body["params"].clone())));
                let reaction = script.pop_front();
                let reaction = reaction.unwrap_or(Reaction::Error(json!({"code": -32601})));
                tokio::spawn(react(stream, reaction));
            }
        });
        Over {
            url,
            called,
            heads,
            serving,
        }
    }

    fn agent(&self, more: Value) -> Arc<dyn Agent> {
        agent(&self.url, more).unwrap_or_else(|error| panic!("{error:?}"))
    }

    /// What was called, without the card.
    fn methods(&self) -> String {
        let called = self.called.borrow();
        let methods = called.iter().filter(|it| !it.0.starts_with('/'));
        let methods: Vec<&str> = methods.map(|it| it.0.as_str()).collect();
        methods.join(" ")
    }

    /// Waits until a method was called.
    async fn when_called(&self, method: &str) {
        let mut called = self.called.clone();
        let is_called = |it: &Vec<(String, Value)>| it.iter().any(|it| it.0 == method);
        called.wait_for(is_called).await.unwrap();
    }
}

fn agent(url: &str, more: Value) -> Result<Arc<dyn Agent>, BuildError> {
    let mut runtime = json!({ "kind": "a2a", "url": url });
    let fields = runtime.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    testing::agent(runtime, Path::new("."), &Env::fixed([("THEIR_KEY", KEY)]))
}

fn card(url: &str, streams: bool) -> Value {
    json!({
        "name": "Over",
        "capabilities": {"streaming": streams},
        "supportedInterfaces": [
            {"protocolBinding": "GRPC", "protocolVersion": "1.0", "url": "grpc://elsewhere"},
            {"protocolBinding": "JSONRPC", "protocolVersion": "1.0", "url": format!("{url}/rpc")},
        ],
    })
}

fn response(kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

/// A head and a body, if somebody sends both.
async fn read(stream: &mut TcpStream) -> Option<(String, String)> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let lengths = head.lines().filter_map(|it| it.split_once(": "));
            let mut lengths = lengths.filter(|it| it.0.eq_ignore_ascii_case("content-length"));
            let length = lengths.next().map_or(0, |it| it.1.parse().unwrap());
            if body.len() >= length {
                return Some((format!("{head}\n"), body.to_owned()));
            }
        }
        match stream.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => return None,
            Ok(_) => (),
        }
    }
}

async fn react(mut stream: TcpStream, reaction: Reaction) {
    let reaction = match reaction {
        Reaction::When(told, reaction) => {
            told.notified().await;
            *reaction
        }
        other => other,
    };
    let (text, is_held) = match reaction {
        Reaction::Result(result) => (response("application/json", &result_of(&result)), false),
        Reaction::Error(error) => {
            let body = json!({"jsonrpc": "2.0", "id": 1, "error": error}).to_string();
            (response("application/json", &body), false)
        }
        Reaction::Raw(text) => (text, false),
        Reaction::Events(results) => (stream_of(&results), false),
        Reaction::Silence(results) => (stream_of(&results), true),
        Reaction::When(..) => panic!("it was told once already"),
    };
    // A client that has read enough hangs up.
    let _ = stream.write_all(text.as_bytes()).await;
    if is_held {
        let _ = stream.read(&mut [0; 16]).await;
    }
}

fn result_of(result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string()
}

/// A stream as AG2 writes it, with its comments.
fn stream_of(results: &[Value]) -> String {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nconnection: close\r\n\r\n";
    let events = results.iter().map(|it| match it.get("error") {
        Some(_) => {
            let mut event = it.clone();
            event["jsonrpc"] = json!("2.0");
            format!("event: error\r\ndata: {event}\r\n\r\n")
        }
        None => format!(": ping\r\n\r\ndata: {}\r\n\r\n", result_of(it)),
    });
    head.to_owned() + &events.collect::<String>()
}

fn task(state: &str) -> Value {
    json!({"task": {"id": "t-1", "contextId": "c-1", "status": {"state": state}}})
}

fn status(state: &str) -> Value {
    json!({"statusUpdate": {"taskId": "t-1", "contextId": "c-1", "status": {"state": state}}})
}

fn says(state: &str, text: &str) -> Value {
    let mut update = status(state);
    update["statusUpdate"]["status"]["message"] = message(text);
    update
}

fn message(text: &str) -> Value {
    json!({"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": text}]})
}

/// A piece of an artifact.
fn piece(artifact: &str, part: Value, append: bool) -> Value {
    let artifact = json!({"artifactId": artifact, "parts": [part]});
    json!({"artifactUpdate": {"taskId": "t-1", "artifact": artifact, "append": append}})
}

/// What came of a question, and when to ask again if that is known. Nothing of it may hold the key or an address.
async fn ask(agent: &dyn Agent, request: Request) -> String {
    let answer = agent.ask(request).await;
    let everything = format!("{answer:?}");
    assert!(
        !everything.contains("5EcReT") && !everything.contains("127.0.0.1:"),
        "{everything}"
    );
    let after = answer.as_ref().err().and_then(|it| it.retry_after);
    let after = after.map_or_else(String::new, |it| format!(" (after {it:?})"));
    testing::show(&answer) + &after
}
