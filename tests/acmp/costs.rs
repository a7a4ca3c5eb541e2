//! What providers take in CU: counted, shown, and kept to a ceiling.

use serde_json::{Value, json};

use super::{Carrier::*, Peer, ask, heard, one, read};
use crate::harness::{Project, Ran, home, until};

/// What a run took in CU, as it and its history say.
fn cu(project: &Project, ran: &Ran) -> Value {
    let ending = read(&ran.stdout);
    let told = ending["usage"]["cu"].clone();
    let id = ending["run"].as_str().unwrap_or_default();
    let shown = project.run(&["show", id, "--json"]);
    let shown = read(&shown.stdout);
    assert_eq!(shown["usage"]["cu"], told, "{shown}");
    let listed = read(&project.run(&["runs", "--json"]).stdout);
    assert_eq!(listed[0]["usage"]["cu"], told, "{listed}");
    told
}

#[test]
fn what_a_task_took_is_what_its_provider_says_up_to_its_price() {
    let hash = json!({ "proof_method": "result-hash" });
    let none = json!({});
    // Enough for the peer to start, however much else is done here.
    let soon = json!({ "timeout_ms": 5000 });
    const GUESSED: bool = true;
    const SAID: bool = false;
    for (how, more, taken, is_guessed) in [
        ("good", &none, json!(0.001), SAID),
        // It says that it was paid, and proves nothing.
        ("false_proof", &hash, json!(0.001), SAID),
        ("proves_late", &hash, json!(0.001), SAID),
        ("wordy", &none, json!(0.001), SAID),
        // No more than was offered, whatever it says.
        ("dear", &none, json!(0.01), SAID),
        ("huge", &none, json!(0.01), GUESSED),
        ("negative", &none, json!(0.01), GUESSED),
        ("no_price", &none, json!(0.01), GUESSED),
        // It may have been paid for what nobody waited for.
        ("never", &soon, json!(0.01), GUESSED),
        ("silent", &none, json!(0.01), GUESSED),
        ("closes", &none, json!(0.01), GUESSED),
        ("nonsense", &none, json!(0.01), GUESSED),
        // It did nothing.
        ("internal", &none, Value::Null, SAID),
        ("mcp", &none, Value::Null, SAID),
    ] {
        let project = Project::new();
        let ran = ask(&project, &[how], more);
        assert_eq!(cu(&project, &ran), taken, "{how}: {}", ran.stderr);
        let usage = &read(&ran.stdout)["usage"];
        assert_eq!(usage["cu_estimated"] == true, is_guessed, "{how}: {usage}");
        // What somebody said counts, whatever is wrong besides.
        let tokens = if is_guessed || how == "wordy" { 0 } else { 7 };
        let tokens = if taken.is_null() { 0 } else { tokens };
        let said = usage["output_tokens"].as_u64();
        let is_priceless = ["huge", "negative", "no_price"].contains(&how);
        assert_eq!(said, Some(if is_priceless { 7 } else { tokens }), "{how}");
        let shown = project.run(&["show"]).stdout;
        assert_eq!(shown.contains("~0.01 CU"), is_guessed, "{how}: {shown}");
    }
}

