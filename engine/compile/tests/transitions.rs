use super::*;
use crate::context::Context;

const CONVEYOR: &str = "
=== task_batches
conveyors: [{id: c, decomposition_agent: P, execution_agents: [A], failure_policy: collect_errors}]
";

#[track_caller]
fn check_rules(rules: &str, expect: Expect) {
    let graph = format!("=== transition_graph\ntransition_rules:\n{rules}");
    check(&format!("{graph}{CONVEYOR}{AGENTS}"), nothing, expect);
}

#[test]
fn rules_hold_together() {
    check_rules(
        "
  - {source_agent: X, target_agent: Z, transition_type: after_turn}
  - {source_agent: User, target_agent: y, transition_type: after_turn, condition_type: context_equals, tool_name: t}
  - {source_agent: P, target_agent: Z, transition_type: condition}
  - {source_agent: P, target_agent: Z, transition_type: condition, condition_type: context_equals}
  - {source_agent: P, target_agent: Z, transition_type: condition, condition_type: context_expression, condition_key: k}
  - {source_agent: P, target_agent: Z, transition_type: condition, condition_type: tool_called, tool_name: t}
  - {source_agent: P, target_agent: Z, transition_type: after_turn, termination_reason: workflow_complete}
  - {source_agent: Z, target_agent: terminate, transition_type: after_turn, transition_target: AgentTarget}
  - {source_agent: Z, target_agent: user, transition_type: after_turn, transition_target: TerminateTarget}
",
        expect![[r#"
            warning MZ302 transition_graph:3:20 no file defines the agent `X`, so this rule never holds
            error MZ302 transition_graph:4:40 no file defines an agent `y`
            error MZ207 transition_graph:4:72 `condition_type` has no use in a rule of this type
            error MZ207 transition_graph:4:104 `tool_name` has no use in a rule of this type
            error MZ207 transition_graph:5:57 a rule of type `condition` needs a `condition_type`
            error MZ207 transition_graph:6:84 a rule of this type needs `condition_key`
            error MZ207 transition_graph:7:84 a rule of this type needs `context_expression`
            error MZ207 transition_graph:7:104 `condition_key` has no use in a rule of this type
            warning MZ315 transition_graph:8:108 `P` has no tool `t`, so this rule never holds
            error MZ207 transition_graph:9:89 `termination_reason` goes with `target_agent: terminate`
            error MZ207 transition_graph:10:96 this `transition_target` does not fit `target_agent: terminate`
            error MZ207 transition_graph:11:91 this `transition_target` does not fit `target_agent: user`
        "#]],
    );
}

#[test]
fn expressions_are_told_by_their_place() {
    check_rules(
        "
  - {source_agent: P, target_agent: Z, transition_type: after_turn}
  - {source_agent: Z, target_agent: Z, transition_type: condition, condition_type: context_expression, context_expression: \"${c_status} = 1\"}
  - {source_agent: Z, target_agent: Z, transition_type: condition, condition_type: context_expression, context_expression: 'ö == ${x}'}
  - source_agent: Z
    target_agent: Z
    transition_type: condition
    condition_type: context_expression
    context_expression: >-
      ${x} ==
      oops
  - {source_agent: Z, target_agent: Z, transition_type: condition, condition_type: context_expression, context_expression: ''}
",
        expect![[r#"
            error MZ311 transition_graph:4:137 `=` has no meaning here
            error MZ311 transition_graph:5:125 `ö` is not a value
            error MZ311 transition_graph:11:7 `oops` is not a value
            error MZ311 transition_graph:13:124 an empty expression
        "#]],
    );
}

#[test]
fn variables_of_rules_are_declared() {
    let graph = "\
=== transition_graph
transition_rules:
  - {source_agent: P, target_agent: Z, transition_type: after_turn}
  - {source_agent: Z, target_agent: Z, transition_type: condition, condition_type: context_expression, context_expression: \"${c_statu} == 1 and ${input}\"}
  - {source_agent: Z, target_agent: Z, transition_type: condition, condition_type: context_equals, condition_key: other, condition_value: 1}
=== context_variables
definitions: {c_results: {}, c_status: {}}
agents: {Z: {variables: [c_results]}}
";
    check(
        &format!("{graph}{CONVEYOR}{AGENTS}"),
        nothing,
        expect![[r#"
            error MZ304 transition_graph:3:125 the variable `c_statu` is not declared (c_status?)
            error MZ304 transition_graph:4:115 the variable `other` is not declared
        "#]],
    );
}

#[test]
fn circles_are_walked_once() {
    check_rules(
        "
  - {source_agent: Z, target_agent: B, transition_type: after_turn}
  - {source_agent: B, target_agent: Z, transition_type: after_turn}
  - {source_agent: B, target_agent: B, transition_type: after_turn}
",
        expect![[r#"
            warning MZ307 task_batches:1:42 no transition of `P` handles batch `c` ending as `completed`
            warning MZ307 task_batches:1:42 no transition of `P` handles batch `c` ending as `completed_with_errors`
        "#]],
    );
    let orchestrator =
        "=== orchestrator\ninitial_agent: Z\n=== transition_graph\ntransition_rules:\n";
    for (rules, expect) in [
        (
            "
  - {source_agent: Z, target_agent: B, transition_type: after_turn}
  - {source_agent: B, target_agent: Z, transition_type: after_turn}
",
            expect![[r#"
                warning MZ306 task_batches:1:42 no transition leads to `P`, so batch `c` never runs
            "#]],
        ),
        (
            "
  - {source_agent: Z, target_agent: USER, transition_type: after_turn}
  - {source_agent: user, target_agent: P, transition_type: after_turn}
  - {source_agent: P, target_agent: Z, transition_type: after_turn}
",
            expect![[""]],
        ),
    ] {
        check(
            &format!("{orchestrator}{rules}{CONVEYOR}{AGENTS}"),
            nothing,
            expect,
        );
    }
}

#[test]
fn every_status_of_a_batch_leads_somewhere() {
    for (rule, expect) in [
        (
            "condition_type: context_equals, condition_key: c_status, condition_value: completed",
            expect![[r#"
                warning MZ307 task_batches:1:42 no transition of `P` handles batch `c` ending as `completed_with_errors`
            "#]],
        ),
        (
            "condition_type: context_equals, condition_key: c_results, condition_value: 1",
            expect![[""]],
        ),
        (
            "condition_type: context_expression, context_expression: \"${c_status} in ['completed', 'completed_with_errors']\"",
            expect![[""]],
        ),
        (
            "condition_type: context_expression, context_expression: \"${c_status} != 'failed'\"",
            expect![[""]],
        ),
        (
            "condition_type: context_expression, context_expression: \"${c_status} == 'complete'\"",
            expect![[r#"
                warning MZ307 task_batches:1:42 no transition of `P` handles batch `c` ending as `completed`
                warning MZ307 task_batches:1:42 no transition of `P` handles batch `c` ending as `completed_with_errors`
            "#]],
        ),
        (
            "condition_type: context_expression, context_expression: \"${input} == 'x'\"",
            expect![[""]],
        ),
    ] {
        check_rules(
            &format!(
                "  - {{source_agent: P, target_agent: Z, transition_type: condition, {rule}}}\n"
            ),
            expect,
        );
    }
}

#[test]
fn the_first_rule_that_holds_is_followed() {
    let files = format!(
        "\
=== transition_graph
transition_rules:
  - {{source_agent: P, target_agent: A, transition_type: after_turn}}
  - {{source_agent: P, target_agent: B, transition_type: condition, condition_type: context_equals, condition_key: k, condition_value: 1}}
  - {{source_agent: P, target_agent: Z, transition_type: condition, condition_type: context_expression, context_expression: \"${{k}} > 1\"}}
  - {{source_agent: P, target_agent: terminate, termination_reason: workflow_failed, transition_type: condition, condition_type: context_equals, condition_key: k}}
  - {{source_agent: Z, target_agent: user, transition_type: after_turn}}
  - {{source_agent: USER, target_agent: P, transition_type: after_turn}}
  - {{source_agent: p, target_agent: B, transition_type: after_turn}}
{AGENTS}"
    );
    let (workflow, _) = compile(&bundle(&files));
    let workflow = workflow.expect("it has no mistake");
    let mut context = Context::default();
    let mut lines = String::new();
    for (agent, value) in [
        ("P", "null"),
        ("P", "1"),
        ("P", "1.0"),
        ("P", "true"),
        ("P", "\"1\""),
        ("P", "2"),
        ("P", "[1]"),
        ("Z", "1"),
        ("user", "1"),
        ("B", "1"),
        ("p", "1"),
    ] {
        context.set(
            "k",
            serde_json::from_str::<Value>(value).expect("it is JSON"),
        );
        let (next, warnings) = workflow.transitions.next(agent, &context, &BTreeSet::new());
        let has = workflow
            .transitions
            .has_condition(agent, &context, &BTreeSet::new());
        lines.push_str(&format!("{agent} {value} {next:?} {has} {warnings:?}\n"));
    }
    expect![[r#"
        P null Failed true ["`${k} > 1` counts as false: `${k}` (null) and `1` (a number) have no order"]
        P 1 Agent("B") true []
        P 1.0 Agent("B") true []
        P true Agent("B") true []
        P "1" Agent("A") false ["`${k} > 1` counts as false: `${k}` (a text) and `1` (a number) have no order"]
        P 2 Agent("Z") true []
        P [1] Agent("A") false ["`${k} > 1` counts as false: `${k}` (a list) and `1` (a number) have no order"]
        Z 1 User false []
        user 1 Agent("P") false []
        B 1 NoRule false []
        p 1 Agent("B") false []
    "#]].assert_eq(&lines);
}

#[test]
fn without_a_graph_agents_speak_in_the_order_of_their_file() {
    fn show(workflow: &Workflow) -> String {
        let context = Context::default();
        let agents = workflow.agents.keys();
        let lines = agents.map(|it| {
            format!(
                "{it} {:?}\n",
                workflow.transitions.next(it, &context, &BTreeSet::new()).0
            )
        });
        lines.collect()
    }
    check(
        AGENTS,
        show,
        expect![[r#"
        A Agent("B")
        B Agent("Z")
        P Agent("A")
        Z Complete
    "#]],
    );
    check(
        &format!("{CONVEYOR}{AGENTS}"),
        show,
        expect![[r#"
        A NoRule
        B Agent("Z")
        P Agent("B")
        Z Complete
    "#]],
    );
}
