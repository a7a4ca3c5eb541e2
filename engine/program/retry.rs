//! `mozaiks-run retry`: tries the failed tasks of a run again, with the last rejection of each as feedback, or has an
//! agent speak anew.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    args::{self, InFlight},
    history::history,
    project, refuse,
    resume::{GoOn, go_on},
    session, which,
};
use crate::{
    diagnostic::{Code, Diagnostic},
    journal::{Entry, Run},
    report::history::{Batch, History, Task, Turn},
    run::now_ms,
};

pub(super) fn retry(args: &args::Retry) -> anyhow::Result<u8> {
    let project = match project(&args.common) {
        Ok(project) => project,
        Err(faults) => return refuse(&faults, &args.common),
    };
    let journal = session::journal(&project)?;
    let run = match which::named(Some(&journal), &args.run)? {
        Ok(run) => run,
        Err(fault) => return refuse(&[*fault], &args.common),
    };
    let history = history(&journal, &run)?;
    let first = match &args.from_agent {
        Some(agent) => from_agent(&history, &run, agent),
        None => again(&history, &run, &args.task),
    };
    let first = match first {
        Ok(first) => first,
        Err(fault) => return refuse(&[*fault], &args.common),
    };
    let how = GoOn {
        run,
        first: Some(first),
        force: args.force,
        acmp: args.acmp.clone(),
        in_flight: InFlight::Retry,
    };
    go_on(how, (&project, journal), (&args.session, &args.common))
}

/// An entry that says what is to be done again, or why it cannot be.
type First = Result<Entry, Box<Diagnostic>>;

fn retried(batch: Option<&str>, data: &Value) -> Entry {
    Entry {
        at_ms: now_ms(),
        kind: "retried".into(),
        batch: batch.map(Into::into),
        task: None,
        attempt: None,
        data: data.to_string(),
        body: None,
    }
}

/// Has an agent speak anew, in the last turn that was its own.
fn from_agent(history: &History, run: &Run, agent: &str) -> First {
    let spoke = |it: &&Turn| it.agent.as_deref() == Some(agent);
    let Some(turn) = history.turns.iter().rfind(spoke) else {
        let all = history.turns.iter().filter_map(|it| it.agent.as_deref());
        let all: BTreeSet<&str> = all.collect();
        let message = format!("`{agent}` had no turn in run `{}`", run.id);
        let fault = Diagnostic::error(Code::NoRun, message).found(agent);
        return Err(Box::new(fault.allowed(all)));
    };
    Ok(retried(None, &json!({ "turn": turn.number })))
}

/// Has tasks of the first batch with failed ones tried again: those that are named, or all that failed.
fn again(history: &History, run: &Run, names: &[String]) -> First {
    let batches = history.turns.iter();
    let mut batches = batches.flat_map(|turn| turn.batches.iter().map(move |it| (turn, it)));
    let Some((turn, batch)) = batches.find(|(_, it)| it.tasks.iter().any(is_open)) else {
        let message = format!("no task of run `{}` failed: it is `{}`", run.id, run.status);
        let fault = Diagnostic::error(Code::RunIsOver, message);
        return Err(Box::new(
            fault.help("`--from-agent NAME` has an agent speak anew"),
        ));
    };
    let tasks = chosen(batch, names)?;
    let data = json!({ "turn": turn.number, "tasks": tasks });
    Ok(retried(Some(&batch.id), &data))
}

/// Whether a task has no output.
fn is_open(task: &Task) -> bool {
    task.output().is_none()
}

/// The places in their batch of the tasks that are named; of all that are open, if none is.
fn chosen(batch: &Batch, names: &[String]) -> Result<BTreeSet<usize>, Box<Diagnostic>> {
    let open = || {
        let all = batch.tasks.iter().enumerate();
        all.filter(|(_, it)| is_open(it))
    };
    if names.is_empty() {
        return Ok(open().map(|(ix, _)| ix).collect());
    }
    let place = |name: &String| {
        let found = open().find(|(_, it)| it.id == *name);
        found.map(|(ix, _)| ix).ok_or_else(|| {
            let message = format!("batch `{}` has no failed task `{name}`", batch.id);
            let fault = Diagnostic::error(Code::NoRun, message).found(name);
            Box::new(fault.allowed(open().map(|(_, it)| &it.id)))
        })
    };
    names.iter().map(place).collect()
}
