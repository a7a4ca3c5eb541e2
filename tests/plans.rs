//! A plan is accepted as a whole or refused as a whole, with everything that is wrong with it.

use expect_test::{Expect, expect};

use crate::harness::Project;

const WORKFLOW: &str = "\
=== extended_orchestration/task_batches.yaml
conveyors:
  - {id: c, decomposition_agent: P, execution_agents: [A, B], require_owned_paths: true}
=== agents.yaml
agents:
  - {name: P, runtime: {kind: scripted, replies: ['{}']}}
  - {name: A, runtime: {kind: scripted, replies: ['{}']}}
  - {name: B, runtime: {kind: scripted, replies: ['{}']}}
  - {name: Z, runtime: {kind: scripted, replies: ['done']}}
";

#[track_caller]
fn check(plan: &str, expect: Expect) {
    let project = Project::of(WORKFLOW);
    let path = project.write("plan.yaml", plan);
    let ran = project.run(&["plan", "W", "--plan", &path.to_string_lossy(), "--json"]);
    let value: serde_json::Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
    let text = match value.as_array() {
        Some(faults) => faults
            .iter()
            .map(|it| {
                format!(
                    "{} {}:{} {}{}\n",
                    it["code"].as_str().unwrap_or("?"),
                    it["line"],
                    it["column"],
                    it["message"].as_str().unwrap_or("?"),
                    match it["suggestion"].as_str() {
                        Some(suggestion) => format!("; did you mean `{suggestion}`?"),
                        None => String::new(),
                    }
                )
            })
            .collect(),
        None => format!(
            "{} tasks, path {}, width {}\n",
            value["tasks"].as_array().map_or(0, Vec::len),
            value["critical_path"],
            value["width"]["count"]
        ),
    };
    assert_eq!(ran.code, if value.is_array() { 2 } else { 0 });
    expect.assert_eq(&text);
}

#[test]
fn a_plan_without_a_fault_is_accepted() {
    check(
        "- {task_id: a, execution_agent: A, task_prompt: x, owned_paths: [a/]}\n- {task_id: b, execution_agent: B, task_prompt: x, owned_paths: [b.md], depends_on: [a]}\n",
        expect![[r#"
            2 tasks, path ["a","b"], width 1
        "#]],
    );
    check(
        "[]",
        expect![[r#"
        0 tasks, path [], width 0
    "#]],
    );
}

#[test]
fn ten_different_faults_are_named_in_one_pass() {
    check(
        "\
DecompositionPlan:
  tasks:
    - {task_id: a, execution_agent: A, task_prompt: x, owned_paths: [a.md], depends_on: [b]}
    - {task_id: b, execution_agent: A, task_prompt: x, owned_paths: [A.md], depends_on: [a]}
    - {task_id: b, execution_agent: Nobody, task_prompt: ' ', owned_paths: [../x]}
    - {task_id: c, execution_agent: A, task_prompt: x, depends_on: [bb]}
    - nonsense
    - {task_id: _meta, execution_agent: A, task_prompt: x, owned_paths: q}
    - {execution_agent: A, task_prompt: x, owned_paths: [f.md]}
    - {task_id: d, execution_agent: A, task_prompt: x, owned_paths: d.md}
",
        expect![[r#"
            MZ406 3:90 these tasks wait for each other: `a` -> `b` -> `a`
            MZ411 4:70 `A.md` of task `b` overlaps `a.md` of task `a`
            MZ404 5:17 the task id `b` stands twice
            MZ407 5:37 task `b` names the agent `Nobody`, which batch `c` does not allow
            MZ408 5:58 task `b` has no `task_prompt`
            MZ409 5:77 task `b` cannot own `../x`: it has a part `..`
            MZ410 6:7 task `c` owns no path, but batch `c` requires it
            MZ405 6:69 task `c` depends on `bb`, which is no task of this plan; did you mean `b`?
            MZ402 7:7 item 5 of the task list is the text `nonsense`, not a task
            MZ403 8:17 the id of task 6 is `_meta`, a name that the results use for something else
            MZ413 8:73 `owned_paths` of task number 6 is the text `q`, not a list of paths
            MZ403 9:7 task 7 has no `task_id`
            MZ413 10:69 `owned_paths` of task `d` is the text `d.md`, not a list of paths
        "#]],
    );
}

#[test]
fn a_file_without_a_task_list_is_refused() {
    check(
        "{x: 1}",
        expect![[r#"
        MZ401 1:1 the plan has no task list at `DecompositionPlan.tasks`
    "#]],
    );
}

#[test]
fn no_task_is_told_to_depend_on_itself() {
    check(
        "\
- {task_id: parse, execution_agent: A, task_prompt: x, owned_paths: [a], depends_on: [parse1, paint1]}
- {task_id: paint, execution_agent: A, task_prompt: x, owned_paths: [b]}
",
        expect![[r#"
            MZ405 1:87 task `parse` depends on `parse1`, which is no task of this plan
            MZ405 1:95 task `parse` depends on `paint1`, which is no task of this plan; did you mean `paint`?
        "#]],
    );
}

#[test]
fn suggestions_for_a_plan_are_limited() {
    let task = |ix: usize| {
        format!(
            "- {{task_id: task{ix}, execution_agent: A, task_prompt: x, owned_paths: [f{ix}], depends_on: [task{ix}x]}}\n"
        )
    };
    let project = Project::of(WORKFLOW);
    let path = project.write("plan.yaml", (0..400).map(task).collect::<String>());
    let ran = project.run(&["plan", "W", "--plan", &path.to_string_lossy(), "--json"]);
    let faults: serde_json::Value = serde_json::from_str(&ran.stdout).expect("one JSON result");
    let faults = faults.as_array().expect("they are a list");
    let compared = faults.iter().filter(|it| it["suggestion"].is_string());
    expect!["101 faults, 100 with a suggestion"].assert_eq(&format!(
        "{} faults, {} with a suggestion",
        faults.len(),
        compared.count()
    ));
}
