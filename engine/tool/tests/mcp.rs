//! Servers of tools, of all manners.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use super::*;
use crate::{
    compile::tools::{Reached, ServerSpec},
    contract::endpoint::Headers,
};

/// A server that is told by its argument how to misbehave.
const SERVER: &str = r#"
import json, os, sys, time

how = sys.argv[1]
say = lambda it: print(json.dumps(it), flush=True)
print("a word beside the protocol", file=sys.stderr, flush=True)
if how == "mute": time.sleep(1000)
if how == "floods":
    while True: sys.stdout.write("x" * 65536)
if how == "babbles": print("this is no JSON\n{\"jsonrpc\": 2}\n[]", flush=True)
if how == "leaves": sys.exit("no licence")
open("started", "a").write(f"{os.getpid()}\n")

tools = [
    {"name": "add", "description": "Adds.", "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}},
    {"name": "say", "inputSchema": {"type": "object"}},
    {"name": "odd", "inputSchema": {"type": "nonsense"}},
    {"name": "wide", "inputSchema": {"type": "object", "description": "x" * 200000}},
]

def call(name, arguments):
    text = lambda it: {"content": [{"type": "text", "text": it}]}
    if name == "add": return {**text("the sum"), "structuredContent": {"sum": arguments["a"] + arguments["b"]}}
    what = arguments.get("what")
    if what == "die": print("last words", file=sys.stderr, flush=True); os._exit(7)
    if what == "sleep": time.sleep(1000)
    if what == "fail": return {**text("no luck"), "isError": True}
    if what == "image": return {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}, {"type": "text", "text": "seen"}]}
    if what == "structured": return {"content": [], "structuredContent": {"n": 1}}
    if what == "long": return text("ä" * 1000)
    if what == "huge": return text("x" * (5 << 20))
    if what == "endless": sys.stdout.write("x" * (30 << 20)); sys.stdout.flush()
    if what == "nonsense": return {"content": "yes"}
    if what == "pid": return text(str(os.getpid()))
    return text("you said " + json.dumps(arguments))

for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request: continue
    method, result = request.get("method"), None
    if method == "initialize":
        result = {"protocolVersion": request["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    elif method == "tools/list":
        page = int((request.get("params") or {}).get("cursor") or 0)
        if how == "pages": result = {"tools": [], "nextCursor": str(page + 1)}
        else: result = {"tools": tools[page:page + 2], **({"nextCursor": str(page + 2)} if page + 2 < len(tools) else {})}
    elif method == "tools/call" and request["params"]["name"] != "gone":
        result = call(request["params"]["name"], request["params"].get("arguments") or {})
    if result is None: say({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32602, "message": f"I do not know {method}"}})
    else: say({"jsonrpc": "2.0", "id": request["id"], "result": result})
open("bye", "w").write("bye")
"#;

/// The tools of a server, each with two seconds a call.
fn served(reached: Reached, tools: &[&str], env: &Env, folder: TempDir) -> World {
    let specs = ToolSpecs {
        tools: tools
            .iter()
            .map(|it| {
                let does = Does::Served {
                    server: 0,
                    tool: (*it).to_owned(),
                };
                ToolSpec {
                    timeout: Duration::from_secs(2),
                    ..spec(it, does)
                }
            })
            .collect(),
        servers: vec![ServerSpec {
            name: "S".into(),
            reached,
            at: spec("S", Does::Program { argv: Vec::new() }).at,
        }],
        folder: folder.path().to_owned(),
        project: folder.path().to_owned(),
        ..ToolSpecs::default()
    };
    let tools = Tools::new(&specs, env);
    World { folder, tools }
}

fn program(how: &str, tools: &[&str]) -> World {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("server.py"), SERVER).unwrap();
    let argv = ["python3", "server.py", how].map(str::to_owned).to_vec();
    let path = std::env::var("PATH").unwrap();
    let env = Env::fixed([("PATH", &*path)]);
    served(Reached::Program { argv }, tools, &env, folder)
}

async fn check(world: &World, calls: &[(&str, &str)], expected: Expect) {
    let mut text = String::new();
    for (name, arguments) in calls {
        let result = world.call(name, arguments).await;
        text.push_str(&format!("{name} {arguments}: {result}\n"));
    }
    expected.assert_eq(&text);
}

