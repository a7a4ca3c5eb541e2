use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

#[track_caller]
fn check(root: Value, paths: &[&str], expect: Expect) {
    let lines = paths.iter().map(|path| match resolve(&root, path) {
        Ok(value) => format!("{path:?} -> {value}\n"),
        Err(error) => format!("{path:?} -- {error}\n"),
    });
    expect.assert_eq(&lines.collect::<String>());
}

#[test]
fn leads_to_a_value() {
    let root = json!({"plan": {"tasks": [{"id": "a"}, {"id": "b"}], "note": null, "0": "zero"}});
    let paths = &[
        "",
        " . ",
        "plan.tasks.0.id",
        " plan . tasks .. -1.",
        "plan.tasks.+1.id",
        "plan.note",
        "plan.0",
    ];
    check(
        root,
        paths,
        expect![[r#"
        "" -> {"plan":{"tasks":[{"id":"a"},{"id":"b"}],"note":null,"0":"zero"}}
        " . " -> {"plan":{"tasks":[{"id":"a"},{"id":"b"}],"note":null,"0":"zero"}}
        "plan.tasks.0.id" -> "a"
        " plan . tasks .. -1." -> {"id":"b"}
        "plan.tasks.+1.id" -> "b"
        "plan.note" -> null
        "plan.0" -> "zero"
    "#]],
    );
}

#[test]
fn says_what_stopped_it() {
    let root = json!({"plan": {"tasks": [1, 2], "none": [], "one": [1], "note": null, "text": "{\"a\": 1}", "empty": {}}});
    let paths = &[
        "plan.taks",
        "Plan",
        "plan.empty.x",
        "plan.tasks.2",
        "plan.tasks.-3",
        "plan.tasks.99999999999999999999",
        "plan.tasks.first",
        "plan.none.0",
        "plan.none.x",
        "plan.one.1",
        "plan.note.x",
        "plan.text.a",
        "plan.tasks.0.x",
    ];
    check(
        root,
        paths,
        expect![[r#"
        "plan.taks" -- `plan` has no key `taks`; it has `tasks`, `none`, `one`, `note`, `text`, `empty`
        "Plan" -- the value has no key `Plan`; it has `plan`
        "plan.empty.x" -- `plan.empty` has no key `x`; it is empty
        "plan.tasks.2" -- `plan.tasks` has no item `2`; it is a list of 2 items
        "plan.tasks.-3" -- `plan.tasks` has no item `-3`; it is a list of 2 items
        "plan.tasks.99999999999999999999" -- `plan.tasks` has no item `99999999999999999999`; it is a list of 2 items
        "plan.tasks.first" -- `plan.tasks` is a list, and `first` is not an integer from 0 to 1
        "plan.none.0" -- `plan.none` has no item `0`; it is an empty list
        "plan.none.x" -- `plan.none` is an empty list, and `x` is not an integer
        "plan.one.1" -- `plan.one` has no item `1`; it is a list of one item
        "plan.note.x" -- `plan.note` is null, and has no `x`
        "plan.text.a" -- `plan.text` is a text, and has no `a`
        "plan.tasks.0.x" -- `plan.tasks.0` is a number, and has no `x`
    "#]],
    );
}

#[test]
fn reads_a_root_that_is_json() {
    check(
        json!(r#" {"tasks": [1, {"a": null}]} "#),
        &["tasks.-1.a", "tasks.-1", "", "task"],
        expect![[r#"
            "tasks.-1.a" -> null
            "tasks.-1" -> {"a":null}
            "" -> {"tasks":[1,{"a":null}]}
            "task" -- the value has no key `task`; it has `tasks`
        "#]],
    );
    check(
        json!("7"),
        &["", "x"],
        expect![[r#"
        "" -> "7"
        "x" -- the value is a text, and has no `x`
    "#]],
    );
    check(
        json!("{"),
        &["", "x"],
        expect![[r#"
        "" -> "{"
        "x" -- the value is a text, and has no `x`
    "#]],
    );
}

#[test]
fn keeps_and_shows_so_many_keys() {
    let object: Value = (0..100)
        .map(|it| (format!("k{it}"), json!(it)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let error = resolve(&object, "x").expect_err("there is no such key");
    let Stop::NoKey { keys, more } = &error.reason else {
        panic!("{error}");
    };
    assert_eq!((keys.len(), *more), (64, 36));
    check(
        object,
        &["x"],
        expect![[r#"
        "x" -- the value has no key `x`; it has `k0`, `k1`, `k2`, `k3`, `k4`, `k5`, `k6`, `k7` and 92 more
    "#]],
    );
}
