use std::sync::Arc;

use expect_test::{Expect, expect};
use serde::Deserialize;
use serde_json::json;

use super::*;
use crate::{contract, diagnostic::File};

/// What is found in a file of a kind: code, place, message, and the nearest of what is allowed.
#[track_caller]
fn check<T: DeserializeOwned>(kind: FileKind, text: &str, expect: Expect) {
    expect.assert_eq(&found::<T>(kind.schema(), text));
}

fn found<T: DeserializeOwned>(schema: &Schema, text: &str) -> String {
    let file = File {
        name: "f".to_owned(),
        text: text.to_owned(),
    };
    let source = Source::parse(&Arc::new(file)).expect("it is YAML");
    let (value, mut faults) = schema.read::<T>(&source);
    assert_eq!(value.is_some(), !faults.iter().any(Diagnostic::is_error));
    crate::diagnostic::sort(&mut faults);
    let lines = faults.iter().map(|it| {
        let place = it.at.as_ref().expect("all that is found has a place");
        let near = it.suggestion.iter().map(|it| format!(" ({it}?)"));
        let help = it.help.iter().map(|it| format!("; {it}"));
        let more: String = near.chain(help).collect();
        format!("{} {place} {}{more}\n", it.code.as_str(), it.message)
    });
    lines.collect()
}

#[track_caller]
fn check_batches(text: &str, expect: Expect) {
    check::<contract::task_batches::TaskBatches>(FileKind::TaskBatches, text, expect);
}

#[test]
fn every_kind_is_a_mapping() {
    for text in ["[]", "text", "---", "3"] {
        for kind in FileKind::ALL {
            let found = found::<serde::de::IgnoredAny>(kind.schema(), text);
            let wanted = "expected a mapping, found ";
            assert!(found.contains(wanted), "{kind:?} {text}: {found}");
        }
    }
}