#[tokio::test]
async fn a_program_serves_tools() {
    let world = program("well", &["add", "say", "odd", "wide", "gone"]);
    let what = |it: &str| format!(r#"{{"what": "{it}"}}"#);
    let (fail, image, structured) = (what("fail"), what("image"), what("structured"));
    let (long, huge, nonsense) = (what("long"), what("huge"), what("nonsense"));
    check(
        &world,
        &[
            ("add", r#"{"a": 1, "b": 2}"#),
            ("add", r#"{"a": 1}"#),
            ("add", "{"),
            ("say", ""),
            ("say", &fail),
            ("say", &image),
            ("say", &structured),
            ("say", &long),
            ("say", &huge),
            ("say", &nonsense),
            ("odd", ""),
            ("wide", ""),
            ("gone", ""),
        ],
        expect![[r#"
            add {"a": 1, "b": 2}: the sum
            add {"a": 1}: error: the arguments of `add` do not fit: "b" is a required property
            add {: error: the arguments of `add` are not JSON: EOF while parsing an object at line 1 column 1
            say : you said {}
            say {"what": "fail"}: error: no luck
            say {"what": "image"}: [an image, image/png]
            seen
            say {"what": "structured"}: {"n":1}
            say {"what": "long"}: ääääääääääääääääääääääääääääääääääääääääääääääääää [cut: 100 of 2000 bytes shown]
            say {"what": "huge"}: error: the result is longer than the 4194304 bytes that are allowed
            say {"what": "nonsense"}: error: the tool server `S`: Unexpected response type
            odd : error: the parameters of `odd` are no JSON Schema: "nonsense" is not valid under any of the schemas listed in the 'anyOf' keyword
            wide : error: the tool server `S`: the parameters of its tool `wide` are longer than 131072 bytes
            gone : error: the tool server `S`: it has no tool `gone`; it has add, say, odd, wide
        "#]],
    )
    .await;
    let toolbox = world.tools.toolbox("A", given).unwrap();
    let called = toolbox.call("add", r#"{"a": 1, "b": 2}"#, &given()).await;
    assert_eq!(called.unwrap().value, json!({ "sum": 3 }));
    let started = fs::read_to_string(world.folder.path().join("started")).unwrap();
    assert_eq!(started.lines().count(), 1, "it is started once");
}

#[tokio::test]
async fn a_server_that_dies_is_started_anew_by_the_next_call() {
    let world = program("well", &["say"]);
    check(
        &world,
        &[("say", r#"{"what": "die"}"#), ("say", "{}")],
        expect![[r#"
            say {"what": "die"}: error: the tool server `S`: it ended: exit status: 7; it said: a word beside the protocol
            last words
            say {}: you said {}
        "#]],
    )
    .await;
    let started = fs::read_to_string(world.folder.path().join("started")).unwrap();
    assert_eq!(started.lines().count(), 2);
}

#[tokio::test]
async fn servers_that_do_not_serve_are_told_of_in_time() {
    for (how, expected) in [
        (
            "mute",
            expect![[r#"
            say {}: error: no result within 2 seconds
        "#]],
        ),
        (
            "floods",
            expect![[r#"
            say {}: error: no result within 2 seconds
        "#]],
        ),
        (
            "leaves",
            expect![[r#"
            say {}: error: the tool server `S`: it ended: exit status: 1; it said: a word beside the protocol
            no licence
        "#]],
        ),
        (
            "babbles",
            expect![[r#"
            say {}: you said {}
        "#]],
        ),
        (
            "pages",
            expect![[r#"
            say {}: error: the tool server `S`: its tools do not end within 100 pages
        "#]],
        ),
    ] {
        check(&program(how, &["say"]), &[("say", "{}")], expected).await;
    }
    let world = program("well", &["say"]);
    check(
        &world,
        &[
            ("say", r#"{"what": "sleep"}"#),
            ("say", r#"{"what": "endless"}"#),
        ],
        expect![[r#"
            say {"what": "sleep"}: error: no result within 2 seconds
            say {"what": "endless"}: error: no result within 2 seconds
        "#]],
    )
    .await;
    let nobody = Reached::Program {
        argv: vec!["no-such-program".to_owned()],
    };
    let folder = tempfile::tempdir().unwrap();
    let world = served(nobody, &["say"], &Env::fixed([]), folder);
    check(&world, &[("say", "{}")], expect![[r#"
        say {}: error: the tool server `S`: cannot start `no-such-program`: No such file or directory (os error 2)
    "#]]).await;
}

#[tokio::test]
async fn a_server_ends_with_its_tools() {
    let world = program("well", &["say"]);
    let pid = world.call("say", r#"{"what": "pid"}"#).await;
    let is_there = || std::path::Path::new("/proc").join(&pid).exists();
    if !std::path::Path::new("/proc/self").exists() {
        return;
    }
    assert!(is_there());
    drop(world);
    let begun = Instant::now();
    while is_there() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it lives on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_server_that_is_told_may_say_goodbye() {
    let world = program("well", &["say"]);
    world.call("say", "{}").await;
    world.tools.close().await;
    assert!(world.folder.path().join("bye").exists());
    // Another call starts another one.
    assert_eq!(world.call("say", "{}").await, "you said {}");
    let server = OverHttp::start(well).await;
    let world = server.world(&["say"]);
    world.call("say", "{}").await;
    world.tools.close().await;
    assert_eq!(server.ended.load(Ordering::Relaxed), 1);
}

/// A server over HTTP that wants a key, on a port of its own.
struct OverHttp {
    url: String,
    sessions: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
    _served: JoinSet<()>,
}

impl OverHttp {
    async fn start(answers: fn(&serde_json::Value) -> Option<String>) -> OverHttp {
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

    fn world(&self, tools: &[&str]) -> World {
        let headers = json!({ "Authorization": { "env": "TOKEN", "prefix": "Bearer " } });
        let headers: Headers = serde_json::from_value(headers).unwrap();
        let reached = Reached::Url {
            url: self.url.clone(),
            headers,
            allow_plain_http: false,
        };
        let folder = tempfile::tempdir().unwrap();
        served(reached, tools, &Env::fixed([("TOKEN", "s3cret")]), folder)
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

fn well(request: &serde_json::Value) -> Option<String> {
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
    let world = served(without_key, &["say"], &Env::fixed([]), folder);
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
        let world = served(reached(url), &["say"], &Env::fixed([]), folder);
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
