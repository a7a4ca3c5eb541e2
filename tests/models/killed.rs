//! What questions count as whose run was killed.

use std::{
    fs,
    net::TcpListener,
    process::{Child, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use serde_json::{Value, json};

use super::{calls, question, send};
use crate::harness::{Project, command, until};

/// Answers everybody so, or nobody at all, and counts.
fn endpoint(answer: Option<Value>) -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    let asked = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&asked);
    thread::spawn(move || {
        let mut kept = Vec::new();
        for mut stream in listener.incoming().flatten() {
            question(&mut stream);
            count.fetch_add(1, Ordering::Relaxed);
            match &answer {
                Some(answer) => send(&mut stream, answer),
                None => kept.push(stream),
            }
        }
    });
    (format!("http://{address}/v1"), asked)
}

fn begin(project: &Project, url: &str, arguments: &[&str]) -> Child {
    let mut command = command(&project.path("."), arguments);
    command.envs([("OPENAI_BASE_URL", url), ("MOZAIKS_MODEL", "m")]);
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    piped.spawn().expect("the program is built")
}

fn usage(project: &Project) -> Value {
    let shown = project.run(&["show", "--json"]).stdout;
    let shown: Value = serde_json::from_str(&shown).expect("one JSON result");
    shown["usage"].clone()
}

fn tokens(usage: &Value) -> u64 {
    let part = |key: &str| usage[key].as_u64().expect("a number");
    part("input_tokens") + part("output_tokens")
}

/// Kills the run where `is_there` and goes on with it, until its budget is used up. Gives what it used then.
fn kill_until_nothing_is_left(
    project: &Project,
    url: &str,
    is_there: &dyn Fn(u64) -> bool,
    check: &dyn Fn(u64, &Value),
) -> Value {
    for killed in 1..=20 {
        let arguments: &[&str] = if killed == 1 { &["W"] } else { &["resume"] };
        let mut running = begin(project, url, arguments);
        let mut code = None;
        until("it asks, or has no money left", || {
            code = running.try_wait().expect("it can be waited for");
            code.is_some() || is_there(killed)
        });
        if let Some(code) = code {
            assert_eq!(code.code(), Some(4), "after {killed} sessions");
            return usage(project);
        }
        running.kill().expect("it is there");
        running.wait().expect("it is dead");
        check(killed, &usage(project));
    }
    panic!("it goes on without end");
}

#[test]
fn what_is_known_of_a_turn_counts_though_the_run_was_killed() {
    let project = Project::of(
        "\
=== orchestrator.yaml
initial_agent: A
budget: {tokens: 100}
=== tools.yaml
tools: [{agent: A, name: hang, command: [sh, -c, 'echo >> ../../called; exec tail -f /dev/null']}]
=== agents.yaml
agents: [{name: A, system_message: x, runtime: {kind: openai, max_output_tokens: 5}}]
",
    );
    let (url, asked) = endpoint(Some(calls("hang", json!({}))));
    let called = project.path("called");
    let calls = || fs::read_to_string(&called).unwrap_or_default().len() as u64;
    let used = kill_until_nothing_is_left(&project, &url, &|n| calls() == n, &|n, usage| {
        assert_eq!(tokens(usage), 11 * n, "{usage}");
        assert_eq!(usage.get("estimated"), None, "{usage}");
    });
    let asked = asked.load(Ordering::Relaxed);
    assert!((2..=9).contains(&asked), "{asked}");
    assert_eq!(tokens(&used), 11 * asked);
}

#[test]
fn a_task_whose_question_nobody_answered_counts_as_asked_though_the_run_was_killed() {
    let project = Project::of(
        "\
=== extended_orchestration/task_batches.yaml
conveyors: [{id: c, decomposition_agent: P, execution_agents: [W], budget: {tokens: 1000}}]
=== agents.yaml
agents:
  - {name: P, runtime: {kind: scripted, replies: [{json: {DecompositionPlan: {tasks: [{task_id: t, execution_agent: W, task_prompt: dig}]}}}]}}
  - {name: W, system_message: work, runtime: {kind: openai, max_output_tokens: 300}}
",
    );
    let (url, asked) = endpoint(None);
    let count = || asked.load(Ordering::Relaxed);
    let used = kill_until_nothing_is_left(&project, &url, &|n| count() == n, &|n, usage| {
        assert!(tokens(usage) >= 20 * n, "{usage}");
        assert_eq!(usage["estimated"], true, "{usage}");
    });
    let first = tokens(&used) / count();
    assert_eq!(tokens(&used), first * count());
    // What an answer may have is reserved as well.
    assert!(
        tokens(&used) <= 1000 && tokens(&used) + first + 300 > 1000,
        "{used}"
    );
    let shown = project.run(&["show", "--task", "t"]).stdout;
    assert!(shown.contains(&format!("~{first} tokens in")), "{shown}");
}
