//! Crowds of buyers that do what no buyer should: a provider goes on serving the others, and does not grow.

use std::{
    env, fs,
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use serde_json::json;

use crate::{
    acmp::{Carrier, SERVED, Serving, answers, invoke},
    harness::{Project, until},
};

const TOKEN: &str = "open sesame, please";
/// The most memory the provider may have had, in KiB.
const MOST_KIB: u64 = 600 << 10;

/// How many of each kind come; more than there are places.
fn crowd() -> usize {
    let number = env::var("MOZAIKS_CROWD").ok();
    number.and_then(|it| it.parse().ok()).unwrap_or(300)
}

fn connect(port: &str, text: impl AsRef<[u8]>) -> TcpStream {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("somebody is there");
    let timeout = Some(Duration::from_secs(60));
    stream.set_read_timeout(timeout).expect("it can be set");
    // Whoever has no place any more is not read.
    let _ = stream.write_all(text.as_ref());
    stream
}

fn head(first: &str, token: bool, more: &[&str]) -> String {
    let authorization = format!("Authorization: Bearer {TOKEN}");
    let mut lines = vec![first, "Host: x"];
    lines.extend(token.then_some(&*authorization));
    lines.extend(more);
    lines.join("\r\n") + "\r\n\r\n"
}

fn upgrade(token: bool) -> String {
    let more = [
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    ];
    head("GET / HTTP/1.1", token, &more)
}

fn post(token: bool, length: u64, body: &str) -> String {
    let length = format!("Content-Length: {length}");
    let accept = "Accept: application/json, text/event-stream";
    head("POST / HTTP/1.1", token, &[&length, accept]) + body
}

/// A frame of a buyer, masked with nothing, that says that it is so long.
fn frame(first: u8, length: u64, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first, 0x80 | 127];
    bytes.extend(length.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(data);
    bytes
}

/// A WebSocket, as soon as it is one, and then these bytes.
fn websocket(port: &str, bytes: &[u8]) -> TcpStream {
    let mut stream = connect(port, upgrade(true));
    let mut answer = [0; 12];
    if stream.read_exact(&mut answer).is_ok() {
        assert_eq!(&answer, b"HTTP/1.1 101");
    }
    let _ = stream.write_all(bytes);
    stream
}

/// A part of an input that is not the last.
fn chunk(task: &str, seq: usize) -> String {
    let chunk = json!({ "type": "text", "data": "x".repeat(20_000) });
    let params = json!({ "task_id": task, "seq": seq, "chunk": chunk, "final": false });
    json!({ "jsonrpc": "2.0", "method": "acmp/inputChunk", "params": params }).to_string()
}

/// A WebSocket over which these are said.
fn say(port: &str, texts: impl Iterator<Item = String>) -> TcpStream {
    let frames = texts.map(|it| frame(0x81, it.len() as u64, it.as_bytes()));
    websocket(port, &frames.collect::<Vec<_>>().concat())
}

fn is_served(serving: &Serving, after: &str) {
    for carrier in [Carrier::Websocket, Carrier::Http] {
        let messages = [
            invoke(1, &format!("task_{after}_{carrier:?}"), "echo").to_string(),
            json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" }).to_string(),
        ];
        let (code, lines) = serving.buy_over(carrier, TOKEN, &messages);
        assert_eq!(code, Some(0), "{after} {carrier:?}: {lines:?}");
        let answers = answers(&lines);
        let said = &answers["1"]["result"]["output"]["data"]["said"];
        assert_eq!(said, "hi", "{after} {carrier:?}: {lines:?}");
        assert_eq!(answers["2"]["result"], json!({}), "{after} {carrier:?}");
    }
    let status = fs::read_to_string(format!("/proc/{}/status", serving.id()));
    // Elsewhere nobody says it.
    let Ok(status) = status else { return };
    let most = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
    let most = most.and_then(|it| it.trim().split(' ').next()?.parse::<u64>().ok());
    assert!(
        most.is_some_and(|it| it < MOST_KIB),
        "{after}: {most:?} KiB"
    );
}

#[test]
fn whoever_was_not_let_in_is_in_nobodys_way() {
    let project = Project::of(SERVED);
    let serving = Serving::start(&project, Some(TOKEN));
    let port = &*serving.port;
    // One who was let in stays.
    let mut guest = websocket(port, &[]);
    let kinds: [(&str, String); 6] = [
        ("silent", String::new()),
        ("half a head", "POST / HTTP/1.1\r\nHost: x\r\nX-".to_owned()),
        ("no token", post(false, 1 << 30, "{")),
        ("no token for a socket", upgrade(false)),
        (
            "a long head",
            format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(1 << 20)),
        ),
        ("no request", "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}".to_owned()),
    ];
    let mut open = Vec::new();
    for (kind, text) in kinds {
        let crowd = (0..crowd()).map(|_| connect(port, &text));
        open.push(crowd.collect::<Vec<_>>());
        is_served(&serving, kind);
    }
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }).to_string();
    let ping = frame(0x81, ping.len() as u64, ping.as_bytes());
    guest.write_all(&ping).expect("it is still connected");
    let mut said = Vec::new();
    let is_answered = |said: &[u8]| String::from_utf8_lossy(said).contains(r#""result":{}"#);
    while !is_answered(&said) {
        let mut piece = [0; 256];
        let length = guest.read(&mut piece).expect("it is answered");
        assert_ne!(length, 0, "{}", String::from_utf8_lossy(&said));
        said.extend(&piece[..length]);
    }
}

