//! DAGs, carried out by agents of a workflow.

use std::{env, fs};

use serde_json::{Value, json};

use crate::{
    acmp::read,
    harness::{Project, Ran},
};

/// Who serves the capabilities of the format's own example. Each writes down what it was given, and when.
const AGENTS: &str = r#"=== agents.yaml
agents:
  - name: Splitter
    capabilities: [text-split]
    runtime: {kind: command, argv: [python3, serve.py]}
  - name: Analyst
    capabilities: [sentiment-analysis]
    runtime: {kind: command, argv: [python3, serve.py]}
  - name: Aggregator
    capabilities: [result-aggregation]
    runtime: {kind: command, argv: [python3, serve.py]}
=== serve.py
import json, sys
request = json.load(sys.stdin)
task, given = request["task_id"], request["context"]["input"]
with open("../../asked", "a") as asked:
    asked.write(json.dumps([task, given]) + "\n")
if "fails" in task:
    sys.exit("it cannot be done")
if "waits" in task:
    import time
    time.sleep(3600)
if request["agent"] == "Splitter":
    print(json.dumps({"chunks": [word for word in given["data"].split()]}))
elif request["agent"] == "Analyst":
    print(json.dumps({"said": given["data"]}))
else:
    print(json.dumps([it["data"]["said"] for it in given["data"]]))
"#;

/// The example of the format, as it is printed there.
const PRINTED: &str = r#"{
  "dag_id": "dag_f4e2a1",
  "tasks": [
    {
      "task_id": "task_split_01",
      "capability": "text-split",
      "input": {
        "type": "text",
        "data": "Long document text here..."
      },
      "output_type": "json"
    },
    {
      "task_id": "task_sent_02a",
      "capability": "sentiment-analysis",
      "input": {
        "source": {"from_task": "task_split_01", "field": "data.chunks[0]"}
      },
      "output_type": "json",
      "input_tokens_est": 200
    },
    {
      "task_id": "task_sent_02b",
      "capability": "sentiment-analysis",
      "input": {
        "source": {"from_task": "task_split_01", "field": "data.chunks[1]"}
      },
      "output_type": "json",
      "input_tokens_est": 200
    },
    {
      "task_id": "task_agg_03",
      "capability": "result-aggregation",
      "input": {
        "source": {"from_tasks": ["task_sent_02a", "task_sent_02b"]}
      },
      "output_type": "json"
    }
  ],
  "edges": [
    {"from": "task_split_01", "to": "task_sent_02a"},
    {"from": "task_split_01", "to": "task_sent_02b"},
    {"from": "task_sent_02a", "to": "task_agg_03"},
    {"from": "task_sent_02b", "to": "task_agg_03"}
  ]
}"#;

/// What the agents were given, in the order in which they were asked.
fn asked(project: &Project) -> Vec<Value> {
    let text = fs::read_to_string(project.path("asked")).unwrap_or_default();
    text.lines().map(read).collect()
}

/// Carries out a DAG with the agents of `W`.
fn carry_out(project: &Project, dag: &str, options: &[&str]) -> Ran {
    project.write("dag.json", dag);
    let arguments = ["dag", "dag.json", "--workflow", "W"];
    project.run(&[&arguments, options].concat())
}

/// A DAG in short form: a task is `id: needs`, and is given what its first need put out.
fn dag(tasks: &[(&str, &[&str])]) -> String {
    let written = tasks.iter().map(|(id, needs)| {
        let input = match needs {
            [] => json!({ "type": "text", "data": "x" }),
            [one, ..] => json!({ "source": { "from_task": one } }),
        };
        json!({ "task_id": id, "capability": "sentiment-analysis", "input": input })
    });
    let edges = tasks
        .iter()
        .flat_map(|(id, needs)| needs.iter().map(move |it| json!({ "from": it, "to": id })));
    json!({ "dag_id": "dag_1", "tasks": written.collect::<Value>(), "edges": edges.collect::<Value>() }).to_string()
}

