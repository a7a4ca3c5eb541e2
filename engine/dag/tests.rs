//! Documents, and what is wrong with them.

mod inputs;

use std::sync::Arc;

use super::*;
use crate::diagnostic::File;
use expect_test::{Expect, expect};

const CAPABILITIES: [&str; 3] = ["text-split", "sentiment-analysis", "result-aggregation"];

fn read(text: &str, max_price_cu: Option<f64>) -> Result<Dag, Vec<Diagnostic>> {
    let file = File {
        name: "dag".to_owned(),
        text: text.to_owned(),
    };
    let source = Source::parse(&Arc::new(file)).expect("it is YAML");
    let terms = Terms {
        capabilities: &CAPABILITIES.map(str::to_owned),
        shapes: &Shapes::new(),
        limits: &DagLimits {
            max_tasks: 5,
            max_edges: 5,
            max_depth: 3,
            max_input_bytes: 200,
        },
        max_price_cu,
    };
    accept(&source, &terms).map(|(dag, _)| dag)
}

/// Tasks in short form: id, capability, input; then edges.
#[track_caller]
fn check(tasks: &str, edges: &str, expect: Expect) {
    check_under(None, tasks, edges, expect);
}

#[track_caller]
fn check_under(max_price_cu: Option<f64>, tasks: &str, edges: &str, expect: Expect) {
    let text = format!("dag_id: d\ntasks:\n{tasks}\nedges: [{edges}]\n");
    expect.assert_eq(&match read(&text, max_price_cu) {
        Ok(dag) => format!("{} tasks\n", dag.tasks().len()),
        Err(faults) => told(&faults),
    });
}

fn told(faults: &[Diagnostic]) -> String {
    let lines = faults.iter().map(|it| {
        let at = it.at.as_ref().map(|it| {
            let (line, column) = it.line_column();
            format!("{line}:{column} ")
        });
        let near = it.suggestion.as_ref().map(|it| format!(" ({it}?)"));
        format!(
            "{} {}{}{}\n",
            it.code.as_str(),
            at.unwrap_or_default(),
            it.message,
            near.unwrap_or_default()
        )
    });
    lines.collect()
}

const A: &str = "- {task_id: a, capability: text-split, input: {type: text, data: x}}";

