//! `ui_config.yaml`: a hint for user interfaces.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::name::Name;

/// A hint for user interfaces. The engine itself shows nothing by it.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "User interface", example = example())]
pub struct UiConfig {
    /// The agents whose messages a person sees. An empty list means all of them, null means none.
    #[schemars(extend("x-not-acted-on" = "there is no user interface"))]
    pub visual_agents: Option<Vec<Name>>,
}

fn example() -> Value {
    json!({ "visual_agents": ["Editor"] })
}
