use super::*;

fn show(workflow: &Workflow) -> String {
    let agents = workflow.agents.values().map(|it| {
        let shape = it.shape.as_ref().map(|it| it.name().to_owned());
        format!(
            "{} {:?} {shape:?} {:?} {:?} {}\n",
            it.name,
            it.instruction,
            it.reads,
            it.writes,
            it.home.display()
        )
    });
    agents.collect()
}

#[test]
fn an_agent_has_one_definition_and_what_it_needs() {
    check(
        "\
=== agents
agents:
  - {name: A, system_message: one}
  - {name: A, system_message: two}
  - {name: B}
  - {name: C, runtime: {kind: template}}
  - {name: D, runtime: {kind: template, template: x, template_file: y}}
  - {name: E, structured_outputs_required: true, system_message: x}
  - {name: F, system_message: ' '}
",
        nothing,
        expect![[r#"
            error MZ303 agents:3:12 the agent `A` is defined twice; agents:2:12 it is defined here first
            error MZ202 agents:4:12 `B` is asked through a model, but has no instruction
            error MZ207 agents:5:24 a template agent has either `template` or `template_file`
            error MZ207 agents:6:24 a template agent has either `template` or `template_file`
            error MZ309 agents:7:44 `E` must answer with a model, but none is registered for it
            error MZ202 agents:8:12 `F` is asked through a model, but has no instruction
        "#]],
    );
}

#[test]
fn instructions_runtimes_and_homes() {
    check(
        "\
=== orchestrator
defaults: {runtime: {kind: scripted, replies: [x]}}
=== agents
agents:
  - name: A
    prompt_sections: [{heading: ' [ROLE] ', content: ' be ${x} {{ y }} '}, {content: second}]
    prompt_sections_custom: [{content: never}]
    system_message: never
  - {name: B, prompt_sections_custom: [{heading: H, content: c}], system_message: never}
  - {name: C, system_message: ' plain '}
=== agents/S
{name: S, writes: {v: ''}}
=== task_batches
conveyors: [{id: c, decomposition_agent: S, execution_agents: [A]}]
",
        show,
        expect![[r#"
            A "[ROLE]\nbe ${x} {{ y }}\n\nsecond" None Model [] /project/workflows/W
            B "H\nc" None Model [] /project/workflows/W
            C " plain " None Model [] /project/workflows/W
            S "" Some("Plan") Plan [("v", "")] /project/folder
        "#]],
    );
}

#[test]
fn what_is_written_has_to_be_there() {
    check(
        "\
=== structured_outputs
registry: {W: M}
models:
  M: {type: model, fields: {a: {type: list, items: N}, d: {type: dict}}}
  N: {type: model, fields: {b: {type: str}}}
=== context_variables
definitions: {v: {}, w: {}, x: {}, y: {}, z: {}}
=== agents
agents:
  - name: W
    writes: {v: a, w: a.0.b, x: a.0.c, y: d.any.thing, z: '', u: a.b}
    runtime: {kind: scripted, replies: [x]}
  - {name: V, writes: {v: any.thing}, runtime: {kind: scripted, replies: [x]}}
",
        nothing,
        expect![[r#"
            error MZ310 agents:3:33 `a.0.c` leads nowhere in `M`: `a.0` is a mapping (`N`), and has no `c`; it has `b`
            error MZ304 agents:3:63 the variable `u` is not declared
            error MZ310 agents:3:66 `a.b` leads nowhere in `M`: `a` is a list, and has no `b`
        "#]],
    );
}

#[test]
fn a_planner_without_a_model_is_read_as_a_plan() {
    check(
        &format!(
            "\
=== structured_outputs
registry: {{Q: M}}
models:
  M: {{type: model, fields: {{DecompositionPlan: {{type: D}}}}}}
  D: {{type: model, fields: {{tasks: {{type: list, items: dict}}}}}}
=== task_batches
conveyors:
  - {{id: c, decomposition_agent: P, execution_agents: [A]}}
  - {{id: d, decomposition_agent: Q, execution_agents: [A]}}
=== agents/Q
{{name: Q, runtime: {{kind: scripted, replies: [x]}}}}
{AGENTS}"
        ),
        show,
        expect![[r#"
            A "" None Model [] /project/workflows/W
            B "" None Model [] /project/workflows/W
            P "" Some("Plan") Plan [] /project/workflows/W
            Q "" Some("M") Model [] /project/folder
            Z "" None Model [] /project/workflows/W
        "#]],
    );
}

#[test]
fn what_a_runtime_does_not_say_of_its_endpoint_the_workflow_says() {
    fn show(workflow: &Workflow) -> String {
        let agents = workflow.agents.values().map(|it| {
            let runtime = serde_json::to_value(&it.runtime).expect("it is data");
            let fields = ["model", "base_url", "api_key_env", "headers", "fallback"];
            let fields = fields.map(|it| runtime[it].to_string()).join(" ");
            format!("{} {fields}\n", it.name)
        });
        agents.collect()
    }
    check(
        "\
=== orchestrator
initial_agent: A
defaults: {runtime: {kind: openai, model: m, base_url: 'https://a.example', api_key_env: K, headers: {X: y}, fallback: [{model: n}]}}
=== agents
agents:
  - {name: A, system_message: x}
  - {name: B, system_message: x, runtime: {kind: openai, temperature: 0}}
  - {name: C, system_message: x, runtime: {kind: openai, model: o}}
  - {name: D, system_message: x, runtime: {kind: openai, base_url: 'https://b.example'}}
",
        show,
        expect![[r#"
            A "m" "https://a.example" "K" {"X":"y"} [{"model":"n","allow_plain_http":false}]
            B "m" "https://a.example" "K" {"X":"y"} [{"model":"n","allow_plain_http":false}]
            C "o" "https://a.example" "K" {"X":"y"} null
            D null "https://b.example" null null null
        "#]],
    );
}

#[test]
fn a_planner_of_a_dag_without_a_model_of_its_own_answers_with_a_dag() {
    let batch = |id: &str, planner: &str, kind: &str, model: &str| {
        format!(
            "  - {{id: {id}, trigger_agent: {planner}, source: {{kind: {kind}, path: plan, task_model: {model}}}, result: {{context_key: {id}_r, status_key: {id}_s, require_owned_paths: false}}, allowed_execution_agents: [Own]}}\n"
        )
    };
    let batches = [
        batch("one", "Alone", "structured_output", "Dag"),
        // Another batch wants another answer, a variable has another writer, and a save step wants more.
        batch("two", "Both", "structured_output", "Dag"),
        batch("three", "Both", "structured_output", "DecomposedTask"),
        batch("four", "Elsewhere", "context_variable", "Dag"),
        batch("five", "Saves", "structured_output", "Dag"),
        batch("six", "Own", "structured_output", "Dag"),
    ];
    let files = format!(
        "\
=== agents
agents:
  - {{name: Alone, system_message: x}}
  - {{name: Both, system_message: x}}
  - {{name: Elsewhere, system_message: x}}
  - {{name: Saves, system_message: x, writes: {{v: other}}}}
  - {{name: Own, system_message: x}}
=== structured_outputs
models: {{M: {{type: model, fields: {{plan: {{type: dict}}}}}}}}
registry: {{Own: M}}
=== task_batches
batches:
{}",
        batches.concat()
    );
    check(
        &files,
        show,
        expect![[r#"
        warning MZ308 task_batches:3:76 batch `two` reads the output of `Both`, which answers with no model
        warning MZ308 task_batches:4:78 batch `three` reads the output of `Both`, which answers with no model
        warning MZ308 task_batches:5:81 batch `four` has no save step: nothing writes `plan`
        warning MZ308 task_batches:6:78 batch `five` reads the output of `Saves`, which answers with no model
        Alone "x" Some("Answer") Plan [] /project/workflows/W
        Both "x" None Model [] /project/workflows/W
        Elsewhere "x" None Model [] /project/workflows/W
        Own "x" Some("M") Model [] /project/workflows/W
        Saves "x" None Model [("v", "other")] /project/workflows/W
    "#]],
    );
}

#[test]
fn what_is_added_to_a_request_undoes_nothing_that_the_engine_says() {
    check(
        "\
=== orchestrator
defaults: {runtime: {kind: openai, extra_body: {stream: false}}}
=== agents
agents:
  - name: A
    system_message: a
    runtime: {kind: openai, max_output_tokens: 5, extra_body: {model: m, messages: [], max_tokens: 9, seed: 1, text: {verbosity: low}, tool_choice: auto}}
  - name: B
    system_message: b
    runtime: {kind: openai, extra_body: {max_completion_tokens: 9, text: {format: x}, n: 2}}
  - name: C
    system_message: c
    runtime: {kind: openai, extra_body: {max_completion_tokens: 9, max_tokens: 9}}
  - name: D
    system_message: d
    runtime: {kind: openai, extra_body: {max_tokens: many}}
  - {name: E, system_message: e}
  - {name: F, system_message: f}
",
        nothing,
        expect![[r#"
            error MZ204 agents:4:71 `model` of a request is not for `extra_body`
            error MZ204 agents:4:84 `messages` of a request is not for `extra_body`
            error MZ204 agents:4:100 `max_tokens` says again how long an answer may be
            error MZ204 agents:7:74 `text.format` of a request is not for `extra_body`
            error MZ204 agents:7:90 `n` of a request is not for `extra_body`
            error MZ204 agents:10:80 `max_tokens` says again how long an answer may be
            error MZ204 agents:13:54 `max_tokens` is how many tokens an answer may have, from 1 on
            error MZ204 orchestrator:1:57 `stream` of a request is not for `extra_body`
        "#]],
    );
}

#[test]
fn a_choice_is_one_of_several() {
    check(
        "\
=== agents
agents:
  - {name: A, runtime: {kind: human, choices: [a, b, a, {text: b, json: 1}]}}
  - {name: B, runtime: {kind: human, choices: ['2', '1', '3', '9', '0']}}
  - {name: C, runtime: {kind: human, choices: ['1', '2'], default: '3'}}
",
        nothing,
        expect![[r#"
            error MZ303 agents:2:54 `A` has the choice `a` twice
            error MZ303 agents:2:57 `A` has the choice `b` twice
            warning MZ207 agents:3:48 whoever types 2 chooses `2`, though 2 is shown before `1`
            warning MZ207 agents:3:53 whoever types 1 chooses `1`, though 1 is shown before `2`
            error MZ204 agents:4:68 the default of `C` is none of its choices
        "#]],
    );
}
