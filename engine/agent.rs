//! Asks one agent one question. One file a kind of runtime.
//!
//! **Invariant:** [`Request`] and [`Reply`] are plain data: an attempt may one day be made on another machine.
//! **Invariant:** an answer that is dropped leaves nothing running behind it.

use std::{collections::BTreeMap, future::Future, pin::Pin, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    accept::{Failure, Rejection},
    context::View,
    dag::Invocation,
    prompt::Prompt,
    shape::Shape,
    tool::{Calls, Toolbox},
};

pub use crate::{child::env, usage::Usage};

pub mod a2a;
pub mod acmp;
pub mod build;
pub mod command;
mod discreet;
pub mod human;
mod leave;
pub mod openai;
pub mod scripted;
pub mod template;
mod witness;

pub use crate::acmp::{buyer::Streams, chunks::Chunks};
pub use leave::{Call, Came, Granted, Leave, Leaves, Question, SoFar};
pub use witness::{Kept, Witness, Word};

/// One question to one agent.
#[derive(Debug, Clone)]
pub struct Request {
    pub agent: Arc<str>,
    /// The task, inside a batch.
    pub task_id: Option<Arc<str>>,
    /// From 1.
    pub attempt: u32,
    /// The same for the same attempt of the same task of the same run, however often it is made.
    pub idempotency_key: String,
    pub prompt: Prompt,
    /// What the agent may know: its context variables and, in a batch, its task and the outputs before it.
    pub view: View,
    /// The task of a DAG, whose output is asked for.
    pub invocation: Option<Arc<Invocation>>,
    /// What of it goes in chunks: its input, where [`Agent::takes_chunks`]; its output, which may always come whole.
    pub streams: Streams,
    /// Who failed it before, of several that could be asked: they come after the others, the last one last.
    pub failed: Vec<Arc<str>>,
    /// Whether what its task may cost was reserved, once.
    pub is_budgeted: bool,
    /// What the answer has to fit.
    pub shape: Option<Arc<Shape>>,
    /// What its model may call meanwhile.
    pub tools: Option<Arc<Toolbox>>,
    /// How long whoever asks waits for the answer.
    pub timeout: Duration,
    /// The longest answer that is taken, in bytes.
    pub max_output_bytes: usize,
    /// When models may be asked, where [`Agent::asks_leave`].
    pub leave: Leave,
    /// Sees what is done meanwhile.
    pub witness: Witness,
}

/// One answer, not yet believed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    pub text: String,
    #[serde(default)]
    pub usage: Usage,
    /// The model that gave it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Arc<str>>,
    /// What its model called for it.
    #[serde(default, skip_serializing_if = "Calls::is_empty")]
    pub calls: Calls,
}

pub type Answer = Pin<Box<dyn Future<Output = Result<Reply, Rejection>> + Send>>;

/// The end of whatever an agent keeps open.
pub type Closing = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Whether something can be done, as soon as that is known.
pub type Ready = Pin<Box<dyn Future<Output = bool> + Send>>;

/// Whoever can be asked.
pub trait Agent: Send + Sync {
    /// Asks. The answer owns all it needs; dropping it ends whatever it started.
    fn ask(&self, request: Request) -> Answer;

    /// What its answers follow from that is neither in its definition nor in a request: files, and what the environment
    /// chose. Where any of it has changed, earlier answers are not its answers any more.
    fn identity(&self) -> Vec<u8> {
        Vec::new()
    }

    /// The model that is asked, which the environment may have chosen.
    fn model(&self) -> Option<&str> {
        None
    }

    /// Whether it asks for leave itself before each call of a model.
    fn asks_leave(&self) -> bool {
        false
    }

    /// Whether its answers are there already, so that nobody's limits hold for it.
    fn is_replayed(&self) -> bool {
        false
    }

    /// Whether the prompt is read at all. What is not read need not be written.
    fn reads_prompt(&self) -> bool {
        true
    }

    /// Whether an attempt may take only as long as attempts do where it is made. People have the time they are given.
    fn is_timed(&self) -> bool {
        true
    }

    /// Whether outputs and plan are to lie in files that the request names, instead of in the request.
    fn reads_files(&self) -> bool {
        false
    }

    /// Whether it can be given the input of an invocation in chunks, as they come.
    fn takes_chunks(&self) -> Ready {
        Box::pin(std::future::ready(false))
    }

    /// Ends what it keeps open between questions. It is not asked after this.
    fn close(&self) -> Closing {
        Box::pin(std::future::ready(()))
    }
}

/// The agents of a workflow by name, ready to be asked.
pub type Agents = BTreeMap<String, Arc<dyn Agent>>;

/// What a model is told where nothing else holds it to a shape.
fn in_words(shape: &Shape) -> String {
    format!(
        "\n\nAnswer with one JSON value, and nothing else, that fits this JSON Schema:\n{}",
        shape.json_schema()
    )
}

/// Refuses an answer that is longer than the request allows.
fn capped(text: String, request: &Request) -> Result<String, Rejection> {
    match text.len() {
        length if length > request.max_output_bytes => {
            let limit = request.max_output_bytes;
            let message = format!("the answer is {length} bytes long; {limit} are allowed");
            Err(Rejection::new(Failure::TooLong, message))
        }
        _ => Ok(text),
    }
}

#[cfg(test)]
mod testing;
