//! `middleware.yaml`: functions that rewrite prompts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::name::Name;

/// Functions that rewrite prompts. They are read; this version does not run them.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Middleware", example = example())]
pub struct Middleware {
    /// The functions, in the order they run.
    #[schemars(extend("x-not-acted-on" = "this version does not run prompt functions"))]
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
    /// The function.
    pub function: Name,
}

fn example() -> Value {
    json!({
        "prompt_middleware": [{ "agent": "Editor", "filename": "house_style.py", "function": "add_house_style" }]
    })
}
