//! What the program is given besides files of a workflow: names, inputs, variables, plans, folders.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::harness::Project;

/// A planner with an empty plan, and variables of several sources.
const WORKFLOW: &str = "\
=== extended_orchestration/task_batches.yaml
conveyors: [{id: c, decomposition_agent: P, execution_agents: [A]}]
=== agents.yaml
agents:
  - {name: P, runtime: {kind: scripted, replies: [{json: {DecompositionPlan: {tasks: []}}}]}}
  - {name: A, runtime: {kind: scripted, replies: ['{}']}}
=== context_variables.yaml
definitions:
  c_results: {}
  c_status: {}
  topic: {source: {type: runtime}}
  facts: {source: {type: file, path: facts.json, default: none}}
agents: {A: {variables: [c_results]}}
";

/// The exit code, and the code, place and message of everything that is refused.
#[track_caller]
fn check(project: &Project, arguments: &[&str], expect: Expect) {
    let ran = project.run(&[arguments, &["--json"]].concat());
    let value: Value = serde_json::from_str(&ran.stdout).unwrap_or_default();
    let folder = project.path("").to_string_lossy().into_owned();
    let faults = value.as_array().into_iter().flatten().map(|it| {
        let part = |key: &str| {
            let text = it[key].as_str().unwrap_or("-").replace(&folder, "");
            // What the system says differs from one to another.
            match text.split_once(" (os error ") {
                Some((text, _)) => text.rsplit_once(": ").map_or(text, |it| it.0).to_owned(),
                None => text,
            }
        };
        format!(
            "{} {}:{}:{} {}\n",
            part("code"),
            part("file"),
            it["line"],
            it["column"],
            part("message")
        )
    });
    let faults: String = faults.collect();
    expect.assert_eq(&format!("exit {}\n{faults}", ran.code));
}

