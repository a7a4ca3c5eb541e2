//! What runs went through, kept in one file: an append-only, durable log of events for all runs of a project.
//!
//! The file is `journal.sqlite`, in the folder that [`Journal::open`] is given. One process at a time writes it, for a
//! moment; any number read it meanwhile. A run is named by its id, its entries by their `seq`, from 1. Whoever writes or
//! reads a run holds a [`Cursor`]: the place it has come to.
//!
//! **Invariant:** what a call but [`Journal::append_soon`] has returned from is on the disk; what a call has failed in is not there at all, save that
//! a disk which fails in the very commit may yet turn out to hold it, whole.
//! **Invariant:** entries are read as they were written, in order and without a gap, from the first one on: each is
//! chained by a hash to all before it. A store that cannot give that gives an error.
//! **Invariant:** a run has one writer at a time: appending at a place which is no longer the end of the run fails.
//! **Invariant:** a long text is kept once, however many entries name it, and not longer than one of them does.

mod link;
mod read;
mod store;
mod trouble;
mod write;

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::Connection;

pub use link::hash;
pub use store::FILE;
pub use trouble::Trouble;

/// An open store.
///
/// Every failure of the world is an error that holds a [`Trouble`], to be had by `downcast_ref`.
#[derive(Debug)]
pub struct Journal {
    connection: Connection,
    store: PathBuf,
}

/// A run that is about to start. Its status is `running`.
#[derive(Debug, Clone)]
pub struct NewRun<'a> {
    /// Unlike that of any other run of the store.
    pub id: &'a str,
    pub workflow: &'a str,
    /// Milliseconds since 1970, UTC, as all times here.
    pub started_at_ms: i64,
    /// What the run was started with, as JSON. It is kept as it is, and never looked into.
    pub header: &'a str,
}

/// A run, as far as a list of runs tells. [`Journal::header`] has the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub id: String,
    pub workflow: String,
    /// `running`, or what the last [`Mark`] says.
    pub status: String,
    pub started_at_ms: i64,
    pub ended_at_ms: Option<i64>,
}

/// How a run stands from now on.
#[derive(Debug, Clone)]
pub struct Mark<'a> {
    pub status: &'a str,
    pub ended_at_ms: Option<i64>,
}

/// One event of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub at_ms: i64,
    /// A short name, such as `task_ended`.
    pub kind: Cow<'static, str>,
    pub batch: Option<Arc<str>>,
    /// The index of the task in its batch.
    pub task: Option<u32>,
    pub attempt: Option<u32>,
    /// The rest of the event, as JSON. It is kept as it is, and best below a kilobyte.
    pub data: String,
    /// What may be long and may come again: an output, a plan, a prompt.
    pub body: Option<Arc<str>>,
}

/// An entry that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// From 1.
    pub seq: u64,
    pub entry: Entry,
}

/// A place in a run: right after one of its entries, or before the first.
///
/// It moves over entries that are committed, and over no others.
#[derive(Debug, Clone)]
pub struct Cursor {
    run: Arc<str>,
    key: i64,
    seq: u64,
    link: i64,
}

/// Which runs to list.
#[derive(Debug, Clone)]
pub struct Filter<'a> {
    pub status: Option<&'a str>,
    pub workflow: Option<&'a str>,
    /// How many, at most.
    pub limit: u32,
}

/// The runs that the beginning of an id names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    None,
    One(Run),
    /// The first of their ids, in order: enough to choose from.
    Several(Vec<String>),
}

impl Cursor {
    /// The id of the run.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// The entry that the place is after; 0 before the first.
    pub fn seq(&self) -> u64 {
        self.seq
    }
}

#[cfg(test)]
mod tests;
