//! Tools of a workflow, from the outside.

use std::fs;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::harness::{Project, Ran};

mod told;

/// A planner whose answer a Python function makes tasks of, another function that is not content at first, and a program.
const FILES: &str = r#"
=== tools/plans.py
import json, pathlib

def make_items(goal: str, context_variables, runtime):
    print("this is not the result")
    with open(pathlib.Path(__file__).parent.parent / "calls", "a") as calls:
        print(goal, runtime["agent"], file=calls)
    context_variables.set("items", {"tasks": [
        {"task_id": it, "initial_agent": "W", "initial_message": f"{goal} {it}"} for it in "ab"
    ]})
    return {"made": 2}

def review(structured_output, context_variables):
    tries = context_variables.get("tries") or 0
    return {"outcome": "good" if tries else "poor", "why": "say it again"}
=== tools.yaml
tools:
  - {agent: P, file: plans.py, function: make_items, auto_tool_call: true}
  - agent: Z
    file: plans.py
    function: review
    auto_tool_call: true
    outcome: {context_key: verdict, attempts_key: tries, result_field: outcome, values: [good, poor], error_value: poor, max_attempts: 3, retry_on: [poor]}
  - {agent: Z, name: note, command: [sh, -c, 'cat >> notes'], auto_tool_call: true}
=== structured_outputs.yaml
registry: {P: Goal}
models: {Task: {type: model, fields: {task_id: {type: str}}}, Goal: {type: model, fields: {goal: {type: str}}}}
=== extended_orchestration/task_batches.yaml
batches:
  - id: b
    trigger_agent: P
    allowed_execution_agents: [W]
    source: {kind: context_variable, path: items.tasks, task_model: Task}
    result: {context_key: results, status_key: status, require_owned_paths: false}
=== agents.yaml
agents:
  - {name: P, runtime: {kind: scripted, replies: [{json: {goal: dig}}]}}
  - {name: W, runtime: {kind: template, output: json, template: '{"did": {{ current_task.initial_message | tojson }} }'}}
  - {name: Z, runtime: {kind: template, output: json, template: '{"done": {{ results.a.did | tojson }}, "tries": {{ tries | tojson }} }'}}
"#;

fn summary(ran: &Ran) -> String {
    let value: Value = serde_json::from_str(&ran.stdout).unwrap_or_default();
    let context = &value["context"];
    let of = |name: &str| context[name].to_string();
    let names = ["status", "verdict", "tries"].map(|it| format!("{it} {}", of(it)));
    format!(
        "exit {}, {}, {}, {} turns\nanswer {}\n{}\n",
        ran.code,
        value["status"],
        value["reason"],
        value["turns"],
        value["answer"],
        names.join(", ")
    )
}

fn lines(project: &Project, name: &str) -> Vec<String> {
    let text = fs::read_to_string(project.path(&format!("workflows/W/{name}")));
    text.unwrap_or_default()
        .lines()
        .map(str::to_owned)
        .collect()
}

#[track_caller]
fn check(ran: &Ran, expect: Expect) {
    expect.assert_eq(&summary(ran));
}

