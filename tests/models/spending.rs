//! What many workers spend at once, against an endpoint that answers them side by side.

use std::{
    fs,
    io::Write,
    net::TcpListener,
    path::PathBuf,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use serde_json::{Value, json};

use super::{ask, question, send};
use crate::harness::{self, Project, Ran, command};

/// Says this much of a response, puts a file there, and then does nothing: it hangs up, or keeps the line.
fn unfinished_endpoint(response: String, hangs_up: bool, said: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    thread::spawn(move || {
        let mut kept = Vec::new();
        for mut stream in listener.incoming().flatten() {
            question(&mut stream);
            let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: ";
            let _ = write!(stream, "{head}{response}");
            let _ = fs::write(&said, "");
            if !hangs_up {
                kept.push(stream);
            }
        }
    });
    format!("http://{address}/v1")
}

fn events(events: &[&Value]) -> String {
    let events = events.iter().map(|it| format!("data: {it}\n\n"));
    format!("text/event-stream\r\n\r\n{}", events.collect::<String>())
}

/// What was used is in the journal, and counts when the run goes on.
#[cfg(unix)]
#[test]
fn a_question_counts_that_a_stopped_run_gave_up() {
    use nix::{
        sys::signal::{Signal, kill},
        unistd::Pid,
    };
    let project = Project::of(
        "\
=== orchestrator.yaml
initial_agent: A
=== agents.yaml
agents: [{name: A, system_message: think, runtime: {kind: openai}}]
",
    );
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    let url = format!("http://{address}/v1");
    let arguments = ["W", "--json", "--budget-tokens", "100000"];
    let mut command = command(&project.path("."), &arguments);
    command.envs([("OPENAI_BASE_URL", &*url), ("MOZAIKS_MODEL", "m")]);
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let asking = piped.spawn().expect("the program is built");
    let (mut stream, _) = listener.accept().expect("it asks");
    question(&mut stream);
    let pid = Pid::from_raw(asking.id().try_into().expect("a process id"));
    kill(pid, Signal::SIGINT).expect("it is there");
    let ran = harness::ended(asking);
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    let value: Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
    assert_eq!(value["usage"]["estimated"], true, "{value}");
    let input = value["usage"]["input_tokens"].as_u64().expect("a number");
    assert!(input > 0, "{value}");
    let id = value["run"].as_str().expect("a run has an id");
    let shown = project.run(&["show", id, "--json"]).stdout;
    let shown: Value = serde_json::from_str(&shown).expect("one JSON result");
    assert_eq!(shown["usage"]["input_tokens"], input, "{shown}");
    let resumed = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("it asks again");
        question(&mut stream);
        send(&mut stream, &super::says("done"));
    });
    let ran = ask(&project, &url, &["resume", "--json"]);
    resumed.join().expect("it was asked again");
    let value: Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
    assert_eq!(value["usage"]["input_tokens"], input + 10, "{value}");
}

