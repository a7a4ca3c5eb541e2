//! The items of the Task Decomposition Format, and of what ACMP asks of whoever carries one out: each has a test with its number in its name, here or beside what it is about.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::{Value, json};

use crate::{
    acmp::{Serving, all_heard, log, read},
    harness::{Project, Ran, home, until},
};

/// Layers, and how many items each has.
const ITEMS: &[(u32, u32)] = &[(1, 10), (2, 35), (3, 6)];

/// What has no test: a signature is due from providers with a DID alone, and ours have none.
const WITHOUT: &[(u32, u32)] = &[(3, 5)];

/// The items that a test's name stands for: `l2_01_and_22_what`, `l2_26_to_28_what`.
fn items(name: &str) -> Vec<(u32, u32)> {
    let mut words = name.split('_');
    let layer = words.next().and_then(|it| it.strip_prefix('l'));
    let Some(layer) = layer.and_then(|it| it.parse().ok()) else {
        return Vec::new();
    };
    let mut items: Vec<(u32, u32)> = Vec::new();
    let mut joined = "and";
    while let Some(number) = words.next().and_then(|it| it.parse().ok()) {
        let first = match (joined, items.last()) {
            ("to", Some((_, last))) => last + 1,
            _ => number,
        };
        items.extend((first..=number).map(|it| (layer, it)));
        joined = words.next().unwrap_or_default();
        if joined != "and" && joined != "to" {
            break;
        }
    }
    items
}

