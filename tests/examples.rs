//! Every folder of `workflows/` is without a mistake and runs to its end, offline; so does what `init` makes.

use std::fs;

use expect_test::expect;
use mozaiks::{
    contract::{
        acmp::{DagLimits, Provider},
        orchestrator::{Limits, Orchestrator},
        task_batches::DEFAULT_CONCURRENCY,
        tools::{RESULT_BYTES, SECONDS},
    },
    provide,
};
use serde_json::{Value, json};

use crate::harness::{Project, home, run_in};

/// The workflows of this project.
fn names() -> Vec<String> {
    let folders = fs::read_dir(home().join("workflows")).expect("there are workflows");
    let names = folders.flatten().filter(|it| it.path().is_dir());
    names
        .map(|it| it.file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn every_workflow_is_without_a_mistake_or_a_warning() {
    let ran = run_in(home(), &["check", "--strict"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(names().len() >= 3, "the three examples are there");
}

#[test]
fn every_workflow_runs_offline_to_its_end_and_writes_files() {
    // What a DAG comes to is printed, and its input stands in it.
    let is_dag = |name: &String| {
        let dag = "extended_orchestration/task_dag.yaml";
        home().join("workflows").join(name).join(dag).exists()
    };
    for name in names().into_iter().filter(|it| !is_dag(it)) {
        // One that asks a model has a recording.
        let recordings = fs::read_dir(home().join("workflows").join(&name).join("tests"));
        let mut recordings = recordings
            .into_iter()
            .flatten()
            .flatten()
            .map(|it| it.path());
        let recording = recordings.find(|it| it.extension().is_some_and(|it| it == "jsonl"));
        let recording = recording.map(|it| it.to_string_lossy().into_owned());
        let given = match &recording {
            Some(recording) => ["--replay", recording],
            None => ["--input", "@README.md"],
        };
        let out = tempfile::tempdir().expect("a folder can be made");
        let path = out.path().to_string_lossy().into_owned();
        let ran = run_in(
            home(),
            &[&["run", &name, "--out", &path], &given[..]].concat(),
        );
        assert_eq!(ran.code, 0, "{name}: {}", ran.stderr);
        let written = fs::read_dir(out.path())
            .expect("the folder is there")
            .count();
        assert!(written > 0, "{name} wrote nothing");
    }
}

#[test]
fn the_digest_of_an_empty_text_says_so() {
    let out = tempfile::tempdir().expect("a folder can be made");
    let path = out.path().to_string_lossy().into_owned();
    let ran = run_in(home(), &["DocumentDigest", "--input", "", "--out", &path]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let report = fs::read_to_string(out.path().join("report.md")).expect("the report is written");
    assert!(report.contains("The document is empty"), "{report}");
}

#[test]
fn what_init_makes_is_without_a_mistake_and_runs_at_once() {
    for template in ["conveyor", "batches"] {
        let project = Project::new();
        let made = project.run(&["init", "Mine", "--template", template]);
        assert_eq!(made.code, 0, "{}", made.stderr);
        assert!(
            made.stderr.contains("the schemas for editors in "),
            "{}",
            made.stderr
        );
        let checked = project.run(&["check", "Mine", "--strict"]);
        assert_eq!(checked.code, 0, "{}", checked.stderr);
        let ran = project.run(&["Mine", "--input", "Ann Bob", "--json"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let result: serde_json::Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
        assert_eq!(result["status"], "completed");
        let again = project.run(&["init", "Mine"]);
        assert_eq!(again.code, 2, "it is there already");
    }
}

/// The block of a language in a text that begins so.
fn block<'a>(text: &'a str, language: &str, beginning: &str) -> &'a str {
    let fence = format!("```{language}\n{beginning}");
    let (_, rest) = text.split_once(&fence).expect("the example is there");
    let (block, _) = rest.split_once("```").expect("it ends");
    block
}

#[test]
fn the_outcome_of_the_readme_is_one() {
    let readme = fs::read_to_string(home().join("README.md")).expect("it is there");
    let tools = block(&readme, "yaml", "tools:\n  - agent: Writer\n");
    let function = block(&readme, "python", "def check_draft");
    let rule = readme.split_once("A transition takes it from there: `");
    let (rule, _) = rule
        .and_then(|it| it.1.split_once('`'))
        .expect("it is there");
    let of = |replies: &str, function: &str| {
        Project::of(&format!(
            r#"=== tools.yaml
tools:
  - agent: Writer
{tools}
=== tools/drafts.py
def check_draft{function}
=== context_variables.yaml
definitions:
  verdict: {{type: string, source: {{type: state, default: ""}}}}
  drafts: {{type: integer, source: {{type: state, default: 0}}}}
agents: {{}}
=== transition_graph.yaml
transition_rules:
  - {rule}
  - {{source_agent: Writer, target_agent: terminate, transition_type: after_turn}}
  - {{source_agent: Editor, target_agent: terminate, transition_type: after_turn}}
=== orchestrator.yaml
initial_agent: Writer
=== agents.yaml
agents:
  - {{name: Writer, runtime: {{kind: scripted, replies: {replies}}}}}
  - {{name: Editor, runtime: {{kind: template, template: edited, output: text}}}}
"#
        ))
    };
    let short = "{json: {text: too short}}";
    let enough = "{json: {text: three words now}}";
    let mut told = String::new();
    for (replies, function) in [
        (format!("[{short}, {enough}]"), function),
        (format!("[{short}]"), function),
        (format!("[{enough}]"), "(text): raise ValueError('why')\n"),
    ] {
        let project = of(&replies, function);
        let ran = project.run(&["W", "--json"]);
        let value: Value = serde_json::from_str(&ran.stdout).unwrap_or_default();
        let context = &value["context"];
        told.push_str(&format!(
            "{} turns, verdict {}, drafts {}, failed tools {}, exit {}\n",
            value["turns"],
            context["verdict"],
            context["drafts"],
            value["failed_tools"].as_array().map_or(0, Vec::len),
            ran.code,
        ));
    }
    expect![[r#"
        3 turns, verdict "good", drafts 2, failed tools 0, exit 0
        3 turns, verdict "poor", drafts 3, failed tools 0, exit 0
        1 turns, verdict "unchecked", drafts 1, failed tools 1, exit 0
    "#]]
    .assert_eq(&told);
}

#[test]
fn the_limits_of_the_readme_are_those_of_the_program() {
    let readme = fs::read_to_string(home().join("README.md")).expect("it is there");
    let (limits, dags) = (Limits::default(), DagLimits::default());
    let provider = json!({ "name": "p", "endpoint": { "kind": "stdio", "argv": ["p"] }, "capabilities": ["c"] });
    let provider: Provider = serde_json::from_value(provider).expect("it has all that is needed");
    let whole = |number: usize| {
        let digits: Vec<char> = number.to_string().chars().rev().collect();
        let groups = digits.chunks(3).map(|it| it.iter().collect::<String>());
        let text = groups.collect::<Vec<_>>().join(",");
        text.chars().rev().collect::<String>()
    };
    let megabytes = |bytes: usize| format!("{} MB", bytes >> 20);
    for (most, name) in [
        (Orchestrator::default().max_turns.to_string(), "max_turns"),
        (whole(limits.max_tasks), "limits.max_tasks"),
        (whole(limits.max_dependencies), "limits.max_dependencies"),
        (whole(limits.max_depth), "limits.max_depth"),
        (
            megabytes(limits.max_output_bytes),
            "limits.max_output_bytes",
        ),
        (megabytes(limits.max_file_bytes), "limits.max_file_bytes"),
        (
            limits.plan_repair_limit.to_string(),
            "limits.plan_repair_limit",
        ),
        (
            format!("{} seconds", limits.turn_timeout_seconds),
            "limits.turn_timeout_seconds",
        ),
        (DEFAULT_CONCURRENCY.to_string(), "concurrency"),
        (
            format!(
                "{}; {}; {}",
                whole(dags.max_tasks),
                whole(dags.max_edges),
                whole(dags.max_depth)
            ),
            "limits.max_tasks`, `limits.max_edges`, `limits.max_depth`",
        ),
        (megabytes(dags.max_input_bytes), "limits.max_input_bytes"),
        (
            megabytes(provider.max_message_bytes),
            "max_message_bytes` of the provider",
        ),
        (format!("{} KB", RESULT_BYTES >> 10), "max_result_bytes"),
        (format!("{SECONDS} seconds"), "timeout_seconds` of the tool"),
    ] {
        let name = match name.contains('`') {
            true => format!("`{name}"),
            false => format!("`{name}`"),
        };
        let row = format!("| {most} | {name} |");
        assert!(readme.contains(&row), "{row}");
    }
    let served = provide::Limits::default();
    let sentence = format!(
        "`provide` has at most {} connections, {} tasks at once and {} unfinished ones of a connection, gives each as long as its buyer waits and {} seconds at most, and remembers the last {} results, or {} of them.",
        served.connections,
        served.running,
        whole(served.open),
        served.timeout.as_secs(),
        whole(served.remembered),
        megabytes(served.remembered_bytes),
    );
    assert!(readme.contains(&sentence), "{sentence}");
}
