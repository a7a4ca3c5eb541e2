//! `mozaiks-run cancel`: tells the process that works on a run to stop, as Ctrl-C would.

use std::io::{self, Write};

use anyhow::Context as _;

use super::{BROKEN, args, project, refuse, session, which};
use crate::journal::Journal;

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
    let Some(holder) = which::holder(&session::folder_of(&project, id))? else {
        writeln!(
            io::stderr(),
            "error: nobody works on run `{id}`: there is nothing to stop"
        )?;
        return Ok(BROKEN);
    };
    terminate(&holder).with_context(|| format!("cannot stop run `{id}`"))?;
    if args.common.json {
        let told = serde_json::json!({ "run": id, "process": holder.parse::<u32>().ok() });
        writeln!(io::stdout(), "{told:#}")?;
    } else {
        writeln!(
            io::stderr(),
            "told process {holder} to stop; what is done is kept, and `mozaiks-run resume {id}` goes on"
        )?;
    }
    Ok(0)
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
