//! Keeps every exchange of a run with the world outside, and answers in its place.
//!
//! A recording is a text of one JSON object a line: first what the run was given, then each question to an agent and each call
//! of a tool with what came of it. Agents that answer by themselves, `template` and `scripted`, are not in it.
//!
//! **Invariant:** a run that is replayed reaches nobody outside. What is not recorded is a difference, never a call.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    accept::{Failure, Rejection},
    agent::{Reply, Usage},
    compile::AgentSpec,
    contract::runtime::Runtime,
    tool,
};

mod record;
mod replay;

pub use record::Recorder;
pub use replay::Replay;

/// What recordings of this form say of themselves.
const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line {
    Recording(Head),
    Asked(Asked),
    Called(Called),
    End(End),
}

/// What the run was.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Head {
    version: u32,
    pub workflow: String,
    /// Input, variables and plan, in whatever form the program writes them down.
    pub given: Value,
}

/// How the run ended: the last line. A run that was killed has none.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct End {
    status: String,
}

/// A question to an agent.
#[derive(Debug, Serialize, Deserialize)]
struct Asked {
    #[serde(flatten)]
    who: Who,
    system: String,
    user: String,
    #[serde(flatten)]
    came: Came,
}

/// Who is asked, for what.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Who {
    agent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task_id: Option<String>,
    attempt: u32,
}

/// What came of a question.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Came {
    Reply(Reply),
    Rejection(Refusal),
    /// Nobody waited for the answer any longer.
    DroppedAfterMs(u64),
}

/// A [`Rejection`] by whoever was asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Refusal {
    failure: Failure,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<Arc<str>>,
    #[serde(default)]
    usage: Usage,
}

/// A call of a tool.
#[derive(Debug, Serialize, Deserialize)]
struct Called {
    agent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task_id: Option<String>,
    tool: String,
    arguments: Value,
    #[serde(flatten)]
    came: Ended,
}

/// What came of a call.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ended {
    Result(tool::Called),
    Error(String),
}

impl Refusal {
    fn of(rejection: &Rejection) -> Refusal {
        Refusal {
            failure: rejection.failure,
            message: rejection.message.clone(),
            answer: rejection.answer.clone(),
            usage: rejection.usage,
        }
    }

    /// Without the wait that was asked for: nobody outside is spared by it.
    fn rejection(self) -> Rejection {
        Rejection {
            answer: self.answer,
            usage: self.usage,
            ..Rejection::new(self.failure, self.message)
        }
    }
}

/// Whether an agent answers by itself, from what it is told alone.
fn is_within(spec: &AgentSpec) -> bool {
    matches!(
        spec.runtime,
        Runtime::Template { .. } | Runtime::Scripted { .. }
    )
}
