//! Who stands between the calls that a run makes by itself and the world.

use std::{fmt, future};

use serde_json::Value;

use super::{Called, ToolError};

/// A call that a run makes by itself: of a tool on an output, or of a function on a prompt.
#[derive(Debug, Clone, Copy)]
pub struct OwnCall<'a> {
    pub whose: Whose<'a>,
    pub tool: &'a str,
    pub arguments: &'a Value,
}

/// For whom a call is made.
#[derive(Debug, Clone, Copy)]
pub struct Whose<'a> {
    /// Empty where it is for the run as a whole.
    pub agent: &'a str,
    /// The task, inside a batch.
    pub task_id: Option<&'a str>,
}

impl<'a> Whose<'a> {
    /// Outside a batch.
    pub fn in_turn(agent: &'a str) -> Whose<'a> {
        Whose {
            agent,
            task_id: None,
        }
    }
}

/// What is to be instead of a call.
#[derive(Debug)]
pub enum Recall {
    /// The call itself.
    Make,
    /// What came of it.
    Came(Result<Called, ToolError>),
    /// Nothing, until the run is over.
    Wait,
}

/// Whoever stands between such calls and the world.
pub trait Tape: fmt::Debug + Send + Sync {
    /// What is to be instead of a call.
    fn recall(&self, call: &OwnCall<'_>) -> Recall;

    /// Takes note of what came of a call that was made.
    fn keep(&self, call: &OwnCall<'_>, came: &Result<Called, ToolError>);
}

/// Makes a call, unless the tape knows what is to be instead.
pub(super) async fn through(
    tape: Option<&dyn Tape>,
    call: &OwnCall<'_>,
    made: impl Future<Output = Result<Called, ToolError>>,
) -> Result<Called, ToolError> {
    let Some(tape) = tape else {
        return made.await;
    };
    match tape.recall(call) {
        Recall::Came(came) => came,
        Recall::Wait => future::pending().await,
        Recall::Make => {
            let came = made.await;
            tape.keep(call, &came);
            came
        }
    }
}
