//! Where a task list is looked for.

use serde_json::json;

use super::*;

#[track_caller]
fn check_find(batch: &Batch, roots: &[Value], expect: Expect) {
    let lines = roots
        .iter()
        .map(|root| match find(batch, &root.clone().into()) {
            Ok(tasks) => format!("{root} -> {tasks}\n"),
            Err(fault) => format!("{root} -- {}", told(&[*fault])),
        });
    expect.assert_eq(&lines.collect::<String>());
}

#[test]
fn in_an_answer() {
    check_find(
        &conveyor(""),
        &[
            json!({"DecompositionPlan": {"tasks": [1]}}),
            json!({"DecompositionPlan": {"tasks": {"a": 1}}}),
            json!({"DecompositionPlan": {"tasks": "[1, 2]"}}),
            json!("{\"DecompositionPlan\": {\"tasks\": []}}"),
            json!({"DecompositionPlan": "{\"tasks\": []}"}),
            json!({"DecompositionPlan": {"tasks": "none"}}),
            json!({"DecompositionPlan": {"tasks": null}}),
            json!({"DecompositionPlan": {"tasks": 3}}),
            json!({"DecompositionPlan": {"task": []}}),
            json!({"DecompositionPlan": []}),
            json!({"tasks": []}),
            json!([]),
            json!(null),
            json!("no plan"),
        ],
        expect![[r#"
            {"DecompositionPlan":{"tasks":[1]}} -> [1]
            {"DecompositionPlan":{"tasks":{"a":1}}} -> {"a":1}
            {"DecompositionPlan":{"tasks":"[1, 2]"}} -> [1,2]
            "{\"DecompositionPlan\": {\"tasks\": []}}" -> []
            {"DecompositionPlan":"{\"tasks\": []}"} -- MZ401 0:0 batch `c` finds no tasks at `DecompositionPlan.tasks`: `DecompositionPlan` is a text, and has no `tasks`
            {"DecompositionPlan":{"tasks":"none"}} -- MZ401 0:0 batch `c` expects a list of tasks at `DecompositionPlan.tasks`, found the text `none`
            {"DecompositionPlan":{"tasks":null}} -- MZ401 0:0 batch `c` expects a list of tasks at `DecompositionPlan.tasks`, found null
            {"DecompositionPlan":{"tasks":3}} -- MZ401 0:0 batch `c` expects a list of tasks at `DecompositionPlan.tasks`, found the number `3`
            {"DecompositionPlan":{"task":[]}} -- MZ401 0:0 batch `c` finds no tasks at `DecompositionPlan.tasks`: `DecompositionPlan` has no key `tasks`; it has `task`
            {"DecompositionPlan":[]} -- MZ401 0:0 batch `c` finds no tasks at `DecompositionPlan.tasks`: `DecompositionPlan` is an empty list, and `tasks` is not an integer
            {"tasks":[]} -- MZ401 0:0 batch `c` finds no tasks at `DecompositionPlan.tasks`: the value has no key `DecompositionPlan`; it has `tasks`
            [] -- MZ401 0:0 batch `c` finds no tasks at `DecompositionPlan.tasks`: the value is an empty list, and `DecompositionPlan` is not an integer
            null -- MZ401 0:0 batch `c` finds no tasks at `DecompositionPlan.tasks`: the value is null, and has no `DecompositionPlan`
            "no plan" -- MZ401 0:0 batch `c` finds no tasks at `DecompositionPlan.tasks`: the value is a text, and has no `DecompositionPlan`
        "#]],
    );
    check_find(
        &explicit(),
        &[json!({"items": [{"id": 1}], "k": 1}), json!({"k": 1})],
        expect![[r#"
            {"items":[{"id":1}],"k":1} -> [{"id":1}]
            {"k":1} -- MZ401 0:0 batch `b` finds no tasks at `items`: the value has no key `items`; it has `k`
        "#]],
    );
}

#[test]
fn in_a_file() {
    let check = |batch: &Batch, texts: &[&str], expect: Expect| {
        let lines = texts.iter().map(|text| match given(batch, &source(text)) {
            Ok((tasks, at)) => format!("{text} -> {at:?} {tasks}\n"),
            Err(fault) => format!("{text} -- {}", told(&[*fault])),
        });
        expect.assert_eq(&lines.collect::<String>());
    };
    check(
        &conveyor(""),
        &[
            "[1]",
            "tasks: [1]",
            "DecompositionPlan: {tasks: [1]}",
            "DecompositionPlan: {tasks: {a: 1}}",
            "tasks: {a: 1}",
            "DecompositionPlan: [1]",
            "{}",
            "",
            "text",
        ],
        expect![[r#"
            [1] -> "" [1]
            tasks: [1] -> "/tasks" [1]
            DecompositionPlan: {tasks: [1]} -> "/DecompositionPlan/tasks" [1]
            DecompositionPlan: {tasks: {a: 1}} -> "/DecompositionPlan/tasks" {"a":1}
            tasks: {a: 1} -- MZ401 1:1 the plan has no task list at `DecompositionPlan.tasks`
            DecompositionPlan: [1] -- MZ401 1:1 the plan has no task list at `DecompositionPlan.tasks`
            {} -- MZ401 1:1 the plan has no task list at `DecompositionPlan.tasks`
             -- MZ401 1:1 the plan has no task list at `DecompositionPlan.tasks`
            text -- MZ401 1:1 the plan has no task list at `DecompositionPlan.tasks`
        "#]],
    );
    check(
        &explicit(),
        &["[1]", "items: [1]", "tasks: [1]", "items: {a: 1}", "k: [1]"],
        expect![[r#"
            [1] -> "" [1]
            items: [1] -> "/items" [1]
            tasks: [1] -> "/tasks" [1]
            items: {a: 1} -> "/items" {"a":1}
            k: [1] -- MZ401 1:1 the plan has no task list at `items`
        "#]],
    );
}

#[test]
fn the_results_of_a_batch_are_a_task_list() {
    let batch = explicit();
    let tasks = json!({
        "x": {"id": "a", "who": "A", "what": "x"},
        "y": {"id": "b", "who": "A", "what": "x", "after": "a"},
        "_meta": {"status": "completed"},
        "_failed": {"z": {}},
    });
    let origin = Origin::Reply("reply".to_owned());
    let plan = accept(&batch, &tasks.into(), &origin, &Limits::default());
    let plan = plan.map_err(|it| told(&it)).expect("it has no fault");
    expect![[r#"
        "a" by A after [] owns [] says "x" knows {} kind null
        "b" by A after [a] owns [] says "x" knows {} kind null
    "#]]
    .assert_eq(&shown(&plan));
}

#[test]
fn a_fault_in_a_reply_stands_in_the_reply_written_out() {
    let tasks = json!([{"task_id": "ä", "execution_agent": "C", "task_prompt": "x\ny"}, "{\"task_id\": \"b\"}"]);
    let origin = Origin::Reply("answer of P".to_owned());
    let faults = accept(
        &conveyor(""),
        &tasks.clone().into(),
        &origin,
        &Limits::default(),
    );
    let faults = faults.expect_err("it has faults");
    let drawn = crate::diagnostic::draw(&faults, crate::diagnostic::Style::Plain);
    expect![[r#"
        error[MZ407]: task `ä` names the agent `C`, which batch `c` does not allow
         --> answer of P:4:24
          |
        4 |     "execution_agent": "C",
          |                        ^^^
          |
          = note: expected `A` or `B`

        error[MZ408]: task `b` has no `task_prompt`
         --> answer of P:7:3
          |
        7 |   "{\"task_id\": \"b\"}"
          |   ^^^^^^^^^^^^^^^^^^^^^^

        error[MZ413]: task `b` has no `execution_agent`
         --> answer of P:7:3
          |
        7 |   "{\"task_id\": \"b\"}"
          |   ^^^^^^^^^^^^^^^^^^^^^^

    "#]]
    .assert_eq(&drawn);
}

#[test]
fn what_workers_see_of_it() {
    let batch = conveyor("");
    let source = source("- {task_id: a, execution_agent: A, task_prompt: x, more: 1}");
    let origin = Origin::File(&source, String::new());
    let plan = accept(&batch, &source.value().into(), &origin, &Limits::default());
    let plan = plan.map_err(|it| told(&it)).expect("it has no fault");
    expect![[r#"{"batch_id":"c","tasks":[{"task_id":"a","execution_agent":"A","task_prompt":"x","more":1}]}"#]].assert_eq(&plan.decomposition().text());
}
