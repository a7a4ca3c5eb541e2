//! What a decomposition agent emits (Workflow Task Batches, *Decomposition Conveyors*).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::name::Name;

/// The answer of a decomposition agent.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[schemars(title = "Plan", example = example())]
pub struct Answer {
    /// The plan. Its name is the path at which a conveyor looks for it.
    #[serde(rename = "DecompositionPlan")]
    pub decomposition_plan: DecompositionPlan,
}

/// Work, split up.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
pub struct DecompositionPlan {
    /// The tasks. Their order is the order of the results.
    pub tasks: Vec<DecomposedTask>,
}

/// One task of a plan. Fields of your own are kept and handed to the agent.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
pub struct DecomposedTask {
    /// The name of this task, unique in its plan.
    pub task_id: Name,
    /// The agent that does it: one of the conveyor's `execution_agents`.
    pub execution_agent: Name,
    /// What that agent is told.
    pub task_prompt: Name,
    /// The ids of the tasks whose outputs this one needs. It starts when they are completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depends_on: Option<Vec<Name>>,
    /// The files (`src/a.rs`), folders (`src/api/`) or patterns (`docs/**/*.md`) that only this task may write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owned_paths: Option<Vec<Name>>,
    /// When the task is done well, for the agent to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acceptance_criteria: Option<Value>,
    /// Context variables for this task's agent alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_variables: Option<Map<String, Value>>,
    /// What other parts this task must fit to, for the agent to read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integration_needs: Option<Value>,
}

fn example() -> Value {
    json!({
        "DecompositionPlan": {
            "tasks": [
                { "task_id": "outline", "execution_agent": "Writer", "task_prompt": "Outline the handbook." },
                {
                    "task_id": "chapter_1",
                    "execution_agent": "Writer",
                    "task_prompt": "Write the first chapter.",
                    "depends_on": ["outline"],
                    "owned_paths": ["chapters/1.md"]
                }
            ]
        }
    })
}