#[test]
fn keys() {
    check_batches(
        "\
conveyor: []
conveyors:
  - id: a
    decomposition_agent: P
    execution_agents: [A]
    max_concurrency: 4
    execution: {concurrency: 4}
    retry: {inital_seconds: 1, x: 2}
    Timeout_seconds: 3
batches:
  - {}
  - {id: b, trigger_agent: T, source: {path: p}, result: {}}
",
        expect![[r#"
            MZ201 f:1:1 unknown key `conveyor` (conveyors?)
            MZ201 f:6:5 unknown key `max_concurrency` (concurrency?)
            MZ201 f:7:5 unknown key `execution` (execution_agents?)
            MZ201 f:8:13 unknown key `inital_seconds` (initial_seconds?)
            MZ201 f:8:32 unknown key `x`
            MZ201 f:9:5 unknown key `Timeout_seconds` (timeout_seconds?)
            MZ202 f:11:5 the key `id` is missing
            MZ202 f:11:5 the key `trigger_agent` is missing
            MZ202 f:11:5 the key `source` is missing
            MZ202 f:11:5 the key `result` is missing
            MZ202 f:12:31 the key `kind` is missing
            MZ202 f:12:31 the key `task_model` is missing
            MZ202 f:12:50 the key `context_key` is missing
            MZ202 f:12:50 the key `status_key` is missing
        "#]],
    );
}

#[test]
fn types() {
    check_batches(
        "\
version: 1.0
conveyors:
  - id: 1.10
    decomposition_agent: no
    execution_agents: A
    concurrency: '4'
    retry_limit: 2.0
    timeout_seconds: 1.5
    deadline_seconds: true
    require_owned_paths: on
    failure_policy: null
    retry: 3
  - [id]
  - id: c
    decomposition_agent: {name: P}
    execution_agents: {A: 1}
    rerun: 1
    retry: {initial_seconds: soon, max_seconds: NaN}
",
        expect![[r#"
            MZ203 f:1:10 expected an integer, found the number `1.0`
            MZ203 f:3:9 expected a text, found the number `1.1`; put it in quotes
            MZ203 f:5:23 expected a list, found the text `A`; a list has one item a line, each with `- ` before it, or stands in `[ ]`
            MZ203 f:6:18 expected an integer, found the text `4`; take off the quotes: a number has none
            MZ203 f:7:18 expected an integer, found the number `2.0`
            MZ203 f:8:22 expected null or an integer, found the number `1.5`
            MZ203 f:9:23 expected null or an integer, found `true`
            MZ203 f:10:26 expected `true` or `false`, found the text `on`; write `true` or `false`, without quotes; YAML 1.2 has no other words for them
            MZ204 f:11:21 `null` is not allowed here
            MZ203 f:12:12 expected a mapping, found the number `3`
            MZ203 f:13:5 expected a mapping, found a list of 1
            MZ203 f:15:26 expected a text, found a mapping
            MZ203 f:16:23 expected a list, found a mapping; begin each item of a list with `- `
            MZ204 f:17:12 `1` is not allowed here
            MZ203 f:18:30 expected a number, found the text `soon`
            MZ203 f:18:49 expected a number, found the text `NaN`; write a number: `NaN` and infinities are none here
        "#]],
    );
}

#[test]
fn words_and_bounds() {
    check_batches(
        "\
version: 2
conveyors:
  - id: ' '
    decomposition_agent: ''
    execution_agents: []
    concurrency: 0
    failure_policy: Fail_Batch
    retry_limit: 101
    timeout_seconds: 0
    deadline_seconds: -1
    rerun: sometimes
    retry: {initial_seconds: -0.5, jitter: ful}
  - {id: d, decomposition_agent: P, execution_agents: [A], concurrency: 100000000000000000000}
  - {id: d, decomposition_agent: P, execution_agents: [A], retry_limit: 99999999999}
",
        expect![[r#"
            MZ204 f:1:10 `2` is not allowed here
            MZ206 f:3:9 a blank text where something has to be named
            MZ206 f:4:26 a blank text where something has to be named
            MZ205 f:5:23 an empty list where at least one item is needed
            MZ205 f:6:18 `0` is below the least allowed, 1
            MZ204 f:7:21 `Fail_Batch` is not allowed here (fail_batch?)
            MZ205 f:8:18 `101` is above the most allowed, 100
            MZ205 f:9:22 `0` is below the least allowed, 1
            MZ205 f:10:23 `-1` is below the least allowed, 1
            MZ204 f:11:12 `sometimes` is not allowed here
            MZ205 f:12:30 `-0.5` is below the least allowed, 0
            MZ204 f:12:44 `ful` is not allowed here (full?)
            MZ203 f:13:73 expected an integer, found the number `1e+20`
            MZ205 f:13:73 `1e+20` is above the most allowed, 10000
            MZ205 f:14:73 `99999999999` is above the most allowed, 100
        "#]],
    );
}

#[test]
fn one_of_several_shapes() {
    check::<contract::agents::Agents>(
        FileKind::Agents,
        "\
agents:
  - {name: a, runtime: {kind: opnai, model: m}}
  - {name: b, runtime: {model: m}}
  - {name: c, runtime: openai}
  - {name: d, runtime: {kind: openai, modle: m, temperature: 3, structured: maybe}}
  - {name: e, runtime: {kind: command, argv: [], env: A}}
  - {name: f, runtime: {kind: scripted}}
  - {name: g, runtime: {kind: scripted, replies: [1, {jsn: {}}, {fail: no_such, delay_seconds: -1}]}}
  - {name: h, runtime: {kind: 3}}
  - {name: i, runtime: {kind: a2a}}
  - {name: j, writes: {'': x, y: 3}}
",
        expect![[r#"
            MZ204 f:2:31 `opnai` is not allowed here (openai?)
            MZ202 f:3:15 the key `kind` is missing
            MZ203 f:4:24 expected a mapping, found the text `openai`
            MZ201 f:5:39 unknown key `modle` (model?)
            MZ205 f:5:62 `3` is above the most allowed, 2
            MZ204 f:5:77 `maybe` is not allowed here
            MZ205 f:6:46 an empty list where at least one item is needed
            MZ203 f:6:55 expected a list, found the text `A`; a list has one item a line, each with `- ` before it, or stands in `[ ]`
            MZ202 f:7:15 the key `replies` is missing
            MZ203 f:8:51 expected a text, found the number `1`; put it in quotes
            MZ201 f:8:55 unknown key `jsn` (json?)
            MZ204 f:8:72 `no_such` is not allowed here
            MZ205 f:8:96 `-1` is below the least allowed, 0
            MZ204 f:9:31 `3` is not allowed here
            MZ202 f:10:15 the key `url` is missing
            MZ201 f:11:24 unknown key ``
            MZ203 f:11:34 expected a text, found the number `3`; put it in quotes
        "#]],
    );
    check::<contract::structured_outputs::StructuredOutputs>(
        FileKind::StructuredOutputs,
        "\
schema_version: 2
registry: {A: [M], B: null}
models:
  M: {type: modl, fields: {}}
  N: {type: model}
  O: {type: literal, values: []}
  P: {type: model, fields: {f: str, g: {typ: str}, h: {type: list, items: 3}}}
",
        expect![[r#"
            MZ204 f:1:17 `2` is not allowed here
            MZ203 f:2:15 expected null or a text, found a list of 1
            MZ204 f:4:13 `modl` is not allowed here (model?)
            MZ202 f:5:3 the key `fields` is missing
            MZ205 f:6:30 an empty list where at least one item is needed
            MZ203 f:7:32 expected a mapping, found the text `str`
            MZ202 f:7:37 the key `type` is missing
            MZ201 f:7:41 unknown key `typ` (type?)
            MZ203 f:7:75 expected null or a text, found the number `3`; put it in quotes
        "#]],
    );
}

#[test]
fn what_is_accepted_but_not_acted_on() {
    check::<contract::orchestrator::Orchestrator>(
        FileKind::Orchestrator,
        "\
human_in_the_loop: true
workflow_startup_mode: null
failure_message_key: why
triggers: [{type: chat}]
limits: {max_tasks: 0, max_task: 1}
",
        expect![[r#"
            MZ208 f:1:1 `human_in_the_loop` is accepted but not acted on: no person is asked during a run
            MZ208 f:3:1 `failure_message_key` is accepted but not acted on: the run itself says why it failed
            MZ208 f:4:1 `triggers` is accepted but not acted on: a run is started by `mozaiks-run`
            MZ205 f:5:21 `0` is below the least allowed, 1
            MZ201 f:5:24 unknown key `max_task` (max_tasks?)
        "#]],
    );
    check::<contract::orchestrator::Orchestrator>(
        FileKind::Orchestrator,
        "{human_in_the_loop: false, triggers: []}",
        expect![[""]],
    );
    check::<contract::context_variables::ContextVariables>(
        FileKind::ContextVariables,
        "\
definitions:
  a: {source: {type: state, triggers: [{x: 1}]}}
  b: {source: {type: state, triggers: [{x: 1}], default: no}}
  c: {source: {type: file, collection: c}}
  d: {source: {type: fil}}
  e: {source: {type: data_entity}}
  f: {source: {type: data_entity}}
",
        expect![[r#"
            MZ208 f:2:29 `triggers` is accepted but not acted on (2 places): variables change by `writes` of an agent and by batches
            MZ204 f:5:22 `fil` is not allowed here (file?)
            MZ208 f:6:16 `type: data_entity` is accepted but not acted on (2 places): only `config`, `state`, `file` and `runtime` sources are read, so the variable begins as null
        "#]],
    );
}

#[test]
fn long_values_are_cut_and_many_faults_are_all_told() {
    check_batches(
        &format!(
            "conveyors: [{{id: x, decomposition_agent: P, execution_agents: [A], rerun: '{}'}}]",
            "ä".repeat(100)
        ),
        expect![[r#"
            MZ204 f:1:75 `ääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää…` is not allowed here
        "#]],
    );
    let many = "  - {}\n".repeat(2_000);
    let found = found::<contract::task_batches::TaskBatches>(
        FileKind::TaskBatches.schema(),
        &format!("conveyors:\n{many}"),
    );
    assert_eq!(found.lines().count(), 6_000);
}

#[test]
fn a_type_refuses_what_its_schema_cannot_say() {
    #[derive(Deserialize, JsonSchema)]
    struct Small {
        #[expect(dead_code, reason = "only read")]
        a: i8,
        #[expect(dead_code, reason = "only read")]
        b: (u64, u64),
    }
    let schema = Schema::new(of::<Small>());
    let check = |text: &str, expect: Expect| expect.assert_eq(&found::<Small>(&schema, text));
    check("{a: 1, b: [1, 2]}", expect![[""]]);
    check(
        "{a: 1.0, b: [1.0, 2.0]}",
        expect![[r#"
            MZ203 f:1:5 expected an integer, found the number `1.0`
        "#]],
    );
    check(
        "{a: 300, b: [1, -1]}",
        expect![[r#"
        MZ205 f:1:5 `300` is above the most allowed, 127
        MZ205 f:1:17 `-1` is below the least allowed, 0
    "#]],
    );
    check(
        "{a: 1, b: [1, 2, 3]}",
        expect![[r#"
        MZ205 f:1:11 `[1,2,3]` does not satisfy `maxItems`
    "#]],
    );
}

#[test]
fn values_in_words() {
    let values = json!([null, true, 1.5, "a\nb", [], [1, 2], {"a": 1}, "x".repeat(61)]);
    let words = values.as_array().into_iter().flatten().map(describe);
    expect![[r#"
        null
        `true`
        the number `1.5`
        the text `a\nb`
        a list of 0
        a list of 2
        a mapping
        the text `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…`"#]]
    .assert_eq(&words.collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_schema_is_narrowed_to_the_names_of_a_workflow() {
    let names = WorkflowNames {
        agents: vec!["Planner".to_owned(), "Writer".to_owned()],
        variables: vec!["topic".to_owned()],
        models: vec!["Plan".to_owned()],
    };
    let narrowed = |kind: FileKind, pointers: &[&str]| {
        let schema = kind.narrowed(&names);
        let lines = pointers.iter().map(|it| {
            let found = schema.pointer(it).map(|it| {
                let mut it = it.clone();
                if let Some(entries) = it.as_object_mut() {
                    entries.shift_remove("description");
                }
                it.to_string()
            });
            format!("{it} {}\n", found.unwrap_or_default())
        });
        lines.collect::<String>()
    };
    let found = [
        narrowed(
            FileKind::TaskBatches,
            &[
                "/$defs/Conveyor/properties/decomposition_agent",
                "/$defs/Conveyor/properties/execution_agents",
                "/$defs/Source/properties/task_model",
                "/$defs/ResultKeys/properties/context_key",
            ],
        ),
        narrowed(
            FileKind::TransitionGraph,
            &[
                "/$defs/Rule/properties/source_agent",
                "/$defs/Rule/properties/target_agent",
                "/$defs/Rule/properties/condition_key",
            ],
        ),
        narrowed(FileKind::Orchestrator, &["/properties/initial_agent"]),
        narrowed(FileKind::Agents, &["/$defs/Agent/properties/writes"]),
        narrowed(FileKind::StructuredOutputs, &["/properties/registry"]),
        narrowed(
            FileKind::Plan,
            &["/$defs/DecomposedTask/properties/execution_agent"],
        ),
    ];
    expect![[r#"
        /$defs/Conveyor/properties/decomposition_agent {"type":"string","enum":["Planner","Writer"]}
        /$defs/Conveyor/properties/execution_agents {"type":"array","items":{"type":"string","enum":["Planner","Writer"]},"minItems":1}
        /$defs/Source/properties/task_model {"type":"string","enum":["Plan","DecomposedTask"]}
        /$defs/ResultKeys/properties/context_key {"type":"string","enum":["topic"]}
        /$defs/Rule/properties/source_agent {"type":"string","enum":["Planner","Writer","user"]}
        /$defs/Rule/properties/target_agent {"type":"string","enum":["Planner","Writer","user","terminate"]}
        /$defs/Rule/properties/condition_key {"type":["string","null"],"default":null,"enum":["topic",null]}
        /properties/initial_agent {"type":["string","null"],"default":null,"enum":["Planner","Writer","user",null]}
        /$defs/Agent/properties/writes {"type":"object","additionalProperties":false,"patternProperties":{"\\S":{"type":"string"}},"propertyNames":{"enum":["topic"]}}
        /properties/registry {"type":"object","additionalProperties":false,"patternProperties":{"\\S":{"type":["string","null"],"enum":["Plan",null]}},"default":{},"propertyNames":{"enum":["Planner","Writer"]}}
        /$defs/DecomposedTask/properties/execution_agent {"type":"string","enum":["Planner","Writer"]}
    "#]].assert_eq(&found.concat());
    let wide = WorkflowNames::default();
    for kind in FileKind::ALL {
        let schema = kind.narrowed(&wide);
        jsonschema::draft202012::new(&schema).expect("without names it is a schema still");
    }
}

#[test]
fn kinds_have_names_and_paths() {
    let lines = FileKind::ALL.iter().map(|it| {
        assert_eq!(FileKind::named(it.name()), Some(*it));
        let path = it.path().unwrap_or_default();
        format!("{} {} {path}\n", it.name(), it.schema_file())
    });
    expect![[r#"
        task_batches task_batches.schema.json extended_orchestration/task_batches.yaml
        agents agents.schema.json agents.yaml
        agent agent.schema.json 
        orchestrator orchestrator.schema.json orchestrator.yaml
        transition_graph transition_graph.schema.json transition_graph.yaml
        context_variables context_variables.schema.json context_variables.yaml
        structured_outputs structured_outputs.schema.json structured_outputs.yaml
        tools tools.schema.json tools.yaml
        middleware middleware.schema.json middleware.yaml
        ui_config ui_config.schema.json ui_config.yaml
        providers providers.schema.json 
        plan plan.schema.json 
        test test.schema.json 
        task_dag task_dag.schema.json extended_orchestration/task_dag.yaml
        acmp acmp.schema.json acmp.yaml
    "#]]
    .assert_eq(&lines.collect::<String>());
    assert_eq!(FileKind::named("Agents"), None);
}
