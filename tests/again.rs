//! Work that is not done again, and work that is: outputs of equal work, and agents that speak anew.

use std::{fs, process::Stdio};

use serde_json::{Value, json};

use crate::harness::{Project, command, ended, until};

/// `b` needs `a`, and `a` answers well at the second attempt only. Everybody who is asked writes it down.
const CACHED: &str = r#"=== extended_orchestration/task_batches.yaml
version: 1
conveyors:
  - id: work
    decomposition_agent: Planner
    execution_agents: [Worker]
    retry_limit: 1
    retry: {initial_seconds: 0.001, max_seconds: 0.001}
=== agents.yaml
agents:
  - name: Planner
    runtime: {kind: command, argv: [cat, plan.json]}
  - name: Worker
    cache: true
    prompt_sections: [{id: role, heading: ROLE, content: Work.}]
    runtime: {kind: command, argv: [sh, worker.sh]}
  - name: Writer
    runtime: {kind: command, argv: [sh, -c, "echo writer >> ../../asked; echo '{\"files\": 1}'"]}
=== transition_graph.yaml
transition_rules:
  - {source_agent: Planner, target_agent: Writer, transition_type: after_turn}
  - {source_agent: Writer, target_agent: terminate, transition_type: after_turn}
=== worker.sh
request=$(cat)
set -- $(printf %s "$request" | sed 's/^{"agent":"[^"]*","task_id":"\([^"]*\)","attempt":\([0-9]*\).*/\1 \2/')
echo "$1/$2" >> ../../asked
case "$1/$2" in a/1) exit 1;; esac
printf '{"by": "%s", "code_files": [{"filename": "out/%s.txt", "content": "made by %s"}]}' "$1" "$1" "$1"
=== plan.json
{"DecompositionPlan": {"tasks": [
  {"task_id": "a", "execution_agent": "Worker", "task_prompt": "do", "owned_paths": ["out/a.txt"]},
  {"task_id": "b", "execution_agent": "Worker", "task_prompt": "do", "owned_paths": ["out/b.txt"], "depends_on": ["a"]}
]}}
"#;

