//! What runs may spend, how that is counted, and what happens at the end of it.

use std::fs;

use expect_test::{Expect, expect};
use serde_json::Value;

use crate::harness::{Project, Ran, until};

/// A planner and eight tasks, which are done one after the other. Each is done well at its second attempt only, and each
/// attempt uses 100 tokens, which cost 130.
const FILES: &str = r#"=== orchestrator.yaml
providers:
  p: {max_concurrency: 1, prices: {"*": {input: 1000000, cached_input: 0, output: 2000000}}}
BUDGET
=== extended_orchestration/task_batches.yaml
version: 1
conveyors:
  - id: work
    decomposition_agent: Planner
    execution_agents: [Worker]
    concurrency: 8
    retry_limit: 1
    retry: {initial_seconds: 0, max_seconds: 0}
    OPTION
=== agents.yaml
agents:
  - name: Planner
    runtime:
      kind: scripted
      provider: p
      replies:
        - usage: {input_tokens: 40, output_tokens: 10}
          json:
            DecompositionPlan:
              tasks:
                - {task_id: a, execution_agent: Worker, task_prompt: x}
                - {task_id: b, execution_agent: Worker, task_prompt: x}
                - {task_id: c, execution_agent: Worker, task_prompt: x}
                - {task_id: d, execution_agent: Worker, task_prompt: x}
                - {task_id: e, execution_agent: Worker, task_prompt: x}
                - {task_id: f, execution_agent: Worker, task_prompt: x}
                - {task_id: g, execution_agent: Worker, task_prompt: x}
                - {task_id: h, execution_agent: Worker, task_prompt: x, depends_on: [a]}
  - name: Worker
    runtime:
      kind: scripted
      provider: p
      replies:
        - {text: "", usage: {input_tokens: 60, cached_input_tokens: 10, output_tokens: 40}}
        - {json: {done: true}, usage: {input_tokens: 60, cached_input_tokens: 10, output_tokens: 40}}
  - name: Writer
    runtime: {kind: template, output: text, template: done}
"#;

fn project(budget: &str, option: &str) -> Project {
    Project::of(&FILES.replace("BUDGET", budget).replace("OPTION", option))
}

/// What a program says of how a run ended and what it used, without what is never the same.
fn told(ran: &Ran) -> String {
    let value: Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
    let warnings = ran.stderr.lines().filter(|it| it.contains("warning"));
    let warnings: Vec<&str> = warnings
        .filter_map(|it| Some(it.split_once(']')?.1))
        .collect();
    format!(
        "exit {}, {}: {}\n{}\n{}\n",
        ran.code,
        value["status"].as_str().unwrap_or("?"),
        // What comes next depends on who was first.
        value["reason"]
            .as_str()
            .unwrap_or("-")
            .split(", and")
            .next()
            .unwrap_or_default(),
        value["usage"],
        warnings.join("\n"),
    )
}

#[track_caller]
fn check(ran: &Ran, expect: Expect) {
    expect.assert_eq(&told(ran));
}

fn number(ran: &Ran, pointer: &str) -> u64 {
    let value: Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
    value
        .pointer(pointer)
        .and_then(Value::as_u64)
        .expect("it is a number")
}

/// What the whole run uses.
const WHOLE: u64 = 50 + 16 * 100;

