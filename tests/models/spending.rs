//! What many workers spend at once, against an endpoint that answers them side by side.

use std::{
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use serde_json::{Value, json};

use super::{ask, question, send};
use crate::harness::{Project, Ran};

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
