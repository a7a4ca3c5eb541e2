//! `middleware.yaml`: functions that rewrite prompts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::name::Name;

/// Functions that rewrite the instruction of an agent before it is asked.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Middleware", example = example())]
pub struct Middleware {
    /// The functions, in the order they run.
    pub prompt_middleware: Vec<PromptMiddleware>,
}

/// One function.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptMiddleware {
    /// The agent whose prompt it rewrites, or `all`.
    pub agent: Name,
    /// The Python file, in the folder `tools` of the workflow. Without it, `function` names a module too.
    #[serde(default)]
    pub filename: Option<Name>,
    /// The function. It is called with the agent, whose `name`, `system_message` and `context_variables` it may read, and with the messages. A text that it returns, or gives to the agent's `update_system_message`, is the instruction from then on.
    pub function: Name,
}

fn example() -> Value {
    json!({
        "prompt_middleware": [{ "agent": "Editor", "filename": "house_style.py", "function": "add_house_style" }]
    })
}
