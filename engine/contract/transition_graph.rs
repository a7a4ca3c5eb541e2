//! `transition_graph.yaml`: who speaks after whom.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::name::Name;

/// Which agent speaks after which. Without this file the agents that are neither triggers nor workers speak in the order of `agents.yaml`.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Transition graph", example = example())]
pub struct TransitionGraph {
    /// The rules. After a turn, the conditions of that agent's rules are tried in order, then its `after_turn` rules.
    #[serde(default)]
    pub transition_rules: Vec<Rule>,
}

/// One rule: after an agent's turn, and perhaps on a condition, another agent speaks.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The agent whose turn is over.
    pub source_agent: Name,
    /// The agent that speaks next, or `terminate` to end the run, or `user`.
    pub target_agent: Name,
    /// Whether the rule has a condition.
    pub transition_type: TransitionType,
    /// What the condition looks at. Only with `transition_type: condition`.
    #[serde(default)]
    pub condition_type: Option<ConditionType>,
    /// The context variable that `context_equals` looks at.
    #[serde(default)]
    pub condition_key: Option<Name>,
    /// The value that `context_equals` compares with. A variable without a value equals null.
    #[serde(default)]
    pub condition_value: Option<Value>,
    /// The expression that `context_expression` evaluates, such as `${status} == 'completed' and len(${items}) > 0`.
    #[serde(default)]
    pub context_expression: Option<String>,
    /// The tool that `tool_called` waits for.
    #[serde(default)]
    pub tool_name: Option<Name>,
    /// What kind of target `target_agent` is. It has to fit, and says nothing new.
    #[serde(default)]
    pub transition_target: Option<TransitionTarget>,
    /// How the run ended, with `target_agent: terminate`. Without it, `workflow_complete`.
    #[serde(default)]
    pub termination_reason: Option<TerminationReason>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TransitionType {
    /// Always, if no condition of the same agent holds.
    AfterTurn,
    /// If its condition holds.
    Condition,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConditionType {
    /// A context variable has a value.
    ContextEquals,
    /// An expression over context variables is true.
    ContextExpression,
    /// The agent called a tool. Tools are not run yet, so it never holds.
    ToolCalled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum TransitionTarget {
    /// `target_agent` names an agent.
    AgentTarget,
    /// `target_agent` is `terminate`.
    TerminateTarget,
    /// `target_agent` is `user`.
    RevertToUserTarget,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TerminationReason {
    /// The run is complete.
    WorkflowComplete,
    /// The run failed.
    WorkflowFailed,
}

fn example() -> Value {
    json!({
        "transition_rules": [
            {
                "source_agent": "Planner",
                "target_agent": "Editor",
                "transition_type": "condition",
                "condition_type": "context_equals",
                "condition_key": "handbook_status",
                "condition_value": "completed"
            },
            { "source_agent": "Planner", "target_agent": "terminate", "transition_type": "after_turn", "termination_reason": "workflow_failed" },
            { "source_agent": "Editor", "target_agent": "terminate", "transition_type": "after_turn" }
        ]
    })
}
