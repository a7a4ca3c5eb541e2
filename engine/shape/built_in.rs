//! The model that a conveyor's decomposition agent answers with when no file gives it one (Workflow Task Batches, *Decomposition Conveyors*).

use serde_json::json;

use super::{Shape, compile};
use crate::contract::structured_outputs::StructuredOutputs;

/// The shape of a plan whose tasks go to `execution_agents`; to anybody, if there are none.
pub fn decomposition_plan(execution_agents: &[String]) -> Shape {
    let agent = "The agent that does the task.";
    let execution_agent = match execution_agents {
        [] => json!({ "type": "str", "description": agent }),
        agents => json!({ "type": "literal", "values": agents, "description": agent }),
    };
    let outputs = json!({ "models": {
        "Plan": { "type": "model", "fields": {
            "DecompositionPlan": { "type": "DecompositionPlan", "description": "The work, split up." },
        } },
        "DecompositionPlan": { "type": "model", "fields": {
            "tasks": {
                "type": "list",
                "items": "DecomposedTask",
                "description": "The tasks. An empty list means that there is nothing to do.",
            },
        } },
        "DecomposedTask": { "type": "model", "description": "One task of the plan.", "fields": {
            "task_id": { "type": "str", "description": "A name for the task, unique in the plan." },
            "execution_agent": execution_agent,
            "task_prompt": { "type": "str", "description": "What that agent is told to do." },
            "depends_on": {
                "type": "optional_list",
                "items": "str",
                "description": "The task_id of every task whose output this one needs.",
            },
            "owned_paths": {
                "type": "optional_list",
                "items": "str",
                "description": "The files, folders or patterns that only this task may write.",
            },
        } },
    } });
    let outputs: StructuredOutputs =
        serde_json::from_value(outputs).expect("the plan is written as the contract asks");
    let (shapes, _) = compile(&outputs);
    let plan = shapes.model("Plan");
    plan.expect("whatever the agents' names, the plan compiles")
        .clone()
}
