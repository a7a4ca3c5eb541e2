//! Which of several providers of a capability is asked, and which one next.

use serde_json::{Value, json};

use super::{Carrier::Stdio, Peer, ask, heard, one, read};
use crate::harness::Project;

#[test]
fn the_next_provider_is_asked_where_one_cannot() {
    for (first, code) in [
        ("budget", 0),
        ("capability", 0),
        ("closes", 0),
        ("mcp", 0),
        ("nonsense", 0),
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

/// What comes of a task that providers are asked for in this order, and how often each of them is.
fn asked_of(hows: &[&str], more: &Value, options: &[&str]) -> (i32, Vec<usize>) {
    let project = Project::new();
    let endpoint = |how: &&str| Peer::start(&project, how, Stdio).endpoint.clone();
    let providers = hows
        .iter()
        .map(|how| json!({ "name": how, "endpoint": endpoint(how), "capabilities": ["echo"] }));
    let retry = json!({ "initial_seconds": 0.0, "max_seconds": 0.0 });
    let acmp = json!({ "providers": providers.collect::<Value>(), "retry": retry });
    project.write("acmp.json", acmp.to_string());
    project.write("dag.json", one(more));
    let fixed = ["dag", "dag.json", "--acmp", "acmp.json"];
    let ran = project.run(&[&fixed[..], options].concat());
    let invoked = |how: &&str| heard(&project, how, "acmp/invoke").len();
    (ran.code, hows.iter().map(invoked).collect())
}

#[test]
fn another_attempt_is_made_by_the_next_provider_where_one_failed() {
    let none = json!({});
    let soon = json!({ "timeout_ms": 5000 });
    let hash = json!({ "proof_method": "result-hash" });
    let retried = |n: &'static str| ["--retry-limit", n];
    for (hows, more, retries, code, asked) in [
        (&["internal", "good"][..], &none, "1", 0, &[1, 1][..]),
        (&["timeout", "good"], &none, "1", 0, &[1, 1]),
        (&["wrong_id", "good"], &none, "1", 0, &[1, 1]),
        (&["false_proof", "good"], &hash, "1", 0, &[1, 1]),
        (&["never", "good"], &soon, "1", 0, &[1, 1]),
        (&["silent", "good"], &none, "1", 0, &[1, 1]),
        // Whoever took money comes after all others.
        (&["internal", "wrong_id", "good"], &none, "2", 0, &[1, 1, 1]),
        (&["internal", "timeout", "odd"], &none, "3", 1, &[2, 1, 1]),
        // What one wants too much for, the next may do for less; but nobody is asked twice for that.
        (&["dear", "good"], &none, "3", 0, &[1, 1]),
        (&["dear"], &none, "3", 1, &[1]),
        (&["internal"], &none, "2", 1, &[3]),
        // Who cannot is passed over at once.
        (&["proof", "good"], &none, "0", 0, &[1, 1]),
        (&["feature", "good"], &none, "0", 0, &[1, 1]),
    ] {
        let (exit, invoked) = asked_of(hows, more, &retried(retries));
        assert_eq!((exit, &*invoked), (code, asked), "{hows:?} {retries}");
    }
}

#[test]
fn what_is_reserved_for_an_attempt_is_enough_for_one_provider() {
    let none = json!({});
    let asked = |ceiling: &'static str| {
        let options = ["--retry-limit", "1", "--max-price-cu", ceiling];
        let (code, asked) = asked_of(&["nonsense", "good"], &none, &options);
        (code, asked[0], asked[1])
    };
    // The first may have taken 0.01, so that another 0.01 is not left.
    assert_eq!(asked("0.015"), (4, 1, 0));
    assert_eq!(asked("0.02"), (0, 1, 1));
}

#[test]
fn a_run_of_a_dag_may_go_on_with_other_providers() {
    let project = Project::new();
    assert_eq!(ask(&project, &["internal"], &json!({})).code, 1);
    let run = read(&project.run(&["runs", "--json"]).stdout)[0]["run"].clone();
    let run = run.as_str().expect("it is there");
    // What it began with is what counts, until somebody says otherwise.
    let endpoint = Peer::start(&project, "good", Stdio).endpoint.clone();
    let acmp = json!({ "providers": [{ "name": "good", "endpoint": endpoint, "capabilities": ["echo"] }] });
    project.write("acmp.json", acmp.to_string());
    assert_eq!(project.run(&["retry", run]).code, 1);
    let ran = project.run(&["retry", run, "--providers", "acmp.json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let invoked = ["internal", "good"].map(|how| heard(&project, how, "acmp/invoke").len());
    assert_eq!(invoked, [2, 1]);
    let none = project.run(&["retry", run, "--acmp", "none.json"]);
    assert_eq!(none.code, 2, "{}", none.stderr);
}

#[test]
fn a_run_that_goes_on_knows_who_failed() {
    let project = Project::new();
    let hash = json!({ "proof_method": "result-hash" });
    let hows = ["false_proof", "good"];
    let providers = hows.map(|how| {
        let endpoint = Peer::start(&project, how, Stdio).endpoint.clone();
        json!({ "name": how, "endpoint": endpoint, "capabilities": ["echo"] })
    });
    // After the first attempt there is not enough left for another one.
    let acmp = json!({ "providers": providers, "max_price_cu": 0.0105, "retry_limit": 1, "retry": { "initial_seconds": 0.0 } });
    project.write("acmp.json", acmp.to_string());
    project.write("dag.json", one(&hash));
    let ran = project.run(&["dag", "dag.json", "--acmp", "acmp.json"]);
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    let ran = project.run(&["resume", "--budget-cu", "1"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let invoked = hows.map(|how| heard(&project, how, "acmp/invoke").len());
    assert_eq!(invoked, [1, 1]);
}
