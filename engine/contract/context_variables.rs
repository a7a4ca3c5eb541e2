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
    /// A word for the type of its values. It is not enforced, but a run warns of a tool or an agent that sets it to something else.
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

/// Where the first value of a variable comes from: a type, and the keys that go with it.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The kind of source.
    #[serde(rename = "type")]
    pub kind: SourceType,
    /// The first value, for `state`, for `config` if the environment variable is not set, and for `file` if there is no file.
    #[serde(default)]
    pub default: Option<Value>,
    /// The environment variable that holds the value, for `config`.
    #[serde(default)]
    pub env_var: Option<Name>,
    /// The file that holds the value, for `file`, relative to the project's folder.
    #[serde(default)]
    pub path: Option<Name>,
    /// How the file is read, for `file`. Without it, by its ending.
    #[serde(default)]
    pub format: Option<FileFormat>,
    /// How the characters of the file are encoded, for `file`.
    #[serde(default)]
    #[schemars(extend("x-not-acted-on" = "files are read as UTF-8"))]
    pub encoding: Option<String>,
    /// Whether a run without a value is refused before it starts, for `config` and `runtime`.
    #[serde(default)]
    pub required: Option<bool>,
    /// What makes the variable change while people and agents speak, for `state`.
    #[serde(default)]
    #[schemars(extend("x-not-acted-on" = SET_BY))]
    pub triggers: Vec<Map<String, Value>>,
    /// Whether the value is kept from one run to the next, for `state`.
    #[serde(default)]
    #[schemars(extend("x-not-acted-on" = "each run begins with the first values"))]
    pub persist: Option<bool>,
    /// How the value comes about, for `computed`.
    #[serde(default)]
    #[schemars(extend("x-not-acted-on" = SET_BY))]
    pub computation: Option<String>,
    /// The variables that the value is made of, for `computed`.
    #[serde(default)]
    #[schemars(extend("x-not-acted-on" = SET_BY))]
    pub inputs: Option<Vec<String>>,
    /// A word for the type of the value, for `computed`.
    #[serde(default)]
    #[schemars(extend("x-not-acted-on" = "values are not held against a type"))]
    pub output_type: Option<String>,
    /// Where the value is kept, for `computed`.
    #[serde(default)]
    #[schemars(extend("x-not-acted-on" = "nothing is written to a database"))]
    pub persist_to: Option<Map<String, Value>>,
    /// The database, for `data_reference` and `data_entity`.
    #[serde(default)]
    pub database_name: Option<String>,
    /// The collection in the database, for `data_reference` and `data_entity`.
    #[serde(default)]
    pub collection: Option<String>,
    /// The fields that are taken from the document, for `data_reference`.
    #[serde(default)]
    pub fields: Option<Value>,
    /// The query that finds the document, for `data_reference`.
    #[serde(default)]
    pub query_template: Option<Value>,
    /// When the document is read again, for `data_reference`: `once`, `per_phase` or `on_demand`.
    #[serde(default)]
    pub refresh_strategy: Option<String>,
    /// The JSON Schema of the document, for `data_entity`.
    #[serde(default)]
    pub schema: Option<Map<String, Value>>,
    /// The indexes of the collection, for `data_entity`.
    #[serde(default)]
    pub indexes: Option<Vec<Map<String, Value>>>,
    /// When the document is written, for `data_entity`: `immediate`, `on_phase_transition` or `on_workflow_end`.
    #[serde(default)]
    pub write_strategy: Option<String>,
    /// The field by which the document is found, for `data_entity`.
    #[serde(default)]
    pub search_by: Option<String>,
    /// The service that is called, for `external`.
    #[serde(default)]
    pub service: Option<String>,
    /// The operation of the service, for `external`.
    #[serde(default)]
    pub operation: Option<String>,
    /// The parameters of the call, for `external`.
    #[serde(default)]
    pub params: Option<Map<String, Value>>,
    /// How the caller proves who it is, for `external`.
    #[serde(default)]
    pub auth: Option<Map<String, Value>>,
    /// How long an answer is used again, for `external`.
    #[serde(default)]
    pub cache: Option<Map<String, Value>>,
    /// How a call that failed is made again, for `external`.
    #[serde(default)]
    pub retry: Option<Map<String, Value>>,
}

/// The only ways in which a variable changes.
const SET_BY: &str = "variables change by `writes` of an agent and by batches";

/// The only sources there are.
const NOT_LOOKED_UP: &str =
    "only `config`, `state`, `file` and `runtime` sources are read, so the variable begins as null";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SourceType {
    /// An environment variable, or the default.
    Config,
    /// A document that another engine reads from a database; null here.
    #[schemars(extend("x-not-acted-on" = NOT_LOOKED_UP))]
    DataReference,
    /// A document that another engine writes to a database; null here.
    #[schemars(extend("x-not-acted-on" = NOT_LOOKED_UP))]
    DataEntity,
    /// Written during the run, by a batch or an agent; null before.
    Computed,
    /// The default, until something changes it.
    State,
    /// What another engine asks a service for; null here.
    #[schemars(extend("x-not-acted-on" = NOT_LOOKED_UP))]
    External,
    /// The content of a file.
    File,
    /// What another engine knows of the app it builds; null here.
    #[schemars(extend("x-not-acted-on" = NOT_LOOKED_UP))]
    BuildContext,
    /// Given by whoever starts the run, by `--set`.
    Runtime,
}

/// How a file becomes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileFormat {
    /// The value that the file holds as JSON.
    Json,
    /// The value that the file holds as YAML.
    Yaml,
    /// The whole file as one text.
    Text,
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
