//! `mozaiks-run retry`: tries the failed tasks of a run again, with the last rejection of each as feedback.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    args::{self, InFlight},
    project, refuse,
    resume::{GoOn, go_on},
    session, which,
};
use crate::{
    diagnostic::{Code, Diagnostic},
    journal::{Entry, Row},
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
    let mut batches = Batches::default();
    let mut cursor = journal.cursor(&run.id, 0)?;
    journal.read(&mut cursor, &mut |row| batches.take(row))?;
    let Some(batch) = batches.0.iter().find(|it| !it.open().is_empty()) else {
        let message = format!("no task of run `{}` failed: it is `{}`", run.id, run.status);
        return refuse(&[Diagnostic::error(Code::RunIsOver, message)], &args.common);
    };
    let tasks = match batch.chosen(&args.task) {
        Ok(tasks) => tasks,
        Err(fault) => return refuse(&[*fault], &args.common),
    };
    let first = Entry {
        at_ms: now_ms(),
        kind: "retried".into(),
        batch: Some(batch.id.as_str().into()),
        task: None,
        attempt: None,
        data: json!({ "turn": batch.turn, "tasks": tasks }).to_string(),
        body: None,
    };
    let how = GoOn {
        run,
        first: Some(first),
        force: args.force,
        in_flight: InFlight::Retry,
    };
    go_on(how, (&project, journal), (&args.session, &args.common))
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