fn tested(folder: &Path, found: &mut BTreeSet<(u32, u32)>) {
    for entry in fs::read_dir(folder).expect("it can be read").flatten() {
        let path = entry.path();
        if path.is_dir() {
            tested(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(&path).expect("it can be read");
            let mut lines = text.lines().map(str::trim);
            while let Some(line) = lines.next() {
                if line == "#[test]"
                    && let Some(name) = lines.next().and_then(|it| it.strip_prefix("fn "))
                {
                    found.extend(items(name));
                }
            }
        }
    }
}

#[test]
fn every_item_has_a_test() {
    assert_eq!(items("l2_01_and_22_a_task()"), [(2, 1), (2, 22)]);
    assert_eq!(
        items("l2_26_to_28_and_30_x"),
        [(2, 26), (2, 27), (2, 28), (2, 30)]
    );
    assert_eq!(items("like_no_other"), []);
    let mut found = BTreeSet::new();
    tested(&home().join("engine"), &mut found);
    tested(&home().join("tests"), &mut found);
    let all = ITEMS
        .iter()
        .flat_map(|&(layer, last)| (1..=last).map(move |it| (layer, it)));
    let wanted: BTreeSet<_> = all.filter(|it| !WITHOUT.contains(it)).collect();
    let missing: Vec<_> = wanted.difference(&found).collect();
    let unheard_of: Vec<_> = found.difference(&wanted).collect();
    assert!(
        missing.is_empty() && unheard_of.is_empty(),
        "missing: {missing:?}, unheard of: {unheard_of:?}"
    );
}

/// A DAG whose tasks are each for the provider that behaves so. One that needs others is given their outputs.
fn dag(tasks: &[(&str, &str, &[&str])], edge: &Value) -> Value {
    let written = tasks.iter().map(|(id, how, needs)| {
        let input = match needs {
            [] => json!({ "type": "text", "data": "hello" }),
            [one] => json!({ "source": { "from_task": one } }),
            several => json!({ "source": { "from_tasks": several } }),
        };
        json!({ "task_id": id, "capability": how, "input": input })
    });
    let edges = tasks.iter().flat_map(|(id, _, needs)| {
        needs.iter().map(move |from| {
            let mut whole = edge.clone();
            (whole["from"], whole["to"]) = (json!(from), json!(id));
            whole
        })
    });
    json!({ "dag_id": "dag_1", "tasks": written.collect::<Value>(), "edges": edges.collect::<Value>() })
}

/// Has it carried out by a provider for each way to behave.
fn carry_out(project: &Project, dag: &Value, options: &[&str]) -> Ran {
    let arguments = prepare(project, dag);
    project.run(&[&arguments[..], options].concat())
}

/// Writes down what is to be carried out, and by whom. Gives how to do so.
fn prepare(project: &Project, dag: &Value) -> [&'static str; 5] {
    let tasks = dag["tasks"].as_array().into_iter().flatten();
    let hows: BTreeSet<_> = tasks.filter_map(|it| it["capability"].as_str()).collect();
    let peer = home().join("tests/peers/provider.py");
    let providers = hows.iter().map(|how| {
        json!({
            "name": how,
            "endpoint": { "kind": "stdio", "argv": ["python3", peer, how, log(project, how), log(project, "never")] },
            "capabilities": [how],
        })
    });
    let retry = json!({ "initial_seconds": 0.001, "max_seconds": 0.002 });
    let acmp = json!({ "providers": providers.collect::<Value>(), "retry": retry });
    project.write("acmp.json", acmp.to_string());
    project.write("dag.json", dag.to_string());
    ["dag", "dag.json", "--acmp", "acmp.json", "--json"]
}

/// The parameters of the messages with a method.
fn params(messages: &[Value], method: &str) -> Vec<Value> {
    let of_method = messages.iter().filter(|it| it["method"] == method);
    of_method.map(|it| it["params"].clone()).collect()
}

/// What is known of a run, or of one task of it.
fn shown(project: &Project, run: &str, options: &[&str]) -> Value {
    read(
        &project
            .run(&[&["show", run, "--json"], options].concat())
            .stdout,
    )
}

/// The id of a run that has ended.
fn run_of(ran: &Ran) -> String {
    let result = read(&ran.stdout);
    result["run"].as_str().unwrap_or("?").to_owned()
}

/// How each task of a run stands, by id.
fn ends(project: &Project, run: &str) -> Value {
    let shown = shown(project, run, &[]);
    let tasks = shown["turns"][0]["batches"][0]["tasks"].as_array().cloned();
    let tasks = tasks.into_iter().flatten();
    let ends = tasks.map(|it| {
        (
            it["task_id"].as_str().unwrap_or("?").to_owned(),
            it["status"].clone(),
        )
    });
    ends.collect()
}

#[test]
fn l1_01_nothing_is_asked_of_a_provider_that_it_does_not_offer() {
    // Neither of one that offers nothing, nor of one that knows no greeting.
    for how in ["good", "old"] {
        let project = Project::new();
        let streams = json!({ "stream_eligible": true });
        let ran = carry_out(
            &project,
            &dag(&[("a", how, &[]), ("b", how, &["a"])], &streams),
            &[],
        );
        assert_eq!(ran.code, 0, "{how}: {}", ran.stderr);
        let heard = all_heard(&project, how);
        let invoked = params(&heard, "acmp/invoke");
        assert_eq!(invoked.len(), 2, "{how}");
        for params in invoked {
            assert_eq!(
                [&params["stream"], &params["input_stream"]],
                [false, false],
                "{how}"
            );
            assert!(params["input"]["data"].is_string() || params["input"]["data"].is_object());
        }
        assert!(params(&heard, "acmp/inputChunk").is_empty(), "{how}");
    }
}

#[test]
fn l1_02_each_attempt_has_an_id_that_is_nobody_elses() {
    let project = Project::new();
    let twice = dag(&[("a", "fails_once", &[])], &json!({}));
    let ran = carry_out(&project, &twice, &["--retry-limit", "1"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(carry_out(&project, &twice, &[]).code, 0);
    let invoked = params(&all_heard(&project, "fails_once"), "acmp/invoke");
    let ids: BTreeSet<_> = invoked
        .iter()
        .filter_map(|it| it["task_id"].as_str())
        .collect();
    assert_eq!(
        (invoked.len(), ids.len()),
        (3, 3),
        "two attempts, and another run"
    );
}

#[test]
fn l1_03_a_task_has_its_time_whatever_the_heartbeats_say() {
    let project = Project::new();
    let mut slow = dag(&[("a", "beats_on", &[])], &json!({}));
    slow["tasks"][0]["timeout_ms"] = json!(1000);
    let ran = carry_out(&project, &slow, &[]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let reason = &read(&ran.stdout)["reason"];
    assert_eq!(
        *reason,
        "task `a` failed: timeout: no answer within 1 seconds"
    );
}

#[test]
fn l2_08_and_24_and_25_a_task_ends_as_it_was_answered_and_what_is_completed_stays_so() {
    // The one that fails waits until the one that never ends has begun.
    let tasks: &[(&str, &str, &[&str])] = &[
        ("first", "good", &[]),
        ("fails", "fails_when", &["first"]),
        ("never", "never", &["first"]),
        ("after", "good", &["never"]),
    ];
    let project = Project::new();
    let ran = carry_out(&project, &dag(tasks, &json!({})), &[]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert_eq!(
        ends(&project, &run_of(&ran)),
        json!({
            "first": "completed",
            "fails": "failed",
            "never": "cancelled",
            "after": "cancelled",
        })
    );
    let first = shown(&project, &run_of(&ran), &["--task", "first"]);
    let output = first[0]["output"].clone();
    assert_eq!(output["data"]["said"], "hello", "{first}");
    let heard = all_heard(&project, "never");
    let (invoked, cancelled) = (params(&heard, "acmp/invoke"), params(&heard, "acmp/cancel"));
    assert_eq!((invoked.len(), cancelled.len()), (1, 1));
    assert_eq!(cancelled[0]["task_id"], invoked[0]["task_id"]);
    // What is over, or has not begun, is not cancelled at anybody's.
    for how in ["good", "fails_when"] {
        assert!(
            params(&all_heard(&project, how), "acmp/cancel").is_empty(),
            "{how}"
        );
    }
}

#[test]
fn l2_23_to_25_one_task_is_cancelled_and_what_needs_it_and_the_rest_goes_on() {
    let tasks: &[(&str, &str, &[&str])] = &[
        ("first", "good", &[]),
        ("never", "never", &["first"]),
        ("after", "good", &["never"]),
        ("last", "good", &["after", "first"]),
        ("later", "later", &["first"]),
        ("then", "good", &["later"]),
    ];
    let dag = dag(tasks, &json!({}));
    for (policy, code) in [("--best-effort", 3), ("--concurrency=4", 3)] {
        let project = Project::new();
        let arguments = prepare(&project, &dag);
        let mut session = project.start(&[&arguments[..], &[policy]].concat());
        let is_asked = |how| !params(&all_heard(&project, how), "acmp/invoke").is_empty();
        until("both are asked", || is_asked("never") && is_asked("later"));
        let run = read(&project.run(&["runs", "--json"]).stdout)[0]["run"].clone();
        let run = run.as_str().expect("it is there");
        // What has ended, and what there is not, is not cancelled.
        for (task, code, said) in [("first", 2, "MZ602"), ("other", 2, "MZ601")] {
            let ran = project.run(&["cancel", run, "--task", task]);
            assert!(
                ran.code == code && ran.stderr.contains(said),
                "{task}: {}",
                ran.stderr
            );
        }
        let ran = project.run(&["cancel", run, "--task", "never"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        until("it is cancelled", || {
            ends(&project, run)["last"] == "cancelled"
        });
        until("its provider knows", || {
            !params(&all_heard(&project, "never"), "acmp/cancel").is_empty()
        });
        // It stays so whatever happens; what is under way is asked for again, with its id.
        session.kill().expect("it goes on");
        session.wait().expect("it was started");
        let ran = project.run(&["resume", run, "--json"]);
        assert_eq!(ran.code, code, "{}", ran.stderr);
        let result = read(&ran.stdout);
        assert_eq!(result["status"], "partial");
        assert_eq!(result["reason"], "somebody cancelled task `never`");
        assert_eq!(
            ends(&project, run),
            json!({ "first": "completed", "never": "cancelled", "after": "cancelled", "last": "cancelled", "later": "completed", "then": "completed" })
        );
        assert_eq!(
            params(&all_heard(&project, "never"), "acmp/invoke").len(),
            1
        );
        let later = params(&all_heard(&project, "later"), "acmp/invoke");
        assert_eq!(later.len(), 2);
        assert_eq!(later[0], later[1]);
        assert_eq!(
            params(&all_heard(&project, "good"), "acmp/invoke").len(),
            2,
            "what is completed is not asked again"
        );
        // Nobody works on it: there is nothing to cancel any more.
        assert_eq!(project.run(&["cancel", run, "--task", "never"]).code, 1);
    }
}

#[test]
fn l2_10_a_dag_stays_here_and_its_tasks_go_to_those_who_serve_them() {
    let project = Project::new();
    let tasks: &[(&str, &str, &[&str])] = &[
        ("a", "good", &[]),
        ("b", "old", &["a"]),
        ("c", "good", &["a"]),
        ("d", "old", &["b", "c"]),
    ];
    let ran = carry_out(&project, &dag(tasks, &json!({})), &[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for how in ["good", "old"] {
        let heard = all_heard(&project, how);
        let known = ["initialize", "notifications/initialized", "acmp/invoke"];
        for message in &heard {
            assert!(known.iter().any(|it| message["method"] == *it), "{message}");
            for key in ["edges", "tasks", "source", "from_task", "from_tasks"] {
                assert!(
                    !message.to_string().contains(&format!("\"{key}\":")),
                    "{message}"
                );
            }
        }
        let invoked = params(&heard, "acmp/invoke");
        assert_eq!(invoked.len(), 2, "{how}");
        assert!(invoked.iter().all(|it| it["capability"] == how), "{how}");
    }
}

/// The single task of the format, as it is printed there: how it is asked for, and what comes back.
const ASKED: &str = r#"{
  "jsonrpc": "2.0",
  "method": "acmp/invoke",
  "id": "req_001",
  "params": {
    "task_id": "task_sa_001",
    "capability": "sentiment-analysis",
    "input": {
      "type": "text",
      "data": "Revenue grew 12% YoY but margins compressed due to rising input costs."
    },
    "output_type": "json",
    "input_tokens_est": 120,
    "max_price_cu": 0.005,
    "preferred_tier": "B",
    "timeout_ms": 800,
    "escrow_id": "esc_a3f9c2",
    "proof_method": "result-hash"
  }
}"#;
const ANSWERED: &str = r#"{
  "jsonrpc": "2.0",
  "id": "req_001",
  "result": {
    "task_id": "task_sa_001",
    "output": {
      "type": "json",
      "data": {
        "sentiment": "mixed",
        "confidence": 0.87,
        "aspects": [
          {"topic": "revenue", "sentiment": "positive", "confidence": 0.95},
          {"topic": "margins", "sentiment": "negative", "confidence": 0.91}
        ]
      }
    },
    "tokens_used": 115,
    "cost_cu": 0.003,
    "proof": {
      "method": "result-hash",
      "hash": "sha256:a1b2c3d4e5f6..."
    }
  }
}"#;

#[test]
fn the_single_task_of_the_format_is_served_as_printed() {
    let output = read(ANSWERED)["result"]["output"].clone();
    let agent = json!({
        "name": "Analyst",
        "capabilities": ["sentiment-analysis"],
        "runtime": { "kind": "scripted", "replies": [{ "json": output["data"] }] },
    });
    let project = Project::of(&format!("=== agents.yaml\nagents: [{agent}]\n"));
    let serving = Serving::start(&project, None);
    let (code, lines) = serving.buy("-", &[read(ASKED).to_string()]);
    assert_eq!(code, Some(0), "{lines:?}");
    let (came, mut wanted) = (read(&lines[0]), read(ANSWERED));
    // What it took is ours to say, and the hash is cut short in print.
    for key in ["tokens_used", "cost_cu"] {
        assert!(came["result"][key].is_number(), "{came}");
        wanted["result"][key] = came["result"][key].clone();
    }
    let hash = &came["result"]["proof"]["hash"];
    assert!(
        hash.as_str()
            .is_some_and(|it| it.len() == "sha256:".len() + 64),
        "{came}"
    );
    wanted["result"]["proof"]["hash"] = hash.clone();
    assert_eq!(came, wanted);
}

#[test]
fn the_single_task_of_the_format_is_asked_for_as_printed() {
    let project = Project::new();
    let printed = read(ASKED)["params"].clone();
    let whole = json!({ "dag_id": "dag_1", "tasks": [printed], "edges": [] });
    // The provider has to be started within the time of the task, which a busy machine may not do at once.
    let ran = carry_out(&project, &whole, &["--retry-limit", "9"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let heard = all_heard(&project, "sentiment-analysis");
    let asked = &params(&heard, "acmp/invoke")[0];
    for (key, value) in printed.as_object().into_iter().flatten() {
        assert!(key == "task_id" || asked[key] == *value, "{key}: {asked}");
    }
    let answer = read(&ran.stdout)["answer"].clone();
    assert_eq!(answer["data"]["said"], printed["input"]["data"]);
}