#[test]
fn what_comes_to_no_end_counts_as_far_as_it_is_known() {
    const WORKFLOW: &str = "\
=== extended_orchestration/task_batches.yaml
conveyors: [{id: c, decomposition_agent: P, execution_agents: [W, F], timeout_seconds: 2}]
=== agents.yaml
agents:
  - {name: P, runtime: {kind: scripted, replies: [{json: {DecompositionPlan: {tasks: [TASKS]}}}]}}
  - {name: W, system_message: work, runtime: {kind: openai}}
  - {name: F, runtime: {kind: command, argv: [sh, -c, \"until [ -e ../../said ]; do sleep 0.05; done; sleep 0.5; exit 1\"]}}
";
    let text = "word ".repeat(60);
    let long = json!({ "choices": [{ "delta": { "content": text } }] });
    let used = json!({ "choices": [], "usage": { "prompt_tokens": 7, "completion_tokens": 9 } });
    let delta = json!({ "type": "response.output_text.delta", "delta": text });
    let said = events(&[&long]);
    let said_both = events(&[&long, &used]);
    let half = "application/json\r\ncontent-length: 300\r\n\r\n{".to_owned();
    let page = half.replace("application/json", "text/html");
    let alone = "{task_id: t, execution_agent: W, task_prompt: dig}";
    let beside = "{task_id: t, execution_agent: W, task_prompt: dig}, {task_id: f, execution_agent: F, task_prompt: fail}";
    // What is said, whether that is all, and what is asked how; then what the answer counts as, and whether that is an
    // estimate.
    let cases = [
        ("cut off", &said, true, (alone, ""), (100, true)),
        ("cut off later", &said_both, true, (alone, ""), (9, false)),
        ("late", &said, false, (alone, ""), (100, true)),
        (
            "late with a budget",
            &events(&[]),
            false,
            (alone, "100000"),
            (0, true),
        ),
        ("given up", &said, false, (beside, ""), (100, true)),
        (
            "given up later",
            &said_both,
            false,
            (beside, ""),
            (9, false),
        ),
        (
            "a response",
            &events(&[&delta]),
            true,
            (alone, "responses"),
            (100, true),
        ),
        ("a whole one", &half, true, (alone, ""), (100, true)),
        ("no answer", &page, true, (alone, ""), (0, false)),
    ];
    for (what, response, hangs_up, (tasks, how), (output, is_estimated)) in cases {
        let files = WORKFLOW.replace("TASKS", tasks);
        let project = Project::of(&match how {
            "responses" => files.replace("kind: openai", "kind: openai, api: responses"),
            _ => files,
        });
        let url = unfinished_endpoint(response.clone(), hangs_up, project.path("said"));
        let mut arguments = vec!["W", "--json"];
        if how.parse::<u64>().is_ok() {
            arguments.extend(["--budget-tokens", how]);
        }
        let ran = ask(&project, &url, &arguments);
        let value: Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
        let usage = &value["usage"];
        assert_eq!(
            usage["output_tokens"], output,
            "{what}: {usage} {}",
            ran.stderr
        );
        assert_eq!(usage["estimated"] == true, is_estimated, "{what}: {usage}");
        let input = usage["input_tokens"].as_u64().unwrap_or_default();
        if !is_estimated && output == 0 {
            assert_eq!(input, 0, "{what}: {usage}");
            continue;
        }
        assert!(input >= 7, "{what}: {usage}");
        let mark = if is_estimated { "~" } else { "" };
        let id = value["run"].as_str().expect("a run has an id");
        for command in [&["show", id][..], &["show", id, "--task", "t"]] {
            let shown = project.run(command).stdout;
            let wanted = format!("{mark}{input} tokens in, {mark}{output} out");
            assert!(shown.contains(&wanted), "{what}: {shown}");
        }
        let shown = project.run(&["show", id]).stdout;
        assert!(
            shown.contains(&format!(" {mark}{input}/{output} ")),
            "{what}: {shown}"
        );
    }
}

/// Says the same again and again, to everybody, until they hang up.
fn endless_endpoint() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                question(&mut stream);
                let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: ";
                let delta = json!({ "choices": [{ "delta": { "content": "bla ".repeat(250) } }] });
                let _ = write!(stream, "{head}{}", events(&[]));
                let event = format!("data: {delta}\n\n");
                while stream.write_all(event.as_bytes()).is_ok() {}
            });
        }
    });
    format!("http://{address}/v1")
}