#[test]
fn names_of_workflows() {
    let project = Project::of(WORKFLOW);
    check(
        &project,
        &["check", "Wx"],
        expect![[r#"
        exit 2
        MZ301 -:null:null there is no workflow `Wx` in `workflows`
    "#]],
    );
    check(
        &project,
        &["check", "../W"],
        expect![[r#"
        exit 2
        MZ301 -:null:null there is no workflow `../W` in `workflows`
    "#]],
    );
    check(
        &project,
        &["check", "--workflows", "nowhere"],
        expect![[r#"
            exit 2
            MZ301 -:null:null there is no folder `nowhere`
        "#]],
    );
    check(
        &project,
        &["init", "1st"],
        expect![[r#"
        exit 2
        MZ501 -:null:null `1st` cannot be the name of a workflow
    "#]],
    );
    check(
        &project,
        &["init", "W"],
        expect![[r#"
        exit 2
        MZ503 -:null:null `workflows/W` is there already
    "#]],
    );
    check(
        &project,
        &["plan", "W", "--batch", "d"],
        expect![[r#"
        exit 2
        MZ501 -:null:null `W` has no batch `d`
    "#]],
    );
}

#[test]
fn inputs_and_variables() {
    let project = Project::of(WORKFLOW);
    check(
        &project,
        &[
            "W",
            "--input",
            "@nowhere.txt",
            "--set",
            "topic",
            "--set",
            "=1",
        ],
        expect![[r#"
            exit 2
            MZ501 -:null:null cannot read the input `nowhere.txt`
            MZ501 -:null:null `--set topic` is not of the form KEY=VALUE
            MZ501 -:null:null `--set =1` is not of the form KEY=VALUE
        "#]],
    );
    check(
        &project,
        &[
            "W",
            "--set",
            "topc=1",
            "--set",
            "c_status=done",
            "--set",
            "current_task=1",
        ],
        expect![[r#"
            exit 2
            MZ501 -:null:null `--set topc=...`: this variable is not declared
            MZ501 -:null:null `--set c_status=...`: this variable is written by the engine
            MZ501 -:null:null `--set current_task=...`: this variable is written by the engine
        "#]],
    );
    project.write("latin.txt", b"caf\xe9");
    check(
        &project,
        &["W", "--input", "@latin.txt"],
        expect![[r#"
        exit 2
        MZ102 latin.txt:1:4 not UTF-8: byte 0xe9 at byte offset 3
    "#]],
    );
    project.write("facts.json", "{\"a\": 1,}");
    check(
        &project,
        &["W"],
        expect![[r#"
        exit 2
        MZ108 facts.json:1:9 not JSON: key must be a string
    "#]],
    );
    project.write("facts.json", "[1, 2]");
    check(
        &project,
        &["W", "--set", "topic=[1"],
        expect![[r#"
        exit 0
    "#]],
    );
}

#[test]
fn plans_and_folders() {
    let project = Project::of(WORKFLOW);
    check(
        &project,
        &["plan", "W", "--plan", "nowhere.yaml"],
        expect![[r#"
            exit 2
            MZ501 -:null:null cannot read the plan `nowhere.yaml`
        "#]],
    );
    project.write("plan.yaml", "# an empty plan\n[]");
    project.write("plan.json", "# an empty plan\n[]");
    check(
        &project,
        &["plan", "W", "--plan", "plan.yaml"],
        expect![[r#"
            exit 0
        "#]],
    );
    check(
        &project,
        &["plan", "W", "--plan", "plan.json"],
        expect![[r#"
            exit 2
            MZ108 plan.json:1:1 not JSON: expected value
        "#]],
    );
    project.write("plan.json", "{\"tasks\": [}");
    check(
        &project,
        &["W", "--plan", "plan.json"],
        expect![[r#"
        exit 2
        MZ108 plan.json:1:12 not JSON: expected value
    "#]],
    );
    project.write("out/old.md", "paid for");
    check(
        &project,
        &["W", "--out", "out"],
        expect![[r#"
        exit 2
        MZ503 -:null:null the folder `out` is not empty
    "#]],
    );
    check(
        &project,
        &["W", "--out", "out", "--overwrite"],
        expect![[r#"
            exit 0
        "#]],
    );
}

#[test]
fn places_that_cannot_be_written() {
    let project = Project::of(WORKFLOW);
    project.write("notes.md", "a file");
    check(
        &project,
        &["W", "--out", "notes.md/", "--overwrite"],
        expect![[r#"
            exit 2
            MZ503 -:null:null `--out notes.md/`: `notes.md` is no folder
        "#]],
    );
    check(
        &project,
        &["W", "--out", "notes.md/a/b"],
        expect![[r#"
        exit 2
        MZ503 -:null:null `--out notes.md/a/b`: `notes.md` is no folder
    "#]],
    );
    check(
        &project,
        &["W", "--record", "notes.md"],
        expect![[r#"
        exit 2
        MZ503 -:null:null `notes.md` is there already
    "#]],
    );
    check(
        &project,
        &["W", "--out", "notes.md", "--record", "no/tape"],
        expect![[r#"
            exit 2
            MZ503 -:null:null `--out notes.md`: `notes.md` is no folder
            MZ504 -:null:null `--record no/tape` cannot be written
        "#]],
    );
    check(
        &project,
        &["W", "--events", "no/such/folder/events"],
        expect![[r#"
            exit 2
            MZ504 -:null:null `--events no/such/folder/events` cannot be written
        "#]],
    );
    check(
        &project,
        &["W", "--events", "workflows"],
        expect![[r#"
        exit 2
        MZ504 -:null:null `--events workflows` cannot be written
    "#]],
    );
    // Nothing has begun, so that there is nothing to go on with.
    let runs = project.run(&["runs", "--json"]).stdout;
    assert_eq!(runs.trim(), "[]");

    check(
        &project,
        &["W", "--out", "new/out", "--events", "events"],
        expect![[r#"
            exit 0
        "#]],
    );
    check(
        &project,
        &["W", "--out", "new/out", "--events", "events"],
        expect![[r#"
            exit 0
        "#]],
    );
    let events = std::fs::read_to_string(project.path("events")).expect("it was written");
    let begun = events.matches("run_started").count();
    assert_eq!(begun, 2, "events come after those that are there: {events}");
    let runs: Value = serde_json::from_str(&project.run(&["runs", "--json"]).stdout)
        .expect("it is a list of runs");
    let id = runs[0]["run"].as_str().expect("it has an id");
    check(
        &project,
        &["retry", id, "--from-agent", "P", "--out", "notes.md"],
        expect![[r#"
            exit 2
            MZ503 -:null:null `--out notes.md`: `notes.md` is no folder
        "#]],
    );
}

#[test]
fn files_that_another_file_names() {
    let project = Project::of(
        "\
=== agents.yaml
agents:
  - {name: A, runtime: {kind: template, template: '{{ x'}}
  - {name: B, runtime: {kind: template, template_file: nowhere.jinja}}
  - {name: C, runtime: {kind: template, output: text, template: x}}
=== tools.yaml
tools: [{agent: A, file: nowhere.py, function: f}]
=== orchestrator.yaml/here
",
    );
    check(
        &project,
        &["check", "W"],
        expect![[r#"
            exit 2
            MZ101 -:null:null cannot read `workflows/W/orchestrator.yaml`
        "#]],
    );
    std::fs::remove_dir_all(project.path("workflows/W/orchestrator.yaml")).expect("it was written");
    check(
        &project,
        &["check", "W"],
        expect![[r#"
            exit 2
            MZ313 workflows/W/agents.yaml:2:12 the template of `A` does not compile in line 1: syntax error: unexpected end of input, expected end of variable block
            MZ314 workflows/W/agents.yaml:3:12 the template of `B` cannot be read: `workflows/W/nowhere.jinja`
            MZ208 workflows/W/tools.yaml:1:17 `f` is never called by `A`: what is `kind: template` calls no tools
            MZ314 workflows/W/tools.yaml:1:26 the file `nowhere.py` of this tool is not there
        "#]],
    );
}

#[cfg(unix)]
#[test]
fn a_file_without_an_end_is_not_read() {
    let project = Project::of("=== agents.yaml\nagents: []\n");
    let agents = project.path("workflows/W/agents.yaml");
    std::fs::remove_file(&agents).expect("it was written");
    std::os::unix::fs::symlink("/dev/zero", &agents).expect("there is room");
    let ran = project.run(&["check", "W"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("agents.yaml`: it is no regular file"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_planner_needs_no_key_where_its_plan_is_given() {
    let files = "\
=== extended_orchestration/task_batches.yaml
conveyors: [{id: c, decomposition_agent: P, execution_agents: [W]}]
=== agents.yaml
agents:
  - {name: P, system_message: plan, runtime: {kind: openai, model: m}}
  - {name: W, runtime: {kind: template, output: json, template: '{\"did\": 1}'}}
";
    let plan = |agent: &str| {
        let task = json!({ "task_id": "a", "execution_agent": agent, "task_prompt": "dig" });
        json!({ "DecompositionPlan": { "tasks": [task] } }).to_string()
    };
    let lacks =
        "`P` is asked through a model, but the environment variable `OPENAI_API_KEY` is not set";
    let project = Project::of(files);
    project.write("plan.json", plan("W"));
    let ran = project.run(&["W", "--json", "--plan", "plan.json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let ran = project.run(&["W"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains(lacks), "{}", ran.stderr);
    // Who works as well is asked.
    let project = Project::of(&files.replace("[W]}]", "[W, P]}]"));
    project.write("plan.json", plan("P"));
    let ran = project.run(&["W", "--plan", "plan.json"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains(lacks), "{}", ran.stderr);
    // Whoever has it speak again needs the key after all.
    let graph = "\
=== transition_graph.yaml
transition_rules:
  - {source_agent: P, target_agent: P, transition_type: after_turn}
";
    let project = Project::of(&[files, graph].concat());
    project.write("plan.json", plan("W"));
    let ran = project.run(&["W", "--plan", "plan.json"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains(lacks), "{}", ran.stderr);
}
