//! What providers take in CU: counted, shown, and kept to a ceiling.

use serde_json::{Value, json};

use super::{Carrier::*, Peer, ask, heard, one, read};
use crate::harness::{Project, Ran};

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
    let soon = json!({ "timeout_ms": 700 });
    for (how, more, taken) in [
        ("good", &none, json!(0.001)),
        // It says that it was paid, and proves nothing.
        ("false_proof", &hash, json!(0.001)),
        ("proves_late", &hash, json!(0.001)),
        // No more than was offered, whatever it says.
        ("dear", &none, json!(0.01)),
        ("huge", &none, json!(0.01)),
        ("negative", &none, json!(0.01)),
        ("no_price", &none, json!(0.01)),
        // It may have been paid for what nobody waited for.
        ("never", &soon, json!(0.01)),
        ("silent", &none, json!(0.01)),
        ("closes", &none, json!(0.01)),
        // It did nothing.
        ("internal", &none, Value::Null),
        ("mcp", &none, Value::Null),
    ] {
        let project = Project::new();
        let ran = ask(&project, &[how], more);
        assert_eq!(cu(&project, &ran), taken, "{how}: {}", ran.stderr);
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