#[test]
fn an_answer_without_end_is_stopped_while_it_comes() {
    // What the agent says, what may be spent, how the run ends, and how much is counted at least and at most.
    let cases = [
        ("", "1000", "budget", 4_096..40_000),
        (
            ", max_output_tokens: 100",
            "1000000",
            "failed",
            3 * 4_096..3 * 40_000,
        ),
    ];
    for (most, budget, status, counted) in cases {
        let project = Project::of(&format!(
            "\
=== orchestrator.yaml
initial_agent: A
=== agents.yaml
agents: [{{name: A, system_message: think, runtime: {{kind: openai{most}}}}}]
"
        ));
        let url = endless_endpoint();
        let ran = ask(&project, &url, &["W", "--json", "--budget-tokens", budget]);
        let value: Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
        assert_eq!(value["status"], status, "{value} {}", ran.stderr);
        assert_eq!(value["usage"]["estimated"], true, "{value}");
        let output = value["usage"]["output_tokens"].as_u64().expect("a number");
        assert!(counted.contains(&output), "{value}");
        assert!(
            ran.stderr
                .contains("too_long: the answer was stopped after"),
            "{}",
            ran.stderr
        );
    }
}

/// Gives everybody the same answer, side by side, and counts.
fn crowded_endpoint(answer: Value) -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    let asked = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&asked);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (count, answer) = (Arc::clone(&count), answer.clone());
            thread::spawn(move || {
                question(&mut stream);
                count.fetch_add(1, Ordering::Relaxed);
                send(&mut stream, &answer);
            });
        }
    });
    (format!("http://{address}/v1"), asked)
}

/// What 48 tasks use, each 100 tokens in one call of a model, and who was asked, with 16 workers at once and 2,000 tokens.
fn spend(worker: &str) -> (u64, u64, u64) {
    let tasks =
        (0..48).map(|it| format!("{{task_id: t{it}, execution_agent: W, task_prompt: dig}}"));
    let tasks = tasks.collect::<Vec<_>>().join(", ");
    let project = Project::of(&format!(
        "\
=== extended_orchestration/task_batches.yaml
conveyors: [{{id: c, decomposition_agent: P, execution_agents: [W], concurrency: 16}}]
=== agents.yaml
agents:
  - {{name: P, runtime: {{kind: scripted, replies: [{{json: {{DecompositionPlan: {{tasks: [{tasks}]}}}}}}]}}}}
  - {{name: W, system_message: work, runtime: {{kind: openai, stream: false{worker}}}}}
  - {{name: Z, runtime: {{kind: template, output: text, template: done}}}}
"
    ));
    let usage = json!({ "prompt_tokens": 60, "completion_tokens": 40 });
    let message = json!({ "content": "{\"done\": true}" });
    let (url, asked) = crowded_endpoint(json!({
        "choices": [{ "message": message, "finish_reason": "stop" }],
        "usage": usage,
    }));
    let used = |ran: &Ran| {
        let value: Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
        let usage = &value["usage"];
        let part = |key: &str| usage[key].as_u64().expect("a number");
        part("input_tokens") + part("output_tokens")
    };
    let first = ask(&project, &url, &["W", "--json", "--budget-tokens", "2000"]);
    assert_eq!(first.code, 4, "{}", first.stderr);
    assert_eq!(used(&first), 100 * asked.load(Ordering::Relaxed));
    let all = ask(
        &project,
        &url,
        &["resume", "--json", "--budget-tokens", "100000"],
    );
    assert_eq!(all.code, 0, "{}", all.stderr);
    (used(&first), used(&all), asked.load(Ordering::Relaxed))
}

#[test]
fn sixteen_workers_keep_to_a_budget() {
    // What is estimated is more than what is used.
    let (first, all, asked) = spend(", max_output_tokens: 100");
    assert!((1000..=2000).contains(&first), "{first}");
    assert_eq!((all, asked), (4800, 48), "nothing is bought twice");
}

#[test]
fn what_is_under_way_at_the_end_of_a_budget_is_all_that_goes_beyond_it() {
    // Nobody says how long an answer may be.
    let (first, all, asked) = spend("");
    assert!((1000..=2000 + 16 * 100).contains(&first), "{first}");
    assert_eq!((all, asked), (4800, 48), "nothing is bought twice");
}
