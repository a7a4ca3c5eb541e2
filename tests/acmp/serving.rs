//! Our provider, where inputs and outputs go in chunks: with a peer in another language, and with itself over an edge that streams.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio as Pipe},
};

use serde_json::{Value, json};

use super::{
    CARRIERS,
    Carrier::{self, *},
    Peer, Serving, answers, heard, invoke, log, read,
};
use crate::harness::{Project, Ran, command, home};

/// Two that say what they are given twice, one that says it after a while, and one that says nothing ever.
const SERVED: &str = r#"=== agents.yaml
agents:
  - {name: Twice, capabilities: [twice], runtime: {kind: template, output: text, template: '{{ input.data }}{{ input.data }}'}}
  - {name: Again, capabilities: [again], runtime: {kind: template, output: text, template: '{{ input.data }}{{ input.data }}'}}
  - {name: Late, capabilities: [late], runtime: {kind: command, argv: [python3, -c, 'import json, sys, time; print(json.dumps(json.load(sys.stdin)["context"]["input"]["data"])); open("../../asked", "a").write("x"); time.sleep(0.3)']}}
  - {name: Sleeper, capabilities: [sleep], runtime: {kind: command, argv: [sh, -c, 'exec sleep 3600']}}
"#;

/// What a provider says to these messages, up to so many answers.
fn said(project: &Project, carrier: Carrier, messages: &[Value]) -> Vec<Value> {
    let messages: Vec<String> = messages.iter().map(Value::to_string).collect();
    if carrier != Stdio {
        let serving = Serving::start(project, None);
        let (code, lines) = serving.buy_over(carrier, "-", &messages);
        assert_eq!(code, Some(0), "{carrier:?}: {lines:?}");
        return lines.iter().map(|it| read(it)).collect();
    }
    let mut command = command(&project.path(""), &["provide", "W"]);
    let mut program = command
        .stdin(Pipe::piped())
        .stdout(Pipe::piped())
        .spawn()
        .expect("the program is built");
    let mut stdin = program.stdin.take().expect("it is piped");
    let stdout = program.stdout.take().expect("it is piped");
    let text = messages.join("\n") + "\n";
    let mut wanted = messages
        .iter()
        .filter(|it| read(it).get("id").is_some())
        .count();
    let mut said = Vec::new();
    stdin.write_all(text.as_bytes()).expect("it is read");
    for line in BufReader::new(stdout).lines() {
        let message = read(&line.expect("it is text"));
        wanted -= usize::from(message.get("id").is_some());
        said.push(message);
        if wanted == 0 {
            break;
        }
    }
    drop(stdin);
    program.wait().expect("it ends with its input");
    said
}

fn asked(id: u32, task: &str, capability: &str, more: Value) -> Value {
    let mut message = invoke(id, task, capability);
    let params = message["params"].as_object_mut().expect("it is one");
    params.insert("output_type".to_owned(), json!("text"));
    params.extend(more.as_object().cloned().unwrap_or_default());
    if params.get("input_stream") == Some(&json!(true)) {
        params.remove("input");
    }
    message
}

fn chunk(task: &str, seq: usize, data: &str, is_last: bool) -> Value {
    let chunk = json!({ "type": "text", "data": data });
    let params = json!({ "task_id": task, "seq": seq, "chunk": chunk, "final": is_last });
    json!({ "jsonrpc": "2.0", "method": "acmp/inputChunk", "params": params })
}

/// The chunks of a task, which come in order, and none after its answer; and the text they make up.
#[track_caller]
fn streamed(said: &[Value], task: &str) -> String {
    let mut text = String::new();
    let mut is_whole = false;
    let of_task = |it: &&Value| it["params"]["task_id"] == task;
    let chunks = said.iter().filter(of_task);
    for (seq, message) in chunks
        .filter(|it| it["method"] == "acmp/streamChunk")
        .enumerate()
    {
        let params = &message["params"];
        assert!(params["seq"] == seq && !is_whole, "{seq}: {params}");
        is_whole = params["final"] == true;
        text += params["chunk"]["data"].as_str().expect("it is a text");
    }
    let last = said.iter().rposition(|it| of_task(&it));
    let is_rest = |it: &Value| it["result"]["output_streamed"] == true;
    let answer = said.iter().position(is_rest);
    assert!(is_whole && last < answer, "{said:?}");
    text
}

