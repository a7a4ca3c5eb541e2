//! What must not be told, and who tells it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use expect_test::expect;
use serde_json::{Value, json};

use super::{FILES, calls, completion, endpoint, run_id, says};
use crate::harness::Project;

/// Every file below a folder that has a text in it.
fn with_text(folder: &Path, text: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("it is a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            with_text(&path, text, found);
        } else {
            let bytes = fs::read(&path).expect("it can be read");
            if bytes.windows(text.len()).any(|it| it == text.as_bytes()) {
                found.push(path);
            }
        }
    }
}

#[test]
fn a_key_is_sent_to_its_endpoint_and_stands_nowhere_else() {
    const KEY: &str = "sk-quite-secret-0123456789";
    let project = Project::of(FILES);
    let file = json!({ "task_id": "t", "files": [{ "filename": "a", "content": format!("it is {KEY}") }] });
    // An endpoint that says the key in every way it can: as an answer, to a tool, in a file.
    let (url, served) = endpoint(vec![
        calls("look_up", json!({ "word": KEY })),
        says(&format!("your key is {KEY}")),
        says(&file.to_string()),
    ]);
    let variables = [
        ("OPENAI_BASE_URL", &*url),
        ("MOZAIKS_MODEL", "m"),
        ("OPENAI_API_KEY", KEY),
    ];
    let mut said = String::new();
    let more = [
        "--events",
        "events.jsonl",
        "--record",
        "tape.jsonl",
        "--out",
        "out",
        "--verbose",
        "--json",
    ];
    let ran = project.run_with(&variables, &[&["W"], &more[..]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    said += &(ran.stdout + &ran.stderr);
    served.join().expect("all was asked");
    let id = run_id(&project);
    for arguments in [
        &["show", &id, "--task", "t"][..],
        &["show", &id, "--turn", "1"],
        &["show", &id, "--events"],
        &["logs", &id],
    ] {
        let ran = project.run_with(&variables, arguments);
        said += &(ran.stdout + &ran.stderr);
    }
    assert!(said.contains("[key]"), "what was said can be seen: {said}");
    assert!(!said.contains(KEY), "{said}");
    let mut found = Vec::new();
    with_text(&project.path("."), KEY, &mut found);
    assert_eq!(found, Vec::<PathBuf>::new());
}

/// Every file of a project, whatever it holds.
fn everything(folder: &Path, bytes: &mut Vec<u8>) {
    for entry in fs::read_dir(folder).expect("it can be read").flatten() {
        match entry.path() {
            path if path.is_dir() => everything(&path, bytes),
            path => bytes.extend(fs::read(path).expect("it can be read")),
        }
    }
}

#[test]
fn no_secret_is_left_anywhere() {
    const KEY: &str = "sk-5EcReT-one";
    const HEADER: &str = "t0ken-5EcReT-two";
    let project = Project::of(
        r#"
=== extended_orchestration/task_batches.yaml
version: 1
=== orchestrator.yaml
initial_agent: R
=== agents.yaml
agents:
  - name: R
    system_message: read
    runtime: {kind: openai, model: m, headers: {X-Token: {env: OTHER_TOKEN}}, fallback: [{model: n}]}
"#,
    );
    let quoted =
        json!({ "error": { "code": 429, "message": format!("{KEY} and {HEADER} are slow") } });
    let refusal = completion(json!({ "refusal": format!("I saw {HEADER} and {KEY}") }));
    let (url, served) = endpoint(vec![
        quoted.clone(),
        quoted.clone(),
        quoted,
        refusal,
        says("ok"),
    ]);
    let variables = [
        ("OPENAI_BASE_URL", url.as_str()),
        ("OPENAI_API_KEY", KEY),
        ("OTHER_TOKEN", HEADER),
    ];
    let arguments = ["W", "--json", "--events", "events", "--verbose"];
    let ran = project.run_with(&variables, &arguments);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    served.join().expect("all was asked");
    let mut bytes = [ran.stdout, ran.stderr].concat().into_bytes();
    assert!(String::from_utf8_lossy(&bytes).contains("[key]"));
    everything(&project.path("."), &mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("[key]"));
    assert!(!text.contains("5EcReT"));
}

/// A function, a prompt function, a program and an agent that tell what they may see.
const TELLERS: &str = r#"
=== tools/desk.py
import os

def look(goal: str, context_variables):
    key = os.environ["DESK_TOKEN"]
    print(key)
    context_variables.set("seen", {key: ["it is " + key]})
    return {"key": key}

def fail(goal: str):
    raise ValueError(os.environ["DESK_TOKEN"])

def instruct(agent):
    return agent.system_message + os.environ["DESK_TOKEN"]
=== tools.yaml
env: [DESK_TOKEN]
tools:
  - {agent: R, file: desk.py, function: look, auto_tool_call: true}
  - {agent: R, file: desk.py, function: fail, auto_tool_call: true, outcome: {context_key: verdict, attempts_key: tries, result_field: outcome, values: [good, poor], error_value: poor, max_attempts: 1, retry_on: []}}
  - {agent: R, name: say, command: [sh, -c, 'printf %s "$DESK_TOKEN"'], auto_tool_call: true}
=== middleware.yaml
prompt_middleware: [{agent: R, filename: desk.py, function: instruct}]
=== structured_outputs.yaml
registry: {R: Goal}
models: {Goal: {type: model, fields: {goal: {type: str}}}}
=== context_variables.yaml
definitions:
  seen: {type: object, description: what was seen, source: {type: state, default: {}}}
=== extended_orchestration/task_batches.yaml
version: 1
=== orchestrator.yaml
initial_agent: R
=== transition_graph.yaml
transition_rules:
  - {source_agent: R, target_agent: S, transition_type: after_turn}
  - {source_agent: S, target_agent: terminate, transition_type: after_turn, transition_target: TerminateTarget}
=== agents.yaml
agents:
  - name: R
    system_message: read
    runtime: {kind: command, argv: [sh, -c, 'test -e came || { touch came; echo "$DESK_TOKEN" >&2; exit 1; }; cat > asked; echo "{\"goal\": \"$DESK_TOKEN\"}"'], env: [DESK_TOKEN]}
  - {name: S, runtime: {kind: template, output: text, template: 'seen {{ seen | tojson }}'}}
"#;

#[test]
fn what_an_author_lets_a_tool_see_is_told_to_nobody() {
    const KEY: &str = "desk-secret-0123456789";
    let project = Project::of(TELLERS);
    let variables = [("DESK_TOKEN", KEY)];
    let more = [
        "--events",
        "events.jsonl",
        "--record",
        "tape.jsonl",
        "--verbose",
        "--json",
    ];
    let ran = project.run_with(&variables, &[&["W"], &more[..]].concat());
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let mut said = ran.stdout + &ran.stderr;
    let id = run_id(&project);
    for arguments in [
        &["show", &id, "--turn", "1"][..],
        &["show", &id, "--events"],
        &["logs", &id],
    ] {
        let ran = project.run_with(&variables, arguments);
        said += &(ran.stdout + &ran.stderr);
    }
    let mut bytes = said.into_bytes();
    everything(&project.path("."), &mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    for told in [
        "it is [key]",
        "ValueError: [key]",
        "read[key]",
        "it said: [key]",
    ] {
        assert!(text.contains(told), "{told} in {text}");
    }
    assert!(!text.contains("secret-0123456789"), "{text}");
}

#[test]
fn keys_too_short_to_be_hidden_are_warned_of_where_they_are_named() {
    let files = r#"=== orchestrator.yaml
initial_agent: A
providers: {local: {base_url: "http://127.0.0.1:9/v1", api_key_env: LOCAL_KEY}}
=== agents.yaml
agents:
  # LOCAL_KEY is named in a comment.
  - {name: A, system_message: a, runtime: {kind: openai, model: m, provider: local}}
  - {name: B, system_message: b, runtime: {kind: openai, model: m}}
  - {name: C, system_message: c, runtime: {kind: openai, model: m, api_key_env: OTHER_KEY}}
"#;
    let project = Project::of(files);
    let warned = |local: &str, usual: &str, other: &str| {
        let variables = [
            ("LOCAL_KEY", local),
            ("OPENAI_API_KEY", usual),
            ("OTHER_KEY", other),
        ];
        let checked = project.run_with(&variables, &["check", "W", "--json"]);
        let value: Value = serde_json::from_str(&checked.stdout).expect("one JSON result");
        let warnings = value.as_array().expect("a list").iter();
        let warnings = warnings.filter(|it| it["code"] == "MZ322");
        let warnings =
            warnings.map(|it| format!("{}:{} {}\n", it["file"], it["line"], it["message"]));
        warnings.collect::<String>()
    };
    expect![[r#"
        "workflows/W/agents.yaml":4 "the key in `OPENAI_API_KEY` is shorter than 12 characters: where somebody quotes it, it is not hidden"
        "workflows/W/agents.yaml":5 "the key in `OTHER_KEY` is shorter than 12 characters: where somebody quotes it, it is not hidden"
        "workflows/W/orchestrator.yaml":2 "the key in `LOCAL_KEY` is shorter than 12 characters: where somebody quotes it, it is not hidden"
    "#]].assert_eq(&warned("none", "x", "eleven char"));
    assert_eq!(warned("twelve chars", "also long enough", ""), "");
}
