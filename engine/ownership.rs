//! Which task may write which path (Workflow Task Batches, *Runtime Execution Semantics*).
//!
//! Paths are relative to the run's artifact folder and written with `/`; a `\` is read as one. A task owns exact
//! files (`src/main.rs`), folders with all that is in them (`src/api/`, or `./` for everything) and what globs match
//! (`src/**/*.rs`). No two tasks own the same path, nor paths of which one is inside the other.
//!
//! **Invariant:** a [`FilePath`] and an [`OwnedPath`] stay inside the folder they are relative to, as far as their text says.
//! **Invariant:** [`overlaps`] holds for all owned paths that cover one common file; it may hold for a few others.
//! **Invariant:** paths equal but for case are told apart by [`OwnedPath::covers`] only: two tasks never share them,
//! since there are file systems where they are one file.

mod claims;
mod file;
mod key;
mod ledger;
mod output;
mod owned;
mod pattern;

pub use claims::{Claim, Claims, Conflict, Conflicts};
pub use file::{FilePath, PathFault};
pub use ledger::Ledger;
pub use output::{Require, Violation, check_output};
pub use owned::{OwnedPath, overlaps};

#[cfg(test)]
mod tests;
