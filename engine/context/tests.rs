use expect_test::{Expect, expect};

use serde_json::json;
use std::collections::BTreeMap;

use super::*;

fn context(variables: Value) -> Context {
    let mut context = Context::default();
    for (name, value) in variables.as_object().into_iter().flatten() {
        context.set(name, value.clone());
    }
    context
}

fn only(names: &[&str]) -> Sees {
    Sees::Only(Arc::new(names.iter().map(ToString::to_string).collect()))
}

/// The task `b`, which needs `a`; `c` was completed too, and `d` will be.
fn task(outputs: &Arc<Outputs>, completed: usize) -> TaskView {
    TaskView {
        batch_id: "batch".into(),
        task_id: "b".into(),
        ix: 0,
        own: BTreeMap::from([
            ("tone".to_owned(), Arc::new(json!("own"))),
            ("current_task_id".to_owned(), Arc::new(json!("forged"))),
            ("results".to_owned(), Arc::new(json!("forged"))),
        ]),
        plan: Arc::new(Decomposition::new(
            "batch".into(),
            vec![json!({"task_id": "b"}).into()],
        )),
        dependencies: vec![0],
        outputs: Arc::clone(outputs),
        completed,
        context_key: "results".into(),
        status_key: "status".into(),
        files: None,
    }
}

fn outputs() -> Arc<Outputs> {
    let outputs = Outputs::new(["a", "b", "c", "d"].map(Arc::from).to_vec());
    outputs.put(2, 0, json!("of c").into());
    outputs.put(0, 1, json!({"of": "a"}).into());
    Arc::new(outputs)
}

/// All that a view shows, by name.
#[track_caller]
fn check(view: &View, expect: Expect) {
    let names = view.names();
    let lines = names.iter().map(|it| {
        let value = view.get(it).map(|it| it.to_string());
        format!("{it} {}\n", value.unwrap_or_default())
    });
    let told: Vec<&str> = view.variables().map(|it| it.0).collect();
    expect.assert_eq(&format!("{}told {told:?}\n", lines.collect::<String>()));
}

#[test]
fn an_agent_sees_what_is_listed_for_it_and_the_input() {
    let context = context(json!({"input": "hello", "a": 1, "b": null}));
    check(
        &context.view(&Sees::All),
        expect![[r#"
        a 1
        b null
        input "hello"
        told ["a", "b", "input"]
    "#]],
    );
    check(
        &context.view(&only(&["a", "unset"])),
        expect![[r#"
        a 1
        input "hello"
        told ["a", "input"]
    "#]],
    );
    check(
        &context.view(&only(&[])),
        expect![[r#"
        input "hello"
        told ["input"]
    "#]],
    );
    let view = context.view(&only(&["a"]));
    assert_eq!(view.get("b"), None);
    check(
        &view.seen_by(&only(&["b"])),
        expect![[r#"
        b null
        input "hello"
        told ["b", "input"]
    "#]],
    );
}

#[test]
fn a_task_sees_the_batch_and_its_own_over_the_run() {
    let context = context(
        json!({"input": "hello", "tone": "run", "secret": 1, "status": "old", "results": "old"}),
    );
    let view = context.view(&only(&["tone"])).in_task(task(&outputs(), 2));
    check(
        &view,
        expect![[r#"
            completed_task_outputs {"a":{"of":"a"},"c":"of c"}
            current_task {"task_id":"b"}
            current_task_batch_id "batch"
            current_task_id "b"
            decomposition_plan {"batch_id":"batch","tasks":[{"task_id":"b"}]}
            dependency_task_outputs {"a":{"of":"a"}}
            input "hello"
            results {"a":{"of":"a"},"c":"of c"}
            status "running"
            task_run_mode true
            tone "own"
            told ["input", "tone"]
        "#]],
    );
    assert_eq!(view.get("secret"), None);
    assert_eq!(view.get("nobody"), None);
    check(
        &view.seen_by(&only(&["secret"])),
        expect![[r#"
        input "hello"
        secret 1
        told ["input", "secret"]
    "#]],
    );
}

#[test]
fn a_view_is_a_snapshot() {
    let mut context = context(json!({"a": 1}));
    let outputs = outputs();
    let before = context.view(&Sees::All).in_task(task(&outputs, 2));
    context.set("a", json!(2));
    context.set("b", json!(3));
    outputs.put(3, 2, json!("of d").into());
    let after = context.view(&Sees::All).in_task(task(&outputs, 3));
    let shown = |it: &View| {
        let names = [
            "a",
            "b",
            "completed_task_outputs",
            "dependency_task_outputs",
        ];
        let values = names.map(|name| it.get(name).map_or(Value::Null, Cow::into_owned));
        Value::from(values.to_vec()).to_string()
    };
    expect![[r#"[1,null,{"a":{"of":"a"},"c":"of c"},{"a":{"of":"a"}}]"#]]
        .assert_eq(&shown(&before));
    expect![[r#"[2,3,{"a":{"of":"a"},"c":"of c","d":"of d"},{"a":{"of":"a"}}]"#]]
        .assert_eq(&shown(&after));
}

#[test]
fn outputs_are_in_plan_order_whatever_the_order_of_completion() {
    let outputs = outputs();
    let first = |count: usize| {
        let ids = outputs
            .first(count)
            .into_iter()
            .map(|(id, _)| id.to_string());
        ids.collect::<Vec<_>>().join(" ")
    };
    assert_eq!([0, 1, 2, 9].map(first), ["", "c", "a c", "a c"]);
    assert_eq!(
        (outputs.get(0).is_some(), outputs.get(1).is_some()),
        (true, false)
    );
}

#[test]
fn a_context_is_one_object() {
    let context = context(json!({"b": [1], "a": {"x": null}}));
    expect![[r#"{"a":{"x":null},"b":[1]}"#]].assert_eq(&context.to_value().to_string());
    assert_eq!(context.names().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!((context.get("a").is_some(), context.get("c")), (true, None));
}