#[test]
fn l2_02_a_task_has_an_id_a_capability_and_an_input() {
    check(
        A,
        "",
        expect![[r#"
        1 tasks
    "#]],
    );
    check(
        "- {task_id: a, capability: text-split}\n- {task_id: b, input: {type: t, data: 1}}\n- {capability: text-split, input: {type: t, data: null}}\n- 7",
        "",
        expect![[r#"
            MZ202 3:3 the key `input` is missing
            MZ202 4:3 the key `capability` is missing
            MZ202 5:3 the key `task_id` is missing
            MZ203 6:3 expected a mapping, found the number `7`
        "#]],
    );
    let dag = read(&format!("dag_id: d\nedges: []\ntasks:\n{A}"), None);
    let dag = dag.expect("it is a DAG");
    assert_eq!(
        &*dag.tasks()[0].output_type,
        "json",
        "unless it says otherwise"
    );
    check(
        "- {task_id: a, capability: text-split, input: {type: t, data: 1}, max_price_cu: -1, preferred_tier: C, timeout_ms: 0, what: 1}",
        "",
        expect![[r#"
            MZ205 3:81 `-1` is below the least allowed, 0
            MZ204 3:101 `C` is not allowed here
            MZ205 3:116 `0` is below the least allowed, 1
            MZ201 3:119 unknown key `what`
        "#]],
    );
}

#[test]
fn l2_04_an_input_is_a_literal_or_a_reference_and_not_both() {
    check(
        "- {task_id: a, capability: text-split, input: {type: text, data: x, source: {from_task: b}}}\n- {task_id: b, capability: text-split, input: {source: {from_task: a}, type: text}}\n- {task_id: c, capability: text-split, input: {type: text}}\n- {task_id: e, capability: text-split, input: {}}",
        "{from: a, to: b}",
        expect![[r#"
            MZ207 3:40 an input is a literal (`type` and `data`) or a reference (`source`), and this is both
            MZ207 4:40 an input is a literal (`type` and `data`) or a reference (`source`), and this is both
            MZ202 5:40 the key `data` is missing
            MZ202 6:40 the key `source` is missing
        "#]],
    );
}

#[test]
fn l2_05_a_type_is_any_text() {
    check(
        "- {task_id: a, capability: text-split, input: {type: application/x-odd, data: null}, output_type: audio/wav}",
        "",
        expect![[r#"
            1 tasks
        "#]],
    );
}

#[test]
fn l2_09_a_dag_has_an_id_tasks_and_edges_and_the_edges_may_be_none() {
    expect![[r#"
        MZ202 1:1 the key `dag_id` is missing
        MZ202 1:1 the key `edges` is missing
    "#]]
    .assert_eq(&told(
        &read("tasks: []", None).expect_err("it has no edges"),
    ));
    expect![[r#"
        MZ203 1:1 expected a mapping, found a list of 0
    "#]]
    .assert_eq(&told(&read("[]", None).expect_err("it is a list")));
    let empty = read("{dag_id: d, tasks: [], edges: []}", None);
    assert!(empty.expect("there is nothing to do").graph().is_empty());
    check(
        &format!("{A}\n{}", A.replace("id: a", "id: b")),
        "",
        expect![[r#"
            2 tasks
        "#]],
    );
}

#[test]
fn l2_12_a_cycle_is_refused_and_named() {
    let ref_to = |id: &str, of: &str| {
        format!(
            "- {{task_id: {id}, capability: text-split, input: {{source: {{from_task: {of}}}}}}}\n"
        )
    };
    check(
        &[ref_to("a", "b"), ref_to("b", "c"), ref_to("c", "a")].concat(),
        "{from: a, to: c}, {from: b, to: a}, {from: c, to: b}",
        expect![[r#"
            MZ406 7:27 these tasks wait for each other: `a` -> `b` -> `c` -> `a`
        "#]],
    );
    check(
        &ref_to("a", "a"),
        "{from: a, to: a}",
        expect![[r#"
        MZ406 5:9 task `a` depends on itself
    "#]],
    );
    // Each of those that have nothing to do with each other.
    let tasks = ["ab", "ba", "cd", "dc", "ee"].map(|it| ref_to(&it[..1], &it[1..]));
    check(
        &tasks.concat(),
        "{from: a, to: b}, {from: b, to: a}, {from: c, to: d}, {from: d, to: c}, {from: e, to: e}",
        expect![[r#"
            MZ406 9:27 these tasks wait for each other: `a` -> `b` -> `a`
            MZ406 9:63 these tasks wait for each other: `c` -> `d` -> `c`
            MZ406 9:81 task `e` depends on itself
        "#]],
    );
}

#[test]
fn l2_11_and_13_an_edge_joins_tasks_that_exist() {
    check(
        &format!("{A}\n{}", A.replace("id: a", "id: task_two")),
        "{from: a, to: task_tow}, {from: x, to: y}, {from: a}, {from: a, to: task_two, when: 1}",
        expect![[r#"
            MZ405 5:23 an edge leads to `task_tow`, which is no task of this DAG (task_two?)
            MZ405 5:41 an edge leads from `x`, which is no task of this DAG
            MZ405 5:48 an edge leads to `y`, which is no task of this DAG
            MZ202 5:52 the key `to` is missing
            MZ201 5:87 unknown key `when`
        "#]],
    );
    // L2-11: an edge has no condition, and there is one from a task to another.
    check(
        &format!("{A}\n{}", A.replace("id: a", "id: b")),
        "{from: a, to: b}, {from: a, to: b, stream_eligible: true}",
        expect![[r#"
            MZ417 5:27 the edge from `a` to `b` stands twice
        "#]],
    );
    // L2-32: what is not worked on as a whole does not stream, which is told with whatever else there is.
    check(
        &format!("{A}\n{}", A.replace("id: a", "id: b")),
        "{from: a, to: b, stream_eligible: true}, {from: a, to: b}",
        expect![[r#"
            MZ208 5:43 `stream_eligible` changes nothing here: the task does not work on what it waits for
            MZ417 5:50 the edge from `a` to `b` stands twice
        "#]],
    );
}

#[test]
fn l2_14_and_15_what_a_task_works_on_comes_over_an_edge_of_its_own() {
    let b = "- {task_id: b, capability: text-split, input: {source: {from_task: a}}}";
    let c = "- {task_id: c, capability: text-split, input: {source: {from_task: a}}}";
    check(
        &format!("{A}\n{b}"),
        "{from: a, to: b}",
        expect![[r#"
        2 tasks
    "#]],
    );
    // L2-15: a root has a literal.
    check(
        &format!("{A}\n{b}"),
        "",
        expect![[r#"
        MZ414 4:68 the input of `b` comes from `a`, but there is no edge from it
    "#]],
    );
    // The edge is a direct one.
    check(
        &format!("{A}\n{b}\n{c}"),
        "{from: a, to: b}, {from: b, to: c}",
        expect![[r#"
            MZ414 5:68 the input of `c` comes from `a`, but there is no edge from it
        "#]],
    );
    check(
        &format!(
            "{A}\n- {{task_id: b, capability: text-split, input: {{source: {{from_task: ab}}}}}}"
        ),
        "{from: a, to: b}",
        expect![[r#"
            MZ405 4:68 the input of `b` comes from `ab`, which is no task of this DAG (a?)
        "#]],
    );
    // A literal with an edge waits, and no more.
    check(
        &format!("{A}\n{}", A.replace("id: a", "id: b")),
        "{from: a, to: b}",
        expect![[r#"
            2 tasks
        "#]],
    );
}

#[test]
fn l2_17_an_id_stands_once() {
    check(
        &format!("{A}\n{A}"),
        "",
        expect![[r#"
        MZ404 4:13 the task id `a` stands twice
    "#]],
    );
    check(
        &[
            A.replace("id: a", "id: _meta"),
            A.replace("id: a", "id: \"b\\nc\""),
            A.replace("id: a", "id: \" \""),
            A.replace("id: a", &format!("id: {}", "x".repeat(201))),
        ]
        .join("\n"),
        "",
        expect![[r#"
            MZ403 3:13 the id of task 1 is `_meta`, a name that the results use for something else
            MZ403 4:13 the id of task 2 has the control character `\n`
            MZ206 5:13 a blank text where something has to be named
            MZ403 6:13 the id of task 4 is 201 bytes long; 200 are allowed
        "#]],
    );
}

#[test]
fn l2_18_a_source_has_from_task_or_from_tasks() {
    let source = |text: &str| {
        format!("{A}\n- {{task_id: b, capability: text-split, input: {{source: {text}}}}}")
    };
    for text in [
        "{}",
        "{from_task: a, from_tasks: [a]}",
        "{from_tasks: []}",
        "{from_tasks: [a, a]}",
        "{from_tasks: [a], field: data.x}",
        "{from_tasks: a}",
        "{from_task: a, part: x}",
    ] {
        let found = read(
            &format!(
                "dag_id: d\ntasks:\n{}\nedges: [{{from: a, to: b}}]",
                source(text)
            ),
            None,
        );
        let found = told(&found.expect_err(text));
        let wanted = ["MZ207", "MZ203", "MZ201"];
        assert!(
            wanted.iter().any(|it| found.contains(it)),
            "{text}: {found}"
        );
    }
    check(
        &source("{from_tasks: [a]}"),
        "{from: a, to: b}",
        expect![[r#"
            2 tasks
        "#]],
    );
}

#[test]
fn limits_and_capabilities_are_kept() {
    let tasks: Vec<String> = (0..6)
        .map(|it| A.replace("id: a", &format!("id: t{it}")))
        .collect();
    check(
        &tasks.join("\n"),
        "{from: t0, to: t1}, {from: t1, to: t2}, {from: t2, to: t3}, {from: t0, to: t2}, {from: t0, to: t3}, {from: t0, to: t4}",
        expect![[r#"
            MZ412 1:1 the DAG has 6 tasks; 5 are allowed
            MZ412 1:1 the DAG has 6 edges; 5 are allowed
            MZ412 1:1 the DAG has 4 tasks in a row; 3 are allowed
        "#]],
    );
    let long = "x".repeat(300);
    check(
        &A.replace("data: x", &format!("data: {long}")),
        "",
        expect![[r#"
            MZ412 1:1 the DAG has 325 bytes in one input; 200 are allowed
        "#]],
    );
    check(
        &A.replace("text-split", "text-splot"),
        "",
        expect![[r#"
        MZ416 3:28 nobody who may be asked serves the capability `text-splot` (text-split?)
    "#]],
    );
}

#[test]
fn l2_06_prices_keep_to_the_ceiling_of_the_dag() {
    let priced = |id: &str, price: &str| {
        A.replace("id: a", &format!("id: {id}"))
            .replace("input:", &format!("max_price_cu: {price}, input:"))
    };
    let two = [priced("a", "0.1"), priced("b", "0.2")].join("\n");
    check_under(
        Some(0.3),
        &two,
        "",
        expect![[r#"
        2 tasks
    "#]],
    );
    check_under(
        Some(0.29),
        &two,
        "",
        expect![[r#"
        MZ418 3:3 the tasks may cost 0.30000000000000004 CU together; 0.29 are allowed
    "#]],
    );
    check_under(
        Some(1.0),
        A,
        "",
        expect![[r#"
        MZ418 3:3 task `a` may cost anything, but the DAG may cost 1 CU
    "#]],
    );
}

#[test]
fn every_fault_is_told_at_once_and_of_very_many_the_first() {
    let broken = "- {task_id: b, capability: nobody, input: {source: {from_task: a, field: x}}}\n- {task_id: b, capability: text-split, input: {type: 1, data: 1}}";
    check(
        &format!("{A}\n{broken}"),
        "{from: z, to: b}",
        expect![[r#"
        MZ416 4:28 nobody who may be asked serves the capability `nobody`
        MZ415 4:74 the field `x` cannot be read: column 1: a field begins with `data`, which is what an output holds
        MZ404 5:13 the task id `b` stands twice
        MZ203 5:54 expected a text, found the number `1`
        MZ405 6:16 an edge leads from `z`, which is no task of this DAG
    "#]],
    );
    let tasks: Vec<String> = (0..150)
        .map(|it| format!("- {{task_id: t{it}, capability: x, input: {{type: t, data: 1}}}}"))
        .collect();
    let found = read(
        &format!("dag_id: d\nedges: []\ntasks:\n{}", tasks.join("\n")),
        None,
    );
    let found = found.expect_err("nobody serves it");
    assert_eq!(found.len(), MAX_FAULTS + 1);
    assert!(
        found[MAX_FAULTS].message.starts_with("and 51 more"),
        "{}",
        found[MAX_FAULTS].message
    );
}

#[test]
fn l2_03_what_is_invoked_has_an_id_of_its_own_and_all_that_the_task_says() {
    let text = "dag_id: d\nedges: []\ntasks: [{task_id: a, capability: text-split, input: {type: text, data: x}, output_type: text, input_tokens_est: 3, max_price_cu: 0.5, preferred_tier: B, metadata: {priority: high}, timeout_ms: 800, escrow_id: e, proof_method: result-hash}]";
    let dag = read(text, None).expect("it is a DAG");
    let task = Arc::clone(&dag.tasks()[0]);
    let invocation = Invocation {
        task_id: "task_1".to_owned(),
        input: Json::from(json!({"type": "text", "data": "x"})),
        timeout: task.timeout.expect("it says so"),
        task,
    };
    expect![[r#"
        {
          "task_id": "task_1",
          "capability": "text-split",
          "input": {
            "type": "text",
            "data": "x"
          },
          "output_type": "text",
          "timeout_ms": 800,
          "stream": false,
          "input_stream": false,
          "metadata": {
            "priority": "high",
            "dag_id": "d"
          },
          "input_tokens_est": 3,
          "max_price_cu": 0.5,
          "preferred_tier": "B",
          "escrow_id": "e",
          "proof_method": "result-hash"
        }"#]]
    .assert_eq(&format!("{:#}", invocation.params()));
}
