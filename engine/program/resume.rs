//! `mozaiks-run resume`: goes on with a run where its last session stopped.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use super::{
    Faults,
    args::{self, InFlight},
    history::history,
    places, project, refuse,
    session::{self, Header, Ready, unpriced},
    tape::{self, Tape},
    terminal::{From, Terminal},
    which, workflow_of,
};
use crate::{
    agent::human::People,
    diagnostic::{Code, Diagnostic},
    journal::{Entry, Filter, Journal, Row, Run},
    load::Project,
    run::{Log, Reader, now_ms},
};

/// Statuses of runs that have not come to their own end.
const UNFINISHED: &[&str] = &["running", "cancelled", "deadline", "budget", "waiting"];

pub(super) fn resume(args: &args::Resume) -> anyhow::Result<u8> {
    let project = match project(&args.common) {
        Ok(project) => project,
        Err(faults) => return refuse(&faults, &args.common),
    };
    let journal = session::journal(&project)?;
    let run = match chosen(&journal, &project, args.run.as_deref())? {
        Ok(run) => run,
        Err(fault) => return refuse(&[*fault], &args.common),
    };
    go_on(
        GoOn {
            run,
            first: None,
            force: args.force,
            acmp: args.acmp.clone(),
            in_flight: args.in_flight,
        },
        (&project, journal),
        (&args.session, &args.common),
    )
}

/// How a run goes on.
pub(super) struct GoOn {
    pub(super) run: Run,
    /// What is written down before anything else.
    pub(super) first: Option<Entry>,
    pub(super) force: bool,
    /// What stands in for the `acmp.yaml` of a DAG that was given.
    pub(super) acmp: Option<PathBuf>,
    pub(super) in_flight: InFlight,
}

/// Goes through what a run did, and on from there.
pub(super) fn go_on(
    how: GoOn,
    (project, mut journal): (&Project, Journal),
    (session, common): (&args::Session, &args::Common),
) -> anyhow::Result<u8> {
    let run = how.run;
    let folder = session::folder_of(project, &run.id);
    std::fs::create_dir_all(&folder)?;
    let lock = session::lock(&folder)?;
    let mut header: Header = serde_json::from_str(&journal.header(&run.id)?)?;
    if let Some(acmp) = &how.acmp
        && let Err(fault) = header.inputs.take_acmp(acmp, &run.id)
    {
        return refuse(&[fault], common);
    }
    let found = workflow_of(project, &run.workflow, &header.inputs);
    let (bundle, mut workflow, _) = match found {
        Ok(found) => found,
        Err(faults) => return refuse(&faults, common),
    };
    let changed = changed(
        &header.files,
        &session::fingerprints(bundle.as_ref(), &workflow)?,
    );
    if !changed.is_empty() && !how.force {
        return refuse(&changed, common);
    }
    let (context, plan) = match header.inputs.prepare(&workflow) {
        Ok(prepared) => prepared,
        Err(faults) => return refuse(&faults, common),
    };
    // A run that was answered from a recording goes on so.
    let replay = header.replay.as_deref();
    let replay = replay.map(|it| tape::read(it, project.shown(it), &run.workflow));
    let tape = match replay.transpose() {
        Ok(replay) => replay.map_or(Tape::None, Tape::Replay),
        Err(faults) => return refuse(&faults, common),
    };
    let terminal = Arc::new(Terminal::new(From::of(session, None)));
    let people: Arc<dyn People> = terminal.clone();
    let agents = match tape.agents(&mut workflow, &people, plan.is_some()) {
        Ok(agents) => agents,
        Err(faults) => return refuse(&faults, common),
    };
    if let Err(fault) = places::out(session) {
        return refuse(&[*fault], common);
    }
    let mut reader = Reader::new(run.started_at_ms, &folder);
    let mut cursor = journal.cursor(&run.id, 0)?;
    journal.read(&mut cursor, &mut |row| reader.take(row))?;
    if let Some(first) = &how.first {
        let seq = cursor.seq() + 1;
        reader.take(Row {
            seq,
            entry: first.clone(),
        })?;
    }
    let (mut earlier, in_flight) = reader.finish();
    earlier.raise(session.budget());
    let said = earlier.budget().unwrap_or(header.budget);
    let budget = session.budget().or(said);
    let unpriced = unpriced(budget, &workflow);
    if !unpriced.is_empty() {
        return refuse(&unpriced, common);
    }
    if how.in_flight == InFlight::Fail && !in_flight.is_empty() {
        let history = history(&journal, &run)?;
        let faults = in_flight.iter().map(|it| {
            let batches = history.turns.iter().flat_map(|it| &it.batches);
            let batch = batches.rev().find(|batch| *batch.id == *it.batch);
            let task = batch.and_then(|batch| batch.tasks.get(it.task as usize));
            let task = task.map_or_else(|| format!("number {}", it.task + 1), |it| format!("`{}`", it.id));
            let message = format!(
                "attempt {} on task {task} of batch `{}` was under way when run `{}` stopped",
                it.attempt, it.batch, run.id
            );
            let help = "look whether it did what it was to do; without `--in-flight fail` it is made again";
            Diagnostic::error(Code::InFlight, message).help(help)
        });
        return refuse(&faults.collect::<Vec<_>>(), common);
    }
    let events = match places::events(session) {
        Ok(events) => events,
        Err(fault) => return refuse(&[*fault], common),
    };
    // From here on a process that still believes it works on the run is shut out.
    let resumed = Entry {
        at_ms: now_ms(),
        kind: "resumed".into(),
        batch: None,
        task: None,
        attempt: None,
        data: serde_json::json!({ "budget": budget, "raised": earlier.raised() }).to_string(),
        body: None,
    };
    let running = crate::journal::Mark {
        status: "running",
        ended_at_ms: None,
    };
    let takes_back = how.first.is_some();
    let entries: Vec<Entry> = how.first.into_iter().chain([resumed]).collect();
    journal.append_and_mark(&mut cursor, &entries, &running)?;
    if takes_back {
        // Files of what was taken back are not there any more; the others are restored from the journal.
        session::forget_artifacts(&folder)?;
    }
    let ready = Ready {
        id: run.id,
        name: run.workflow,
        folder,
        workflow,
        agents,
        terminal,
        context,
        plan,
        budget,
        log: Log::new(journal, cursor, earlier),
        tape,
        events,
        lock,
    };
    session::perform(ready, session, common)
}