#[test]
fn a_run_stops_at_its_budget_and_goes_on_with_a_larger_one() {
    let project = project("budget: {tokens: 450}", "");
    let ran = project.run(&["W", "--json"]);
    check(
        &ran,
        expect![[r#"
            exit 4, budget: the budget of the run is reached: 450 of 450 tokens are used
            {"input_tokens":280,"output_tokens":170,"cached_input_tokens":40,"cost":580.0}
             warning   the budget of the run is reached: 450 of 450 tokens are used
        "#]],
    );
    let again = project.run(&["resume", "--json"]);
    check(
        &again,
        expect![[r#"
            exit 4, budget: the budget of the run is reached: 450 of 450 tokens are used
            {"input_tokens":280,"output_tokens":170,"cached_input_tokens":40,"cost":580.0}
             warning   the budget of the run is reached: 450 of 450 tokens are used
        "#]],
    );
    let stopped: Value = serde_json::from_str(&again.stdout).expect("one JSON result");
    let id = stopped["run"].as_str().expect("it has a name");
    assert_eq!(stopped["to_go_on"], format!("mozaiks-run resume {id}"));
    let larger = project.run(&["resume", "--budget-tokens", "700", "--json"]);
    check(
        &larger,
        expect![[r#"
            exit 4, budget: the budget of the run is reached: 750 of 700 tokens are used
            {"input_tokens":460,"output_tokens":290,"cached_input_tokens":70,"cost":970.0}
             warning   the budget of the run is nearly reached: 650 of 700 tokens are used
        "#]],
    );
    // What was said last holds from then on.
    let ran = project.run(&["resume", "--json"]);
    assert_eq!(
        number(&ran, "/usage/input_tokens"),
        number(&larger, "/usage/input_tokens")
    );
    let enough = project.run(&["resume", "--budget-tokens", "10000", "--json"]);
    check(
        &enough,
        expect![[r#"
            exit 0, completed: -
            {"input_tokens":1000,"output_tokens":650,"cached_input_tokens":160,"cost":2140.0}

        "#]],
    );
    let used = number(&enough, "/usage/input_tokens") + number(&enough, "/usage/output_tokens");
    assert_eq!(used, WHOLE, "nothing is bought twice");
    let listed = project.run(&["runs"]);
    assert!(listed.stdout.contains("completed"), "{}", listed.stdout);
}

#[test]
fn money_is_a_budget_too() {
    let project = project("", "");
    let ran = project.run(&["W", "--json", "--budget-cost", "500"]);
    check(
        &ran,
        expect![[r#"
            exit 4, budget: the budget of the run is reached: 580 of 500 is spent
            {"input_tokens":280,"output_tokens":170,"cached_input_tokens":40,"cost":580.0}
             warning   the budget of the run is nearly reached: 450 of 500 is spent
        "#]],
    );
    let listed = project.run(&["runs", "--status", "budget", "--json"]);
    assert_eq!(number(&listed, "/0/tasks"), 8);
    let ran = project.run(&["resume", "--budget-cost", "3000", "--json"]);
    check(
        &ran,
        expect![[r#"
            exit 0, completed: -
            {"input_tokens":1000,"output_tokens":650,"cached_input_tokens":160,"cost":2140.0}

        "#]],
    );
    let bad = project.run(&["W", "--budget-cost", "0"]);
    assert_eq!(bad.code, 2, "{}", bad.stderr);
}

#[test]
fn a_batch_has_a_budget_of_its_own() {
    let project = project("", "budget: {tokens: 250}");
    let ran = project.run(&["W", "--json"]);
    check(
        &ran,
        expect![[r#"
            exit 4, budget: the budget of batch `work` is reached: 300 of 250 tokens are used
            {"input_tokens":220,"output_tokens":130,"cached_input_tokens":30,"cost":450.0}
             warning   the budget of batch `work` is nearly reached: 200 of 250 tokens are used
        "#]],
    );
    // What is said when somebody goes on with the run counts for its batch as well, and from then on.
    assert_eq!(project.run(&["resume"]).code, 4);
    let ran = project.run(&["resume", "--budget-tokens", "300"]);
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    let ran = project.run(&["resume", "--budget-tokens", "10000"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

#[test]
fn a_planner_is_paid_too() {
    let project = project("budget: {tokens: 1000000}", "");
    let ran = project.run(&["W", "--json", "--budget-tokens", "50"]);
    check(
        &ran,
        expect![[r#"
            exit 4, budget: the budget of the run is reached: 50 of 50 tokens are used
            {"input_tokens":40,"output_tokens":10,"cached_input_tokens":0,"cost":60.0}
             warning   the budget of the run is reached: 50 of 50 tokens are used
        "#]],
    );
}

#[test]
fn a_budget_in_money_is_refused_where_a_price_is_missing() {
    let files = FILES.replace(
        r#", prices: {"*": {input: 1000000, cached_input: 0, output: 2000000}}"#,
        "",
    );
    let project = Project::of(&files.replace("BUDGET", "").replace("OPTION", ""));
    let ran = project.run(&["W", "--budget-cost", "5"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("MZ321"), "{}", ran.stderr);
    assert!(
        !project.path(".mozaiks/journal.sqlite").exists(),
        "nothing was begun"
    );
}

#[test]
fn a_budget_of_nothing_is_none() {
    let ran = project("", "").run(&["W", "--budget-tokens", "0"]);
    assert_eq!(ran.code, 2);
    let why = "it is not a whole number from 1 on";
    assert!(ran.stderr.contains(why), "{}", ran.stderr);
}

#[test]
fn what_is_withheld_is_not_under_way() {
    let project = project("budget: {tokens: 450}", "");
    assert_eq!(project.run(&["W"]).code, 4);
    let ran = project.run(&["resume", "--in-flight", "fail", "--budget-tokens", "10000"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

#[test]
fn a_plan_has_a_bound() {
    let worker = |terms: &str, [run, batch]: [&str; 2]| {
        let asked = "kind: openai, model: m, base_url: 'http://127.0.0.1:9/v1'";
        let worker = format!("{{name: Worker, system_message: do, runtime: {{{asked}{terms}}}}}");
        let (head, rest) = FILES.split_once("  - name: Worker").expect("there is one");
        let (_, rest) = rest.split_once("  - name: Writer").expect("there is one");
        let files = format!("{head}  - {worker}\n  - name: Writer{rest}");
        let provider = "providers:\n  p: {base_url: 'http://127.0.0.1:9/v1',";
        let files = files.replace("providers:\n  p: {", provider);
        let files = files.replace("BUDGET", run);
        Project::of(&files.replace("OPTION", batch))
    };
    let bound = |project: &Project| {
        let drawn = project.run(&["plan", "W"]);
        let lines = drawn.stdout.lines();
        let lines = lines.skip_while(|it| !it.starts_with("8 tasks")).skip(1);
        let lines: Vec<&str> = lines.collect();
        lines.join("\n") + "\n" + &drawn.stderr
    };
    let budgets = [
        "budget: {tokens: 90000, cost: 100000}",
        "budget: {tokens: 95124, cost: 96725}",
    ];
    let known = worker(", max_output_tokens: 100, api_key_env: NONE", budgets);
    expect![[r#"
        at most 16 calls, 95124 tokens, cost 96724
          AGENT   CALLS  TOKENS  COST
          Worker  16     95124   96724
        budget of batch work, 95124 tokens: these tasks may reach it
        budget of batch work, cost 96725: these tasks stay below it
        budget of the run, 90000 tokens: these tasks may reach it
        budget of the run, cost 100000: these tasks stay below it; what other agents use comes on top
    "#]]
    .assert_eq(&bound(&known));
    expect![[r#"
        at most 16 calls
        no bound in tokens: `Worker` has no `max_output_tokens`
          AGENT   CALLS  TOKENS  COST
          Worker  16     -       -
        budget of batch work, 95124 tokens: nobody knows whether these tasks reach it
        budget of batch work, cost 96725: nobody knows whether these tasks reach it
        budget of the run, 90000 tokens: nobody knows whether these tasks reach it
        budget of the run, cost 100000: nobody knows whether these tasks reach it
    "#]]
    .assert_eq(&bound(&worker("", budgets)));
    let fallback =
        ", max_output_tokens: 100, fallback: [{model: n, base_url: 'http://127.0.0.1:8/v1'}]";
    expect![[r#"
        at most 32 calls, 190248 tokens
        no bound in money: nobody says what an answer of `Worker` costs
          AGENT   CALLS  TOKENS  COST
          Worker  32     190248  -
    "#]]
    .assert_eq(&bound(&worker(fallback, ["", ""])));
    let with_tools = worker(", max_output_tokens: 100, api_key_env: NONE", ["", ""]);
    let tools = "tools: [{agent: Worker, name: note, command: [cat]}]";
    with_tools.write("workflows/W/tools.yaml", tools);
    expect![[r#"
        at most 144 calls
        no bound in tokens: the model of `Worker` may call tools
          AGENT   CALLS  TOKENS  COST
          Worker  144    -       -
    "#]]
    .assert_eq(&bound(&with_tools));
    let drawn = known.run(&["plan", "W", "--json"]);
    assert_eq!(number(&drawn, "/bound/calls"), 16);
    let drawn: Value = serde_json::from_str(&drawn.stdout).expect("one JSON result");
    expect![[r#"
        [{"agent":"Worker","calls":16,"tokens":95124,"cost":96724.0}]
        [{"of":"batch","what":"tokens","limit":95124,"most":95124,"is_below":false},{"of":"batch","what":"cost","limit":96725.0,"most":96724.0,"is_below":true},{"of":"run","what":"tokens","limit":90000,"most":95124,"is_below":false},{"of":"run","what":"cost","limit":100000.0,"most":96724.0,"is_below":true}]"#]].assert_eq(&format!(
        "{}\n{}",
        drawn["bound"]["agents"], drawn["bound"]["budgets"]
    ));
}

#[test]
fn what_a_refusal_says_it_used_counts() {
    let refused = "- {task_id: b, fail: rate_limited, usage: {input_tokens: 60}}
        - {task_id: b, json: {done: true}, usage: {input_tokens: 60}}
        - {json: {done: true}, usage";
    let files = FILES.replace("- {text: \"\", usage", refused);
    let project = Project::of(&files.replace("BUDGET", "").replace("OPTION", ""));
    let ran = project.run(&["W", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(number(&ran, "/usage/input_tokens"), 40 + 9 * 60);
}

/// A planner and two tasks, at a provider that takes two questions a minute.
const SLOW: &str = r#"=== orchestrator.yaml
providers: {p: {requests_per_minute: 2}}
=== extended_orchestration/task_batches.yaml
version: 1
conveyors:
  - {id: work, decomposition_agent: Planner, execution_agents: [Worker]}
=== agents.yaml
agents:
  - name: Planner
    runtime:
      kind: scripted
      provider: p
      replies:
        - json:
            DecompositionPlan:
              tasks:
                - {task_id: a, execution_agent: Worker, task_prompt: x}
                - {task_id: b, execution_agent: Worker, task_prompt: x, depends_on: [a]}
  - name: Worker
    runtime: {kind: scripted, provider: p, replies: [{text: done}]}
"#;

#[test]
fn a_wait_for_a_rate_is_told() {
    let project = Project::of(SLOW);
    let mut running = project.start(&["W", "--events", "events"]);
    let logs = || {
        let runs: Value = serde_json::from_str(&project.run(&["runs", "--json"]).stdout).ok()?;
        Some(project.run(&["logs", runs[0]["run"].as_str()?]).stdout)
    };
    let mut told = String::new();
    until("the wait is told", || {
        told = logs().unwrap_or_default();
        told.contains("paused")
    });
    let line = told.lines().find(|it| it.contains("paused"));
    let line = line.expect("it was there");
    let (seconds, rest) = line.split_once("not asked for ").expect("it says how long");
    assert!(seconds.ends_with("paused    p is "), "{line}");
    let rest = rest.trim_start_matches(|it: char| it.is_ascii_digit() || it == '.');
    assert_eq!(rest, "s (`requests_per_minute`), 1 call waiting");
    let events = fs::read_to_string(project.path("events")).expect("it is written");
    let held_up = r#""event":"held_up","provider":"p","limit":"requests_per_minute","waiting":1"#;
    assert!(events.contains(held_up), "{events}");
    running.kill().expect("it goes on");
    running.wait().expect("it was started");
    // Nobody counts what another process asked.
    let resumed = project.run(&["resume"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
}