#[test]
fn the_example_of_the_format_runs_as_printed() {
    let project = Project::of(AGENTS);
    let ran = carry_out(&project, PRINTED, &[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let wanted = json!({ "type": "json", "data": ["Long", "document"] });
    assert_eq!(read(&ran.stdout), wanted, "the leaf's output is the result");
    let asked = asked(&project);
    let (first, last) = (&asked[0], &asked[3]);
    assert_eq!(first[0], "task_split_01");
    // L2-22: nobody is given a source.
    assert_eq!(
        first[1],
        json!({ "type": "text", "data": "Long document text here..." })
    );
    assert!(asked[1..3].contains(&json!(["task_sent_02a", { "type": "text", "data": "Long" }])));
    let outputs = json!([
        { "type": "json", "data": { "said": "Long" } },
        { "type": "json", "data": { "said": "document" } },
    ]);
    assert_eq!(last[1], json!({ "type": "json", "data": outputs }));
}

#[test]
fn a_dag_is_checked_as_a_whole_before_anybody_is_asked() {
    let project = Project::of(AGENTS);
    let broken = PRINTED
        .replace("data.chunks[1]", "data.chunks[*]")
        .replace(r#""to": "task_sent_02a"}"#, r#""to": "task_sent_02"}"#)
        .replace("result-aggregation", "aggregation");
    let ran = carry_out(&project, &broken, &[]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    for code in ["MZ405", "MZ414", "MZ415", "MZ416"] {
        assert!(ran.stderr.contains(code), "{code}: {}", ran.stderr);
    }
    assert!(asked(&project).is_empty());
    let ran = carry_out(&project, PRINTED, &["--check", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(read(&ran.stdout)["tasks"].as_array().map(Vec::len), Some(4));
    let ran = carry_out(&project, PRINTED, &["--max-price-cu", "1"]);
    assert!(ran.stderr.contains("MZ418"), "{}", ran.stderr);
    assert!(asked(&project).is_empty());
}

#[test]
fn quiet_is_about_what_happens_and_not_about_what_comes_of_it() {
    let project = Project::of(AGENTS);
    let dag = dag(&[("task_one", &[])]);
    let loud = carry_out(&project, &dag, &[]);
    let quiet = carry_out(&project, &dag, &["--quiet"]);
    assert_eq!((quiet.code, &*quiet.stderr), (0, ""));
    assert!(!quiet.stdout.is_empty());
    assert_eq!(quiet.stdout, loud.stdout);
}

#[test]
fn l2_16_several_leaves_are_a_mapping_and_edges_may_be_none() {
    let project = Project::of(AGENTS);
    let ran = carry_out(
        &project,
        &dag(&[("a", &[]), ("b", &[]), ("c", &["a"])]),
        &[],
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let result = read(&ran.stdout);
    let leaves: Vec<&String> = result
        .as_object()
        .into_iter()
        .flatten()
        .map(|it| it.0)
        .collect();
    assert_eq!(leaves, ["b", "c"], "{result}");
    assert_eq!(result["c"]["data"]["said"], json!({ "said": "x" }));
}

/// How each task ended, by id.
fn ends(ran: &Ran, project: &Project) -> Value {
    let id = read(&ran.stdout)["run"].clone();
    let shown = project.run(&["show", id.as_str().unwrap_or("?"), "--json"]);
    let shown = read(&shown.stdout);
    let mut ends = json!({});
    let batches = shown["turns"][0]["batches"].as_array().cloned();
    for task in batches
        .iter()
        .flatten()
        .flat_map(|it| it["tasks"].as_array())
        .flatten()
    {
        ends[task["task_id"].as_str().unwrap_or("?")] = task["status"].clone();
    }
    ends
}

#[test]
fn l2_26_to_28_a_failure_ends_what_needs_it_or_everything() {
    let tasks: &[(&str, &[&str])] = &[
        ("fails", &[]),
        ("needs", &["fails"]),
        ("after", &["needs"]),
        ("other", &[]),
        ("branch", &["other"]),
    ];
    let project = Project::of(AGENTS);
    let ran = carry_out(&project, &dag(tasks), &["--best-effort", "--json"]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    let result = read(&ran.stdout);
    assert_eq!(result["status"], "partial");
    let reason = result["reason"].as_str().unwrap_or_default();
    assert!(
        reason.starts_with("task `fails` failed: program_failed"),
        "{reason}"
    );
    let wanted = json!({"fails": "failed", "needs": "cancelled", "after": "cancelled", "other": "completed", "branch": "completed"});
    assert_eq!(ends(&ran, &project), wanted);

    let project = Project::of(AGENTS);
    let ran = carry_out(&project, &dag(tasks), &["--concurrency", "1", "--json"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert_eq!(read(&ran.stdout)["status"], "failed");
    assert_eq!(ends(&ran, &project)["branch"], "cancelled");
}

#[test]
fn what_leads_nowhere_fails_its_task_without_asking_anybody() {
    let project = Project::of(AGENTS);
    let lost = PRINTED.replace("data.chunks[1]", "data.chunks[9].x");
    let ran = carry_out(
        &project,
        &lost,
        &["--best-effort", "--json", "--retry-limit", "3"],
    );
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    let reason = read(&ran.stdout)["reason"].clone();
    assert_eq!(
        reason,
        "task `task_sent_02b` failed: unresolved: `data.chunks[9].x` leads nowhere: `data.chunks` has 4 items, and none at index 9"
    );
    assert_eq!(asked(&project).len(), 2, "split and the other sentiment");
}

#[test]
fn a_task_has_a_time_of_its_own() {
    let project = Project::of(AGENTS);
    let text = dag(&[("waits", &[])]).replace("\"task_id\"", "\"timeout_ms\":50,\"task_id\"");
    let ran = carry_out(&project, &text, &["--json"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let reason = read(&ran.stdout)["reason"].clone();
    assert_eq!(
        reason,
        "task `waits` failed: timeout: no answer within 0.05 seconds"
    );
}

#[test]
fn a_dag_that_died_goes_on_where_it_was() {
    let tasks: &[(&str, &[&str])] = &[("a", &[]), ("b", &["a"]), ("c", &["b"]), ("d", &[])];
    let wanted = carry_out(&Project::of(AGENTS), &dag(tasks), &[]).stdout;
    let mut deaths = 0;
    for at in 0.. {
        let project = Project::of(AGENTS);
        project.write("dag.json", dag(tasks));
        let arguments = ["dag", "dag.json", "--workflow", "W"];
        let crash = [("MOZAIKS_CRASH_AT", &*at.to_string())];
        if project.run_with(&crash, &arguments).code == 0 {
            break;
        }
        deaths += 1;
        // The run has the DAG: the file is not looked at again.
        fs::remove_file(project.path("dag.json")).expect("it was there");
        let ran = project.run(&["resume"]);
        assert_eq!(ran.code, 0, "killed at {at}: {}", ran.stderr);
        assert_eq!(read(&ran.stdout), read(&wanted), "killed at {at}");
        assert!(asked(&project).len() <= 4 + 2, "killed at {at}");
    }
    assert!(deaths > 4, "it died {deaths} times");
}

const PLANNED: &str = r#"=== extended_orchestration/task_batches.yaml
version: 1
batches:
  - id: work
    trigger_agent: Planner
    source: {kind: structured_output, path: plan, task_model: Dag}
    allowed_capabilities: [text-split, sentiment-analysis]
    result: {context_key: outputs, status_key: status, require_owned_paths: false}
"#;

/// A planner that answers with each of these, one after the other.
fn planner(replies: &[Value]) -> String {
    let replies: Vec<String> = replies
        .iter()
        .map(|it| json!({ "json": { "plan": it } }).to_string())
        .collect();
    let agents = AGENTS.replace(
        "agents:\n",
        &format!(
            "agents:\n  - name: Planner\n    runtime: {{kind: scripted, replies: [{}]}}\n",
            replies.join(", ")
        ),
    );
    let reader = "  - name: Reader\n    runtime: {kind: template, output: json, template: '{{ outputs | tojson }}'}\n=== serve.py";
    format!("{PLANNED}{}", agents.replace("=== serve.py", reader))
}

#[test]
fn a_planner_may_emit_a_dag_and_is_told_what_is_wrong_with_it() {
    let good = read(&dag(&[("a", &[]), ("b", &["a"])]));
    let mut outside = good.clone();
    outside["tasks"][0]["capability"] = json!("result-aggregation");
    let project = Project::of(&planner(&[outside.clone(), good]));
    let checked = project.run(&["check", "W"]);
    assert_eq!(checked.code, 0, "{}", checked.stderr);
    let ran = project.run(&["W", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("MZ416"), "{}", ran.stderr);
    let answer = read(&ran.stdout)["answer"].clone();
    assert_eq!(
        answer["b"]["data"]["said"],
        json!({ "said": "x" }),
        "{answer}"
    );
    assert_eq!(answer["_meta"]["completed_tasks"], json!(["a", "b"]));

    let project = Project::of(&planner(&[outside]));
    let ran = project.run(&["W", "--json"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(asked(&project).is_empty());
}

#[test]
fn a_workflow_may_be_a_dag() {
    let project = Project::of(&format!(
        "{AGENTS}=== extended_orchestration/task_dag.json\n{PRINTED}\n=== acmp.yaml\nconcurrency: 1\n"
    ));
    let ran = project.run(&["W"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(read(&ran.stdout)["data"], json!(["Long", "document"]));
    let ran = project.run(&["W", "--input", "x"]);
    assert!(
        ran.code == 2 && ran.stderr.contains("MZ501"),
        "{}",
        ran.stderr
    );
    project.write("workflows/W/extended_orchestration/task_dag.yaml", PRINTED);
    let ran = project.run(&["check", "W"]);
    assert!(
        ran.code == 2 && ran.stderr.contains("MZ303"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_field_that_no_output_can_have_is_told_before_anybody_is_asked() {
    let models = r#"=== structured_outputs.yaml
models:
  Split: {type: model, fields: {chunks: {type: list, items: str}}}
registry: {Splitter: Split}
"#;
    let project = Project::of(&format!("{AGENTS}{models}"));
    let lost = PRINTED.replace("data.chunks[1]", "data.parts[1]");
    let ran = carry_out(&project, &lost, &[]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    let said = "the field `data.parts[1]` leads nowhere in the output of `task_split_01`, which is a `Split`";
    assert!(
        ran.stderr.contains("MZ415") && ran.stderr.contains(said),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("dag.json:26:59"), "{}", ran.stderr);
    assert!(asked(&project).is_empty());
    // What may be there is not known before.
    let ran = carry_out(&project, PRINTED, &[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

const ECHO: &str = r#"=== agents.yaml
agents:
  - name: Echo
    capabilities: [sentiment-analysis]
    runtime: {kind: template, template: '"x"'}
=== acmp.yaml
limits: {max_depth: 1000000}
"#;

/// `MOZAIKS_LARGE_DAGS` says how many tasks they have.
#[test]
fn long_chains_and_wide_fans_come_to_their_end() {
    let n = env::var("MOZAIKS_LARGE_DAGS").ok();
    let n: usize = n.map_or(1000, |it| it.parse().expect("a number of tasks"));
    let ids: Vec<String> = (0..n).map(|it| format!("t{it}")).collect();
    let before = |name: &str, it: usize| match name {
        "chain" => it.checked_sub(1),
        _ => (it > 0).then_some(0),
    };
    for name in ["chain", "fan"] {
        let needs: Vec<Vec<&str>> = (0..n)
            .map(|it| before(name, it).map(|it| &*ids[it]).into_iter().collect())
            .collect();
        let tasks_of: Vec<(&str, &[&str])> = ids
            .iter()
            .zip(&needs)
            .map(|(id, it)| (&**id, &**it))
            .collect();
        let project = Project::of(ECHO);
        let ran = carry_out(&project, &dag(&tasks_of), &["--json"]);
        assert_eq!(ran.code, 0, "{name}: {}", ran.stderr);
        let run = read(&ran.stdout)["run"].clone();
        let runs = read(&project.run(&["runs", "--json"]).stdout);
        assert_eq!(
            (&runs[0]["run"], &runs[0]["completed"]),
            (&run, &json!(n)),
            "{name}: {runs}"
        );
    }
}
