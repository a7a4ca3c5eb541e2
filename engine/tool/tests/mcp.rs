//! Servers of tools, of all manners.

use std::sync::atomic::Ordering;

use super::*;
use crate::compile::tools::{Reached, ServerSpec};

mod http;

use http::{OverHttp, well};

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
if how == "half": sys.stdout.write("{\"jsonrpc\": \"2.0\", \"id\": 0, \"res"); sys.stdout.flush(); time.sleep(1000)
if how == "binary": sys.stdout.buffer.write(b"\xff\xfe\n\x00\n"); sys.stdout.flush()
if how == "old": how = "well"; VERSION = "1999-01-01"
else: VERSION = None
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
    if what == "aside": print("an aside", file=sys.stderr, flush=True)
    if what == "sleep": time.sleep(1000)
    if what == "fail": return {**text("no luck"), "isError": True}
    if what == "image": return {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}, {"type": "text", "text": "seen"}]}
    if what == "structured": return {"content": [], "structuredContent": {"n": 1}}
    if what == "long": return text("ä" * 1000)
    if what == "huge": return text("x" * (5 << 20))
    if what == "endless": sys.stdout.write("x" * (30 << 20)); sys.stdout.flush()
    if what == "large": return text("y" * (3 << 20))
    if what == "closes": os.close(1); time.sleep(1000)
    if what == "leaves a child":
        if os.fork() == 0: time.sleep(1000)
        os._exit(5)
    if what == "chatters":
        for n in range(2000): say({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": n}})
    if what == "asks":
        say({"jsonrpc": "2.0", "id": "r", "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}})
        say({"jsonrpc": "2.0", "id": "s", "method": "roots/list"})
    if what == "stranger": say({"jsonrpc": "2.0", "id": 4711, "result": {"content": []}}); say({"jsonrpc": "2.0", "id": "x", "error": {"code": 1, "message": "no"}})
    if what == "invalid": print("{\"jsonrpc\": \"2.0\", \"id\": ", flush=True)
    if what == "learns": tools.append({"name": "new", "inputSchema": {"type": "object"}}); say({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    if what == "nonsense": return {"content": "yes"}
    if what == "pid": return text(str(os.getpid()))
    return text("you said " + json.dumps(arguments))

for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request: continue
    method, result = request.get("method"), None
    if method == "initialize":
        result = {"protocolVersion": VERSION or request["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
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

/// How long a call may take that never ends.
const SHORT: Duration = Duration::from_secs(2);

/// The tools of a server, which has so long for a call.
fn served(
    reached: Reached,
    (tools, timeout): (&[&str], Duration),
    env: &Env,
    folder: TempDir,
) -> World {
    let specs = ToolSpecs {
        tools: tools
            .iter()
            .map(|it| {
                let does = Does::Served {
                    server: 0,
                    tool: (*it).to_owned(),
                };
                ToolSpec {
                    timeout,
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
    let tools = Tools::new(&specs, Secrets::default(), env);
    World { folder, tools }
}

fn program(how: &str, tools: &[&str]) -> World {
    program_within(how, (tools, Duration::from_secs(60)))
}

fn program_within(how: &str, tools: (&[&str], Duration)) -> World {
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
    assert_eq!(called.came.unwrap().value, json!({ "sum": 3 }));
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
                say {}: error: the tool server `S`: it was not ready within 2 seconds
            "#]],
        ),
        (
            "floods",
            expect![[r#"
                say {}: error: the tool server `S`: it was not ready within 2 seconds
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
            "half",
            expect![[r#"
            say {}: error: the tool server `S`: it was not ready within 2 seconds
        "#]],
        ),
        (
            "binary",
            expect![[r#"
            say {}: you said {}
        "#]],
        ),
        (
            "old",
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
        let is_mute = matches!(how, "mute" | "floods" | "half");
        let timeout = if is_mute {
            SHORT
        } else {
            Duration::from_secs(60)
        };
        let world = program_within(how, (&["say"], timeout));
        check(&world, &[("say", "{}")], expected).await;
    }
    let sleep = [("say", r#"{"what": "sleep"}"#)];
    let world = program_within("well", (&["say"], SHORT));
    check(
        &world,
        &sleep,
        expect![[r#"
        say {"what": "sleep"}: error: no result within 2 seconds
    "#]],
    )
    .await;
    let endless = [("say", r#"{"what": "endless"}"#)];
    check(&program("well", &["say"]), &endless, expect![[r#"
        say {"what": "endless"}: error: the tool server `S`: it sent a message of more than 25165824 bytes
    "#]])
    .await;
    let nobody = Reached::Program {
        argv: vec!["no-such-program".to_owned()],
    };
    let folder = tempfile::tempdir().unwrap();
    let world = served(nobody, (&["say"], SHORT), &Env::fixed([]), folder);
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

#[tokio::test]
async fn what_a_server_says_beside_the_protocol_is_kept_with_the_next_call() {
    let world = program("well", &["say"]);
    let toolbox = world.tools.toolbox("A", given).unwrap();
    let mut told = String::new();
    for arguments in ["{}", r#"{"what": "nothing"}"#, r#"{"what": "aside"}"#] {
        let made = toolbox.call("say", arguments, &given()).await;
        told.push_str(&format!("{arguments}: {}\n", made.printed.trim()));
    }
    expect![[r#"
        {}: a word beside the protocol
        {"what": "nothing"}: 
        {"what": "aside"}: an aside
    "#]]
    .assert_eq(&told);
}

#[tokio::test]
async fn whatever_a_server_does_the_next_call_is_answered() {
    let whats = [
        "asks",
        "chatters",
        "stranger",
        "invalid",
        "closes",
        "leaves a child",
        "sleep",
        "",
        "learns",
    ];
    // It takes a second to find out that one hangs, and the next one has to start.
    let world = program_within("well", (&["say", "new"], SHORT * 4));
    let calls = whats.map(|it| ("say", json!({ "what": it }).to_string()));
    let calls = calls.iter().map(|(name, it)| (*name, &**it));
    // It has learnt what it did not list at first.
    let calls: Vec<_> = calls.chain([("new", "{}")]).collect();
    check(&world, &calls, expect![[r#"
        say {"what":"asks"}: you said {"what": "asks"}
        say {"what":"chatters"}: you said {"what": "chatters"}
        say {"what":"stranger"}: you said {"what": "stranger"}
        say {"what":"invalid"}: you said {"what": "invalid"}
        say {"what":"closes"}: error: the tool server `S`: it closed the connection
        say {"what":"leaves a child"}: error: the tool server `S`: it ended: exit status: 5; it said: a word beside the protocol
        say {"what":"sleep"}: error: no result within 8 seconds
        say {"what":""}: you said {"what": ""}
        say {"what":"learns"}: you said {"what": "learns"}
        new {}: you said {}
    "#]]).await;
    let started = fs::read_to_string(world.folder.path().join("started")).unwrap();
    assert_eq!(
        started.lines().count(),
        4,
        "it is started anew where it has to be"
    );
}
