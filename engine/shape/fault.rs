//! What keeps the models of a workflow from being shapes.

use crate::diagnostic::closest;

/// One mistake in `structured_outputs.yaml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    /// A JSON pointer into the file. For a missing key, of what lacks it.
    pub pointer: String,
    /// Lower case, no full stop, with backticks around what was written.
    pub message: String,
    /// What was written there; empty if that says nothing.
    pub found: String,
    /// What could have been written.
    pub allowed: Vec<String>,
    pub help: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// A type that is none, or a model that does not exist.
    UnknownType,
    /// A key that its type needs, or has no use for.
    Keys,
    /// A name that no model or no field may have.
    Name,
    /// Models that contain themselves.
    Cycle,
    /// A default or a literal's value that cannot be one.
    Value,
    /// A shape beyond the limits.
    TooLarge,
}

impl Fault {
    pub(super) fn new(kind: FaultKind, pointer: &str, message: impl Into<String>) -> Fault {
        Fault {
            kind,
            pointer: pointer.to_owned(),
            message: message.into(),
            found: String::new(),
            allowed: Vec::new(),
            help: None,
        }
    }

    pub(super) fn found(mut self, found: impl Into<String>) -> Fault {
        self.found = found.into();
        self
    }

    pub(super) fn allowed(mut self, allowed: Vec<String>) -> Fault {
        self.allowed = allowed;
        self
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Fault {
        self.help = Some(help.into());
        self
    }

    /// The allowed value that was most likely meant, if one is near enough to say so.
    pub fn suggestion(&self) -> Option<&str> {
        closest(&self.found, &self.allowed)
    }
}
