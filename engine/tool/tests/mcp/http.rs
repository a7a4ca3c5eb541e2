//! The same over HTTP.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use super::*;
use crate::contract::endpoint::Headers;

/// A server over HTTP that wants a key, on a port of its own.
pub(super) struct OverHttp {
    url: String,
    sessions: Arc<AtomicUsize>,
    pub(super) ended: Arc<AtomicUsize>,
    _served: JoinSet<()>,
}

impl OverHttp {
    pub(super) async fn start(answers: fn(&serde_json::Value) -> Option<String>) -> OverHttp {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let sessions = Arc::<AtomicUsize>::default();
        let ended = Arc::<AtomicUsize>::default();
        let counted = (Arc::clone(&sessions), Arc::clone(&ended));
        let mut served = JoinSet::new();
        served.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(talk(stream, answers, counted.clone()));
            }
        });
        OverHttp {
            url,
            sessions,
            ended,
            _served: served,
        }
    }

    pub(super) fn world(&self, tools: &[&str]) -> World {
        let headers = json!({ "Authorization": { "env": "TOKEN", "prefix": "Bearer " } });
        let headers: Headers = serde_json::from_value(headers).unwrap();
        let reached = Reached::Url {
            url: self.url.clone(),
            headers,
            allow_plain_http: false,
        };
        let folder = tempfile::tempdir().unwrap();
        served(
            reached,
            (tools, SHORT),
            &Env::fixed([("TOKEN", "s3cret")]),
            folder,
        )
    }
}

async fn talk(
    mut stream: TcpStream,
    answers: fn(&serde_json::Value) -> Option<String>,
    (sessions, ended): (Arc<AtomicUsize>, Arc<AtomicUsize>),
) {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let whole = text.split_once("\r\n\r\n").and_then(|(head, body)| {
            let head = head.to_lowercase();
            let length = head
                .lines()
                .find_map(|it| it.strip_prefix("content-length: ")?.parse().ok())
                .unwrap_or(0);
            (body.len() >= length).then(|| {
                (
                    head.clone(),
                    body[..length].to_owned(),
                    text.len() - body.len() + length,
                )
            })
        });
        let Some((head, body, length)) = whole else {
            if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                return;
            }
            continue;
        };
        bytes.drain(..length);
        let request: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
        let is_known = head.contains("authorization: bearer s3cret");
        let response = if !is_known {
            "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n".to_owned()
        } else if head.starts_with("delete") {
            ended.fetch_add(1, Ordering::Relaxed);
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned()
        } else if head.starts_with("get") {
            "HTTP/1.1 405 Not Allowed\r\ncontent-length: 0\r\n\r\n".to_owned()
        } else if request.get("id").is_none() {
            "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned()
        } else {
            if request["method"] == "initialize" {
                sessions.fetch_add(1, Ordering::Relaxed);
            }
            match answers(&request) {
                Some(response) => response,
                None => return,
            }
        };
        if stream.write_all(response.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn respond(kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nmcp-session-id: 1\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

pub(super) fn well(request: &serde_json::Value) -> Option<String> {
    let result = match request["method"].as_str()? {
        "initialize" => {
            json!({ "protocolVersion": request["params"]["protocolVersion"], "capabilities": { "tools": {} }, "serverInfo": { "name": "s", "version": "1" } })
        }
        "tools/list" => {
            json!({ "tools": [{ "name": "say", "inputSchema": { "type": "object" } }] })
        }
        _ => match request["params"]["arguments"]["what"].as_str() {
            Some("hang up") => return None,
            Some("break") => {
                return Some(
                    "HTTP/1.1 500 Error\r\ncontent-length: 13\r\n\r\nI hate s3cret".to_owned(),
                );
            }
            Some("nonsense") => return Some(respond("application/json", "{\"what\": ")),
            Some("page") => return Some(respond("text/html", "<html>")),
            Some("cut") => return Some(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{"
                    .to_owned(),
            ),
            _ => json!({ "content": [{ "type": "text", "text": "well, s3cret" }] }),
        },
    };
    let body = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }).to_string();
    // Both ways of answering are allowed.
    Some(match request["method"] == "tools/list" {
        true => respond("application/json", &body),
        false => respond("text/event-stream", &format!("data: {body}\n\n")),
    })
}

#[tokio::test]
async fn an_endpoint_serves_tools() {
    let server = OverHttp::start(well).await;
    let world = server.world(&["say", "gone"]);
    check(
        &world,
        &[
            ("say", "{}"),
            ("say", r#"{"what": "break"}"#),
            ("say", r#"{"what": "nonsense"}"#),
            ("say", r#"{"what": "page"}"#),
            ("say", r#"{"what": "cut"}"#),
            ("say", "{}"),
            ("gone", "{}"),
        ],
        expect![[r#"
            say {}: well, [key]
            say {"what": "break"}: error: the tool server `S`: HTTP 500
            say {"what": "nonsense"}: error: the tool server `S`: unexpected server response: could not parse JSON response as ServerJsonRpcMessage: EOF while parsing a value at line 1 column 9: {"what": 
            say {"what": "page"}: error: the tool server `S`: Unexpected content type: Some("text/html")
            say {"what": "cut"}: error: no result within 2 seconds
            say {}: well, [key]
            gone {}: error: the tool server `S`: it has no tool `gone`; it has say
        "#]],
    )
    .await;
    assert_eq!(
        server.sessions.load(Ordering::Relaxed),
        1,
        "it is begun once"
    );
}

#[tokio::test]
async fn endpoints_that_do_not_serve_are_told_of() {
    let unknown = OverHttp::start(well).await;
    let reached = |url: &str| Reached::Url {
        url: url.to_owned(),
        headers: Headers::new(),
        allow_plain_http: false,
    };
    let without_key = reached(&unknown.url);
    let folder = tempfile::tempdir().unwrap();
    let world = served(without_key, (&["say"], SHORT), &Env::fixed([]), folder);
    check(
        &world,
        &[("say", "{}")],
        expect![[r#"
        say {}: error: the tool server `S`: unexpected server response: HTTP 403 Forbidden: 
    "#]],
    )
    .await;
    for (url, expected) in [
        (
            "http://127.0.0.1:1/mcp",
            expect![[r#"
                say {}: error: the tool server `S`: Connection refused (os error 111)
            "#]],
        ),
        (
            "http://10.0.0.1/mcp",
            expect![[r#"
            say {}: error: the tool server `S`: plain http is for this machine only, as 127.0.0.1 or localhost, unless `allow_plain_http: true` says otherwise
        "#]],
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let world = served(reached(url), (&["say"], SHORT), &Env::fixed([]), folder);
        check(&world, &[("say", "{}")], expected).await;
    }
    let silent = OverHttp::start(|_| None).await;
    check(
        &silent.world(&["say"]),
        &[("say", "{}")],
        expect![[r#"
        say {}: error: the tool server `S`: connection closed before message completed
    "#]],
    )
    .await;
}
