//! `providers.yaml`, and what `orchestrator.yaml` says of providers and budgets.

use std::{
    collections::BTreeMap,
    num::{NonZeroU32, NonZeroU64},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::name::Name;

/// Providers that all workflows of a project share, beside the `workflows` folder. A workflow's own, in its `orchestrator.yaml`, go over those of the same name.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Providers", example = example())]
pub struct Providers {
    /// By name: the one that an agent's `runtime.provider` names.
    pub providers: BTreeMap<Name, Provider>,
}

/// Whoever is asked for money or in limited amounts. An agent is asked through it if its `runtime` names it, or has its `base_url`.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Provider {
    /// Where the endpoint is, for agents that name this provider and say nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<Name>,
    /// The environment variable that holds the key, for agents that name this provider and say nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<Name>,
    /// The most calls under way at once, of all agents together. Without it, no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<NonZeroU32>,
    /// The most calls in any minute. Without it, no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<NonZeroU32>,
    /// The most tokens, asked and answered, in any minute. A call is counted by an estimate until it has ended. Without it, no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<NonZeroU64>,
    /// What models cost, by the model's name; `*` is any other model of this provider. In whatever currency: budgets are in the same.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<Name, Price>,
}

/// What a million tokens cost.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Of what a model is asked.
    #[schemars(range(min = 0))]
    pub input: f64,
    /// Of what it answers.
    #[schemars(range(min = 0))]
    pub output: f64,
    /// Of what it is asked and the endpoint has read before. Without it, `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub cached_input: Option<f64>,
}

/// What may be spent. No call starts that could go beyond it; those under way end, and the run stops with the status `budget`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// The most tokens, asked and answered, rejected answers included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<NonZeroU64>,
    /// The most money, in the currency of the prices. Every model that is asked needs a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub cost: Option<f64>,
}

fn example() -> Value {
    json!({
        "providers": {
            "local": {
                "base_url": "http://127.0.0.1:8080/v1",
                "max_concurrency": 4,
                "requests_per_minute": 60,
                "tokens_per_minute": 100_000,
                "prices": { "*": { "input": 0.5, "cached_input": 0.05, "output": 1.5 } }
            }
        }
    })
}
