//! `context_variables.yaml`: the variables of a run, and which agent sees which.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::name::{Name, Names};

/// The variables of a run, their first values, and which agent sees which. Without this file every agent sees everything, and nothing has to be declared.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Context variables", example = example())]
pub struct ContextVariables {
    /// The variables by name.
    pub definitions: BTreeMap<Name, Definition>,
    /// For each agent, the variables it sees. An agent that is not listed sees only `input`.
    pub agents: BTreeMap<Name, Visible>,
}

/// One variable.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Definition {
    /// A word for the type of its values. It is not enforced.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// What the variable is for.
    pub description: Option<String>,
    /// Where its first value comes from. Without it, the first value is null.
    pub source: Option<Source>,
    /// A word for who may change it. It is not enforced.
    pub authority_class: Option<String>,
    /// Whether models see it. `agents` below decides.
    pub model_visible: Option<bool>,
    /// Whether tools see it. `agents` below decides.
    pub tool_visible: Option<bool>,
    /// Whether it outlives a run.
    pub persisted: Option<bool>,
    /// Whether transitions may look at it. They all may.
    pub routing: Option<bool>,
    /// Whether it decides about permissions. It is not enforced.
    pub authorization: Option<bool>,
    /// Words for who may write it. It is not enforced.
    pub writer_ids: Vec<String>,
}

/// Where the first value of a variable comes from.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The kind of source.
    #[serde(rename = "type")]
    pub kind: SourceType,
    /// The first value, for `state` and `config`.
    #[serde(default)]
    pub default: Option<Value>,
    /// The environment variable that holds the value, for `config`. If it is not set, `default`.
    #[serde(default)]
    pub env_var: Option<Name>,
    /// The file that holds the value, for `file`, relative to the project's folder.
    #[serde(default)]
    pub path: Option<Name>,
    /// How the file is read, for `file`: `json`, `yaml` or `text`. Without it, by its ending.
    #[serde(default)]
    pub format: Option<String>,
    /// Whether a run must be given a value by `--set`, for `runtime`.
    #[serde(default)]
    pub required: Option<bool>,
    /// What makes the variable change while people and agents speak.
    #[serde(default)]
    #[schemars(extend("x-not-acted-on" = "variables change by `writes` of an agent and by batches"))]
    pub triggers: Vec<Map<String, Value>>,
    /// Where another engine looks the value up.
    #[serde(default)]
    #[schemars(extend("x-not-acted-on" = "only `config`, `state`, `file` and `runtime` sources are read"))]
    pub database_name: Option<String>,
    /// Where another engine looks the value up.
    #[serde(default)]
    #[schemars(extend("x-not-acted-on" = "only `config`, `state`, `file` and `runtime` sources are read"))]
    pub collection: Option<String>,
    /// Where another engine looks the value up.
    #[serde(default)]
    #[schemars(extend("x-not-acted-on" = "only `config`, `state`, `file` and `runtime` sources are read"))]
    pub fields: Option<Value>,
    /// Where another engine looks the value up.
    #[serde(default)]
    #[schemars(extend("x-not-acted-on" = "only `config`, `state`, `file` and `runtime` sources are read"))]
    pub query_template: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SourceType {
    /// An environment variable, or the default.
    Config,
    /// Something that another engine looks up; null here.
    DataReference,
    /// Something that another engine looks up; null here.
    DataEntity,
    /// Written during the run, by a batch or an agent; null before.
    Computed,
    /// The default, until something changes it.
    State,
    /// Something that another engine looks up; null here.
    External,
    /// The content of a file.
    File,
    /// Something that another engine looks up; null here.
    BuildContext,
    /// Given by whoever starts the run, by `--set`.
    Runtime,
}

/// What one agent sees.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Visible {
    /// The names of the variables it sees.
    pub variables: Names,
}

fn example() -> Value {
    json!({
        "definitions": {
            "audience": { "type": "string", "source": { "type": "state", "default": "engineers" } },
            "handbook_results": { "type": "object", "source": { "type": "computed" } },
            "handbook_status": { "type": "string", "source": { "type": "computed" } }
        },
        "agents": {
            "Planner": { "variables": ["audience"] },
            "Editor": { "variables": ["handbook_results", "handbook_status"] }
        }
    })
}
