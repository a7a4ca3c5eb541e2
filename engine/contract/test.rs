//! `tests/*.yaml` of a workflow's folder.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{name::Name, runtime::ScriptedReply};

/// A test of a workflow: what it is given, who answers in place of models, and what is to come of it.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Test", example = example())]
pub struct Test {
    /// The run's input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Context variables and their first values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<Name, Value>,
    /// What agents answer, by name, in place of whoever they would ask. It goes over a recording. What a person answers is judged as if they had typed it; one without replies is not there, so that their default is taken or the run waits.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replies: BTreeMap<Name, Vec<ScriptedReply>>,
    /// A file made with `--record`, relative to the test's folder, that answers for everybody outside. Without an input or variables of its own, the test is given what the recorded run was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<Name>,
    /// What is to come of it.
    #[serde(default)]
    pub expect: Expected,
}

/// What is to come of a run. What is not named may be as it likes.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Expected {
    /// How it ends.
    pub status: ExpectedStatus,
    /// A part of why, where the status does not say all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the agent that spoke last answers. Of an object, the fields named here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// Context variables at the end. Of an object, the fields named here.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub context: BTreeMap<String, Value>,
    /// Every file that is written, by path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<BTreeMap<String, ExpectedFile>>,
}

/// How a run ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExpectedStatus {
    #[default]
    Completed,
    Partial,
    CompletedWithErrors,
    Failed,
    InvalidPlan,
    Deadline,
    Budget,
    /// A person would have to answer, and the test has no reply of theirs.
    Waiting,
    /// It was stopped, in the recording.
    Cancelled,
}

impl ExpectedStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            ExpectedStatus::Completed => "completed",
            ExpectedStatus::Partial => "partial",
            ExpectedStatus::CompletedWithErrors => "completed_with_errors",
            ExpectedStatus::Failed => "failed",
            ExpectedStatus::InvalidPlan => "invalid_plan",
            ExpectedStatus::Deadline => "deadline",
            ExpectedStatus::Budget => "budget",
            ExpectedStatus::Waiting => "waiting",
            ExpectedStatus::Cancelled => "cancelled",
        }
    }
}

/// What is in a file.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ExpectedFile {
    /// Its content, to the byte.
    #[schemars(title = "content")]
    Content(String),
    /// Parts of its content.
    #[schemars(title = "parts")]
    Parts(Parts),
}

/// Parts of a file's content.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// Texts that are in it. With none, the file is only to be there.
    pub contains: Vec<String>,
}

fn example() -> Value {
    json!({
        "input": "tidal power",
        "replies": { "Planner": [{ "json": { "DecompositionPlan": { "tasks": [] } } }] },
        "expect": { "status": "completed", "context": { "work_status": "completed" } }
    })
}