#[test]
fn what_a_dag_may_cost_is_reserved_for_each_task_and_the_run_stops_there_and_goes_on() {
    let project = Project::new();
    let hash = json!({ "proof_method": "result-hash" });
    let peer = Peer::start(&project, "proves_late", Stdio);
    let acmp = json!({
        "max_price_cu": 0.0105,
        "retry_limit": 5,
        "retry": { "initial_seconds": 0.0 },
        "providers": [{ "name": "late", "endpoint": peer.endpoint, "capabilities": ["echo"] }],
    });
    project.write("acmp.json", acmp.to_string());
    project.write("dag.json", one(&hash));
    let arguments = ["dag", "dag.json", "--acmp", "acmp.json", "--json"];
    let ran = project.run(&arguments);
    // The first attempt took 0.001, and for another one 0.01 are not left.
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    let result = read(&ran.stdout);
    assert_eq!(result["status"], "budget");
    let reason = "the budget of the run is reached: 0.001 of 0.0105 CU are spent, and the next task may cost 0.01";
    assert_eq!(result["reason"], reason);
    assert!(ran.stderr.contains("--budget-cu"), "{}", ran.stderr);
    assert_eq!(cu(&project, &ran), 0.001);
    let invoked = heard(&project, "proves_late", "acmp/invoke");
    assert_eq!(invoked.len(), 1);
    // It is no larger the next time.
    assert_eq!(project.run(&["resume"]).code, 4);
    let ran = project.run(&["resume", "--budget-cu", "0.011", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(cu(&project, &ran), 0.002);
    let ending = read(&ran.stdout);
    let id = ending["run"].as_str().unwrap_or_default();
    let shown = project.run(&["show", id]).stdout;
    assert!(shown.contains("0.002 CU"), "{shown}");
    // What costs nothing can always be done.
    let free = json!({ "proof_method": "result-hash", "max_price_cu": 0.0 });
    project.write("dag.json", one(&free));
    let free = [&arguments[..], &["--max-price-cu", "0"]].concat();
    let ran = project.run(&free);
    let reason = read(&ran.stdout)["reason"].clone();
    let reason = reason.as_str().unwrap_or_default();
    assert!(
        reason.contains("the result costs 0.001 CU; 0 are allowed"),
        "{reason}"
    );
}

#[test]
fn what_cannot_be_reserved_is_settled_afterwards() {
    let task = |id| json!({ "task_id": id, "capability": "echo", "input": { "type": "text", "data": "x" } });
    // Nobody says what a task may cost, and how many tokens it may take.
    let dag = json!({ "dag_id": "dag_1", "edges": [], "tasks": [task("a"), task("b"), task("c")] });
    for (how, option, limits, reason) in [
        (
            "five",
            "--budget-cu",
            ["1", "10", "11"],
            "5 of 1 CU are spent",
        ),
        (
            "good",
            "--budget-tokens",
            ["7", "14", "15"],
            "7 of 7 tokens are used",
        ),
    ] {
        let project = Project::new();
        let endpoint = Peer::start(&project, how, Stdio).endpoint.clone();
        let acmp = json!({
            "concurrency": 1,
            "providers": [{ "name": "p", "endpoint": endpoint, "capabilities": ["echo"] }],
        });
        project.write("acmp.json", acmp.to_string());
        project.write("dag.json", dag.to_string());
        let ran = project.run(&[
            "dag",
            "dag.json",
            "--acmp",
            "acmp.json",
            "--json",
            option,
            limits[0],
        ]);
        assert_eq!(ran.code, 4, "{how}: {}", ran.stderr);
        let ending = read(&ran.stdout);
        assert_eq!(ending["status"], "budget", "{how}");
        let wanted = format!("the budget of the run is reached: {reason}");
        assert_eq!(ending["reason"], wanted, "{how}");
        let asked = || heard(&project, how, "acmp/invoke").len();
        assert_eq!(asked(), 1, "{how}");
        for (limit, code, n) in [(limits[1], 4, 2), (limits[2], 0, 3)] {
            let ran = project.run(&["resume", option, limit]);
            assert_eq!((ran.code, asked()), (code, n), "{how}: {}", ran.stderr);
        }
    }
}

#[cfg(unix)]
#[test]
fn what_is_asked_for_again_with_its_id_is_not_counted_twice() {
    let project = Project::new();
    let endpoint = Peer::start(&project, "later", Stdio).endpoint.clone();
    let acmp = json!({
        "max_price_cu": 0.0105,
        "providers": [{ "name": "p", "endpoint": endpoint, "capabilities": ["echo"] }],
    });
    project.write("acmp.json", acmp.to_string());
    project.write("dag.json", one(&json!({})));
    let asked = || heard(&project, "later", "acmp/invoke");
    let mut session = project.start(&["dag", "dag.json", "--acmp", "acmp.json", "--grace", "0"]);
    until("it is asked", || asked().len() == 1);
    let run = read(&project.run(&["runs", "--json"]).stdout)[0]["run"].clone();
    let run = run.as_str().expect("it is there");
    assert_eq!(project.run(&["cancel", run]).code, 0);
    session.wait().expect("it was started");
    let used = |text: &str| {
        let usage = read(text)["usage"].clone();
        (usage["cu"].clone(), usage["cu_estimated"] == true)
    };
    // It may have been done, for all that one knows.
    let shown = || project.run(&["show", run, "--json"]).stdout;
    assert_eq!(used(&shown()), (json!(0.01), true));
    let ran = project.run(&["resume", run, "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(used(&ran.stdout), (json!(0.001), false));
    assert_eq!(used(&shown()), (json!(0.001), false));
    let asked = asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0]["params"], asked[1]["params"]);
}

/// A workflow whose planner answers with each of these DAGs, one after the other, and whose batch may take so much.
fn planned(dags: &[Value], ceiling: f64) -> Project {
    let project = Project::new();
    let replies = dags.iter().map(|it| json!({ "json": { "plan": it } }));
    let planner = json!({ "kind": "scripted", "replies": replies.collect::<Value>() });
    let reader =
        json!({ "kind": "template", "output": "json", "template": "{{ outputs | tojson }}" });
    let peer = home().join("tests/peers/provider.py");
    let argv = json!([
        "python3",
        peer,
        "proves_late",
        super::log(&project, "proves_late")
    ]);
    let files = [
        (
            "agents.yaml",
            json!({ "agents": [
            { "name": "Planner", "runtime": planner },
            { "name": "Reader", "runtime": reader },
        ] }),
        ),
        (
            "acmp.yaml",
            json!({
                "max_price_cu": ceiling,
                "providers": [{ "name": "late", "endpoint": { "kind": "stdio", "argv": argv }, "capabilities": ["echo"] }],
            }),
        ),
        (
            "extended_orchestration/task_batches.yaml",
            json!({ "batches": [{
            "id": "work",
            "trigger_agent": "Planner",
            "source": { "kind": "structured_output", "path": "plan", "task_model": "Dag" },
            "execution": { "retry_limit": 5, "retry": { "initial_seconds": 0.0 } },
            "result": { "context_key": "outputs", "status_key": "status", "require_owned_paths": false },
        }] }),
        ),
    ];
    for (name, content) in files {
        project.write(&format!("workflows/W/{name}"), content.to_string());
    }
    project
}

#[test]
fn a_planners_dag_keeps_to_the_ceiling_and_stops_at_it_and_goes_on() {
    let dag = |prices: &[f64]| {
        let tasks = prices.iter().enumerate().map(|(ix, price)| {
            json!({
                "task_id": format!("t{ix}"),
                "capability": "echo",
                "input": { "type": "text", "data": "hello" },
                "max_price_cu": price,
                "proof_method": "result-hash",
            })
        });
        json!({ "dag_id": "dag_1", "tasks": tasks.collect::<Value>(), "edges": [] })
    };
    let asked = |project: &Project| heard(project, "proves_late", "acmp/invoke").len();
    // One that could cost too much is refused, whoever insists on it, and nobody is asked.
    let dear = dag(&[0.01, 0.01]);
    let project = planned(std::slice::from_ref(&dear), 0.0105);
    let ran = project.run(&["W", "--json"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("MZ418"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("0.02 CU together; 0.0105 are allowed"),
        "{}",
        ran.stderr
    );
    assert_eq!(asked(&project), 0);
    // The planner is told, and the next one keeps to it.
    let project = planned(&[dear, dag(&[0.01])], 0.0105);
    let ran = project.run(&["W", "--json"]);
    assert!(ran.stderr.contains("MZ418"), "{}", ran.stderr);
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    let reason = read(&ran.stdout)["reason"].clone();
    let wanted = "the budget of batch `work` is reached: 0.001 of 0.0105 CU are spent, and the next task may cost 0.01";
    assert_eq!(reason, wanted, "the first attempt proved nothing");
    assert_eq!((asked(&project), cu(&project, &ran)), (1, json!(0.001)));
    assert_eq!(project.run(&["resume"]).code, 4);
    let ran = project.run(&["resume", "--budget-cu", "0.011", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!((asked(&project), cu(&project, &ran)), (2, json!(0.002)));
    let answer = read(&ran.stdout)["answer"].clone();
    assert_eq!(answer["t0"]["data"]["said"], "hello", "{answer}");
}
