//! Tests of workflows, as `mozaiks-run test` runs them.

use expect_test::expect;
use serde_json::Value;

use crate::harness::{Project, home, run_in};

const FILES: &str = r#"=== extended_orchestration/task_batches.yaml
version: 1
conveyors:
  - id: work
    decomposition_agent: Planner
    execution_agents: [Worker]
    retry_limit: 1
    retry: {initial_seconds: 60}
=== agents.yaml
agents:
  - {name: Planner, system_message: Plan.}
  - {name: Worker, system_message: Work.}
  - name: Writer
    runtime:
      kind: template
      output: json
      template: '{"said": {{ input | tojson }}, "code_files": [{"filename": "a.txt", "content": "one\ntwo\n"}, {"filename": "b.txt", "content": "b"}]}'
=== transition_graph.yaml
transition_rules:
  - {source_agent: Planner, target_agent: Writer, transition_type: after_turn}
  - {source_agent: Writer, target_agent: terminate, transition_type: after_turn}
=== tests/good.yaml
input: hello
replies:
  Planner: [{json: {DecompositionPlan: {tasks: [{task_id: a, execution_agent: Worker, task_prompt: do, owned_paths: [x]}]}}}]
  Worker: [{fail: rate_limited}, {json: {n: [1, {k: 2, other: 3}]}}]
expect:
  answer: {said: hello}
  context:
    work_status: completed
    work_results: {a: {n: [1, {k: 2}]}}
  files: {a.txt: "one\ntwo\n", b.txt: {contains: [b]}}
=== tests/silent.yaml
replies:
  Planner: [{json: {DecompositionPlan: {tasks: [{task_id: a, execution_agent: Worker, task_prompt: do, owned_paths: [x]}]}}}]
expect: {status: failed, reason: "failed"}
"#;