#[test]
fn tools_run_on_outputs_and_set_variables_and_outcomes() {
    let project = Project::of(FILES);
    let ran = project.run(&["W", "--json"]);
    check(
        &ran,
        expect![[r#"
            exit 0, "completed", null, 3 turns
            answer {"done":"dig a","tries":1}
            status "completed", verdict "good", tries 2
        "#]],
    );
    assert_eq!(lines(&project, "calls"), ["dig P"]);
    let checked = project.run(&["check", "W"]);
    expect![[r#"
        checked W: no errors
    "#]]
    .assert_eq(&checked.stderr);
    let run = fs::read_dir(project.path(".mozaiks/runs"))
        .expect("it ran")
        .next();
    let run = run.expect("it ran").expect("it can be read").file_name();
    let run = run.to_string_lossy();
    let shown = project.run(&["logs", &run]);
    let lines = shown.stdout.lines();
    let lines = lines.filter_map(|it| match it.split_once(" tool ") {
        Some((_, said)) => Some(said.trim()),
        None => it.starts_with(' ').then_some(it),
    });
    let tools: Vec<&str> = lines.collect();
    expect![[r#"
        make_items of P
            this is not the result
        review of Z, outcome `poor`
        review of Z, outcome `good`
        note of Z"#]]
    .assert_eq(&tools.join("\n"));
    let turn = project.run(&["show", &run, "--turn", "1"]).stdout;
    let (_, tool) = turn.split_once("\ntool ").expect("it is shown");
    let (_, told) = tool.split_once(", took ").expect("it says how long");
    let (_, told) = told.split_once('\n').expect("it has more lines");
    expect![[r#"
        make_items
          -> {"made": 2}
          printed
            this is not the result
    "#]]
    .assert_eq(&format!("make_items\n{told}"));
}

#[test]
fn a_call_that_was_written_down_is_not_made_again() {
    let whole = Project::of(FILES);
    let wanted = summary(&whole.run(&["W", "--json"]));
    let mut deaths = 0;
    for at in 0.. {
        let project = Project::of(FILES);
        let crash = at.to_string();
        if project
            .run_with(&[("MOZAIKS_CRASH_AT", &crash)], &["W"])
            .code
            == 0
        {
            break;
        }
        deaths += 1;
        let ran = project.run(&["resume", "--json"]);
        assert_eq!(summary(&ran), wanted, "killed at {at}: {}", ran.stderr);
        // Once more, if it was under way.
        let calls = lines(&project, "calls").len();
        assert!((1..=2).contains(&calls), "killed at {at}: {calls} calls");
    }
    assert!(deaths > 5, "{deaths} places to die at");
}

#[test]
fn a_tool_that_fails_fails_the_run_and_says_why() {
    let mut text = String::new();
    for (what, instead) in [
        ("return {\"made\": 2}", "raise ValueError('no goal')"),
        ("return {\"made\": 2}", "import os; os._exit(9)"),
        ("\"items\", {", "\"results\", {"),
        ("goal: str,", "aim: str,"),
        ("def make_items", "def make_nothing"),
    ] {
        let project = Project::of(&FILES.replace(what, instead));
        let ran = project.run(&["W", "--json"]);
        assert_eq!(ran.code, 1, "{}", ran.stderr);
        let value: Value = serde_json::from_str(&ran.stdout).unwrap_or(json!(null));
        text.push_str(&format!("{instead}: {}\n", value["reason"]));
        let more = value["more"].as_str().unwrap_or_default();
        let more: Vec<&str> = more.split(' ').skip(1).collect();
        let shown = project.run(&more).stdout;
        assert!(shown.contains("failed: the tool `make_items`"), "{shown}");
        assert_eq!(value["to_go_on"], json!(null));
        let told = project.run(&["W"]).stderr;
        assert!(
            told.ends_with(", or one of its turns with --turn N\n"),
            "{told}"
        );
    }
    expect![[r#"
        raise ValueError('no goal'): "the tool `make_items` of `P` failed: ValueError: no goal (tools/plans.py, line 10, in make_items)"
        import os; os._exit(9): "the tool `make_items` of `P` failed: it ended the Python interpreter: exit status: 9; it said: this is not the result"
        "results", {: "the tool `make_items` of `P` failed: it sets the variable `results`, which only the engine writes"
        aim: str,: "the tool `make_items` of `P` failed: TypeError: make_items() missing 1 required positional argument: 'aim'"
        def make_nothing: "the tool `make_items` of `P` failed: AttributeError: module 'workflow_tool_tools_plans_py' has no attribute 'make_items'"
    "#]].assert_eq(&text);
}

#[test]
fn functions_run_at_points_of_a_run_and_rewrite_instructions() {
    let project = Project::of(
        r#"
=== tools/points.py
def note(runtime, context_variables):
    context_variables.set("seen", (context_variables.get("seen") or []) + [runtime["agent"]])

def start(context_variables): context_variables.set("style", "plain")
def late(runtime): raise RuntimeError("too late")

def style(agent, messages):
    agent.update_system_message(f"{agent.system_message} [{agent.context_variables['style']}]")

async def loud(agent):
    return agent.system_message.upper()

def broken(agent, messages): raise KeyError("x")
=== tools.yaml
lifecycle_tools:
  - {trigger: before_chat, agent: null, file: points.py, function: start}
  - {trigger: before_agent, file: points.py, function: note}
  - {trigger: after_agent, agent: B, file: points.py, function: note}
  - {trigger: on_complete, file: points.py, function: late}
  - {trigger: on_fail, file: ../shared.py, function: f}
=== middleware.yaml
prompt_middleware:
  - {agent: all, filename: points.py, function: style}
  - {agent: A, filename: tools/points.py, function: broken}
  - {agent: B, filename: points.py, function: loud}
  - {agent: B, filename: gone.py, function: loud}
=== agents.yaml
agents:
  - {name: A, system_message: be brief, runtime: {kind: command, argv: [cat]}, writes: {a: prompt.system}}
  - {name: B, system_message: be kind, runtime: {kind: command, argv: [cat]}, writes: {b: prompt.system}}
=== transition_graph.yaml
transition_rules:
  - {source_agent: A, target_agent: B, transition_type: after_turn}
  - {source_agent: B, target_agent: terminate, transition_type: after_turn, transition_target: TerminateTarget}
"#,
    );
    let checked = project.run(&["check", "W", "--json"]);
    let checked: Value = serde_json::from_str(&checked.stdout).expect("it is data");
    let mut text = String::new();
    for it in checked.as_array().into_iter().flatten() {
        text.push_str(&format!("{}\n", it["message"]));
    }
    let ran = project.run(&["W", "--json"]);
    let value: Value = serde_json::from_str(&ran.stdout).unwrap_or_default();
    text.push_str(&format!("{}\n", value["status"]));
    for name in ["style", "seen", "a", "b"] {
        text.push_str(&format!("{name}: {}\n", value["context"][name]));
    }
    for line in ran.stderr.lines().filter(|it| it.contains("warning")) {
        let said = line.split_once(']').map_or(line, |it| it.1);
        text.push_str(&format!("{}\n", said.trim()));
    }
    expect![[r#"
        "the file `gone.py` of this tool is not there"
        "the functions of `../shared.py` are accepted but not run: the file lies outside the workflow's folder"
        "completed"
        style: "plain"
        seen: ["A","B","B"]
        a: "be brief\n\nSEEN: [\"A\"]\nSTYLE: plain [plain]"
        b: "BE KIND\n\nA: \"BE BRIEF\\N\\NSEEN: [\\\"A\\\"]\\NSTYLE: PLAIN [PLAIN]\"\nSEEN: [\"A\",\"B\"]\nSTYLE: PLAIN [PLAIN]"
        warning   the prompt function `broken` of `A` is left out: KeyError: 'x' (tools/points.py, line 13, in broken)
        warning   the prompt function `loud` of `B` is left out: the file `gone.py` of this tool is not there
        warning   the lifecycle tool `late` failed: RuntimeError: too late (tools/points.py, line 5, in late)
    "#]].assert_eq(&text);
}

#[test]
fn the_prompts_of_tasks_are_rewritten_once_in_a_session() {
    let project = Project::of(
        r#"
=== extended_orchestration/task_batches.yaml
conveyors: [{id: c, decomposition_agent: P, execution_agents: [W], retry_limit: 1, failure_policy: continue_with_available}]
=== middleware.yaml
prompt_middleware:
  - {agent: W, filename: points.py, function: style}
  - {agent: all, filename: points.py, function: broken}
=== points.py
import pathlib
def style(agent, messages):
    task = agent.context_variables["current_task"]["task_id"]
    with (pathlib.Path(__file__).parent / "calls").open("a") as calls:
        calls.write(task + "\n")
    agent.update_system_message(f"{agent.system_message} [{task}: {messages[0]['content'][:2]}]")
def broken(agent, messages): raise KeyError("x")
=== work.sh
input=$(cat)
case $input in
  *'"task_id":"b"'*) [ -e ../../ok ] || { echo '{"task_id": "wrong"}'; exit; } ;;
esac
printf '%s' "$input"
=== agents.yaml
agents:
  - {name: P, runtime: {kind: scripted, replies: [{json: {DecompositionPlan: {tasks: [
      {task_id: a, execution_agent: W, task_prompt: dig}, {task_id: b, execution_agent: W, task_prompt: fill}]}}}]}}
  - {name: W, system_message: be brief, runtime: {kind: command, argv: [sh, work.sh]}}
"#,
    );
    let recording = project.path("r.jsonl");
    let recording = recording.to_str().expect("it is a text");
    let ran = project.run(&["W", "--json", "--record", recording]);
    let value: Value = serde_json::from_str(&ran.stdout).expect("it is data");
    let results = &value["context"]["c_results"];
    let told = &results["a"]["prompt"]["system"];
    assert_eq!(*told, "be brief\n\nINPUT:  [a: di]", "{}", ran.stderr);
    assert_eq!(results["_failed"]["b"]["attempts"], 2, "{results}");
    let left_out = "task `a`: the prompt function `broken` of `W` is left out: KeyError: 'x'";
    assert!(ran.stderr.contains(left_out), "{}", ran.stderr);
    let calls = || {
        let mut calls = lines(&project, "calls");
        calls.sort();
        calls.concat()
    };
    assert_eq!(calls(), "ab");
    let id = value["run"].as_str().expect("a run has an id");
    let shown = project.run(&["show", id, "--task", "b"]).stdout;
    assert_eq!(shown.matches("[b: fi]").count(), 2, "{shown}");
    // Nobody is asked, and no function is called.
    let replayed = project.run(&["W", "--json", "--replay", recording]);
    assert_eq!(replayed.code, ran.code, "{}", replayed.stderr);
    let again: Value = serde_json::from_str(&replayed.stdout).expect("it is data");
    assert_eq!(again["context"], value["context"]);
    assert_eq!(calls(), "ab");
    project.write("ok", "");
    let retried = project.run(&["retry", id, "--json"]);
    let value: Value = serde_json::from_str(&retried.stdout).expect("it is data");
    let told = &value["context"]["c_results"]["b"]["prompt"]["system"];
    assert_eq!(*told, "be brief\n\nINPUT:  [b: fi]", "{}", retried.stderr);
    assert_eq!(calls(), "abb", "what was done is not done again");
}

#[test]
fn tools_run_on_what_tasks_answer_if_nobody_else_rejects_it() {
    let project = Project::of(
        r#"
=== extended_orchestration/task_batches.yaml
conveyors: [{id: c, decomposition_agent: P, execution_agents: [W], concurrency: 1, retry_limit: 1, failure_policy: continue_with_available}]
=== tools.yaml
tools:
  - {agent: W, file: keep.py, function: keep, auto_tool_call: true}
  - agent: W
    name: judge
    command: [sh, -c, 'case $(cat) in *poor*) echo "{\"verdict\": \"poor\"}";; *) echo "{\"verdict\": \"good\"}"; esac']
    auto_tool_call: true
    outcome: {context_key: verdict, attempts_key: tries, result_field: verdict, values: [good, poor], error_value: poor, max_attempts: 2, retry_on: [poor]}
=== keep.py
import pathlib
def keep(structured_output, context_variables):
    told = structured_output
    with (pathlib.Path(__file__).parent / "calls").open("a") as calls:
        calls.write(f"{told['task_id']}{told['say']} ")
    context_variables.set("kept", told["task_id"])
    if told["say"] == "bad": raise ValueError("that is bad")
    return "kept"
=== work.py
import json, sys
asked = json.load(sys.stdin)
task, first = asked["task_id"], asked["attempt"] == 1
answers = {
    "fine": {"say": "fine", "code_files": [{"filename": "x", "content": ""}]},
    "wrong": {"say": "fine"} if not first else {"task_id": "other", "say": "fine"},
    "alien": {"say": "fine", "code_files": [{"filename": "x", "content": ""}]},
    "failing": {"say": "bad" if first else "fine", "feedback": asked["prompt"]["user"][-150:]},
    "stubborn": {"say": "bad"},
    "judged": {"say": "poor", "n": asked["attempt"]},
}
print(json.dumps(answers[task]))
=== agents.yaml
agents:
  - {name: P, runtime: {kind: scripted, replies: [{json: {DecompositionPlan: {tasks: [
      {task_id: fine, execution_agent: W, task_prompt: x}, {task_id: wrong, execution_agent: W, task_prompt: x},
      {task_id: alien, execution_agent: W, task_prompt: x}, {task_id: failing, execution_agent: W, task_prompt: x},
      {task_id: stubborn, execution_agent: W, task_prompt: x}, {task_id: judged, execution_agent: W, task_prompt: x}]}}}]}}
  - {name: W, cache: true, runtime: {kind: command, argv: [python3, work.py]}}
"#,
    );
    let recording = project.path("r.jsonl");
    let recording = recording.to_str().expect("it is a text");
    let ran = project.run(&["W", "--json", "--record", recording]);
    let value: Value = serde_json::from_str(&ran.stdout).expect("it is data");
    let results = &value["context"]["c_results"];
    let called = || {
        let calls = lines(&project, "calls").concat();
        let mut calls: Vec<_> = calls.split_whitespace().map(str::to_owned).collect();
        calls.sort();
        calls
    };
    let calls = called();
    let mut text = format!("{} {}\n", calls.join(" "), value["context"]["kept"]);
    for task in ["fine", "wrong", "alien", "failing", "stubborn", "judged"] {
        let failed = &results["_failed"][task];
        let said = match results[task].is_object() {
            true => &results[task]["say"],
            false => &json!(format!("{}: {}", failed["failure_kind"], failed["error"])),
        };
        text.push_str(&format!("{task}: {}\n", said.as_str().unwrap_or_default()));
    }
    let id = value["run"].as_str().expect("a run has an id");
    let shown = project.run(&["show", id, "--task", "failing"]).stdout;
    let is_about_calls = |it: &&str| it.starts_with("called") || it.starts_with("  ->");
    for line in shown.lines().filter(is_about_calls) {
        let what = line.split_once(", took").map_or(line, |it| it.0);
        text.push_str(&format!("{what}\n"));
    }
    expect![[r#"
        failingbad failingfine finefine judgedpoor judgedpoor stubbornbad stubbornbad wrongfine null
        fine: fine
        wrong: fine
        alien: "outside_owned_paths": "the file `x` was already emitted by fine"
        failing: fine
        stubborn: "tool_failed": "the tool `keep` failed: ValueError: that is bad (keep.py, line 7, in keep)"
        judged: poor
        called keep, failed
          -> ValueError: that is bad (keep.py, line 7, in keep)
        called keep
          -> kept
        called judge
          -> {"verdict": "good"}
    "#]].assert_eq(&text);
    let replayed = project.run(&["W", "--json", "--replay", recording]);
    let again: Value = serde_json::from_str(&replayed.stdout).expect("it is data");
    assert_eq!(again["context"], value["context"]);
    assert_eq!(called(), calls, "no tool is called");
    project.run(&["retry", id]);
    let before = calls.len();
    let more = called();
    assert_eq!(
        more.len(),
        before + 1,
        "what was done is not done again: {more:?}"
    );
}