#[test]
fn l1_06_and_07_chunks_go_in_and_come_out() {
    let pieces = ["ä".repeat(9000), String::new(), "b".repeat(20_000)];
    let whole = pieces.concat();
    for carrier in CARRIERS {
        let project = Project::of(SERVED);
        let both = json!({ "stream": true, "input_stream": true });
        let said = said(
            &project,
            carrier,
            &[
                json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {} }),
                // One whose chunks are there before it is asked for.
                chunk("task_1", 0, &pieces[0], false),
                asked(2, "task_1", "twice", both),
                chunk("task_1", 1, &pieces[1], false),
                chunk("task_1", 2, &pieces[2], true),
                asked(3, "task_2", "twice", json!({ "input_stream": true })),
                chunk("task_2", 0, &whole, true),
            ],
        );
        let answers = answers(&said.iter().map(Value::to_string).collect::<Vec<_>>());
        let acmp = &answers["1"]["result"]["capabilities"]["acmp"];
        assert_eq!(acmp["features"]["output_streaming"], true);
        assert_eq!(acmp["features"]["input_streaming"], true);
        let accepts = json!(["acmp/invoke", "acmp/cancel", "acmp/inputChunk"]);
        assert_eq!(acmp["accepts"], accepts);
        assert_eq!(acmp["emits"], json!(["acmp/streamChunk", "acmp/heartbeat"]));
        assert!(streamed(&said, "task_1") == whole.repeat(2), "{carrier:?}");
        let result = &answers["2"]["result"];
        assert_eq!(result["output_streamed"], true, "{result}");
        assert_eq!(result.get("output"), None, "{result}");
        let output = json!({ "type": "text", "data": whole.repeat(2) });
        assert!(answers["3"]["result"]["output"] == output, "{carrier:?}");
    }
}

#[test]
fn l1_10_a_streamed_task_is_carried_out_once_and_its_chunks_come_again() {
    let text = "ö".repeat(30_000);
    for carrier in CARRIERS {
        let project = Project::of(SERVED);
        let more =
            |streams| json!({ "stream": streams, "input": { "type": "text", "data": text } });
        let mut messages: Vec<Value> = (1..)
            .zip([true, false, true])
            .map(|(id, streams)| asked(id, "task_1", "late", more(streams)))
            .collect();
        // Those that come while it is under way, each of which has them all.
        let both = said(&project, carrier, &messages[..2]);
        assert!(streamed(&both, "task_1") == text, "{carrier:?}");
        let is_whole = |it: &Value| it["result"]["output"]["data"] == *text;
        assert_eq!(both.iter().filter(|it| is_whole(it)).count(), 1);
        if carrier == Stdio {
            // Whoever else comes has another process.
            continue;
        }
        let serving = Serving::start(&project, None);
        for message in messages.drain(..) {
            let (code, lines) = serving.buy_over(carrier, "-", &[message.to_string()]);
            assert_eq!(code, Some(0), "{carrier:?}: {lines:?}");
            let said: Vec<Value> = lines.iter().map(|it| read(it)).collect();
            match message["params"]["stream"] == true {
                true => assert!(streamed(&said, "task_1") == text, "{carrier:?}"),
                false => assert!(said.iter().any(is_whole), "{carrier:?}"),
            }
        }
        let asked = fs::read_to_string(project.path("asked")).expect("it was asked");
        assert_eq!(asked, "xx", "once by each provider");
    }
}

