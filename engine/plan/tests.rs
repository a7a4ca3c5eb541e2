use std::fmt::Write;

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

mod bounds;
mod sources;

const AGENTS: &str = "
=== agents
agents:
  - {name: P, runtime: {kind: scripted, replies: ['{}']}}
  - {name: A, runtime: {kind: scripted, replies: ['{}']}}
  - {name: B, runtime: {kind: scripted, replies: ['{}']}}
";

/// A conveyor `c` for `A` and `B`.
fn conveyor(options: &str) -> Batch {
    crate::compile::tests::batch(&format!(
        "=== task_batches\nconveyors: [{{id: c, decomposition_agent: P, execution_agents: [A, B], {options}}}]\n{AGENTS}"
    ))
}

/// An explicit batch `b` for `A`, whose tasks say `who`, `what` and `after`.
fn explicit() -> Batch {
    crate::compile::tests::batch(&format!(
        "\
=== task_batches
batches:
  - id: b
    trigger_agent: P
    source: {{kind: context_variable, path: items, task_model: DecomposedTask}}
    worker: {{agent_field: who, prompt_field: what, context_fields: [tone, k]}}
    execution: {{dependency_field: after}}
    result: {{context_key: k, status_key: s, require_owned_paths: false}}
    allowed_execution_agents: [A]
{AGENTS}"
    ))
}

fn source(text: &str) -> Source {
    let file = File {
        name: "f".to_owned(),
        text: text.to_owned(),
    };
    Source::parse(&Arc::new(file)).expect("it is YAML")
}

fn accepted(batch: &Batch, text: &str) -> String {
    let source = source(text);
    let tasks = source.value();
    let origin = Origin::File(&source, String::new());
    match accept(batch, &tasks.clone().into(), &origin, &Limits::default()) {
        Ok(plan) => shown(&plan),
        Err(faults) => told(&faults),
    }
}

/// Each task, and what it waits for.
fn shown(plan: &Plan) -> String {
    let mut text = String::new();
    for (ix, task) in plan.tasks().iter().enumerate() {
        let needs = plan.graph().needs(crate::graph::TaskIx::new(ix));
        let needs = needs.iter().map(|it| &*plan.tasks()[it.at()].id);
        let needs = needs.collect::<Vec<_>>().join(",");
        let owned = task.owned.iter().map(ToString::to_string);
        let owned = owned.collect::<Vec<_>>().join(",");
        let own = serde_json::to_value(&task.own).expect("variables are JSON");
        let _ = writeln!(
            text,
            "{:?} by {} after [{needs}] owns [{owned}] says {:?} knows {own} kind {}",
            task.id,
            task.agent,
            task.prompt,
            task.kind.as_deref().unwrap_or(&Value::Null)
        );
    }
    text
}

fn told(faults: &[Diagnostic]) -> String {
    let mut text = String::new();
    for it in faults {
        let (line, column) = it.at.as_ref().map_or((0, 0), |at| at.line_column());
        let _ = write!(text, "{} {line}:{column} {}", it.code.as_str(), it.message);
        let near = it.suggestion.iter().map(|it| format!(" ({it}?)"));
        let related = it.related.iter().map(|(at, note)| {
            let (line, column) = at.line_column();
            format!("; {line}:{column} {note}")
        });
        let _ = writeln!(text, "{}", near.chain(related).collect::<String>());
    }
    text
}

#[track_caller]
fn check(tasks: &str, expect: Expect) {
    expect.assert_eq(&accepted(&conveyor(""), tasks));
}

#[track_caller]
fn check_explicit(tasks: &str, expect: Expect) {
    expect.assert_eq(&accepted(&explicit(), tasks));
}

