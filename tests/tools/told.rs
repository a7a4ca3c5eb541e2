//! What is told of tools that fail, say no outcome, or set what they should not.

use expect_test::expect;
use regex::Regex;
use serde_json::{Value, json};

use super::FILES;
use crate::harness::Project;

#[test]
fn a_tool_that_fails_where_its_author_provides_for_that_is_told_of() {
    let fails = r#"tries = context_variables.get("tries") or 0
    if not tries: raise ValueError("no verdict")"#;
    let text = FILES.replace(r#"tries = context_variables.get("tries") or 0"#, fails);
    let project = Project::of(&text);
    let ran = project.run(&["W"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let time = Regex::new(r"\[ *[0-9.]+s\]|\([0-9.]+s\)").expect("it is well-formed");
    let told = ran.stderr.lines().filter(|it| it.contains("no verdict"));
    let told: Vec<&str> = told.collect();
    expect![[r#"
        # tool      review of Z failed: ValueError: no verdict (tools/plans.py, line 14, in review), outcome `poor` #
        in turn 2, tool review of Z failed: ValueError: no verdict (tools/plans.py, line 14, in review), outcome `poor`"#]].assert_eq(&time.replace_all(&told.join("\n"), "#"));
    let runs: Value =
        serde_json::from_str(&project.run(&["runs", "--json"]).stdout).expect("one JSON result");
    let id = runs[0]["run"].as_str().expect("it is listed");
    let shown = project.run(&["show", id]).stdout;
    let told: Vec<&str> = shown.lines().filter(|it| it.contains("tool ")).collect();
    expect!["  tool      review failed: ValueError: no verdict (tools/plans.py, line 14, in review), outcome `poor`"].assert_eq(&told.join("\n"));
    // The agent speaks anew, and so does the tool.
    let again = project.run(&["retry", id, "--from-agent", "Z", "--json"]);
    let value: Value = serde_json::from_str(&again.stdout).expect("one JSON result");
    expect![[r#"[{"turn":2,"agent":"Z","tool":"review","message":"ValueError: no verdict (tools/plans.py, line 14, in review)","outcome":"poor"}]"#]].assert_eq(&value["failed_tools"].to_string());
}

#[test]
fn a_result_that_says_no_outcome_is_told_of() {
    let says = r#"{"outcome": "good" if tries else "poor", "why": "say it again"}"#;
    let mut text = String::new();
    for instead in [
        r#"{"outcome": "great"}"#,
        r#"{"outcome": 5}"#,
        r#"{"why": "none"}"#,
        r#"["good"]"#,
        r#""good""#,
        r#"{"outcome": "unchecked"}"#,
    ] {
        let files = FILES.replace(says, instead);
        let project = Project::of(&files.replace("error_value: poor", "error_value: unchecked"));
        let ran = project.run(&["W", "--json"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let value: Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
        let verdict = &value["context"]["verdict"];
        let failed = &value["failed_tools"];
        text.push_str(&format!("{instead}: {verdict} {}\n", failed[0]["message"]));
        let count = failed.as_array().map_or(0, Vec::len);
        let shown = project.run(&["show", value["run"].as_str().unwrap_or_default()]);
        assert_eq!(
            shown.stdout.matches("tool      review failed: ").count(),
            count
        );
    }
    expect![[r#"
        {"outcome": "great"}: "unchecked" "it says `great` under `outcome`, which is none of `good`, `poor`; its result is {\"outcome\": \"great\"}"
        {"outcome": 5}: "unchecked" "it says 5 under `outcome`, and no text; its result is {\"outcome\": 5}"
        {"why": "none"}: "unchecked" "it says nothing under `outcome`; its result is {\"why\": \"none\"}"
        ["good"]: "unchecked" "it says nothing under `outcome`; its result is [\"good\"]"
        "good": "unchecked" "it says nothing under `outcome`; its result is good"
        {"outcome": "unchecked"}: "unchecked" null
    "#]].assert_eq(&text);
}

#[test]
fn a_tool_of_a_task_that_says_no_outcome_is_told_of() {
    let project = Project::of(
        r#"
=== extended_orchestration/task_batches.yaml
conveyors: [{id: c, decomposition_agent: P, execution_agents: [W]}]
=== tools.yaml
tools:
  - agent: W
    name: judge
    command: [sh, -c, 'echo fine']
    auto_tool_call: true
    outcome: {context_key: verdict, attempts_key: tries, result_field: verdict, values: [good, poor], error_value: unchecked, max_attempts: 2, retry_on: [poor]}
=== agents.yaml
agents:
  - {name: P, runtime: {kind: scripted, replies: [{json: {DecompositionPlan: {tasks: [{task_id: t, execution_agent: W, task_prompt: x}]}}}]}}
  - {name: W, runtime: {kind: scripted, replies: [{json: {say: x}}]}}
"#,
    );
    let ran = project.run(&["W"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let told = ran.stderr.lines().find(|it| it.contains("] warning"));
    let told = told.and_then(|it| it.split_once("s] "));
    expect!["warning   task `t`: the tool `judge` failed: it says nothing under `verdict`; its result is fine; that counts as `unchecked`"]
        .assert_eq(told.map_or("nothing", |it| it.1));
}

#[test]
fn a_variable_that_is_set_to_something_else_is_told_of() {
    let project = Project::of(
        r#"
=== tools/set.py
def sets(context_variables):
    for name, value in {"title": [1], "other": 1, "count": 2.0, "many": {}, "any": [], "input": "x", "none": None}.items():
        context_variables.set(name, value)
=== tools.yaml
tools: [{agent: A, file: set.py, function: sets, auto_tool_call: true}]
lifecycle_tools: [{trigger: on_start, file: set.py, function: sets}]
=== context_variables.yaml
definitions: {title: {type: string}, count: {type: integer}, many: {type: "list[int]"}, any: {}, none: {type: string}, said: {type: number}}
=== orchestrator.yaml
initial_agent: A
=== agents.yaml
agents: [{name: A, writes: {said: say}, runtime: {kind: scripted, replies: [{json: {say: x}}]}}]
"#,
    );
    let ran = project.run(&["W", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let told = ran
        .stderr
        .lines()
        .filter_map(|it| it.split_once("] warning   "));
    let told: Vec<&str> = told.map(|it| it.1).collect();
    expect![[r#"
        the tool `sets` sets the variable `many`, declared as `list[int]`, to an object
        the tool `sets` sets the variable `title`, declared as `string`, to a list
        the tool `sets` sets the variable `other`, which is not declared
        `A` sets the variable `said`, declared as `number`, to a text"#]]
    .assert_eq(&told.join("\n"));
    let value: Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
    assert_eq!(value["context"]["title"], json!([1]), "it is only told");
}