#[test]
fn whoever_was_let_in_and_does_nothing_makes_room_and_nonsense_is_refused() {
    let project = Project::of(SERVED);
    let serving = Serving::start(&project, Some(TOKEN));
    let port = &*serving.port;
    let deep = "[".repeat(1 << 16);
    let large = |ix: usize| {
        let mut message = invoke(1, &format!("task_{ix}"), "echo");
        message["params"]["input"]["data"] = json!("x".repeat(20_000));
        message.to_string()
    };
    type Come<'a> = Box<dyn Fn(usize) -> TcpStream + 'a>;
    let on_socket = |bytes: Vec<u8>| -> Come<'_> { Box::new(move |_| websocket(port, &bytes)) };
    let by_request = |text: String| -> Come<'_> { Box::new(move |_| connect(port, &text)) };
    let chunked = head("POST / HTTP/1.1", true, &["Transfer-Encoding: chunked"]);
    // More than all of them may hold together.
    let much = frame(0x81, 16 << 20, &vec![b' '; 4 << 20]);
    let body = " ".repeat(4 << 20);
    let kinds: [(&str, Come<'_>); 17] = [
        ("much of a frame", on_socket(much)),
        ("much of a body", by_request(post(true, 16 << 20, &body))),
        ("idle", on_socket(Vec::new())),
        ("half a frame", on_socket(frame(0x81, 1000, b"{"))),
        ("half a message", on_socket(frame(0x01, 1, b"{"))),
        ("a huge frame", on_socket(frame(0x81, 1 << 40, b"{"))),
        ("no mask", on_socket(b"\x81\x02{}".to_vec())),
        ("no frame", on_socket(vec![0xff; 64])),
        ("not UTF-8", on_socket(frame(0x81, 2, b"\xff\xfe"))),
        (
            "deep",
            on_socket(frame(0x81, deep.len() as u64, deep.as_bytes())),
        ),
        ("half a body", by_request(post(true, 1000, "{"))),
        ("a huge body", by_request(post(true, 1 << 40, "{"))),
        ("a bad chunk", by_request(format!("{chunked}zz\r\n"))),
        (
            "a deep body",
            by_request(post(true, deep.len() as u64, &deep)),
        ),
        (
            "chunks of nobody's tasks",
            Box::new(|ix| {
                let chunks = (0..20).map(|it| chunk(&format!("early_{ix}_{it}"), 0));
                say(port, chunks)
            }),
        ),
        (
            "not read",
            Box::new(|ix| {
                let text = large(ix);
                let frame = frame(0x81, text.len() as u64, text.as_bytes());
                websocket(port, &frame.repeat(4))
            }),
        ),
        (
            "no events read",
            Box::new(|ix| {
                let text = large(ix);
                connect(port, post(true, text.len() as u64, &text).repeat(4))
            }),
        ),
    ];
    let mut open = Vec::new();
    for (kind, come) in kinds {
        open.push((0..crowd()).map(come).collect::<Vec<_>>());
        is_served(&serving, kind);
    }
}

/// Elsewhere not all of 127.0.0.0/8 is this machine.
#[cfg(target_os = "linux")]
#[test]
fn buyers_at_one_address_cannot_keep_others_out_with_tasks() {
    let project = Project::of(SERVED);
    let serving = Serving::start(&project, Some(TOKEN));
    let sleepers = (0..crowd()).map(|ix| {
        let text = invoke(1, &format!("task_{ix}"), "sleep").to_string();
        websocket(
            &serving.port,
            &frame(0x81, text.len() as u64, text.as_bytes()),
        )
    });
    let _sleepers: Vec<TcpStream> = sleepers.collect();
    let asleep = || fs::read_to_string(project.path("asleep")).unwrap_or_default();
    // So many of its tasks are carried out at once, and the others wait.
    until("its share is busy", || asleep().lines().count() >= 56);
    for carrier in [Carrier::Websocket, Carrier::Http] {
        let message = invoke(1, &format!("task_{carrier:?}"), "echo").to_string();
        let (code, lines) = serving.buy_from("127.0.0.2", carrier, TOKEN, &[message]);
        assert_eq!(code, Some(0), "{carrier:?}: {lines:?}");
        assert_eq!(
            answers(&lines)["1"]["result"]["output"]["data"]["said"],
            "hi"
        );
    }
    assert_eq!(asleep().lines().count(), 56);
    // Whoever comes from there as well has to wait for one of them to end.
    let message = invoke(1, "task_more", "echo").to_string();
    let (code, lines) = serving.buy(TOKEN, &[message]);
    assert_ne!(code, Some(0), "{lines:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn inputs_without_an_end_are_in_nobodys_way_and_leave_with_their_buyers() {
    let project = Project::of(SERVED);
    let serving = Serving::start(&project, Some(TOKEN));
    let message = |task: &str| invoke(1, task, "echo").to_string();
    let endless = (0..crowd()).map(|ix| {
        let task = format!("endless_{ix}");
        let mut asked = invoke(1, &task, "echo");
        asked["params"]["input_stream"] = json!(true);
        let chunks = (0..20).map(|it| chunk(&task, it));
        say(&serving.port, [asked.to_string()].into_iter().chain(chunks))
    });
    let endless: Vec<TcpStream> = endless.collect();
    for carrier in [Carrier::Websocket, Carrier::Http] {
        let message = message(&format!("task_{carrier:?}"));
        let (code, lines) = serving.buy_from("127.0.0.2", carrier, TOKEN, &[message]);
        assert_eq!(code, Some(0), "{carrier:?}: {lines:?}");
    }
    drop(endless);
    until("there is room again", || {
        serving.buy(TOKEN, &[message("task_more")]).0 == Some(0)
    });
    is_served(&serving, "endless");
}
