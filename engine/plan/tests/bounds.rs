//! Plans that are large, or large mistakes.

use serde_json::json;

use super::*;

fn task(id: usize, more: Value) -> Value {
    let mut task = json!({"task_id": format!("t{id}"), "execution_agent": "A", "task_prompt": "x"});
    for (key, value) in more.as_object().into_iter().flatten() {
        task[key] = value.clone();
    }
    task
}

fn judge(tasks: &[Value], limits: &Limits) -> Result<Plan, Vec<Diagnostic>> {
    let origin = Origin::Reply("reply".to_owned());
    accept(
        &conveyor(""),
        &Value::from(tasks.to_vec()).into(),
        &origin,
        limits,
    )
}

#[test]
fn limits_are_inclusive() {
    let limits = Limits {
        max_tasks: 3,
        max_dependencies: 2,
        max_depth: 2,
        ..Limits::default()
    };
    let chain = |count: usize| -> Vec<Value> {
        (0..count)
            .map(|it| {
                let before = it.checked_sub(1).map(|it| format!("t{it}"));
                task(it, json!({"depends_on": Vec::from_iter(before)}))
            })
            .collect()
    };
    let wide: Vec<Value> = (0..3).map(|it| task(it, json!({}))).collect();
    let star: Vec<Value> = (0..3)
        .map(|it| {
            task(
                it,
                json!({"depends_on": if it == 0 { vec![] } else { vec!["t0"] }}),
            )
        })
        .collect();
    let told = [wide, star, chain(2), chain(3), chain(4)].map(|tasks| {
        let found = judge(&tasks, &limits);
        found.map_or_else(|it| told(&it), |it| format!("{} tasks\n", it.tasks().len()))
    });
    expect![[r#"
        3 tasks
        --
        3 tasks
        --
        2 tasks
        --
        MZ412 1:1 the plan has 3 tasks in a row; 2 are allowed
        --
        MZ412 1:1 the plan has 4 tasks; 3 are allowed
        MZ412 1:1 the plan has 3 dependencies; 2 are allowed
        MZ412 1:1 the plan has 4 tasks in a row; 2 are allowed
    "#]]
    .assert_eq(&told.join("--\n"));
}

#[test]
fn long_ids_and_prompts() {
    let prompt = "ü".repeat(1 << 20);
    let plan = judge(
        &[task(
            0,
            json!({"task_prompt": prompt, "task_id": "ä".repeat(100)}),
        )],
        &Limits::default(),
    );
    assert_eq!(
        plan.map_err(|it| told(&it))
            .expect("it has no fault")
            .tasks()[0]
            .prompt
            .len(),
        2 << 20
    );
    let faults = judge(
        &[task(0, json!({"task_id": "ä".repeat(101)}))],
        &Limits::default(),
    );
    let faults = faults.expect_err("its id is too long");
    expect![[r#"
        MZ403 3:16 the id of task 1 is 202 bytes long; 200 are allowed
    "#]]
    .assert_eq(&told(&faults));
}

#[test]
fn a_fault_deeper_than_a_file_may_nest_is_told_without_a_place() {
    let deep = (0..100).fold(json!(1), |it, _| json!([it]));
    let faults = judge(
        &[task(0, json!({"deep": deep, "execution_agent": "C"}))],
        &Limits::default(),
    );
    expect![[r#"
        MZ407 0:0 task `t0` names the agent `C`, which batch `c` does not allow
    "#]]
    .assert_eq(&told(&faults.expect_err("its agent is not allowed")));
}

#[test]
fn the_largest_plan_is_judged_at_once() {
    let tasks: Vec<Value> = (0..10_000)
        .map(|it| {
            let before = (it - it.min(3)..it).map(|it| format!("t{it}"));
            task(
                it,
                json!({"depends_on": Vec::from_iter(before), "owned_paths": [format!("{it}/")]}),
            )
        })
        .collect();
    let plan = judge(&tasks, &Limits::default());
    assert_eq!(
        plan.map_err(|it| told(&it))
            .expect("it has no fault")
            .graph()
            .edges(),
        29_994
    );
}

#[test]
fn very_many_faults_are_told_by_the_first_and_a_number() {
    let nobody: Vec<String> = (0..20).map(|it| format!("nobody {it}")).collect();
    let tasks: Vec<Value> = (0..1_000)
        .map(|it| task(it, json!({"depends_on": nobody, "execution_agent": "C"})))
        .collect();
    let faults = judge(&tasks, &Limits::default()).expect_err("it is full of faults");
    let last = &faults[faults.len() - 1..];
    expect![[r#"
        101 faults, the last: MZ405 0:0 and 20900 more faults, after the first 100
    "#]]
    .assert_eq(&format!(
        "{} faults, the last: {}",
        faults.len(),
        told(last)
    ));
}
