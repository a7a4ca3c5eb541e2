//! `orchestrator.yaml`: where a run begins, and its limits.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    name::Name,
    providers::{Budget, Provider},
    runtime::Runtime,
};

/// Where a run of this workflow begins, what holds for the whole run, and its limits.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Orchestrator", example = example())]
pub struct Orchestrator {
    /// The format of this file.
    pub schema_version: OrchestratorVersion,
    /// The workflow's name: that of its folder, whatever the case of its letters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow_name: Option<Name>,
    /// The most turns of agents in one run. A run that needs more fails.
    #[schemars(range(min = 1, max = 500))]
    pub max_turns: u32,
    /// Whether a person takes part in the run.
    #[schemars(extend("x-not-acted-on" = "no person is asked during a run"))]
    pub human_in_the_loop: bool,
    /// Who speaks first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-not-acted-on" = "the initial agent starts, with `--input` or `initial_message`"))]
    pub workflow_startup_mode: Option<StartupMode>,
    /// A word for the way the agents work together. It changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orchestration_pattern: Option<String>,
    /// The first message when the run is given no `--input`.
    pub initial_message: Option<String>,
    /// The agent that speaks first. Without it, the trigger of the first batch. `user` means: the agent to which the transitions lead from `user`.
    pub initial_agent: Option<Name>,
    /// The context variable whose text says why a run failed.
    #[schemars(extend("x-not-acted-on" = "the run itself says why it failed"))]
    pub failure_message_key: Option<Name>,
    /// What starts this workflow from outside.
    #[schemars(extend("x-not-acted-on" = "a run is started by `mozaiks-run`"))]
    pub triggers: Vec<Trigger>,
    /// What holds for every agent that does not say otherwise.
    pub defaults: Defaults,
    /// How large plans and answers may get.
    pub limits: Limits,
    /// Endpoints with limits or prices, by name. They go over those of the project's `providers.yaml`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub providers: BTreeMap<Name, Provider>,
    /// What one run may spend, all its sessions together. `--budget-tokens` and `--budget-cost` go over it.
    pub budget: Budget,
}

impl Default for Orchestrator {
    fn default() -> Orchestrator {
        Orchestrator {
            schema_version: OrchestratorVersion::V1,
            workflow_name: None,
            max_turns: 50,
            human_in_the_loop: false,
            workflow_startup_mode: None,
            orchestration_pattern: None,
            initial_message: None,
            initial_agent: None,
            failure_message_key: None,
            triggers: Vec::new(),
            defaults: Defaults::default(),
            limits: Limits::default(),
            providers: BTreeMap::new(),
            budget: Budget::default(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum OrchestratorVersion {
    /// The only version there is.
    #[serde(rename = "mozaiks.orchestrator.v1")]
    V1,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum StartupMode {
    /// The initial agent speaks first.
    AgentDriven,
    /// A person speaks first.
    UserDriven,
    /// Nobody speaks with a person.
    BackendOnly,
}

/// What starts a workflow from outside.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Trigger {
    /// The kind of trigger, such as `chat`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The event that is waited for.
    pub event: Option<String>,
    /// The address that is called.
    pub endpoint: Option<String>,
    /// The method with which it is called.
    pub method: Option<String>,
    /// What the trigger is for.
    pub description: Option<String>,
    /// The capability it belongs to.
    pub capability_id: Option<String>,
}

/// What holds for every agent that does not say otherwise.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Defaults {
    /// How an agent without a `runtime` of its own is asked. Without it, `openai`. An agent whose own `openai` runtime names no endpoint takes endpoint, key and headers from here, and where it names no model, model and `fallback`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<Runtime>,
}

/// How large plans and answers may get, and how long answers may take. A plan beyond them is refused before anything starts.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// The most tasks in one plan.
    #[schemars(range(min = 1))]
    pub max_tasks: usize,
    /// The most dependencies in one plan.
    #[schemars(range(min = 1))]
    pub max_dependencies: usize,
    /// The longest chain of tasks that wait for each other.
    #[schemars(range(min = 1))]
    pub max_depth: usize,
    /// The longest answer that is taken from a worker, in bytes.
    #[schemars(range(min = 1))]
    pub max_output_bytes: usize,
    /// The largest file a worker may write, in bytes.
    #[schemars(range(min = 1))]
    pub max_file_bytes: usize,
    /// How often a planner is shown the faults of its plan and asked again.
    #[schemars(range(min = 0, max = 10))]
    pub plan_repair_limit: u32,
    /// The longest an agent outside a batch may take for one answer, in seconds.
    #[schemars(range(min = 1))]
    pub turn_timeout_seconds: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_tasks: 10_000,
            max_dependencies: 1_000_000,
            max_depth: 10_000,
            max_output_bytes: 10 << 20,
            max_file_bytes: 10 << 20,
            plan_repair_limit: 2,
            turn_timeout_seconds: 600,
        }
    }
}

fn example() -> Value {
    json!({
        "workflow_name": "Handbook",
        "initial_agent": "Planner",
        "initial_message": "Write a handbook for new colleagues.",
        "max_turns": 10,
        "defaults": { "runtime": { "kind": "openai", "model": "gpt-5-nano" } }
    })
}
