use expect_test::{Expect, expect};

use super::*;

#[track_caller]
fn check(shape: &Shape, paths: &[&str], expect: Expect) {
    let lines = paths.iter().map(|path| match shape.has_path(path) {
        Ok(()) => format!("{path:?} is there\n"),
        Err(error) => format!("{path:?} -- {error}\n"),
    });
    expect.assert_eq(&lines.collect::<String>());
}

#[test]
fn paths_lead_through_the_built_in_plan() {
    let plan = decomposition_plan(&["Writer".to_owned()]);
    check(
        &plan,
        &[
            "DecompositionPlan.tasks",
            " DecompositionPlan . tasks . -1 . depends_on.0",
            "",
            "tasks",
            "DecompositionPlan.taks",
            "DecompositionPlan.tasks.first",
            "DecompositionPlan.tasks.0.task_id.x",
            "DecompositionPlan.tasks.0.owned_paths.x",
        ],
        expect![[r#"
            "DecompositionPlan.tasks" is there
            " DecompositionPlan . tasks . -1 . depends_on.0" is there
            "" is there
            "tasks" -- the answer is a mapping (`Plan`), and has no `tasks`; it has `DecompositionPlan`
            "DecompositionPlan.taks" -- `DecompositionPlan` is a mapping (`DecompositionPlan`), and has no `taks`; it has `tasks`
            "DecompositionPlan.tasks.first" -- `DecompositionPlan.tasks` is a list, and has no `first`
            "DecompositionPlan.tasks.0.task_id.x" -- `DecompositionPlan.tasks.0.task_id` is a text, and has no `x`
            "DecompositionPlan.tasks.0.owned_paths.x" -- `DecompositionPlan.tasks.0.owned_paths` is a list or null, and has no `x`
        "#]],
    );
}

#[test]
fn paths_take_any_variant_and_end_nowhere_in_free_form() {
    let shape = shape(
        r#"
        R: {"u": "U", "any": "optional_dict", "items": "List", "n": {"type": "literal", "values": [1, 2]}}
        U: {"type": "union", "variants": ["I", "list[J]", "null"]}
        I: {"a": "J"}
        J: {"b": "int"}
        "#,
    );
    check(
        &shape,
        &[
            "u.a.b",
            "u.0.b",
            "u.b",
            "u.a.b.c",
            "any.x.0.y",
            "items.x",
            "n.x",
        ],
        expect![[r#"
            "u.a.b" is there
            "u.0.b" is there
            "u.b" -- `u` is a mapping (`I`) or a list or null, and has no `b`; it has `a`
            "u.a.b.c" -- `u.a.b` is an integer, and has no `c`
            "any.x.0.y" is there
            "items.x" is there
            "n.x" -- `n` is `1` or `2`, and has no `x`
        "#]],
    );
}
