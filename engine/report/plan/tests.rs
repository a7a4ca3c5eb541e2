use std::time::Duration;

use expect_test::{Expect, expect};

use super::*;
use crate::{
    compile::{Emits, Form, Merge},
    contract::{orchestrator::Limits, task_batches as written},
    plan::{self, Origin},
    schedule::{Backoff, Jitter, OnFailure, Policy},
};

fn batch() -> Batch {
    let backoff = Backoff {
        initial: Duration::ZERO,
        max: Duration::ZERO,
        jitter: Jitter::None,
    };
    Batch {
        id: "build".into(),
        trigger: "Planner".into(),
        source: written::SourceKind::StructuredOutput,
        path: "tasks".to_owned(),
        agent_field: "agent".to_owned(),
        prompt_field: "prompt".to_owned(),
        dependency_field: "depends_on".to_owned(),
        context_fields: Vec::new(),
        allowed: vec!["Writer".to_owned(), "A \"quoted\" <b>[agent]".to_owned()],
        policy: Policy {
            concurrency: 8,
            retry_limit: 0,
            backoff,
            on_failure: OnFailure::Stop,
        },
        failure_policy: written::FailurePolicy::FailBatch,
        timeout: Duration::from_secs(1),
        deadline: None,
        budget: Default::default(),
        context_key: "build_results".into(),
        status_key: "build_status".into(),
        merge: Merge::ByTask,
        emits: Emits::Tasks,
        require_owned_paths: false,
        rerun: written::Rerun::Changed,
        form: Form::Conveyor,
    }
}

/// Tasks for the batch: id, agent and what it needs.
fn plan(tasks: &[(&str, &str, &[&str])]) -> Plan {
    let tasks: Vec<Value> = tasks
        .iter()
        .map(|(id, agent, needs)| {
            json!({ "task_id": id, "agent": agent, "prompt": "Write.", "depends_on": needs,
                    "owned_paths": [format!("out/{}.md", id.len()), format!("out/{}/", id.len())] })
        })
        .collect();
    let origin = Origin::Reply("reply".to_owned());
    plan::accept(
        &batch(),
        &Value::from(tasks).into(),
        &origin,
        &Limits::default(),
    )
    .unwrap()
}

fn check(tasks: &[(&str, &str, &[&str])], format: Format, expected: Expect) {
    expected.assert_eq(&draw(&plan(tasks), &batch(), &Bound::default(), format));
}

const DIAMOND: &[(&str, &str, &[&str])] = &[
    ("a", "Writer", &[]),
    ("bb", "Writer", &["a"]),
    ("ccc", "Writer", &["a"]),
    ("dddd", "Writer", &["bb", "ccc", "a"]),
];

