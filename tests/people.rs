//! People who are asked in a run, through lines on standard input.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use expect_test::expect;
use serde_json::{Value, json};

use crate::harness::{self, Project, Ran, command};

/// A draft, a person's word about it, and what follows from the word.
const REVIEW: &str = r#"=== orchestrator.yaml
initial_agent: Writer
=== agents.yaml
agents:
  - name: Writer
    runtime: {kind: command, argv: [sh, -c, "echo writer >> ../../asked; echo '\"a draft\"'"]}
  - name: Reviewer
    writes: {verdict: ""}
    runtime:
      kind: human
      question: |
        Is this good enough?
        {{ input }}
      choices: [accept, refuse]
  - name: Editor
    runtime: {kind: command, argv: [sh, -c, "cat >> ../../told; echo '{\"done\": true}'"]}
=== context_variables.yaml
definitions:
  verdict: {source: {type: state, default: none}}
=== transition_graph.yaml
transition_rules:
  - {source_agent: Writer, target_agent: Reviewer, transition_type: after_turn}
  - {source_agent: Reviewer, target_agent: Editor, transition_type: condition, condition_type: context_equals, condition_key: verdict, condition_value: accept}
  - {source_agent: Reviewer, target_agent: terminate, transition_type: after_turn, termination_reason: workflow_failed}
  - {source_agent: Editor, target_agent: terminate, transition_type: after_turn}
"#;

/// Two people and a program, at the same time; a program after it.
const BATCH: &str = r#"=== extended_orchestration/task_batches.yaml
version: 1
conveyors:
  - id: work
    decomposition_agent: Planner
    execution_agents: [Person, Program]
    concurrency: 3
    timeout_seconds: 1
=== agents.yaml
agents:
  - name: Planner
    runtime: {kind: command, argv: [cat, plan.json]}
  - name: Person
    runtime: {kind: human, question: "{{ current_task.task_prompt }}"}
  - name: Program
    runtime: {kind: command, argv: [sh, -c, "echo program >> ../../asked; echo '{\"by\": \"program\"}'"]}
=== plan.json
{"DecompositionPlan": {"tasks": [
  {"task_id": "a", "execution_agent": "Person", "task_prompt": "Name a colour."},
  {"task_id": "b", "execution_agent": "Person", "task_prompt": "Name a town."},
  {"task_id": "c", "execution_agent": "Program", "task_prompt": "do"},
  {"task_id": "d", "execution_agent": "Program", "task_prompt": "do", "depends_on": ["c"]}
]}}
"#;

fn result(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("no result: {}", ran.stderr))
}

/// What people were shown, without the lines of the run.
fn shown(ran: &Ran) -> String {
    let is_shown = |it: &&str| !it.starts_with('[') && !it.starts_with("to go on: ");
    let lines = ran.stderr.lines().filter(is_shown);
    lines.map(|it| format!("{}\n", it.trim_end())).collect()
}

