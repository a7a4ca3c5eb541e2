//! `mozaiks-run runs`, `show` and `logs`: what runs went through, read while others write it.

use std::{
    io::{self, Write},
    thread,
    time::Duration,
};

use super::{INVALID, Project, args, out, project, refuse, session, which};
use crate::{
    diagnostic::closest,
    journal::{Filter, Journal, Row, Run},
    report::{
        self,
        history::{self, History, Listed, Summary},
    },
    run::now_ms,
};

/// How a run stands that is marked `running`, and that nobody works on.
const INTERRUPTED: &str = "interrupted";
/// How often a run that goes on is looked at.
const POLL: Duration = Duration::from_millis(300);

pub(super) fn runs(args: &args::Runs) -> anyhow::Result<u8> {
    let project = match project(&args.common) {
        Ok(project) => project,
        Err(faults) => return refuse(&faults, &args.common),
    };
    let listed = match read(&project)? {
        Some(journal) => listed(&journal, &project, args)?,
        None => Vec::new(),
    };
    let mut out = out::stdout();
    if args.common.json {
        let data: serde_json::Value = listed.iter().map(Listed::data).collect();
        writeln!(out, "{data:#}")?;
    } else if listed.is_empty() {
        writeln!(io::stderr(), "there are no such runs")?;
    } else {
        write!(out, "{}", history::list(&listed))?;
    }
    Ok(0)
}

pub(super) fn show(args: &args::Show) -> anyhow::Result<u8> {
    let looked_at = looked_at(args.run.as_deref(), &args.common)?;
    let (project, journal, run) = match looked_at {
        Ok(found) => found,
        Err(code) => return Ok(code),
    };
    let mut out = out::stdout();
    let mut history = History::new(run.started_at_ms);
    let mut cursor = journal.cursor(&run.id, 0)?;
    if args.events {
        journal.read(&mut cursor, &mut |row| {
            history.take(&row);
            writeln!(out, "{}", history::event(&history, &row))?;
            Ok(())
        })?;
        return Ok(0);
    }
    journal.read(&mut cursor, &mut |row| {
        history.take(&row);
        Ok(())
    })?;
    let standing = Standing::of(&run, &project)?;
    if !standing.is_worked_on {
        history.stop();
    }
    let summary = said_at_the_end(&journal, &run)
        .unwrap_or_else(|| Summary::of_history(&history, standing.now()));
    let listed = Listed::new(run, standing.status, Some(summary));
    if let Some(number) = args.turn {
        let Some(turn) = history.turns.iter().find(|it| it.number == number) else {
            return no_turn(&listed.run.id, number, &history);
        };
        match args.common.json {
            true => writeln!(out, "{:#}", history::turn_data(turn))?,
            false => write!(out, "{}", history::turn(turn))?,
        }
        return Ok(0);
    }
    let Some(id) = &args.task else {
        match args.common.json {
            true => writeln!(out, "{:#}", history::run_data(&listed, &history))?,
            false => write!(out, "{}", history::run(&listed, &history))?,
        }
        return Ok(0);
    };
    let mut found = history.named(id).peekable();
    if found.peek().is_none() {
        return no_task(&listed.run.id, id, &history);
    }
    if args.common.json {
        let tasks = found.map(|(turn, batch, task)| history::task_data(turn, batch, task));
        let tasks: serde_json::Value = tasks.collect();
        writeln!(out, "{tasks:#}")?;
    } else {
        let tasks = found.map(|(turn, batch, task)| history::task(turn, batch, task));
        write!(out, "{}", tasks.collect::<Vec<_>>().join("\n"))?;
    }
    Ok(0)
}

/// A project, its journal, and the run that is named, or else the last one.
fn looked_at(
    name: Option<&str>,
    common: &args::Common,
) -> anyhow::Result<Result<(Project, Journal, Run), u8>> {
    let project = match project(common) {
        Ok(project) => project,
        Err(faults) => return refuse(&faults, common).map(Err),
    };
    let journal = read(&project)?;
    let run = match name {
        Some(name) => which::named(journal.as_ref(), name)?,
        None => which::last(journal.as_ref())?,
    };
    Ok(match (run, journal) {
        (Ok(run), Some(journal)) => Ok((project, journal, run)),
        (Err(fault), _) => Err(refuse(&[*fault], common)?),
        (Ok(_), None) => Err(INVALID),
    })
}

