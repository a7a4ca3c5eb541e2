//! What tools print beside their results: nothing to a model, but of use to whoever looks for a mistake.

use std::{
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::{Called, ToolError};
use crate::child::Ends;

/// What was printed during a call, or by a server that nobody has told yet.
#[derive(Debug, Default)]
pub(super) struct Printed(Mutex<Ends>);

/// A call that was made.
#[derive(Debug)]
pub struct Made {
    pub came: Result<Called, ToolError>,
    /// What was printed meanwhile, in part if it is long.
    pub printed: String,
}

impl Printed {
    pub(super) fn push(&self, bytes: &[u8]) {
        self.ends().push(bytes);
    }

    /// All of it that was not taken before.
    pub(super) fn take(&self) -> String {
        mem::take(&mut *self.ends()).to_string()
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        // Every piece is whole before the lock ends.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Result<Called, ToolError>> for Made {
    /// One that nobody printed anything in.
    fn from(came: Result<Called, ToolError>) -> Made {
        let printed = String::new();
        Made { came, printed }
    }
}
