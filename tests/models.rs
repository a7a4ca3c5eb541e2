//! Workflows whose agents are models, against an endpoint of this machine that gives the answers of a list.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::Stdio,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use expect_test::expect;
use serde_json::{Value, json};

use crate::harness::{Project, Ran, command, ended};

mod dags;
mod keys;
#[cfg(unix)]
mod killed;
mod spending;

/// Gives one answer after the other, whoever asks, and hands over what was asked.
fn endpoint(answers: Vec<Value>) -> (String, JoinHandle<Vec<Value>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    let served = thread::spawn(move || {
        let mut bodies = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().expect("somebody asks");
            bodies.push(question(&mut stream));
            send(&mut stream, &answer);
        }
        bodies
    });
    (format!("http://{address}/v1"), served)
}

fn question(stream: &mut TcpStream) -> Value {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let n = stream.read(&mut piece).expect("a request can be read");
        assert_ne!(n, 0, "a request came in half");
        bytes.extend_from_slice(&piece[..n]);
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let head = head.to_lowercase();
        let length = head
            .lines()
            .find_map(|it| it.strip_prefix("content-length: "));
        let length: usize = length.expect("it has a body").parse().expect("a number");
        if body.len() >= length {
            return serde_json::from_str(body).expect("it is JSON");
        }
    }
}

fn send(stream: &mut TcpStream, answer: &Value) {
    let answer = answer.to_string();
    let length = answer.len();
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json";
    let _ = write!(stream, "{head}\r\ncontent-length: {length}\r\n\r\n{answer}");
}

fn completion(message: Value) -> Value {
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 1 });
    json!({ "choices": [{ "message": message, "finish_reason": "stop" }], "usage": usage })
}

fn says(text: &str) -> Value {
    completion(json!({ "content": text }))
}

fn calls(name: &str, arguments: Value) -> Value {
    let function = json!({ "name": name, "arguments": arguments.to_string() });
    completion(json!({ "tool_calls": [{ "id": "1", "function": function }] }))
}

fn ask(project: &Project, url: &str, arguments: &[&str]) -> Ran {
    let variables = [("OPENAI_BASE_URL", url), ("MOZAIKS_MODEL", "m")];
    project.run_with(&variables, arguments)
}

/// A reader who may look notes up, which decides who speaks next, and a batch of one task whose worker may as well.
const FILES: &str = r#"
=== tools/notes.py
def look_up(word: str, context_variables):
    """Looks a word up."""
    context_variables.set("seen", (context_variables.get("seen") or []) + [word])
    return {"word": word, "found": 1}
=== tools.yaml
tools:
  - {agent: [R, W], file: notes.py, function: look_up}
=== extended_orchestration/task_batches.yaml
conveyors: [{id: c, decomposition_agent: P, execution_agents: [W]}]
=== transition_graph.yaml
transition_rules:
  - {source_agent: R, target_agent: P, transition_type: condition, condition_type: tool_called, tool_name: look_up}
  - {source_agent: R, target_agent: terminate, transition_type: after_turn}
  - {source_agent: P, target_agent: terminate, transition_type: after_turn}
=== orchestrator.yaml
initial_agent: R
=== agents.yaml
agents:
  - {name: R, system_message: read}
  - {name: P, runtime: {kind: scripted, replies: [{json: {DecompositionPlan: {tasks: [{task_id: t, execution_agent: W, task_prompt: dig, owned_paths: [a]}]}}}]}}
  - {name: W, system_message: work}
"#;

fn run_id(project: &Project) -> String {
    let mut runs = fs::read_dir(project.path(".mozaiks/runs")).expect("it ran");
    let run = runs.next().expect("it ran").expect("it can be read");
    run.file_name().to_string_lossy().into_owned()
}