#[test]
fn chunks_that_are_wrong_fail_their_task_over_any_carrier() {
    let streams = json!({ "input_stream": true });
    for carrier in CARRIERS {
        let project = Project::of(SERVED);
        let mut endless = asked(5, "endless", "twice", streams.clone());
        endless["params"]["timeout_ms"] = json!(500);
        let said = said(
            &project,
            carrier,
            &[
                asked(1, "gap", "twice", streams.clone()),
                chunk("gap", 0, "x", false),
                chunk("gap", 2, "x", true),
                asked(2, "after", "sleep", streams.clone()),
                chunk("after", 0, "x", true),
                chunk("after", 1, "x", true),
                asked(3, "odd", "twice", streams.clone()),
                json!({ "jsonrpc": "2.0", "method": "acmp/inputChunk", "params": { "task_id": "odd", "seq": "0" } }),
                json!({ "jsonrpc": "2.0", "method": "acmp/inputChunk", "params": [] }),
                json!({ "jsonrpc": "2.0", "method": "acmp/inputChunk" }),
                asked(4, "given_up", "twice", streams.clone()),
                chunk("given_up", 0, "x", false),
                json!({ "jsonrpc": "2.0", "method": "acmp/cancel", "params": { "task_id": "given_up" } }),
                endless,
                chunk("endless", 0, "x", false),
                asked(6, "right", "twice", streams.clone()),
                chunk("right", 0, "x", true),
            ],
        );
        let answers = answers(&said.iter().map(Value::to_string).collect::<Vec<_>>());
        let codes = (1..=5).map(|id| answers[id.to_string()]["error"]["code"].as_i64());
        let wanted = [-32602, -32602, -32602, -33004, -33003].map(Some);
        assert_eq!(codes.collect::<Vec<_>>(), wanted, "{carrier:?}: {answers}");
        assert_eq!(answers["6"]["result"]["output"]["data"], "xx");
    }
}

/// Our provider, in a process of its own. What is said to it is noted.
struct Watched {
    endpoint: Value,
    /// Nobody, where it is started by whoever asks it.
    running: Option<(Serving, Child)>,
}