#[test]
fn tests_that_hold_pass_and_wait_for_nobody() {
    let project = Project::of(FILES);
    let ran = project.run(&["test", "W", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    let result: Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
    assert_eq!(result["passed"], 2);
    assert_eq!(result["tests"][0]["test"], "good");
    let listed = project.run(&["runs", "--json"]);
    assert_eq!(listed.stdout.trim(), "[]", "a test is no run");
}

#[test]
fn without_tests_it_is_said_how_to_write_one() {
    let (files, _) = FILES.split_once("=== tests/").expect("they come last");
    let ran = Project::of(files).run(&["test", "W"]);
    expect![[r#"
        error[MZ501]: `W` has no tests
         |
         = help: write one, in `tests/NAME.yaml` of the folder `W`: `replies: {AGENT: [{text: ...}]}`, and what is to come of it under `expect`

        1 error; nothing was started
        for more about one of them: mozaiks-run explain MZ501
    "#]].assert_eq(&ran.stderr);
}

/// What is told of tests, but for how long they took and where they wrote.
fn told(stderr: &str) -> String {
    let lines = stderr.lines().filter(|it| !it.contains("what it wrote"));
    let told = lines.map(|it| match it.split_once(" (") {
        Some((told, _)) if it.starts_with("test ") => format!("{told}\n"),
        _ => format!("{it}\n"),
    });
    told.collect()
}

#[test]
fn what_does_not_hold_is_named() {
    let project = Project::of(FILES);
    let bad = r#"
input: goodbye
replies:
  Planner: [{json: {DecompositionPlan: {tasks: [{task_id: a, execution_agent: Worker, task_prompt: do, owned_paths: [x]}]}}}]
  Worker: [{json: {n: [1, {k: 3}]}}]
expect:
  status: partial
  reason: tired
  answer: {said: hello, more: true}
  context: {work_results: {a: {n: [1, {k: 2}], m: 0}}, nothing: 1}
  files: {a.txt: "one\nthree\n", c.txt: c}
"#;
    project.write("workflows/W/tests/bad.yaml", bad);
    let ran = project.run(&["test", "W"]);
    assert_eq!(ran.code, 1);
    expect![[r#"
        test bad ... FAILED
            the run is partial in the test, and completed in fact
            the reason has no `tired`: it is ``
            answer.said: expected "hello", found "goodbye"
            answer.more: expected true, found nothing
            context.nothing: expected 1, found nothing
            context.work_results.a.n[1].k: expected 2, found 3
            context.work_results.a.m: expected 0, found nothing
            the file `b.txt` is written, and the test does not name it
            the file `a.txt`, line 2: expected `three`, found `two`
            the file `c.txt` is not written
        test good ... ok
        test silent ... ok
        2 passed, 1 failed
    "#]]
    .assert_eq(&told(&ran.stderr));
    assert!(
        project
            .path(".mozaiks/tests/W/bad/artifacts/a.txt")
            .exists()
    );
}

#[test]
fn a_reply_that_is_not_written_down_is_named_with_its_cure() {
    let models = r#"=== structured_outputs.yaml
registry: {Worker: Work}
models:
  Work:
    type: model
    fields:
      kind: {type: literal, values: [brief, long]}
      points: {type: list, items: str}
      score: {type: float}
"#;
    let test = |replies: &str| {
        format!(
            "=== tests/lacks.yaml\ninput: x\nreplies:\n  Planner: [{{json: {{DecompositionPlan: {{tasks: [{{task_id: a, execution_agent: Worker, task_prompt: do it, owned_paths: [x]}}]}}}}}}]\n{replies}expect: {{status: completed}}\n"
        )
    };
    let mut told = String::new();
    for replies in ["", "  Worker: [{task_id: other, text: x}]\n"] {
        let project = Project::of(&(FILES.to_owned() + models + &test(replies)));
        let ran = project.run(&["test", "W", "lacks"]);
        assert_eq!(ran.code, 1);
        let line = ran.stderr.lines().find(|it| it.contains("no reply"));
        told.push_str(&line.unwrap_or(&ran.stderr).replace("; ", ";\n"));
        told.push('\n');
        // What is proposed is a reply that is taken.
        let (_, cure) = line
            .and_then(|it| it.split_once("; "))
            .expect("it has a cure");
        let cure = cure.split('`').nth(1).expect("there is something to paste");
        let cure = match replies.is_empty() {
            true => format!("  {cure}\n"),
            false => format!("  Worker: [{cure}]\n"),
        };
        let project = Project::of(&(FILES.to_owned() + models + &test(&cure)));
        let ran = project.run(&["test", "W", "lacks"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
    expect![[r#"
            the run is completed in the test, and failed in fact: a batch of `Planner` failed: task `a` failed: not_found: no reply of `Worker` is written down for task `a`, where it is asked `do it`;
        write `"Worker": [{"task_id":"a","json":{"kind":"brief","points":[],"score":0}}]` under `replies`, at workflows/W/tests/lacks.yaml:2:1;
        no transition of `Planner` has a condition that holds then
            the run is completed in the test, and failed in fact: a batch of `Planner` failed: task `a` failed: not_found: no reply of `Worker` is written down for task `a`, where it is asked `do it`;
        add `{"task_id":"a","json":{"kind":"brief","points":[],"score":0}}` to its replies, at workflows/W/tests/lacks.yaml:4:3;
        no transition of `Planner` has a condition that holds then
    "#]].assert_eq(&told);
}

#[test]
fn tests_that_cannot_be_run_are_refused() {
    let project = Project::of(FILES);
    let refused = |arguments: &[&str]| {
        let ran = project.run(&[&["test", "W"], arguments].concat());
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        ran.stderr
    };
    expect![[r#"
        error[MZ501]: `W` has no test `goood`
         |
         = note: expected `good` or `silent`
         = help: did you mean `good`?

        1 error; nothing was started
        for more about one of them: mozaiks-run explain MZ501
    "#]]
    .assert_eq(&refused(&["goood"]));
    let test = "replies: {Planer: []}\nrecording: none.jsonl\nexpects: {}\n";
    project.write("workflows/W/tests/bad.yaml", test);
    expect![[r#"
        error[MZ201]: unknown key `expects`
         --> workflows/W/tests/bad.yaml:3:1
          |
        3 | expects: {}
          | ^^^^^^^
          |
          = note: expected `input`, `set`, `replies`, `recording` or `expect`
          = help: did you mean `expect`?

        1 error; nothing was started
        for more about one of them: mozaiks-run explain MZ201
    "#]]
    .assert_eq(&refused(&[]));
    project.write(
        "workflows/W/tests/bad.yaml",
        test.replace("expects: {}\n", ""),
    );
    expect![[r#"
        error[MZ501]: cannot read the recording `workflows/W/tests/none.jsonl`: No such file or directory (os error 2)
         --> workflows/W/tests/bad.yaml:2:12
          |
        2 | recording: none.jsonl
          |            ^^^^^^^^^^

        error[MZ302]: `W` has no agent `Planer`
         --> workflows/W/tests/bad.yaml:1:11
          |
        1 | replies: {Planer: []}
          |           ^^^^^^
          |
          = note: expected `Planner`, `Worker` or `Writer`
          = help: did you mean `Planner`?

        2 errors; nothing was started
        for more about one of them: mozaiks-run explain MZ501
    "#]].assert_eq(&refused(&["bad"]));
}

#[test]
fn the_tests_of_every_workflow_pass() {
    let ran = run_in(home(), &["test", "ResearchBrief"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

#[test]
fn what_a_person_says_in_a_test_is_judged_as_if_they_had_typed_it() {
    let project = Project::of(
        r#"=== orchestrator.yaml
initial_agent: Reviewer
=== agents.yaml
agents:
  - name: Reviewer
    writes: {verdict: ""}
    runtime: {kind: human, question: ok?, choices: [accept, refuse, {text: none, json: null}]}
=== context_variables.yaml
definitions: {verdict: {}}
=== tests/text.yaml
replies: {Reviewer: [REFUSE]}
expect: {context: {verdict: refuse}}
=== tests/number.yaml
replies: {Reviewer: ["1"]}
expect: {context: {verdict: accept}}
=== tests/value.yaml
replies: {Reviewer: [none]}
expect: {answer: null, context: {verdict: null}}
=== tests/again.yaml
replies: {Reviewer: [maybe, accept]}
expect: {context: {verdict: accept}}
=== tests/nobody.yaml
expect: {status: waiting, reason: nobody can be asked}
=== tests/nonsense.yaml
replies: {Reviewer: [maybe]}
=== tests/nothing.yaml
expect: {context: {verdict: accept}}
"#,
    );
    let ran = project.run(&["test", "W"]);
    assert_eq!(ran.code, 1);
    expect![[r#"
        test again ... ok
        test nobody ... ok
        test nonsense ... FAILED
            the run is completed in the test, and failed in fact: `Reviewer` gave no answer that can be used: wrong_shape: the answer `maybe` is not taken: choose by a number from 1 to 3, or by the text beside it
        test nothing ... FAILED
            the run is completed in the test, and waiting in fact: `Reviewer` has to answer, and nobody can be asked here
              write what they answer under `replies` of the test: `NAME: [{text: ...}]`
            context.verdict: expected "accept", found null
        test number ... ok
        test text ... ok
        test value ... ok
        5 passed, 2 failed
    "#]].assert_eq(&told(&ran.stderr));
}