fn asked(project: &Project) -> String {
    let text = fs::read_to_string(project.path("asked")).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_person_is_asked_until_the_answer_can_be_taken() {
    let project = Project::of(REVIEW);
    let ran = project.run_fed("perhaps\n\n1\n", &["W", "--json", "--input", "\u{1b}[2Jhi"]);
    expect![[r#"

        Reviewer is asked:
          Is this good enough?
           [2Jhi
          1) accept
          2) refuse
        > perhaps
          not taken: choose by a number from 1 to 2, or by the text beside it
        >
          not taken: there is no answer without a text
        > 1
    "#]]
    .assert_eq(&shown(&ran));
    let result = result(&ran);
    assert_eq!(result["status"], "completed");
    assert_eq!(result["context"]["verdict"], "accept");
    let told = fs::read_to_string(project.path("told")).expect("the editor was asked");
    assert!(told.contains("[LAST TURN: Reviewer]\\naccept"), "{told}");
}

#[test]
fn what_a_person_says_decides() {
    let project = Project::of(REVIEW);
    let ran = project.run_fed("REFUSE\n", &["W", "--json"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert_eq!(result(&ran)["context"]["verdict"], "refuse");
}

#[test]
fn without_anybody_there_the_run_waits_and_goes_on_days_later() {
    let project = Project::of(REVIEW);
    for first in [&["W", "--json"][..], &["W", "--json", "--no-input"]] {
        let _ = fs::remove_file(project.path("asked"));
        let ran = project.run(first);
        let stopped = result(&ran);
        assert_eq!(
            (ran.code, &stopped["status"], &stopped["reason"]),
            (
                5,
                &json!("waiting"),
                &json!("`Reviewer` has to answer, and nobody can be asked here")
            )
        );
        let id = stopped["run"].as_str().expect("a run has an id");
        let to_go_on = format!("to go on: mozaiks-run resume {id}");
        assert!(ran.stderr.contains(&to_go_on), "{}", ran.stderr);
        let listed = project.run(&["runs", "--status", "waiting"]);
        assert!(listed.stdout.contains(id), "{}", listed.stdout);

        let again = project.run(&["resume", id, "--no-input"]);
        assert_eq!(again.code, 5, "{}", again.stderr);
        let done = project.run_fed("accept\n", &["resume", id, "--json"]);
        assert_eq!(result(&done)["status"], "completed", "{}", done.stderr);
        assert_eq!(asked(&project), "writer");
        let show = project.run(&["show", id, "--turn", "2"]).stdout;
        assert!(show.contains("accept"), "{show}");
    }
}

#[test]
fn a_default_stands_for_an_empty_line_and_for_nobody() {
    let project = Project::of(&REVIEW.replace("choices:", "default: accept\n      choices:"));
    for (lines, arguments) in [
        ("\n", &["W", "--json"][..]),
        ("2\n", &["W", "--json", "--no-input"]),
    ] {
        let ran = project.run_fed(lines, arguments);
        assert_eq!(result(&ran)["context"]["verdict"], "accept", "{lines:?}");
    }
    let project = Project::of(&REVIEW.replace("choices:", "default: acept\n      choices:"));
    let ran = project.run(&["check", "W"]);
    assert_eq!(ran.code, 2);
    let said = "the default of `Reviewer` is none of its choices";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
    assert!(ran.stderr.contains("accept"), "{}", ran.stderr);
}

#[test]
fn people_of_a_batch_are_asked_one_after_the_other_and_have_their_time() {
    let project = Project::of(BATCH);
    let ran = project.run_fed("red\nRome\n", &["W", "--json", "--quiet"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    expect![[r#"

        Person is asked, for task a:
          Name a colour.
        > red

        Person is asked, for task b:
          Name a town.
        > Rome
    "#]]
    .assert_eq(&shown(&ran));
    assert_eq!(said_by_people(&result(&ran)), ["red", "Rome"]);
}

#[test]
fn people_who_are_asked_at_once_are_asked_in_the_order_of_the_plan() {
    let ids: Vec<String> = (0..12).map(|it| format!("t{it}")).collect();
    let mut tasks: Vec<Value> = ids
        .iter()
        .map(|it| json!({"task_id": it, "execution_agent": "Person", "task_prompt": it}))
        .collect();
    // What somebody waits for starts before the others, and is asked in its place all the same.
    tasks.push(json!({"task_id": "z", "execution_agent": "Program", "task_prompt": "do", "depends_on": ["t7"]}));
    let plan = json!({"DecompositionPlan": {"tasks": tasks}});
    let files = BATCH.replace("concurrency: 3", "concurrency: 32");
    let (files, _) = files.split_once("=== plan.json").expect("a plan is last");
    let project = Project::of(&format!("{files}=== plan.json\n{plan}\n"));
    let lines: String = ids.iter().map(|it| format!("for {it}\n")).collect();
    let result = result(&project.run_fed(&lines, &["W", "--json"]));
    for id in &ids {
        let said = &result["context"]["work_results"][id]["agent_message"];
        assert_eq!(*said, format!("for {id}"), "{result}");
    }
}

/// What came of the two tasks that people do.
fn said_by_people(result: &Value) -> Vec<String> {
    let results = &result["context"]["work_results"];
    let said = ["a", "b"].map(|it| results[it]["agent_message"].as_str());
    let said = said.into_iter().flatten();
    said.map(str::to_owned).collect()
}

#[test]
fn a_batch_does_what_it_can_before_it_waits() {
    let project = Project::of(BATCH);
    let ran = project.run_fed("red\n", &["W", "--json"]);
    assert_eq!(ran.code, 5, "{}", ran.stderr);
    assert_eq!(asked(&project), "program program");
    let stopped = result(&ran);
    let id = stopped["run"].as_str().expect("a run has an id");
    let done = project.run_fed("Rome\n", &["resume", id, "--json"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(asked(&project), "program program");
    assert_eq!(said_by_people(&result(&done)), ["red", "Rome"]);
    for task in ["a", "b"] {
        let show = project.run(&["show", id, "--task", task]).stdout;
        assert!(!show.contains("unattended"), "{show}");
    }
}

#[test]
fn a_person_answers_with_a_model_over_several_lines() {
    let model = "=== structured_outputs.yaml
models:
  Review: {type: model, fields: {ok: {type: bool}}}
registry: {Reviewer: Review}
";
    let files = REVIEW
        .replace("      choices: [accept, refuse]\n", "")
        .replace("writes: {verdict: \"\"}", "writes: {verdict: ok}")
        .replace("condition_value: accept", "condition_value: true");
    let project = Project::of(&(files + model));
    let ran = project.run_fed(
        "{\"ok\": 1}\n{\n\"ok\":\n\n{\"ok\":\ntrue}\n",
        &["W", "--json"],
    );
    assert_eq!(result(&ran)["context"]["verdict"], true, "{}", ran.stderr);
    expect![[r#"

        Reviewer is asked:
          Is this good enough?
        answer with JSON that fits Review: {"$schema":"https://json-schema.org/draft/2020-12/schema","title":"Review","type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}
        > {"ok": 1}
          not taken: `/ok`: expected `true` or `false`, found the number `1`
        > {
        . "ok":
        .
          not taken: the value is not complete
        > {"ok":
        . true}
    "#]].assert_eq(&shown(&ran));
}

#[test]
fn a_transition_to_the_user_lets_a_person_speak_to_whoever_is_next() {
    let project = Project::of(
        r#"=== orchestrator.yaml
initial_agent: Helper
=== agents.yaml
agents:
  - name: Helper
    runtime: {kind: command, argv: [sh, helper.sh]}
=== helper.sh
cat >> ../../told
echo >> ../../told
grep -c . ../../told
=== context_variables.yaml
definitions:
  said: {source: {type: state, default: 0}}
=== transition_graph.yaml
transition_rules:
  - {source_agent: Helper, target_agent: user, transition_type: after_turn, transition_target: RevertToUserTarget}
"#,
    );
    let ran = project.run_fed("and then?\nfine\n", &["W", "--json", "--input", "begin"]);
    assert_eq!(ran.code, 5, "{}", ran.stderr);
    expect![[r#"

        user is asked:
          1
        > and then?

        user is asked:
          2
        > fine

        user is asked:
          3
        >
    "#]]
    .assert_eq(&shown(&ran));
    let told = fs::read_to_string(project.path("told")).expect("the helper was asked");
    let told = told.lines().map(|it| {
        let request: Value = serde_json::from_str(it).expect("one request a line");
        request["prompt"]["user"].to_string()
    });
    expect![[r#"
        "begin"
        "begin\n\n[LAST TURN: user]\nand then?"
        "begin\n\n[LAST TURN: user]\nfine""#]]
    .assert_eq(&told.collect::<Vec<_>>().join("\n"));
}

#[cfg(unix)]
#[test]
fn a_person_who_takes_too_long_is_a_timeout_if_the_author_says_so() {
    let person = "timeout_seconds: 1, kind: human";
    let files = BATCH.replace("kind: human", person);
    let policy = "retry_limit: 0\n    failure_policy: continue_with_available";
    let project = Project::of(&files.replace("concurrency: 3", policy));
    let mut waiting = waiting(&project, &["W", "--json"]);
    let stdin = waiting.stdin.take();
    let ran = harness::ended(waiting);
    drop(stdin);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    let failed = &result(&ran)["context"]["work_results"]["_failed"];
    for task in ["a", "b"] {
        assert_eq!(failed[task]["failure_kind"], "timeout", "{failed}");
    }
}

#[cfg(unix)]
#[test]
fn a_run_that_waits_for_a_person_stops_at_once_when_it_is_told_to() {
    use nix::{
        sys::signal::{Signal, kill},
        unistd::Pid,
    };
    for files in [REVIEW, BATCH] {
        let project = Project::of(files);
        let mut waiting = waiting(&project, &["W", "--json", "--grace", "60"]);
        let stderr = waiting.stderr.take().expect("it is piped");
        let mut lines = BufReader::new(stderr).lines();
        let is_put = lines.find(|it| it.as_ref().is_ok_and(|it| it.contains("is asked")));
        assert!(is_put.is_some(), "the question was put");
        let begun = Instant::now();
        let id = i32::try_from(waiting.id()).expect("an id is a number");
        kill(Pid::from_raw(id), Signal::SIGINT).expect("it runs");
        let rest: Vec<String> = lines.map_while(Result::ok).collect();
        let status = waiting.wait().expect("it can be waited for");
        assert_eq!(status.code(), Some(130), "{rest:?}");
        assert!(begun.elapsed() < Duration::from_secs(30), "{rest:?}");
        let typed = match files {
            REVIEW => "accept\n",
            _ => "red\nRome\n",
        };
        let done = project.run_fed(typed, &["resume", "--json"]);
        assert_eq!(done.code, 0, "{}", done.stderr);
    }
}

/// The program, with a standard input on which nobody says anything.
#[cfg(unix)]
fn waiting(project: &Project, arguments: &[&str]) -> Child {
    let mut command = command(&project.path("."), arguments);
    let piped = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    piped.spawn().expect("the program is built")
}