const HOSTILE: &[(&str, &str, &[&str])] = &[
    (r#"end"];<script>"#, "Writer", &[]),
    (
        r"back\slash`#35;\",
        "A \"quoted\" <b>[agent]",
        &[r#"end"];<script>"#],
    ),
];

#[test]
fn text_is_a_table_and_what_follows_from_it() {
    check(
        DIAMOND,
        Format::Text,
        expect![[r#"
            TASK  AGENT   LEVEL  DEPENDS ON  OWNS
            a     Writer  1      -           out/1.md, out/1/
            bb    Writer  2      a           out/2.md, out/2/
            ccc   Writer  2      a           out/3.md, out/3/
            dddd  Writer  3      bb, ccc, a  out/4.md, out/4/

            levels
              1: a
              2: bb, ccc
              3: dddd
            critical path: a -> bb -> dddd (3 tasks)
            at most 2 tasks can run at once; batch build runs 8
            4 tasks, 5 dependencies
        "#]],
    );
    check(
        HOSTILE,
        Format::Text,
        expect![[r#"
        TASK              AGENT                  LEVEL  DEPENDS ON      OWNS
        end"];<script>    Writer                 1      -               out/14.md, out/14/
        back\slash`#35;\  A "quoted" <b>[agent]  2      end"];<script>  out/16.md, out/16/

        levels
          1: end"];<script>
          2: back\slash`#35;\
        critical path: end"];<script> -> back\slash`#35;\ (2 tasks)
        at most 1 task can run at once; batch build runs 8
        2 tasks, 1 dependency
    "#]],
    );
}

#[test]
fn json_says_the_same() {
    let drawn = draw(&plan(DIAMOND), &batch(), &Bound::default(), Format::Json);
    let value: Value = serde_json::from_str(&drawn).unwrap();
    expect![[r#"{"task_id":"dddd","agent":"Writer","depends_on":["bb","ccc","a"],"owned_paths":["out/4.md","out/4/"],"level":3,"on_critical_path":true}"#]].assert_eq(&value["tasks"][3].to_string());
    let rest = [
        "levels",
        "critical_path",
        "width",
        "concurrency",
        "dependencies",
    ];
    let rest: Vec<String> = rest
        .iter()
        .map(|it| format!("{it}: {}", value[it]))
        .collect();
    expect![[r#"
        levels: [["a"],["bb","ccc"],["dddd"]]
        critical_path: ["a","bb","dddd"]
        width: {"count":2,"exact":true}
        concurrency: 8
        dependencies: 5"#]]
    .assert_eq(&rest.join("\n"));
}

#[test]
fn mermaid_escapes_labels() {
    check(
        DIAMOND,
        Format::Mermaid,
        expect![[r#"
            flowchart LR
              classDef critical stroke-width:3px
              t0["a<br/>Writer"]:::critical
              t1["bb<br/>Writer"]:::critical
              t0 ==> t1
              t2["ccc<br/>Writer"]
              t0 --> t2
              t3["dddd<br/>Writer"]:::critical
              t1 ==> t3
              t2 --> t3
              t0 --> t3
        "#]],
    );
    check(
        HOSTILE,
        Format::Mermaid,
        expect![[r#"
        flowchart LR
          classDef critical stroke-width:3px
          t0["end#34;#93;#59;#60;script#62;<br/>Writer"]:::critical
          t1["back#92;slash#96;#35;35#59;#92;<br/>A #34;quoted#34; #60;b#62;#91;agent#93;"]:::critical
          t0 ==> t1
    "#]],
    );
}

#[test]
fn dot_escapes_labels() {
    check(
        DIAMOND,
        Format::Dot,
        expect![[r#"
            digraph plan {
              rankdir=LR;
              node [shape=box];
              t0 [label="a\nWriter", penwidth=3];
              t1 [label="bb\nWriter", penwidth=3];
              t0 -> t1 [penwidth=3];
              t2 [label="ccc\nWriter"];
              t0 -> t2;
              t3 [label="dddd\nWriter", penwidth=3];
              t1 -> t3 [penwidth=3];
              t2 -> t3;
              t0 -> t3;
            }
        "#]],
    );
    check(
        HOSTILE,
        Format::Dot,
        expect![[r#"
        digraph plan {
          rankdir=LR;
          node [shape=box];
          t0 [label="end\"];<script>\nWriter", penwidth=3];
          t1 [label="back\\slash`#35;\\\nA \"quoted\" <b>[agent]", penwidth=3];
          t0 -> t1 [penwidth=3];
        }
    "#]],
    );
}

#[test]
fn names_with_control_characters_are_inert_in_every_format() {
    let check = |escape: fn(&str) -> String, expected: Expect| {
        expected.assert_eq(&escape("a\nb\u{1b}[2J\"]\u{202e}"));
    };
    check(for_mermaid, expect!["a b #91;2J#34;#93; "]);
    check(for_dot, expect![[r#"a b [2J\"] "#]]);
    check(|it| join(&[it], ", ", 9), expect![[r#"a b [2J"] "#]]);
}

#[test]
fn a_long_list_says_how_much_it_leaves_out() {
    let names: Vec<String> = (0..100).map(|it| format!("task_{it}")).collect();
    expect!["task_0 -> task_1 -> task_2 -> 97 more"].assert_eq(&join(&names, " -> ", 30));
    expect!["xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…"].assert_eq(&join(
        &["x".repeat(99)],
        ", ",
        30,
    ));
    expect!["-"].assert_eq(&join::<&str>(&[], ", ", 30));
}

#[test]
fn a_long_chain_is_summed_up() {
    let ids: Vec<String> = (1..=40).map(|it| "t".repeat(it)).collect();
    let needs: Vec<Vec<&str>> = (0..40)
        .map(|it| ids[..it].last().map(|it| it.as_str()).into_iter().collect())
        .collect();
    let tasks: Vec<(&str, &str, &[&str])> = ids
        .iter()
        .zip(&needs)
        .map(|(id, needs)| (id.as_str(), "Writer", needs.as_slice()))
        .collect();
    let drawn = draw(&plan(&tasks), &batch(), &Bound::default(), Format::Text);
    let foot = drawn.lines().skip(41 + 25).collect::<Vec<_>>().join("\n");
    expect![[r#"
          24: tttttttttttttttttttttttt
          and 16 more levels
        critical path: t -> tt -> ttt -> tttt -> ttttt -> tttttt -> ttttttt -> tttttttt -> ttttttttt -> tttttttttt -> ttttttttttt -> tttttttttttt -> ttttttttttttt -> tttttttttttttt -> 26 more (40 tasks)
        at most 1 task can run at once; batch build runs 8
        40 tasks, 39 dependencies"#]].assert_eq(&foot);
}