#[test]
fn calls_of_models_are_made_written_down_and_shown() {
    let project = Project::of(FILES);
    let file = json!({ "code_files": [{ "filename": "a", "content": "x" }] });
    let (url, served) = endpoint(vec![
        calls("look_up", json!({ "word": "moss" })),
        says("I looked"),
        calls("look_up", json!({ "word": "fern" })),
        calls("look_up", json!({ "words": [] })),
        says(&format!("```json\n{file}\n```")),
    ]);
    let ran = ask(&project, &url, &["W", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let result: Value = serde_json::from_str(&ran.stdout).expect("it is JSON");
    assert_eq!(
        result["usage"],
        json!({ "input_tokens": 50, "output_tokens": 5, "cached_input_tokens": 0, "cost": null })
    );
    // A task's calls change nothing for the run.
    assert_eq!(result["context"]["seen"], json!(["moss"]));
    let asked = served.join().expect("all was asked");
    let last = |at: usize| {
        &asked[at]["messages"]
            .as_array()
            .expect("a list")
            .last()
            .expect("one")["content"]
    };
    assert_eq!(last(1), r#"{"word": "moss", "found": 1}"#);
    assert_eq!(last(3), r#"{"word": "fern", "found": 1}"#);

    let run = run_id(&project);
    let shown = project.run(&["show", &run, "--task", "t"]).stdout;
    let at = shown.find("called").expect("calls are shown");
    let took = |text: &str| -> String {
        let lines = text
            .lines()
            .map(|it| it.split(", took").next().unwrap_or_default());
        lines.collect::<Vec<_>>().join("\n")
    };
    let end = shown.find("\noutput").expect("the output is shown");
    expect![[r#"
        called look_up
          {"word":"fern"}
          -> {"word": "fern", "found": 1}
        called look_up, failed
          {"words":[]}
          -> the arguments of `look_up` do not fit: Additional properties are not allowed ('words' was unexpected); "word" is a required property"#]].assert_eq(&took(&shown[at..end]));
    let data = project.run(&["show", &run, "--task", "t", "--json"]).stdout;
    let data: Value = serde_json::from_str(&data).expect("it is JSON");
    let attempt = data
        .pointer("/attempts/0")
        .or(data.pointer("/0/attempts/0"));
    let attempt = attempt.expect("there was one");
    assert_eq!(
        (&attempt["model"], &attempt["read"]),
        (&json!("m"), &json!("fence"))
    );
    assert!(
        shown.contains("accepted, by m, read from a fenced block"),
        "{shown}"
    );
    let shown = project.run(&["show", &run, "--turn", "1", "--json"]).stdout;
    let shown: Value = serde_json::from_str(&shown).expect("it is JSON");
    assert_eq!(shown["model"], "m");
    assert_eq!(shown["calls"][0]["tool"], "look_up");
    assert_eq!(shown["calls"][0]["arguments"], json!({ "word": "moss" }));
    let logs = project.run(&["logs", &run]).stdout;
    let lines = logs.lines().filter_map(|it| it.split_once(" called "));
    let lines: Vec<&str> = lines.map(|it| it.1.trim()).collect();
    assert_eq!(
        lines,
        ["look_up for R", "look_up for t", "look_up for t: failed"]
    );
}

#[test]
fn a_rule_waits_for_a_call() {
    let project = Project::of(FILES);
    let (url, served) = endpoint(vec![says("I did not look")]);
    let ran = ask(&project, &url, &["W", "--json"]);
    served.join().expect("all was asked");
    let result: Value = serde_json::from_str(&ran.stdout).expect("it is JSON");
    assert_eq!(
        (ran.code, &result["turns"]),
        (0, &json!(1)),
        "{}",
        ran.stderr
    );
    let checked = project.run(&["check", "W"]);
    assert_eq!(checked.stderr, "checked W: no errors\n");
}

#[test]
fn what_was_called_is_recalled() {
    let project = Project::of(FILES);
    let (url, served) = endpoint(vec![
        calls("look_up", json!({ "word": "moss" })),
        says("I looked"),
    ]);
    // The worker finds nobody to ask, and fails.
    let ran = ask(&project, &url, &["W", "--json", "--quiet"]);
    served.join().expect("all was asked");
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let file = json!({ "code_files": [{ "filename": "a", "content": "x" }] });
    let (url, served) = endpoint(vec![says(&file.to_string())]);
    let ran = ask(&project, &url, &["retry", &run_id(&project), "--json"]);
    served.join().expect("all was asked");
    let result: Value = serde_json::from_str(&ran.stdout).expect("it is JSON");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(result["context"]["seen"], json!(["moss"]));
    assert_eq!(
        result["usage"],
        json!({ "input_tokens": 30, "output_tokens": 3, "cached_input_tokens": 0, "cost": null })
    );
}

/// A server of tools in a few lines, which leaves its number in a file.
const SERVER: &str = r#"
=== server.py
import json, os, sys
open("pid", "w").write(str(os.getpid()))
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request: continue
    method, params = request["method"], request.get("params") or {}
    result = {
        "initialize": lambda: {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}},
        "tools/list": lambda: {"tools": [{"name": it, "inputSchema": {"type": "object"}} for it in ["weigh", "burn"]]},
        "tools/call": lambda: {"content": [{"type": "text", "text": "3 kg"}]},
    }[method]()
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
=== tools.yaml
mcp_servers:
  - {name: scales, agent: R, command: [python3, server.py], tools: [weigh], prefix: scales_}
=== agents.yaml
agents:
  - {name: R, system_message: read}
"#;

#[test]
fn models_call_tools_of_servers_that_end_with_the_run() {
    let project = Project::of(SERVER);
    project.write(
        "workflows/W/extended_orchestration/task_batches.yaml",
        "version: 1\n",
    );
    project.write("workflows/W/orchestrator.yaml", "initial_agent: R\n");
    let (url, served) = endpoint(vec![
        calls("scales_weigh", json!({})),
        calls("burn", json!({})),
        says("it weighs 3 kg"),
    ]);
    let ran = ask(&project, &url, &["W", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let asked = served.join().expect("all was asked");
    let tools = asked[0]["tools"].as_array().expect("a list");
    assert_eq!(tools.len(), 1);
    assert_eq!(tools[0]["function"]["name"], "scales_weigh");
    let told = |at: usize| &asked[2]["messages"][at]["content"];
    assert_eq!(told(3), "3 kg");
    assert_eq!(
        told(5),
        "error: there is no tool `burn`; there is scales_weigh"
    );
    let pid = fs::read_to_string(project.path("workflows/W/pid")).expect("it ran");
    // It is killed before the program ends, and gone a moment after.
    let begun = Instant::now();
    let line = || fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    while line().contains("server.py") {
        assert!(begun.elapsed() < Duration::from_secs(20), "it lives on");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_model_that_is_served_to_others_has_its_tools() {
    let served = FILES.replace(
        "{name: R, system_message: read}",
        "{name: R, system_message: read, capabilities: [read]}",
    );
    let project = Project::of(&served);
    let (url, asked) = endpoint(vec![
        calls("look_up", json!({ "word": "tide" })),
        says("{\"found\": 1}"),
    ]);
    let invoke = json!({ "jsonrpc": "2.0", "id": 1, "method": "acmp/invoke", "params": {
        "task_id": "t", "capability": "read", "input": { "type": "text", "data": "dig" },
    } });
    let variables = [("OPENAI_BASE_URL", &*url), ("MOZAIKS_MODEL", "m")];
    let mut serving = command(&project.path(""), &["provide", "W"]);
    let piped = serving.envs(variables).stdin(Stdio::piped());
    let mut serving = piped.stdout(Stdio::piped()).spawn().expect("it is built");
    let mut stdin = serving.stdin.take().expect("it is piped");
    writeln!(stdin, "{invoke}").expect("it reads");
    let mut said = String::new();
    let stdout = serving.stdout.take().expect("it is piped");
    let mut lines = BufReader::new(stdout);
    while !said.contains("\"result\"") {
        said.clear();
        assert_ne!(
            lines.read_line(&mut said).expect("it is text"),
            0,
            "no answer"
        );
    }
    drop(stdin);
    assert_eq!(ended(serving).code, 0);
    let bodies = asked.join().expect("it was asked twice");
    let answer: Value = serde_json::from_str(&said).expect("one message a line");
    assert_eq!(answer["result"]["output"]["data"]["found"], 1, "{said}");
    let told = bodies[1]["messages"].to_string();
    assert!(told.contains("tide"), "{told}");
    assert_eq!(bodies[0]["tools"][0]["function"]["name"], "look_up");
    assert_eq!(
        bodies[1]["messages"].as_array().map(Vec::len),
        Some(4),
        "{told}"
    );
}
