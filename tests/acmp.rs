//! Providers and buyers: ours against peers that were written in another language, and against each other.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use crate::harness::{Project, Ran, command, home};

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|it| panic!("{it}: {text}"))
}

/// A DAG of one task, with these fields besides.
fn one(more: &Value) -> String {
    let mut task = json!({
        "task_id": "a",
        "capability": "echo",
        "input": { "type": "text", "data": "hello" },
        "max_price_cu": 0.01,
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        task[key] = value.clone();
    }
    json!({ "dag_id": "dag_1", "tasks": [task], "edges": [] }).to_string()
}

/// The same, asked of providers that behave so, in this order.
fn ask(project: &Project, hows: &[&str], more: &Value) -> Ran {
    let peer = home().join("tests/peers/provider.py");
    let providers = hows.iter().map(|how| {
        let log = project.path(&format!("heard-{how}"));
        json!({
            "name": how,
            "endpoint": { "kind": "stdio", "argv": ["python3", peer, how, log] },
            "capabilities": ["echo"],
            "max_message_bytes": 65536,
        })
    });
    let acmp = json!({ "providers": providers.collect::<Value>() });
    project.write("acmp.json", acmp.to_string());
    project.write("dag.json", one(more));
    project.run(&["dag", "dag.json", "--acmp", "acmp.json", "--json"])
}

/// What a provider was sent.
fn heard(project: &Project, how: &str, method: &str) -> Vec<Value> {
    let text = fs::read_to_string(project.path(&format!("heard-{how}"))).unwrap_or_default();
    let mut all = text.lines().map(read).collect::<Vec<_>>();
    all.retain(|it| it["method"] == method);
    all
}

#[test]
fn l2_01_and_22_a_provider_is_given_one_task_and_a_literal() {
    let project = Project::new();
    let more = json!({ "preferred_tier": "B", "metadata": { "priority": "normal" }, "input_tokens_est": 5, "timeout_ms": 30000 });
    let ran = ask(&project, &["good"], &more);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let result = read(&ran.stdout);
    let wanted = json!({ "type": "json", "data": { "said": "hello" } });
    assert_eq!(result["answer"], wanted);
    assert_eq!(result["usage"]["output_tokens"], 7);
    let invoked = heard(&project, "good", "acmp/invoke");
    assert_eq!(invoked.len(), 1);
    let params = &invoked[0]["params"];
    let id = params["task_id"].as_str().unwrap_or_default();
    // L2-03: an id that is nobody else's, in the form that is asked for.
    assert!(id.starts_with("task_") && id.len() == 37, "{id}");
    let wanted = json!({
        "task_id": id,
        "capability": "echo",
        "input": { "type": "text", "data": "hello" },
        "output_type": "json",
        "timeout_ms": 30000,
        "stream": false,
        "input_stream": false,
        "metadata": { "priority": "normal", "dag_id": "dag_1" },
        "input_tokens_est": 5,
        "max_price_cu": 0.01,
        "preferred_tier": "B",
    });
    assert_eq!(*params, wanted);
    let again = ask(&project, &["good"], &more);
    assert_eq!(again.code, 0);
    let invoked = heard(&project, "good", "acmp/invoke");
    assert_ne!(
        invoked[0]["params"]["task_id"],
        invoked[1]["params"]["task_id"]
    );
}

/// How a provider behaves, and what becomes of the task.
#[test]
fn l1_04_and_05_and_09_what_a_provider_says_is_checked_and_its_errors_have_a_meaning() {
    let hash = json!({ "proof_method": "result-hash" });
    let none = json!({});
    for (how, more, wanted) in [
        ("old", &none, ""),
        ("floods", &none, ""),
        ("beats", &none, ""),
        ("closes_once", &none, ""),
        ("good", &hash, ""),
        (
            "wrong_id",
            &none,
            "wrong_task: provider `wrong_id`: the result is for the task \"task_another\"",
        ),
        (
            "negative",
            &none,
            "wrong_shape: provider `negative`: `cost_cu` is -1, which is no price",
        ),
        (
            "no_price",
            &none,
            "wrong_shape: provider `no_price`: `cost_cu` is \"free\"",
        ),
        (
            "dear",
            &none,
            "budget_exceeded: provider `dear`: the result costs 0.5 CU; 0.01 are allowed",
        ),
        (
            "no_output",
            &none,
            "wrong_shape: provider `no_output`: the result has no `output`",
        ),
        (
            "streamed",
            &none,
            "wrong_shape: provider `streamed`: the output was streamed",
        ),
        (
            "no_proof",
            &hash,
            "wrong_shape: provider `no_proof`: the proof by `result-hash` that was asked for is missing",
        ),
        (
            "other_proof",
            &hash,
            "wrong_shape: provider `other_proof`: the proof is by `tee-attestation`",
        ),
        (
            "false_proof",
            &hash,
            "wrong_shape: provider `false_proof`: the output does not have the hash",
        ),
        (
            "budget",
            &none,
            "budget_exceeded: provider `budget`: error -33001: it says so",
        ),
        ("capability", &none, "not_found: "),
        ("timeout", &none, "timeout: "),
        ("cancelled", &none, "refused: "),
        ("escrow", &none, "bad_request: "),
        ("proof", &none, "bad_request: "),
        ("feature", &none, "bad_request: "),
        ("internal", &none, "program_failed: "),
        ("params", &none, "bad_request: "),
        (
            "odd",
            &none,
            "program_failed: provider `odd`: error 7: it says so",
        ),
        (
            "silent",
            &none,
            "idle_timeout: provider `silent`: it was silent for 0.15 seconds",
        ),
        (
            "never",
            &json!({ "timeout_ms": 500 }),
            "timeout: no answer within 0.5 seconds",
        ),
        (
            "closes",
            &none,
            "connection: provider `closes`: it was closed",
        ),
        (
            "half",
            &none,
            "connection: provider `half`: it was closed in the middle of a message",
        ),
        (
            "long",
            &none,
            "connection: provider `long`: a message is longer than the 65536 bytes",
        ),
        (
            "not_utf8",
            &none,
            "connection: provider `not_utf8`: a message is not UTF-8",
        ),
        (
            "version",
            &none,
            "not_found: provider `version`: it speaks ACMP 9.0.0",
        ),
        (
            "mcp",
            &none,
            "not_found: provider `mcp`: it answers `initialize`, but is no ACMP provider",
        ),
    ] {
        let project = Project::new();
        let ran = ask(&project, &[how], more);
        let result = read(&ran.stdout);
        if wanted.is_empty() {
            assert_eq!(ran.code, 0, "{how}: {}", ran.stderr);
            assert_eq!(result["answer"]["data"]["said"], "hello", "{how}");
            continue;
        }
        assert_eq!(ran.code, 1, "{how}: {}", ran.stderr);
        let reason = result["reason"].as_str().unwrap_or_default();
        let wanted = format!("task `a` failed: {wanted}");
        assert!(reason.starts_with(&wanted), "{how}: {reason}");
    }
}

#[test]
fn after_a_lost_connection_a_task_is_sent_again_with_its_id() {
    let project = Project::new();
    assert_eq!(ask(&project, &["closes_once"], &json!({})).code, 0);
    let invoked = heard(&project, "closes_once", "acmp/invoke");
    assert_eq!(invoked.len(), 2);
    assert_eq!(invoked[0]["params"], invoked[1]["params"]);
}

#[test]
fn l2_24_what_is_given_up_is_cancelled_at_its_provider() {
    for (how, more) in [
        ("never", json!({ "timeout_ms": 4000 })),
        ("silent", json!({})),
    ] {
        let project = Project::new();
        assert_eq!(ask(&project, &[how], &more).code, 1);
        let (invoked, cancelled) = (
            heard(&project, how, "acmp/invoke"),
            heard(&project, how, "acmp/cancel"),
        );
        assert_eq!(cancelled.len(), 1, "{how}");
        assert_eq!(
            cancelled[0]["params"]["task_id"],
            invoked[0]["params"]["task_id"]
        );
    }
}

#[test]
fn the_next_provider_is_asked_where_one_cannot() {
    for (first, code) in [
        ("budget", 0),
        ("capability", 0),
        ("closes", 0),
        ("mcp", 0),
        ("internal", 1),
        ("wrong_id", 1),
    ] {
        let project = Project::new();
        let ran = ask(&project, &[first, "good"], &json!({}));
        assert_eq!(ran.code, code, "{first}: {}", ran.stderr);
        assert_eq!(
            heard(&project, "good", "acmp/invoke").len(),
            usize::from(code == 0),
            "{first}"
        );
    }
}

#[test]
fn a_task_larger_than_a_message_is_not_sent() {
    let project = Project::new();
    let large = json!({ "input": { "type": "text", "data": "x".repeat(70_000) } });
    let ran = ask(&project, &["good"], &large);
    let reason = read(&ran.stdout)["reason"].clone();
    let reason = reason.as_str().unwrap_or_default();
    assert!(
        reason.contains("bad_request: provider `good`: the task is 70"),
        "{reason}"
    );
    assert!(heard(&project, "good", "acmp/invoke").is_empty());
}

/// Ours, in another process.
pub(crate) struct Serving {
    program: Child,
    port: String,
}

impl Serving {
    pub(crate) fn start(project: &Project, token: Option<&str>) -> Serving {
        let mut arguments = vec!["provide", "W", "--listen", "127.0.0.1:0"];
        if token.is_some() {
            arguments.extend(["--token-env", "BUYERS_TOKEN"]);
        }
        let mut command = command(&project.path(""), &arguments);
        command.env("BUYERS_TOKEN", token.unwrap_or_default());
        let mut program = command
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program is built");
        let stderr = program.stderr.take().expect("it is piped");
        let line = BufReader::new(stderr).lines().next();
        let line = line.expect("it says where").expect("it is text");
        let port = line
            .trim_end_matches('/')
            .rsplit(':')
            .next()
            .unwrap_or_default();
        Serving {
            program,
            port: port.to_owned(),
        }
    }

    /// What comes back for these messages.
    pub(crate) fn buy(&self, token: &str, messages: &[String]) -> (Option<i32>, Vec<String>) {
        let peer = home().join("tests/peers/buyer.py");
        let mut buyer = Command::new("python3")
            .arg(peer)
            .args(["127.0.0.1", &self.port, token])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("there is Python");
        let mut stdin = buyer.stdin.take().expect("it is piped");
        // One that was refused does not read.
        let _ = stdin.write_all((messages.join("\n") + "\n").as_bytes());
        drop(stdin);
        let ended = buyer.wait_with_output().expect("it can be waited for");
        let lines = String::from_utf8_lossy(&ended.stdout);
        (
            ended.status.code(),
            lines.lines().map(str::to_owned).collect(),
        )
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// One that says how often it was asked, one that never ends, and one that is a template.
const SERVED: &str = r#"=== agents.yaml
agents:
  - name: Counter
    capabilities: [count]
    runtime: {kind: command, argv: [sh, -c, 'cat > /dev/null; echo x >> ../../count; sleep 0.3; wc -l < ../../count']}
  - name: Sleeper
    capabilities: [sleep]
    runtime: {kind: command, argv: [sh, -c, 'echo $$ >> ../../asleep; sleep 3600']}
  - name: Echo
    capabilities: [echo]
    runtime: {kind: template, template: '{"said": {{ input.data | tojson }}}'}
"#;

fn invoke(id: u32, task: &str, capability: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "acmp/invoke", "params": {
        "task_id": task, "capability": capability, "input": { "type": "text", "data": "hi" },
    } })
}

/// The answers by id, as far as they have one.
fn answers(lines: &[String]) -> Value {
    let mut answers = json!({});
    for line in lines
        .iter()
        .map(|it| read(it))
        .filter(|it| it.get("id").is_some())
    {
        let id = line["id"].to_string();
        answers[id] = line;
    }
    answers
}

#[test]
fn l1_10_a_task_is_carried_out_once_however_often_it_is_asked_for() {
    let project = Project::of(SERVED);
    let serving = Serving::start(&project, None);
    let twice = [1, 2].map(|it| invoke(it, "task_1", "count").to_string());
    let (code, lines) = serving.buy("-", &twice);
    assert_eq!(code, Some(0), "{lines:?}");
    let first = answers(&lines);
    assert_eq!(
        first["1"]["result"], first["2"]["result"],
        "the second attaches to the first"
    );
    assert_eq!(
        first["1"]["result"]["output"],
        json!({ "type": "json", "data": 1 })
    );
    // Over another connection, when it is done.
    let (_, lines) = serving.buy(
        "-",
        &[
            invoke(3, "task_1", "count").to_string(),
            invoke(4, "task_2", "count").to_string(),
        ],
    );
    let later = answers(&lines);
    assert_eq!(later["3"]["result"], first["1"]["result"]);
    assert_eq!(later["4"]["result"]["output"]["data"], 2);
}

#[test]
fn l3_04_what_a_buyer_sends_is_checked() {
    let project = Project::of(SERVED);
    let serving = Serving::start(&project, None);
    let broken = |id: u32, change: fn(&mut Value)| {
        let mut message = invoke(id, &format!("task_{id}"), "echo");
        change(&mut message["params"]);
        message.to_string()
    };
    let (code, lines) = serving.buy("-", &[
        invoke(1, "task_1", "echo").to_string(),
        invoke(2, "task_2", "nobody").to_string(),
        broken(3, |it| it["task_id"] = json!(7)),
        broken(4, |it| it["input"] = json!({ "source": { "from_task": "x" } })),
        broken(5, |it| it["input_stream"] = json!(true)),
        broken(6, |it| it["proof_method"] = json!("tee-attestation")),
        broken(7, |it| { it.as_object_mut().map(|it| it.remove("capability")); }),
        broken(8, |it| it["proof_method"] = json!("result-hash")),
        broken(9, |it| *it = json!([])),
        json!({ "jsonrpc": "2.0", "id": 10, "method": "acmp/invokeDag" }).to_string(),
        json!({ "jsonrpc": "2.0", "id": 11, "method": "ping" }).to_string(),
        "nonsense".to_owned(),
        "[]".to_owned(),
        "null".to_owned(),
        json!({ "jsonrpc": "2.0", "method": "acmp/cancel", "params": { "task_id": "task_unknown" } }).to_string(),
        json!({ "jsonrpc": "2.0", "method": "acmp/cancel" }).to_string(),
    ]);
    assert_eq!(code, Some(0), "{lines:?}");
    let answers = answers(&lines);
    assert_eq!(answers["1"]["result"]["output"]["data"]["said"], "hi");
    assert_eq!(answers["1"]["result"]["task_id"], "task_1");
    let errors = [
        (2, -33002),
        (3, -32602),
        (4, -32602),
        (5, -33007),
        (6, -33006),
        (7, -32602),
        (9, -32602),
        (10, -32601),
    ];
    for (id, code) in errors {
        assert_eq!(
            answers[id.to_string()]["error"]["code"],
            code,
            "{id}: {answers}"
        );
    }
    let proof = &answers["8"]["result"]["proof"];
    assert_eq!(proof["method"], "result-hash");
    assert_eq!(answers["11"]["result"], json!({}));
    assert_eq!(
        lines
            .iter()
            .filter(|it| read(it)["id"].is_null() && read(it).get("error").is_some())
            .count(),
        3
    );
}

#[test]
fn l1_08_a_buyer_without_the_token_is_not_let_in() {
    let project = Project::of(SERVED);
    let serving = Serving::start(&project, Some("open sesame"));
    let message = [invoke(1, "task_1", "echo").to_string()];
    for (token, code) in [("open sesame", 0), ("open sesam", 1), ("-", 1)] {
        let (ended, lines) = serving.buy(token, &message);
        assert_eq!(ended, Some(code), "{token}: {lines:?}");
        assert!(code == 0 || lines[0].contains("401"), "{lines:?}");
    }
    // Nor is anybody let in from elsewhere without one.
    let ran = project.run(&["provide", "W", "--listen", "0.0.0.0:0"]);
    assert!(
        ran.code == 2 && ran.stderr.contains("MZ501"),
        "{}",
        ran.stderr
    );
    // Ours shows it.
    let acmp = json!({ "providers": [{
        "name": "next door",
        "endpoint": { "kind": "websocket", "url": format!("ws://127.0.0.1:{}/", serving.port) },
        "capabilities": ["echo"],
        "token_env": "MY_TOKEN",
    }] });
    project.write("acmp.json", acmp.to_string());
    project.write("dag.json", one(&json!({})));
    let arguments = ["dag", "dag.json", "--acmp", "acmp.json", "--json"];
    let ran = project.run_with(&[("MY_TOKEN", "open sesame")], &arguments);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let ran = project.run_with(&[("MY_TOKEN", "guessed")], &arguments);
    assert_eq!(ran.code, 1);
    let reason = read(&ran.stdout)["reason"].clone();
    let reason = reason.as_str().unwrap_or_default();
    assert!(
        reason.starts_with("task `a` failed: authentication: "),
        "{reason}"
    );
    assert!(!ran.stderr.contains("guessed") && !ran.stdout.contains("guessed"));
    assert_eq!(project.run(&arguments).code, 2, "no token is there");
}

#[test]
fn a_cancelled_task_stops_at_the_provider() {
    let project = Project::of(SERVED);
    let serving = Serving::start(&project, None);
    let cancel =
        json!({ "jsonrpc": "2.0", "method": "acmp/cancel", "params": { "task_id": "task_1" } });
    let (code, lines) = serving.buy(
        "-",
        &[invoke(1, "task_1", "sleep").to_string(), cancel.to_string()],
    );
    assert_eq!(code, Some(0), "{lines:?}");
    assert_eq!(answers(&lines)["1"]["error"]["code"], -33004);
}

/// The example, with its own agents and with those of another process.
#[test]
fn the_example_comes_to_the_same_both_ways() {
    let project = Project::new();
    let example = home().join("workflows/TextDecomposition");
    let within = crate::harness::run_in(home(), &["TextDecomposition"]);
    assert_eq!(within.code, 0, "{}", within.stderr);
    let workflows = home().join("workflows");
    let program = env!("CARGO_BIN_EXE_mozaiks-run");
    let acmp = json!({ "providers": [{
        "name": "another process",
        "endpoint": { "kind": "stdio", "argv": [program, "provide", "TextDecomposition", "--workflows", workflows] },
        "capabilities": ["text-split", "sentiment-analysis", "result-aggregation"],
    }] });
    project.write("acmp.json", acmp.to_string());
    let dag = example.join("extended_orchestration/task_dag.yaml");
    let dag = dag.to_string_lossy().into_owned();
    let outside = project.run(&["dag", &dag, "--acmp", "acmp.json"]);
    assert_eq!(outside.code, 0, "{}", outside.stderr);
    assert_eq!(read(&within.stdout), read(&outside.stdout));
}

#[test]
fn wherever_the_buyer_dies_nothing_is_carried_out_twice() {
    let tasks = json!([
        { "task_id": "a", "capability": "count", "input": { "type": "text", "data": "x" } },
        { "task_id": "b", "capability": "count", "input": { "source": { "from_task": "a" } } },
    ]);
    let dag = json!({ "dag_id": "dag_1", "tasks": tasks, "edges": [{ "from": "a", "to": "b" }] });
    let mut deaths = 0;
    for at in 0.. {
        let project = Project::of(SERVED);
        let serving = Serving::start(&project, None);
        let acmp = json!({ "providers": [{
            "name": "next door",
            "endpoint": { "kind": "websocket", "url": format!("ws://127.0.0.1:{}/", serving.port) },
            "capabilities": ["count"],
        }] });
        project.write("acmp.json", acmp.to_string());
        project.write("dag.json", dag.to_string());
        let arguments = ["dag", "dag.json", "--acmp", "acmp.json"];
        let crash = [("MOZAIKS_CRASH_AT", &*at.to_string())];
        if project.run_with(&crash, &arguments).code == 0 {
            break;
        }
        deaths += 1;
        let ran = project.run(&["resume"]);
        assert_eq!(ran.code, 0, "killed at {at}: {}", ran.stderr);
        // What was under way is sent again with its id, and the provider has it already.
        let wanted = json!({ "type": "json", "data": 2 });
        assert_eq!(read(&ran.stdout), wanted, "killed at {at}");
    }
    assert!(deaths > 3, "it died {deaths} times");
}

/// A conveyor whose worker is served by another process: it is sent the prompt, and its answer is judged as any other.
#[test]
fn a_worker_of_a_conveyor_may_be_a_capability() {
    let project = Project::of(
        "\
=== agents.yaml
agents:
  - {name: Shouter, capabilities: [shout], runtime: {kind: template, template: '{\"loud\": {{ (input.data | upper) | tojson }}}'}}
",
    );
    let mine = Project::of(
        "\
=== extended_orchestration/task_batches.yaml
conveyors: [{id: c, decomposition_agent: P, execution_agents: [W]}]
=== structured_outputs.yaml
models: {Loud: {type: model, fields: {loud: {type: str}}}}
registry: {W: Loud}
=== agents.yaml
agents:
  - {name: P, runtime: {kind: scripted, replies: [{json: {DecompositionPlan: {tasks: [{task_id: t, execution_agent: W, task_prompt: dig deep}]}}}]}}
  - {name: W, system_message: be loud, runtime: {kind: acmp, capability: shout}}
  - {name: Z, runtime: {kind: template, output: text, template: '{{ c_results.t.loud }}'}}
",
    );
    let program = env!("CARGO_BIN_EXE_mozaiks-run");
    let workflows = project.path("workflows");
    let acmp = json!({ "providers": [{
        "name": "loud ones",
        "endpoint": { "kind": "stdio", "argv": [program, "provide", "W", "--workflows", workflows] },
        "capabilities": ["shout"],
    }] });
    mine.write("workflows/W/acmp.yaml", acmp.to_string());
    let ran = mine.run(&["W", "--json"]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let said = read(&ran.stdout)["answer"].to_string();
    assert!(
        said.contains("BE LOUD") && said.contains("DIG DEEP"),
        "{said}"
    );
}
