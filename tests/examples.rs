//! Every folder of `workflows/` is without a mistake and runs to its end, offline; so does what `init` makes.

use std::fs;

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
