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
    journal::{Entry, Journal, Row, Run},
    report::history::Turn,
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
    let first = match &args.from_agent {
        Some(agent) => from_agent(&journal, &run, agent)?,
        None => again(&journal, &run, &args.task)?,
    };
    let first = match first {
        Ok(first) => first,
        Err(fault) => return refuse(&[*fault], &args.common),
    };
    let how = GoOn {
        run,
        first: Some(first),
        force: args.force,
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
fn from_agent(journal: &Journal, run: &Run, agent: &str) -> anyhow::Result<First> {
    let history = history(journal, run)?;
    let spoke = |it: &&Turn| it.agent.as_deref() == Some(agent);
    let Some(turn) = history.turns.iter().rfind(spoke) else {
        let all: BTreeSet<&str> = history
            .turns
            .iter()
            .filter_map(|it| it.agent.as_deref())
            .collect();
        let message = format!("`{agent}` had no turn in run `{}`", run.id);
        let fault = Diagnostic::error(Code::NoRun, message).found(agent);
        return Ok(Err(Box::new(fault.allowed(all))));
    };
    Ok(Ok(retried(None, &json!({ "turn": turn.number }))))
}

/// Has tasks of the first batch with failed ones tried again: those that are named, or all that failed.
fn again(journal: &Journal, run: &Run, names: &[String]) -> anyhow::Result<First> {
    let mut batches = Batches::default();
    let mut cursor = journal.cursor(&run.id, 0)?;
    journal.read(&mut cursor, &mut |row| batches.take(row))?;
    let Some(batch) = batches.0.iter().find(|it| !it.open().is_empty()) else {
        let message = format!("no task of run `{}` failed: it is `{}`", run.id, run.status);
        let fault = Diagnostic::error(Code::RunIsOver, message);
        return Ok(Err(Box::new(
            fault.help("`--from-agent NAME` has an agent speak anew"),
        )));
    };
    let data = |tasks| json!({ "turn": batch.turn, "tasks": tasks });
    Ok(batch
        .chosen(names)
        .map(|tasks| retried(Some(&batch.id), &data(tasks))))
}

/// The batches of a run, in their order.
#[derive(Default)]
struct Batches(Vec<Batch>);

struct Batch {
    turn: u64,
    id: String,
    tasks: Vec<String>,
    completed: BTreeSet<u32>,
}

impl Batches {
    fn take(&mut self, row: Row) -> anyhow::Result<()> {
        let entry = row.entry;
        match &*entry.kind {
            "batch_begun" => {
                let data: Value = serde_json::from_str(&entry.data)?;
                let plan: Value = serde_json::from_str(entry.body.as_deref().unwrap_or("null"))?;
                let tasks = plan["tasks"].as_array().into_iter().flatten();
                self.0.push(Batch {
                    turn: data["turn"].as_u64().unwrap_or_default(),
                    id: entry.batch.as_deref().unwrap_or_default().to_owned(),
                    tasks: tasks.enumerate().map(|(ix, it)| id_of(it, ix)).collect(),
                    completed: BTreeSet::new(),
                });
            }
            "accepted" => {
                if let (Some(batch), Some(task)) = (self.0.last_mut(), entry.task) {
                    batch.completed.insert(task);
                }
            }
            "retried" if entry.batch.is_none() => {
                let data: Value = serde_json::from_str(&entry.data)?;
                let from = data["turn"].as_u64().unwrap_or_default();
                self.0.retain(|it| it.turn < from);
            }
            "retried" => {
                let data: Value = serde_json::from_str(&entry.data)?;
                let is_it = |it: &Batch| {
                    Some(it.turn) == data["turn"].as_u64()
                        && Some(&*it.id) == entry.batch.as_deref()
                };
                let at = self.0.iter().rposition(is_it);
                self.0.truncate(at.map_or(0, |it| it + 1));
            }
            _ => (),
        }
        Ok(())
    }
}

impl Batch {
    /// The places of tasks without an output.
    fn open(&self) -> BTreeSet<u32> {
        let all = 0..u32::try_from(self.tasks.len()).unwrap_or(u32::MAX);
        all.filter(|it| !self.completed.contains(it)).collect()
    }

    /// The places of the tasks that are named; of all that are open, if none is.
    fn chosen(&self, names: &[String]) -> Result<BTreeSet<u32>, Box<Diagnostic>> {
        let open = self.open();
        if names.is_empty() {
            return Ok(open);
        }
        let id = |it: &u32| &self.tasks[*it as usize];
        let place = |name: &String| {
            let found = open.iter().find(|it| id(it) == name).copied();
            found.ok_or_else(|| {
                let message = format!("batch `{}` has no failed task `{name}`", self.id);
                let fault = Diagnostic::error(Code::NoRun, message).found(name);
                Box::new(fault.allowed(open.iter().map(id)))
            })
        };
        names.iter().map(place).collect()
    }
}

/// A task's id, as a plan's tasks may give it.
fn id_of(task: &Value, ix: usize) -> String {
    let keys = ["task_id", "id", "name"];
    let given = keys.iter().find_map(|key| match &task[*key] {
        Value::String(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    });
    given.unwrap_or_else(|| format!("task_{}", ix + 1))
}