#[test]
fn a_plan_keeps_what_the_planner_wrote() {
    check("[]", expect![[""]]);
    check(
        "\
- {task_id: ' a ', execution_agent: ' A ', task_prompt: '  say ${x} {{ y }}  ', kind: page, extra: {x: 1}}
- {task_id: b, execution_agent: B, task_prompt: x, depends_on: [a, ' a ', a], owned_paths: [ ./b//c.md, d/ ], context_variables: {tone: dry, current_task: forged, c_results: 1}}
- {task_id: c, execution_agent: A, task_prompt: x, depends_on: null, owned_paths: null, kind: null}
",
        expect![[r#"
            "a" by A after [] owns [] says "say ${x} {{ y }}" knows {} kind "page"
            "b" by B after [a] owns [b/c.md,d/] says "x" knows {"tone":"dry"} kind null
            "c" by A after [] owns [] says "x" knows {} kind null
        "#]],
    );
}

#[test]
fn ids() {
    check(
        "\
- {execution_agent: A, task_prompt: x}
- {task_id: null, execution_agent: A, task_prompt: x}
- {task_id: '', execution_agent: A, task_prompt: x}
- {task_id: ' ', execution_agent: A, task_prompt: x}
- {task_id: 7, execution_agent: A, task_prompt: x}
- {task_id: 1.10, execution_agent: A, task_prompt: x}
- {task_id: true, execution_agent: A, task_prompt: x}
- {task_id: [a], execution_agent: A, task_prompt: x}
- {id: a, name: b, execution_agent: A, task_prompt: x}
- {task_id: _failed, execution_agent: A, task_prompt: x}
- {task_id: \"a\\nb\", execution_agent: A, task_prompt: x}
- {task_id: \"a\\0\", execution_agent: A, task_prompt: x}
",
        expect![[r#"
            MZ403 1:3 task 1 has no `task_id`
            MZ403 2:3 task 2 has no `task_id`
            MZ403 3:3 task 3 has no `task_id`
            MZ403 4:13 the id of task 4 is blank
            MZ403 5:13 the id of task 5 is the number `7`, not a text
            MZ403 6:13 the id of task 6 is the number `1.1`, not a text
            MZ403 7:13 the id of task 7 is `true`, not a text
            MZ403 8:13 the id of task 8 is a list of 1, not a text
            MZ403 9:3 task 9 has no `task_id`
            MZ403 10:13 the id of task 10 is `_failed`, a name that the results use for something else
            MZ403 11:13 the id of task 11 has the control character `\n`
            MZ403 12:13 the id of task 12 has the control character `\0`
        "#]],
    );
}

#[test]
fn ids_of_any_script() {
    check(
        "\
- {task_id: no, execution_agent: A, task_prompt: x}
- {task_id: ключ 東京, execution_agent: A, task_prompt: x, depends_on: [no]}
- {task_id: \"caf\\u00e9\", execution_agent: A, task_prompt: x}
- {task_id: \"cafe\\u0301\", execution_agent: A, task_prompt: x, depends_on: [\"caf\\u00e9\"]}
- {task_id: \"\\u{1f469}\\u{200d}\\u{1f680}\", execution_agent: A, task_prompt: x}
- {task_id: A/../b, execution_agent: A, task_prompt: x}
- {task_id: a, execution_agent: A, task_prompt: x}
- {task_id: __proto__, execution_agent: A, task_prompt: x}
- {task_id: '${x}', execution_agent: A, task_prompt: x, depends_on: [__proto__]}
"
        .replace(
            "\\u{1f469}\\u{200d}\\u{1f680}",
            "\u{1f469}\u{200d}\u{1f680}",
        )
        .as_str(),
        expect![[r#"
            "no" by A after [] owns [] says "x" knows {} kind null
            "ключ 東京" by A after [no] owns [] says "x" knows {} kind null
            "café" by A after [] owns [] says "x" knows {} kind null
            "cafe\u{301}" by A after [café] owns [] says "x" knows {} kind null
            "👩\u{200d}🚀" by A after [] owns [] says "x" knows {} kind null
            "A/../b" by A after [] owns [] says "x" knows {} kind null
            "a" by A after [] owns [] says "x" knows {} kind null
            "__proto__" by A after [] owns [] says "x" knows {} kind null
            "${x}" by A after [__proto__] owns [] says "x" knows {} kind null
        "#]],
    );
}

#[test]
fn ids_of_explicit_batches_may_be_left_out() {
    check_explicit(
        "\
- {who: A, what: x}
- {task_id: 0, id: 7, who: A, what: x, after: 1}
- {name: n, who: A, what: x, after: '7'}
- {id: 1.5, who: A, what: x, after: [7, task_1], tone: dry, k: forged, context_variables: [1]}
- {id: {}, who: A, what: x}
",
        expect![[r#"
            MZ413 2:47 `after` of task `7` is the number `1`, not a list of task ids
            MZ403 5:8 the id of task 5 is a mapping, not a text
        "#]],
    );
    check_explicit(
        "\
- {who: A, what: x}
- {task_id: 0, id: 7, who: A, what: x, after: task_1}
- {name: n, who: A, what: x, after: [7], tone: dry, k: forged, context_variables: [1]}
",
        expect![[r#"
            "task_1" by A after [] owns [] says "x" knows {} kind null
            "7" by A after [task_1] owns [] says "x" knows {} kind null
            "n" by A after [7] owns [] says "x" knows {"tone":"dry"} kind null
        "#]],
    );
    check_explicit(
        "- {who: A, what: x}\n- {id: task_1, who: A, what: x}\n- {name: task_1, who: A, what: x}",
        expect![[r#"
            MZ404 2:8 the task id `task_1` stands twice; 1:3 it stands here first
            MZ404 3:10 the task id `task_1` stands twice; 1:3 it stands here first
        "#]],
    );
}

#[test]
fn fields_have_their_types() {
    check(
        "\
- text
- null
- 3
- [a]
- '{\"task_id\": \"text\", \"execution_agent\": \"A\", \"task_prompt\": \"x\"}'
- '{\"task_id\": \"cut\"'
- '{\"task_id\": \"a\", \"task_id\": \"b\"}'
- {task_id: a}
- {task_id: b, execution_agent: 1, task_prompt: [x], depends_on: a, owned_paths: {a: 1}}
- {task_id: c, execution_agent: ' ', task_prompt: null, depends_on: [1, null, {x: 1}], owned_paths: [1, null]}
- {task_id: d, execution_agent: null, task_prompt: \"\\t\\n\", depends_on: {a: 1}, owned_paths: text}
",
        expect![[r#"
            MZ402 1:3 item 1 of the task list is the text `text`, not a task
            MZ402 2:3 item 2 of the task list is null, not a task
            MZ402 3:3 item 3 of the task list is the number `3`, not a task
            MZ402 4:3 item 4 of the task list is a list of 1, not a task
            MZ402 6:3 item 6 of the task list is the text `{"task_id": "cut"`, not a task
            MZ402 7:3 item 7 of the task list is the text `{"task_id": "a", "task_id": "b"}`, not a task
            MZ408 8:3 task `a` has no `task_prompt`
            MZ413 8:3 task `a` has no `execution_agent`
            MZ413 9:33 `execution_agent` of task `b` is the number `1`, not a text
            MZ413 9:49 `task_prompt` of task `b` is a list of 1, not a text
            MZ413 9:66 `depends_on` of task `b` is the text `a`, not a list of task ids
            MZ413 9:82 `owned_paths` of task `b` is a mapping, not a list of paths
            MZ413 10:33 task `c` has no `execution_agent`
            MZ408 10:51 task `c` has no `task_prompt`
            MZ413 10:70 task `c` depends on the number `1`, not on the id of a task
            MZ413 10:73 task `c` depends on null, not on the id of a task
            MZ413 10:79 task `c` depends on a mapping, not on the id of a task
            MZ413 10:102 an owned path of task `c` is the number `1`, not a text
            MZ413 10:105 an owned path of task `c` is null, not a text
            MZ413 11:33 task `d` has no `execution_agent`
            MZ408 11:52 task `d` has no `task_prompt`
            MZ413 11:72 `depends_on` of task `d` is a mapping, not a list of task ids
            MZ413 11:93 `owned_paths` of task `d` is the text `text`, not a list of paths
        "#]],
    );
}

#[test]
fn agents_are_those_of_the_allow_list() {
    check(
        "\
- {task_id: a, execution_agent: a, task_prompt: x}
- {task_id: b, execution_agent: P, task_prompt: x}
- {task_id: c, execution_agent: \"A\\u200b\", task_prompt: x}
",
        expect![[r#"
            MZ407 1:33 task `a` names the agent `a`, which batch `c` does not allow (A?)
            MZ407 2:33 task `b` names the agent `P`, which batch `c` does not allow
            MZ407 3:33 task `c` names the agent `A\u{200b}`, which batch `c` does not allow (A?)
        "#]],
    );
}

#[test]
fn dependencies_lead_to_tasks_and_never_back() {
    check(
        "\
- {task_id: outline, execution_agent: A, task_prompt: x, depends_on: [outline]}
- {task_id: b, execution_agent: A, task_prompt: x, depends_on: [outlines, Outline, '']}
- {task_id: c, execution_agent: A, task_prompt: x, depends_on: [b]}
",
        expect![[r#"
            MZ406 1:71 task `outline` depends on itself
            MZ405 2:65 task `b` depends on `outlines`, which is no task of this plan (outline?)
            MZ405 2:75 task `b` depends on `Outline`, which is no task of this plan (outline?)
            MZ405 2:84 task `b` depends on ``, which is no task of this plan
        "#]],
    );
    // Each of those that have nothing to do with each other.
    check(
        "\
- {task_id: a, execution_agent: A, task_prompt: x, depends_on: [b]}
- {task_id: b, execution_agent: A, task_prompt: x, depends_on: [a]}
- {task_id: c, execution_agent: A, task_prompt: x, depends_on: [d, a]}
- {task_id: d, execution_agent: A, task_prompt: x, depends_on: [c]}
- {task_id: e, execution_agent: A, task_prompt: x, depends_on: [d]}
",
        expect![[r#"
            MZ406 1:65 these tasks wait for each other: `a` -> `b` -> `a`; 2:65 `b` waits for `a`
            MZ406 3:65 these tasks wait for each other: `c` -> `d` -> `c`; 4:65 `d` waits for `c`
        "#]],
    );
    check(
        "\
- {task_id: a, execution_agent: A, task_prompt: x, depends_on: [b, d]}
- {task_id: b, execution_agent: A, task_prompt: x, depends_on: [c]}
- {task_id: c, execution_agent: A, task_prompt: x, depends_on: [a]}
- task_id: d
  execution_agent: A
  task_prompt: x
  depends_on:
    - a
",
        expect![[r#"
            MZ406 1:68 these tasks wait for each other: `a` -> `d` -> `a`; 8:7 `d` waits for `a`
        "#]],
    );
}

#[test]
fn ids_stand_once() {
    check(
        "\
- {task_id: a, execution_agent: A, task_prompt: x}
- {task_id: A, execution_agent: A, task_prompt: x}
- {task_id: ' a', execution_agent: A, task_prompt: x}
- {task_id: b, execution_agent: A, task_prompt: x, depends_on: [a]}
- {task_id: a, execution_agent: A, task_prompt: x}
",
        expect![[r#"
            MZ404 3:13 the task id `a` stands twice; 1:13 it stands here first
            MZ404 5:13 the task id `a` stands twice; 1:13 it stands here first
        "#]],
    );
}

#[test]
fn paths_have_one_owner() {
    let batch = conveyor("require_owned_paths: true");
    let check = |tasks: &str, expect: Expect| expect.assert_eq(&accepted(&batch, tasks));
    check(
        "\
- {task_id: a, execution_agent: A, task_prompt: x, owned_paths: [src/, /etc, ../x, 'C:\\x', \"a\\0\", ' ']}
- {task_id: b, execution_agent: A, task_prompt: x, owned_paths: [SRC/b.rs, docs/**/*.md]}
- {task_id: c, execution_agent: A, task_prompt: x, owned_paths: ['docs\\a\\b.md'], depends_on: [b]}
- {task_id: d, execution_agent: A, task_prompt: x, owned_paths: []}
- {task_id: e, execution_agent: A, task_prompt: x}
- {task_id: f, execution_agent: A, task_prompt: x, owned_paths: [/only]}
- {task_id: g, execution_agent: A, task_prompt: x, owned_paths: [g.md, g.md, ./g.md]}
",
        expect![[r#"
            MZ409 1:72 task `a` cannot own `/etc`: it is absolute
            MZ409 1:78 task `a` cannot own `../x`: it has a part `..`
            MZ409 1:84 task `a` cannot own `C:\x`: it starts with the letter of a drive
            MZ409 1:92 task `a` cannot own `a\u{0}`: it has the control character `\0`
            MZ409 1:99 task `a` cannot own ` `: it is blank
            MZ411 2:66 `SRC/b.rs` of task `b` overlaps `src/` of task `a`; 1:66 the other owner is here
            MZ411 3:66 `docs/a/b.md` of task `c` overlaps `docs/**/*.md` of task `b`; 2:76 the other owner is here
            MZ410 4:3 task `d` owns no path, but batch `c` requires it
            MZ410 5:3 task `e` owns no path, but batch `c` requires it
            MZ409 6:66 task `f` cannot own `/only`: it is absolute
        "#]],
    );
}

fn any_json() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2i64..3).prop_map(Value::from),
        prop::sample::select(vec![
            "a", "b", "c", "A", "B", " ", "", "..", "a/", "*", "{a,b}", "_meta", "é\u{0}"
        ])
        .prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    scalar.prop_recursive(3, 24, 4, |inner| {
        let keys = prop::sample::select(vec![
            "task_id",
            "execution_agent",
            "task_prompt",
            "depends_on",
            "owned_paths",
            "context_variables",
            "x",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((keys, inner), 0..7).prop_map(|it| it
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect::<serde_json::Map<_, _>>()
                .into()),
        ]
    })
}

proptest! {
    #[test]
    fn any_value_is_a_plan_or_a_list_of_faults_with_places(value in any_json(), tasks in prop::collection::vec(any_json(), 0..6)) {
        let batch = conveyor("require_owned_paths: true");
        for tasks in [value, Value::from(tasks)] {
            let origin = Origin::Reply("reply".to_owned());
            match accept(&batch, &tasks.clone().into(), &origin, &Limits::default()) {
                Ok(plan) => {
                    let count = tasks.as_array().map_or(0, Vec::len) + tasks.as_object().map_or(0, serde_json::Map::len);
                    prop_assert!(plan.tasks().len() <= count);
                    prop_assert!(plan.tasks().iter().all(|it| batch.allowed.iter().any(|agent| *agent == *it.agent)));
                }
                Err(faults) => {
                    prop_assert!(!faults.is_empty());
                    prop_assert!(faults.iter().all(|it| it.is_error()));
                    let drawn = crate::diagnostic::draw(&faults, crate::diagnostic::Style::Plain);
                    prop_assert!(!drawn.is_empty());
                }
            }
            let _ = find(&batch, &tasks.into());
        }
    }
}