/// The run that is meant, if it can be gone on with.
fn chosen(
    journal: &Journal,
    project: &Project,
    named: Option<&str>,
) -> anyhow::Result<Result<Run, Box<Diagnostic>>> {
    // What died between its end and the result of it has not told anybody.
    let is_unfinished = |run: &Run| {
        let result = session::folder_of(project, &run.id).join("result.json");
        UNFINISHED.contains(&&*run.status) || !result.exists()
    };
    let run = match named {
        Some(name) => match which::named(Some(journal), name)? {
            Ok(run) => run,
            Err(fault) => return Ok(Err(fault)),
        },
        None => {
            let all = journal.runs(&Filter {
                status: None,
                workflow: None,
                limit: 10_000,
            })?;
            let unfinished = all.into_iter().find(is_unfinished);
            match unfinished {
                Some(run) => run,
                None => {
                    let message = "there is no run that is not finished".to_owned();
                    return Ok(Err(Box::new(Diagnostic::error(Code::NoRun, message))));
                }
            }
        }
    };
    if is_unfinished(&run) {
        return Ok(Ok(run));
    }
    let message = format!(
        "run `{}` has come to its end: it is `{}`",
        run.id, run.status
    );
    Ok(Err(Box::new(Diagnostic::error(Code::RunIsOver, message))))
}

/// What is different from when the run began.
fn changed(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Faults {
    let help = "put it back as it was; `--force` goes on all the same: what is done stays as it was done, and what is not is done by the files as they are now";
    let names: std::collections::BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    let changed = names
        .into_iter()
        .filter(|it| before.get(*it) != now.get(*it));
    let faults = changed.map(|name| {
        let how = match (before.get(name), now.get(name)) {
            (Some(_), None) => "is gone",
            (None, Some(_)) => "is new",
            _ => "has changed",
        };
        let message = format!("`{name}` {how} since the run began");
        Diagnostic::error(Code::FilesChanged, message).help(help)
    });
    faults.collect()
}
