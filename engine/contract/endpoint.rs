//! What is sent along with every request to an endpoint.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::name::Name;

/// Headers of every request, by name.
pub type Headers = BTreeMap<Name, Header>;

/// The value of a header.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Header {
    /// A text that is no secret.
    #[schemars(title = "text")]
    Text(Name),
    /// What an environment variable holds.
    #[schemars(title = "variable")]
    Variable(FromEnv),
}

/// What an environment variable holds.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FromEnv {
    /// The environment variable.
    pub env: Name,
    /// What stands before it in the header, such as `Bearer `.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
}