/// Who was asked since the last time, in their order.
fn asked(project: &Project) -> String {
    let path = project.path("asked");
    let text = fs::read_to_string(&path).unwrap_or_default();
    fs::write(&path, "").expect("a file can be written");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn completed(project: &Project, arguments: &[&str]) -> Value {
    let ran = project.run(&[arguments, &["--json"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    serde_json::from_str(&ran.stdout).expect("one JSON result")
}

fn results(run: &Value) -> Value {
    let mut results = run["context"]["work_results"].clone();
    results["_meta"] = Value::Null;
    results
}

fn reused(run: &Value) -> &Value {
    &run["context"]["work_results"]["_meta"]["reused_tasks"]
}

#[test]
fn equal_work_of_an_earlier_run_is_taken_again_and_the_results_say_so() {
    let project = Project::of(CACHED);
    let first = completed(&project, &["W"]);
    assert_eq!(asked(&project), "a/1 a/2 b/1 writer");
    assert_eq!(reused(&first), &Value::Null);

    let second = completed(&project, &["W"]);
    assert_eq!(asked(&project), "writer");
    let id = &first["run"];
    assert_eq!(reused(&second), &json!({ "a": id, "b": id }));
    assert_eq!(results(&second), results(&first));
    let folder = second["artifacts"].as_str().expect("a folder");
    let file = fs::read_to_string(project.path(folder).join("out/b.txt"));
    assert_eq!(file.expect("it was published"), "made by b");
    let id = second["run"].as_str().expect("a run has an id");
    let show = project.run(&["show", id, "--task", "a"]).stdout;
    let first = first["run"].as_str().expect("a run has an id");
    assert!(show.contains(&format!("taken from run {first}")), "{show}");

    // Of two runs with the output the newer is named; of removed ones none.
    let third = completed(&project, &["W"]);
    assert_eq!(reused(&third)["a"], *id);
    let ids = [first, id, third["run"].as_str().expect("a run has an id")];
    assert_eq!(project.run(&[&["rm"][..], &ids].concat()).code, 0);
    assert_eq!(asked(&project), "writer");
    completed(&project, &["W"]);
    assert_eq!(asked(&project), "a/1 a/2 b/1 writer");
}

#[test]
fn work_that_differs_is_done() {
    let project = Project::of(CACHED);
    completed(&project, &["W"]);
    asked(&project);
    let workflow = project.path("workflows/W");
    // What is changed, and who is asked because of it. `b` sees the output of `a`, which stays as it was.
    let changes = [
        (
            "plan.json",
            r#""b", "execution_agent": "Worker", "task_prompt": "do""#,
            r#""b", "execution_agent": "Worker", "task_prompt": "do more""#,
            "b/1",
        ),
        ("plan.json", "[\"out/b.txt\"]", "[\"out/b*.txt\"]", "b/1"),
        (
            "agents.yaml",
            "content: Work.",
            "content: Work well.",
            "a/1 a/2 b/1",
        ),
        (
            "worker.sh",
            "request=$(cat)",
            "request=$(cat) # anew",
            "a/1 a/2 b/1",
        ),
        (
            "worker.sh",
            "{\"by\": \"%s\"",
            "{\"of\": \"%s\"",
            "a/1 a/2 b/1",
        ),
        ("agents.yaml", "cache: true", "cache: false", "a/1 a/2 b/1"),
        ("agents.yaml", "cache: false", "cache: true", ""),
    ];
    for (file, from, to, wanted) in changes {
        let text = fs::read_to_string(workflow.join(file)).expect("it is there");
        assert!(text.contains(from), "{file}: {from}");
        fs::write(workflow.join(file), text.replace(from, to)).expect("a file can be written");
        completed(&project, &["W"]);
        let wanted = format!("{wanted} writer");
        assert_eq!(asked(&project), wanted.trim(), "{file}: {to}");
    }
}

#[test]
fn a_resumed_run_still_says_what_was_taken_from_another() {
    let project = Project::of(CACHED);
    let first = completed(&project, &["W"]);
    let all = 40;
    let crashes = (1..all).filter(|at| {
        let crashed = project.run_with(&[("MOZAIKS_CRASH_AT", &at.to_string())], &["W"]);
        if crashed.code == 0 {
            return false;
        }
        asked(&project);
        let resumed = completed(&project, &["resume"]);
        assert_eq!(results(&resumed), results(&first));
        // The newest run that has the output may be one of those before.
        let reused = reused(&resumed).as_object().map_or(0, |it| it.len());
        assert_eq!(reused, 2, "crashed at {at}");
        true
    });
    assert!((5..all as usize - 1).contains(&crashes.count()));
}

#[test]
fn an_agent_speaks_anew_and_what_came_before_it_stays() {
    let project = Project::of(CACHED);
    let first = completed(&project, &["W"]);
    let id = first["run"].as_str().expect("a run has an id");
    asked(&project);
    let again = completed(&project, &["retry", id, "--from-agent", "Writer"]);
    assert_eq!(asked(&project), "writer");
    assert_eq!(again["run"], id);
    assert_eq!(again["context"], first["context"]);
    assert_eq!(again["files"], first["files"]);
    for file in again["files"].as_array().expect("a list") {
        let file = file.as_str().expect("a path");
        let folder = again["artifacts"].as_str().expect("a folder");
        assert!(project.path(folder).join(file).is_file(), "{file}");
    }
    let show: Value =
        serde_json::from_str(&project.run(&["show", id, "--json"]).stdout).expect("one JSON value");
    assert_eq!(show["turns"].as_array().map(Vec::len), Some(2));

    completed(&project, &["retry", id, "--from-agent", "Planner"]);
    let anew = asked(&project);
    assert_eq!(anew, "writer", "equal work is taken from the run itself");
    let ran = project.run(&["retry", id, "--from-agent", "Writter"]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.stderr.contains("did you mean `Writer`?"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_task_that_was_cancelled_is_left_out_and_can_be_tried_again() {
    // Whoever works on `a` does not come to an end as long as there is no file that says so.
    let slow = CACHED
        .replace(
            "case \"$1/$2\" in a/1) exit 1;; esac",
            "[ $1 = a ] && [ ! -e ../../free ] && sleep 3600",
        )
        .replace(", \"depends_on\": [\"a\"]", "")
        .replace("cache: true", "cache: false");
    let project = Project::of(&slow);
    let mut program = command(&project.path(""), &["W", "--json"]);
    let program = program.stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = program.spawn().expect("the program is built");
    until("both are asked", || {
        let asked = fs::read_to_string(project.path("asked")).unwrap_or_default();
        asked.contains("a/1") && asked.contains("b/1")
    });
    let runs = project.run(&["runs", "--json"]);
    let runs: Value = serde_json::from_str(&runs.stdout).expect("JSON");
    let run = runs[0]["run"].as_str().expect("it is there");
    let ran = project.run(&["cancel", run, "--task", "a", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("\"task\": \"a\""), "{}", ran.stdout);
    let ran = ended(running);
    // `fail_batch` is about failures, and nothing failed.
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    let result: Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
    let results = &result["context"]["work_results"];
    assert_eq!(results["_meta"]["completed_tasks"], json!(["b"]));
    assert_eq!(results["_failed"]["a"]["status"], "cancelled");
    assert_eq!(results["_failed"]["a"]["failure_kind"], "cancelled");
    assert_eq!(results["_failed"]["a"]["error"], "somebody cancelled it");
    let asked_for = asked(&project);
    assert!(
        ["a/1 b/1 writer", "b/1 a/1 writer"].contains(&&*asked_for),
        "{asked_for}"
    );
    project.write("free", "");
    let again = completed(&project, &["retry", run]);
    assert_eq!(again["context"]["work_results"]["a"]["by"], "a");
    assert_eq!(asked(&project), "a/2 writer");
}
