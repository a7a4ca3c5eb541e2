//! `mozaiks-run cancel`: tells the process that works on a run to stop, as Ctrl-C would, or to cancel one task.

use std::io::{self, Write};

use anyhow::Context as _;

use super::{
    BROKEN, args, history,
    inbox::{self, Wish},
    out, project, refuse, session, which,
};
use crate::{
    diagnostic::{Code, Diagnostic},
    journal::{Journal, Run},
    report::{self, history::Task},
};

/// With how many tasks a name that is none is compared.
const MOST_NAMED: usize = 1000;

pub(super) fn cancel(args: &args::Cancel) -> anyhow::Result<u8> {
    let project = match project(&args.common) {
        Ok(project) => project,
        Err(faults) => return refuse(&faults, &args.common),
    };
    let journal = Journal::open_to_read(&session::state(&project))?;
    let run = match which::named(journal.as_ref(), &args.run)? {
        Ok(run) => run,
        Err(fault) => return refuse(&[*fault], &args.common),
    };
    let id = &run.id;
    let folder = session::folder_of(&project, id);
    let Some(holder) = which::holder(&folder)? else {
        writeln!(
            io::stderr(),
            "error: nobody works on run `{id}`: there is nothing to stop"
        )?;
        return Ok(BROKEN);
    };
    if let (Some(task), Some(journal)) = (&args.task, &journal) {
        let wish = match wish(journal, &run, task)? {
            Ok(wish) => wish,
            Err(fault) => return refuse(&[*fault], &args.common),
        };
        inbox::put(&folder, &wish)?;
        if args.common.json {
            let told = serde_json::json!({ "run": id, "process": holder.parse::<u32>().ok(), "task": task });
            writeln!(out::stdout(), "{told:#}")?;
        } else {
            let task = report::inert(task);
            writeln!(
                io::stderr(),
                "told process {holder} to cancel task `{task}` and what needs it; the rest of run `{id}` goes on"
            )?;
        }
        return Ok(0);
    }
    terminate(&holder).with_context(|| format!("cannot stop run `{id}`"))?;
    if args.common.json {
        let told = serde_json::json!({ "run": id, "process": holder.parse::<u32>().ok() });
        writeln!(out::stdout(), "{told:#}")?;
    } else {
        writeln!(
            io::stderr(),
            "told process {holder} to stop; what is done is kept, and `mozaiks-run resume {id}` goes on"
        )?;
    }
    Ok(0)
}

/// What is to be told of a task that has not ended, in the batch that is under way.
fn wish(journal: &Journal, run: &Run, name: &str) -> anyhow::Result<Result<Wish, Box<Diagnostic>>> {
    let history = history::history(journal, run)?;
    let batches = history.turns.iter();
    let mut batches = batches.flat_map(|turn| turn.batches.iter().map(move |it| (turn, it)));
    let under_way = batches.rfind(|(_, it)| it.ended_at_ms.is_none());
    let Some((turn, batch)) = under_way else {
        let message = format!("no batch of run `{}` is under way", run.id);
        return Ok(Err(Box::new(Diagnostic::error(Code::NoRun, message))));
    };
    let open = |it: &&Task| !matches!(it.status(), "completed" | "failed" | "cancelled");
    let fault = match batch.tasks.iter().find(|it| it.id == name) {
        Some(task) if open(&task) => {
            return Ok(Ok(Wish {
                turn: turn.number,
                batch: batch.id.to_string(),
                task: name.to_owned(),
            }));
        }
        Some(task) => {
            let message = format!("task `{name}` has ended: it is {}", task.status());
            Diagnostic::error(Code::RunIsOver, message)
        }
        None => {
            let message = format!("batch `{}` has no task `{name}`", batch.id);
            let ids = batch.tasks.iter().filter(open).map(|it| &it.id);
            let fault = Diagnostic::error(Code::NoRun, message).found(name);
            fault.allowed(ids.take(MOST_NAMED))
        }
    };
    Ok(Err(Box::new(fault)))
}

/// Sends SIGTERM to a process, by its number as it was written down.
#[cfg(unix)]
fn terminate(holder: &str) -> anyhow::Result<()> {
    use nix::{
        sys::signal::{Signal, kill},
        unistd::Pid,
    };
    // Zero and what is below it would be whole groups of processes.
    let number = holder.parse().ok().filter(|it: &i32| *it > 1);
    let number = number.with_context(|| format!("`{}` is no process", holder.escape_debug()))?;
    kill(Pid::from_raw(number), Signal::SIGTERM)
        .with_context(|| format!("process {number} cannot be told"))
}

#[cfg(not(unix))]
fn terminate(holder: &str) -> anyhow::Result<()> {
    anyhow::bail!(
        "on this system a process cannot be told to stop from outside; press Ctrl-C where process {holder} runs"
    )
}