impl Watched {
    /// Hears no more than the beginning of what it says before the other has been told something.
    fn start(project: &Project, carrier: Carrier, name: &str, other: Option<&str>) -> Watched {
        let relay = home().join("tests/peers/relay.py");
        let other = other.map_or("-".into(), |it| log(project, it));
        let fixed = [relay, log(project, name), other];
        if carrier == Stdio {
            let argv = [json!("python3")]
                .into_iter()
                .chain(fixed.map(|it| json!(it)));
            let argv: Value = argv.chain(provide(project)).collect();
            return Watched {
                endpoint: json!({ "kind": "stdio", "argv": argv }),
                running: None,
            };
        }
        let serving = Serving::start(project, None);
        let mut command = Command::new("python3");
        let command = command.args(fixed).arg(&serving.port).stdout(Pipe::piped());
        let mut relay = command.spawn().expect("there is Python");
        let stdout = relay.stdout.take().expect("it is piped");
        let port = BufReader::new(stdout).lines().next();
        let port = port.expect("it says where").expect("it is text");
        Watched {
            endpoint: carrier.endpoint(&port),
            running: Some((serving, relay)),
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some((_, relay)) = &mut self.running {
            let _ = relay.kill();
            let _ = relay.wait();
        }
    }
}

/// Our provider as a program that is started by whoever asks it.
fn provide(project: &Project) -> [Value; 5] {
    let program = env!("CARGO_BIN_EXE_mozaiks-run");
    let workflows = project.path("workflows");
    [
        json!(program),
        json!("provide"),
        json!("W"),
        json!("--workflows"),
        json!(workflows),
    ]
}

/// Carries out two tasks, the second of which is given the output of the first.
fn two(project: &Project, providers: [(&str, &Value, &str); 2], input: &str, streams: bool) -> Ran {
    let [up, down] = providers.map(|it| it.2);
    let dag = json!({
        "dag_id": "dag_1",
        "tasks": [
            { "task_id": "up", "capability": up, "input": { "type": "text", "data": input }, "output_type": "text" },
            { "task_id": "down", "capability": down, "input": { "source": { "from_task": "up" } }, "output_type": "text" },
        ],
        "edges": [{ "from": "up", "to": "down", "stream_eligible": streams }],
    });
    let providers = providers.map(|(name, endpoint, capability)| {
        json!({ "name": name, "endpoint": endpoint, "capabilities": [capability] })
    });
    project.write("acmp.json", json!({ "providers": providers }).to_string());
    project.write("dag.json", dag.to_string());
    project.run(&["dag", "dag.json", "--acmp", "acmp.json", "--json"])
}

#[test]
fn l2_29_to_31_an_edge_streams_between_two_of_ours() {
    let input = "aäö€ ".repeat(30_000);
    for carrier in CARRIERS {
        for streams in [true, false] {
            let project = Project::of(SERVED);
            // It is held up until the other has begun, if that does before it has ended.
            let other = streams.then_some("down");
            let up = Watched::start(&project, carrier, "up", other);
            let down = Watched::start(&project, carrier, "down", None);
            let providers = [
                ("up", &up.endpoint, "twice"),
                ("down", &down.endpoint, "again"),
            ];
            let ran = two(&project, providers, &input, streams);
            assert_eq!(ran.code, 0, "{carrier:?}: {}{}", ran.stdout, ran.stderr);
            let answer = json!({ "type": "text", "data": input.repeat(4) });
            assert!(read(&ran.stdout)["answer"] == answer, "{carrier:?}");
            if carrier == Websocket {
                // What a buyer says is masked.
                continue;
            }
            // Over several connections at once, it may be cut anywhere.
            let heard = fs::read(log(&project, "down")).expect("it was asked");
            let heard = String::from_utf8_lossy(&heard);
            let number = heard.matches(r#""method":"acmp/inputChunk""#).count();
            let length = input.len() * 2;
            assert_eq!(
                number,
                if streams {
                    length.div_ceil(16 << 10)
                } else {
                    0
                },
                "{carrier:?}"
            );
        }
    }
}

#[test]
fn l2_29_to_31_an_edge_streams_between_ours_and_a_peer() {
    let input = "aäö€ ".repeat(10_000);
    for carrier in CARRIERS {
        let project = Project::of(SERVED);
        let serving = Serving::start(&project, None);
        let ours = match carrier {
            Stdio => json!({ "kind": "stdio", "argv": provide(&project) }),
            carrier => carrier.endpoint(&serving.port),
        };
        let down = Peer::start(&project, "streams_in", carrier);
        let providers = [
            ("up", &ours, "twice"),
            ("streams_in", &down.endpoint, "down"),
        ];
        let ran = two(&project, providers, &input, true);
        assert_eq!(ran.code, 0, "{carrier:?}: {}{}", ran.stdout, ran.stderr);
        let output = format!("[{}]", input.repeat(2));
        assert!(read(&ran.stdout)["answer"]["data"] == output, "{carrier:?}");
        // The peer waits until the other has begun, which nobody notes here.
        let up = Peer::start(&project, "streams_freely", carrier);
        let providers = [
            ("streams_freely", &up.endpoint, "up"),
            ("down", &ours, "twice"),
        ];
        let ran = two(&project, providers, "hello, all of you", true);
        assert_eq!(ran.code, 0, "{carrier:?}: {}{}", ran.stdout, ran.stderr);
        let answer = "[hello, all of you]".repeat(2);
        assert_eq!(read(&ran.stdout)["answer"]["data"], answer, "{carrier:?}");
        let asked = heard(&project, "streams_freely", "acmp/invoke");
        assert_eq!(asked[0]["params"]["stream"], true, "{carrier:?}");
    }
}

#[test]
fn l2_34_wherever_the_buyer_dies_the_same_comes_of_edges_that_stream() {
    let input = "aäö€ ".repeat(4000);
    let task = |id: &str, capability: &str, input: Value| json!({ "task_id": id, "capability": capability, "input": input, "output_type": "text" });
    let from = |id: &str| json!({ "source": { "from_task": id } });
    let edge = |from: &str, to: &str| json!({ "from": from, "to": to, "stream_eligible": true });
    let dag = json!({
        "dag_id": "dag_1",
        "tasks": [
            task("a", "twice", json!({ "type": "text", "data": input })),
            task("b", "again", from("a")),
            task("c", "twice", from("b")),
        ],
        "edges": [edge("a", "b"), edge("b", "c")],
    });
    let answer = json!({ "type": "text", "data": input.repeat(8) });
    let mut deaths = 0;
    for at in 0_usize.. {
        let project = Project::of(SERVED);
        let serving = Serving::start(&project, None);
        let carrier = [Websocket, Http][at % 2];
        let acmp = serving.acmp(carrier, &["twice", "again"]);
        project.write("acmp.json", acmp.to_string());
        project.write("dag.json", dag.to_string());
        let arguments = ["dag", "dag.json", "--acmp", "acmp.json"];
        let crash = [("MOZAIKS_CRASH_AT", &*at.to_string())];
        let ran = project.run_with(&crash, &arguments);
        if ran.code == 0 {
            assert!(read(&ran.stdout) == answer, "nobody died");
            break;
        }
        deaths += 1;
        let ran = project.run(&["resume"]);
        assert_eq!(ran.code, 0, "killed at {at}: {}", ran.stderr);
        assert!(read(&ran.stdout) == answer, "killed at {at}");
    }
    assert!(deaths > 3, "it died {deaths} times");
}
