//! `mozaiks-run rm` and `prune`: forgets runs, with their files.
//!
//! **Invariant:** no run is removed while somebody works on it: its lock is held meanwhile.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Component, Path},
    time::Duration,
};

use anyhow::Context as _;
use serde_json::json;

use super::{Project, args, out, project, refuse, session, which};
use crate::{journal::Journal, run::now_ms};

pub(super) fn rm(args: &args::Rm) -> anyhow::Result<u8> {
    let project = match project(&args.common) {
        Ok(project) => project,
        Err(faults) => return refuse(&faults, &args.common),
    };
    let journal = Journal::open_to_read(&session::state(&project))?;
    let mut ids = Vec::new();
    let mut faults = Vec::new();
    for name in &args.runs {
        match which::named(journal.as_ref(), name)? {
            Ok(run) => ids.push(run.id),
            Err(fault) => faults.push(*fault),
        }
    }
    // All of them or, if one is not there, none.
    if !faults.is_empty() {
        return refuse(&faults, &args.common);
    }
    ids.sort();
    ids.dedup();
    // Nor if somebody works on one.
    for id in &ids {
        drop(lock(&project, id)?);
    }
    let mut journal = session::journal(&project)?;
    for id in &ids {
        remove(&mut journal, &project, id)?;
    }
    tell(&ids, "removed", &args.common)
}

pub(super) fn prune(args: &args::Prune) -> anyhow::Result<u8> {
    let project = match project(&args.common) {
        Ok(project) => project,
        Err(faults) => return refuse(&faults, &args.common),
    };
    let age = i64::try_from(args.older_than.as_millis()).unwrap_or(i64::MAX);
    let before = now_ms().saturating_sub(age);
    let ids = match Journal::open_to_read(&session::state(&project))? {
        Some(journal) => journal.removable(before)?,
        None => Vec::new(),
    };
    // The end of a run is written down before its process has done the last of its work.
    let mut idle = Vec::new();
    for id in ids {
        if which::holder(&session::folder_of(&project, &id))?.is_none() {
            idle.push(id);
        }
    }
    if args.dry_run {
        return tell(&idle, "would remove", &args.common);
    }
    if !idle.is_empty() {
        let mut journal = session::journal(&project)?;
        for id in &idle {
            remove(&mut journal, &project, id)?;
        }
        journal.compact()?;
    }
    tell(&idle, "removed", &args.common)
}

/// An age as it is written after `--older-than`: `30d`, `12h`, `90m`.
pub(super) fn age(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|it| format!("{it}; write it as `30d`, `12h` or `90m`"))
}

/// The lock of a run that is to be removed. One that has no folder any more needs none.
fn lock(project: &Project, id: &str) -> anyhow::Result<Option<File>> {
    let mut parts = Path::new(id).components();
    let is_name = matches!(
        (parts.next(), parts.next()),
        (Some(Component::Normal(_)), None)
    );
    let shown = id.escape_debug();
    anyhow::ensure!(is_name, "`{shown}` cannot be the name of a folder");
    let folder = session::folder_of(project, id);
    folder.exists().then(|| session::lock(&folder)).transpose()
}

/// The folder goes first: if that fails, the run is still listed, and can be removed once more.
fn remove(journal: &mut Journal, project: &Project, id: &str) -> anyhow::Result<()> {
    let lock = lock(project, id)?;
    if lock.is_some() {
        let folder = session::folder_of(project, id);
        let removed = fs::remove_dir_all(&folder);
        removed.with_context(|| format!("cannot remove `{}`", folder.display()))?;
    }
    journal.remove(id)?;
    drop(lock);
    Ok(())
}

fn tell(ids: &[String], what: &str, common: &args::Common) -> anyhow::Result<u8> {
    if common.json {
        writeln!(out::stdout(), "{:#}", json!({ "runs": ids }))?;
        return Ok(0);
    }
    let mut err = io::stderr().lock();
    for id in ids {
        writeln!(err, "{what} {id}")?;
    }
    if ids.is_empty() {
        writeln!(err, "there is nothing to remove")?;
    }
    Ok(0)
}
