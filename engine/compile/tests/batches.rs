use super::*;

#[track_caller]
fn check_batches(text: &str, more: &str, expect: Expect) {
    check(
        &format!("=== task_batches\n{text}{more}{AGENTS}"),
        nothing,
        expect,
    );
}

#[test]
fn a_conveyor_stands_for_a_batch() {
    fn show(workflow: &Workflow) -> String {
        let batches = workflow.batches.iter();
        batches.map(|it| format!("{it:#?}\n")).collect()
    }
    check(
        &format!(
            "=== task_batches\nconveyors: [{{id: c, decomposition_agent: P, execution_agents: [A, B, A, ' ']}}]{AGENTS}"
        ),
        show,
        expect![[r#"
            Batch {
                id: "c",
                trigger: "P",
                source: StructuredOutput,
                path: "DecompositionPlan.tasks",
                agent_field: "execution_agent",
                prompt_field: "task_prompt",
                dependency_field: "depends_on",
                context_fields: [],
                allowed: [
                    "A",
                    "B",
                ],
                policy: Policy {
                    concurrency: 4,
                    retry_limit: 0,
                    backoff: Backoff {
                        initial: 1s,
                        max: 60s,
                        jitter: Full,
                    },
                    on_failure: Stop,
                },
                failure_policy: FailBatch,
                timeout: 120s,
                deadline: None,
                budget: Limit {
                    tokens: None,
                    cost: None,
                    cu: None,
                },
                context_key: "c_results",
                status_key: "c_status",
                merge: ByTask,
                emits: Tasks,
                require_owned_paths: false,
                rerun: Changed,
                form: Conveyor,
            }
        "#]],
    );
}

#[test]
fn what_is_left_out_of_a_batch_has_its_default() {
    fn show(workflow: &Workflow) -> String {
        let batches = workflow.batches.iter().map(|it| {
            format!(
                "{} {:?} {} {} {} {:?} {:?} {:?} {:?} {}\n",
                it.id,
                it.allowed,
                it.agent_field,
                it.prompt_field,
                it.dependency_field,
                it.timeout,
                it.deadline,
                it.policy,
                it.merge,
                it.require_owned_paths
            )
        });
        batches.collect()
    }
    check(
        &format!(
            "\
=== task_batches
batches:
  - {{id: b, trigger_agent: P, source: {{kind: context_variable, path: input, task_model: DecomposedTask}}, result: {{context_key: k, status_key: s}}}}
  - id: full
    trigger_agent: P
    source: {{kind: context_variable, path: ' k . x ', task_model: '${{model}}'}}
    worker: {{agent_field: who, prompt_field: what, context_fields: [f, f, g]}}
    execution: {{concurrency: 9, dependency_field: after, failure_policy: collect_errors, retry_limit: 2, timeout_seconds: 5, deadline_seconds: 6, retry: {{initial_seconds: 0.25, max_seconds: 1.0e+300, jitter: none}}}}
    result: {{context_key: k2, status_key: s2, merge_strategy: collect_outputs, require_owned_paths: false}}
    allowed_execution_agents: [B]
{AGENTS}"
        ),
        show,
        expect![[r#"
            warning MZ308 task_batches:2:10 batch `b` has no allow-list: its tasks may go to any agent of the workflow, also to `P`, which plans it
            b ["P", "A", "B", "Z"] initial_agent initial_message depends_on 120s None Policy { concurrency: 4, retry_limit: 0, backoff: Backoff { initial: 1s, max: 60s, jitter: Full }, on_failure: Stop } ByTask true
            full ["B"] who what after 5s Some(6s) Policy { concurrency: 9, retry_limit: 2, backoff: Backoff { initial: 250ms, max: 18446744073709551615.999999999s, jitter: None }, on_failure: Continue } List false
        "#]],
    );
}

#[test]
fn ids_keys_and_agents() {
    check_batches(
        "\
batches:
  - {id: b, trigger_agent: P, source: {kind: context_variable, path: input, task_model: DecomposedTask}, result: {context_key: c_status, status_key: input}, allowed_execution_agents: [A, X, ' ']}
conveyors:
  - {id: c, decomposition_agent: p, execution_agents: [Bb, A]}
  - {id: ' c ', decomposition_agent: P, execution_agents: [P]}
  - {id: current_task, decomposition_agent: P, execution_agents: [' ']}
",
        "",
        expect![[r#"
            error MZ305 task_batches:2:150 `input` is set by the engine and cannot receive results
            error MZ302 task_batches:2:188 no file defines an agent `X`
            error MZ305 task_batches:4:10 the context key `c_status` has two writers; one would erase the other's results; task_batches:2:128 it is written here first
            error MZ302 task_batches:4:34 no file defines an agent `p` (P?)
            error MZ302 task_batches:4:56 no file defines an agent `Bb` (B?)
            error MZ303 task_batches:5:10 the batch id `c` stands twice; task_batches:4:10 it stands here first
            warning MZ207 task_batches:5:59 `P` plans this batch and is allowed to carry it out
            error MZ205 task_batches:6:66 `execution_agents` names nobody
        "#]],
    );
}

#[test]
fn a_recovery_is_another_agents() {
    check_batches(
        "\
batches:
  - id: b
    trigger_agent: P
    source: {kind: structured_output, path: tasks, task_model: DecomposedTask}
    result: {context_key: k, status_key: s}
    recovery: {trigger_agent: P, request_key: k, outcome_key: o, status_key: o}
    allowed_execution_agents: [A]
",
        "",
        expect![[r#"
            warning MZ308 task_batches:4:45 batch `b` reads the output of `P`, which answers with no model
            error MZ207 task_batches:6:5 `recovery` needs a source of kind `context_variable`
            error MZ207 task_batches:6:31 a batch cannot be recovered by its own trigger
            error MZ305 task_batches:6:47 the context key `k` has two uses
            error MZ305 task_batches:6:78 the context key `o` has two uses
        "#]],
    );
}

#[test]
fn a_batch_has_five_pieces() {
    let batch = |source: &str| {
        format!(
            "batches: [{{id: b, trigger_agent: P, source: {source}, result: {{context_key: k, status_key: s}}, allowed_execution_agents: [A]}}]\n"
        )
    };
    let variable = "{kind: context_variable, path: items.list, task_model: Tsk}";
    let output = "{kind: structured_output, path: Plan.tasks, task_model: Task}";
    let models = "
=== structured_outputs
registry: {P: Answer}
models:
  Answer: {type: model, fields: {Plan: {type: Plan}}}
  Plan: {type: model, fields: {tsks: {type: list, items: Task}}}
  Task: {type: model, fields: {id: {type: str}}}
";
    check_batches(
        &batch(variable),
        models,
        expect![[r#"
        warning MZ308 task_batches:1:76 batch `b` has no save step: nothing writes `items`
        warning MZ308 task_batches:1:100 batch `b` has no task model: `Tsk` is not defined (Task?)
    "#]],
    );
    check_batches(
        &batch(output),
        "",
        expect![[r#"
        warning MZ308 task_batches:1:77 batch `b` reads the output of `P`, which answers with no model
        warning MZ308 task_batches:1:101 batch `b` has no task model: `Task` is not defined
    "#]],
    );
    check_batches(
        &batch(output),
        models,
        expect![[r#"
        error MZ310 task_batches:1:77 the tasks of batch `b` are looked for at `Plan.tasks`, but `Plan` is a mapping (`Plan`), and has no `tasks`; it has `tsks` (tsks?)
    "#]],
    );
    check_batches(
        &batch(output),
        &models.replace("tsks", "tasks"),
        expect![[""]],
    );
    check_batches(
        &batch(variable),
        "
=== tools
tools: [{agent: P, file: save.py, function: save, auto_tool_call: true}]
=== context_variables
definitions: {k: {}, s: {}, itms: {}}
agents: {A: {variables: [s]}}
",
        expect![[r#"
            warning MZ308 task_batches:1:11 nobody reads the results of batch `b`: no later agent sees `k`
            error MZ304 task_batches:1:76 the variable `items` is not declared (itms?)
            warning MZ308 task_batches:1:100 batch `b` has no task model: `Tsk` is not defined
        "#]],
    );
    for source in [
        "{type: runtime}",
        "{type: file, path: x.json}",
        "{type: state, default: []}",
    ] {
        check_batches(
            &batch(variable),
            &format!(
                "\n=== context_variables\ndefinitions: {{k: {{}}, s: {{}}, items: {{source: {source}}}}}\nagents: {{Z: {{variables: [k]}}}}\n{}",
                models.replace("Task:", "Tsk:").replace("Task}", "Tsk}")
            ),
            expect![[""]],
        );
    }
}

#[test]
fn one_batch_can_feed_another() {
    let both = "\
batches:
  - {id: b, trigger_agent: Z, source: {kind: context_variable, path: c_results, task_model: DecomposedTask}, result: {context_key: c_res, status_key: s}, allowed_execution_agents: [A]}
conveyors:
  - {id: c, decomposition_agent: P, execution_agents: [A]}
";
    let variables = |agents: &str| {
        format!(
            "\n=== context_variables\ndefinitions: {{c_results: {{}}, c_status: {{}}, c_res: {{}}, s: {{}}}}\nagents: {{{agents}}}\n"
        )
    };
    check_batches(both, &variables("B: {variables: [c_res]}"), expect![""]);
    check_batches(
        both,
        &variables(""),
        expect![[r#"
            warning MZ308 task_batches:2:5 nobody reads the results of batch `b`: no later agent sees `c_res`
        "#]],
    );
}