pub(super) fn logs(args: &args::Logs) -> anyhow::Result<u8> {
    let looked_at = looked_at(args.run.as_deref(), &args.common)?;
    let (project, journal, run) = match looked_at {
        Ok(found) => found,
        Err(code) => return Ok(code),
    };
    let mut history = History::new(run.started_at_ms);
    let mut tell = |row: Row| {
        history.take(&row);
        let line = match args.common.json {
            true => Some(history::event(&history, &row).to_string()),
            false => history::line(&history, &row),
        };
        if let Some(line) = line {
            writeln!(out::stdout(), "{line}")?;
        }
        Ok(())
    };
    let mut cursor = journal.cursor(&run.id, 0)?;
    loop {
        // Asked before reading: what was written until then is told, whoever ends meanwhile.
        let now = journal.run(&run.id)?;
        let standing = now.map(|it| Standing::of(&it, &project)).transpose()?;
        journal.read(&mut cursor, &mut tell)?;
        match standing {
            Some(standing) if standing.is_worked_on && args.follow => thread::sleep(POLL),
            Some(standing) => {
                // Of any other end the journal has an entry.
                if standing.status == INTERRUPTED {
                    let id = report::inert(&run.id);
                    writeln!(io::stderr(), "run {id} is interrupted: nobody works on it")?;
                }
                return Ok(0);
            }
            None => return Ok(0),
        }
    }
}

/// The journal of a project, if there is one, for reading.
fn read(project: &Project) -> anyhow::Result<Option<Journal>> {
    Journal::open_to_read(&session::state(project))
}

/// How a run stands at this moment.
struct Standing {
    status: String,
    is_worked_on: bool,
}

impl Standing {
    fn of(run: &Run, project: &Project) -> anyhow::Result<Standing> {
        let is_open = run.status == "running";
        let folder = session::folder_of(project, &run.id);
        let is_worked_on = is_open && which::holder(&folder)?.is_some();
        let status = match is_open && !is_worked_on {
            true => INTERRUPTED.to_owned(),
            false => run.status.clone(),
        };
        Ok(Standing {
            status,
            is_worked_on,
        })
    }

    /// The time up to which a history goes that has not ended.
    fn now(&self) -> Option<i64> {
        self.is_worked_on.then(now_ms)
    }
}

fn listed(journal: &Journal, project: &Project, args: &args::Runs) -> anyhow::Result<Vec<Listed>> {
    // The journal says `running` of both kinds.
    let (status, is_open) = match args.status.as_deref() {
        Some("running" | INTERRUPTED) => (Some("running"), true),
        other => (other, false),
    };
    let runs = journal.runs(&Filter {
        status,
        workflow: args.workflow.as_deref(),
        limit: if is_open { u32::MAX } else { args.limit },
    })?;
    let mut listed = Vec::new();
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    for run in runs {
        if listed.len() == limit {
            break;
        }
        let standing = Standing::of(&run, project)?;
        if is_open && args.status.as_ref() != Some(&standing.status) {
            continue;
        }
        // One run that cannot be read does not hide the others.
        let summary = said_at_the_end(journal, &run).or_else(|| {
            let history = history(journal, &run).ok()?;
            Some(Summary::of_history(&history, standing.now()))
        });
        listed.push(Listed::new(run, standing.status, summary));
    }
    Ok(listed)
}

/// What a run that has ended says of itself: then its history need not be read.
fn said_at_the_end(journal: &Journal, run: &Run) -> Option<Summary> {
    if run.status == "running" {
        return None;
    }
    let (kind, data) = journal.last(&run.id).ok()??;
    (kind == "run_ended").then(|| Summary::of_end(&data))?
}

pub(super) fn history(journal: &Journal, run: &Run) -> anyhow::Result<History> {
    let mut history = History::new(run.started_at_ms);
    let mut cursor = journal.cursor(&run.id, 0)?;
    journal.read(&mut cursor, &mut |row| {
        history.take(&row);
        Ok(())
    })?;
    Ok(history)
}

fn no_turn(run: &str, number: u32, history: &History) -> anyhow::Result<u8> {
    let last = history.turns.iter().map(|it| it.number).max();
    let turns = last.map_or_else(|| "none".to_owned(), |it| format!("turns 1 to {it}"));
    let run = report::inert(run);
    writeln!(
        io::stderr(),
        "error: run `{run}` has no turn {number}: it has {turns}"
    )?;
    Ok(INVALID)
}

fn no_task(run: &str, id: &str, history: &History) -> anyhow::Result<u8> {
    let ids: Vec<&str> = history.tasks().map(|it| it.id.as_str()).collect();
    let near = closest(id, &ids).map(|it| format!("; did you mean `{}`?", report::inert(it)));
    writeln!(
        io::stderr(),
        "error: run `{}` has no task `{}`{}\n`mozaiks-run show {0}` lists all of them",
        report::inert(run),
        report::inert(id),
        near.unwrap_or_default()
    )?;
    Ok(INVALID)
}
