//! The runs of a project: which one is meant, and whether somebody works on it.

use std::{
    fs::{self, File, TryLockError},
    path::Path,
};

use anyhow::Context as _;

use crate::{
    diagnostic::{Code, Diagnostic},
    journal::{Filter, Found, Journal, Run},
};

/// The run of an id, or of the beginning of one.
pub(super) fn named(
    journal: Option<&Journal>,
    name: &str,
) -> anyhow::Result<Result<Run, Box<Diagnostic>>> {
    let found = journal.map_or(Ok(Found::None), |it| it.find(name))?;
    let fault = match found {
        Found::One(run) => return Ok(Ok(run)),
        Found::None => {
            let message = format!("there is no run `{name}`");
            Diagnostic::error(Code::NoRun, message)
        }
        Found::Several(ids) => {
            let message = format!("`{name}` is the beginning of several runs");
            Diagnostic::error(Code::NoRun, message).allowed(&ids)
        }
    };
    Ok(Err(Box::new(fault)))
}

/// The run that began last.
pub(super) fn last(journal: Option<&Journal>) -> anyhow::Result<Result<Run, Box<Diagnostic>>> {
    let filter = Filter {
        status: None,
        workflow: None,
        limit: 1,
    };
    let runs = journal.map_or(Ok(Vec::new()), |it| it.runs(&filter))?;
    let none = || Box::new(Diagnostic::error(Code::NoRun, "there is no run yet"));
    Ok(runs.into_iter().next().ok_or_else(none))
}

/// The process that works on the run of a folder, as it wrote itself down. `None` if nobody does.
pub(super) fn holder(folder: &Path) -> anyhow::Result<Option<String>> {
    let path = folder.join("lock");
    let file = match File::open(&path) {
        Ok(file) => file,
        // Its folder was removed by hand: nobody can work on it.
        Err(_) if !path.exists() => return Ok(None),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot open `{}`", path.display()));
        }
    };
    // A shared lock, for a moment: two that ask do not take each other for a worker.
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => Ok(Some(fs::read_to_string(&path)?)),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot ask for `{}`", path.display()))
        }
    }
}
