//! What the journal of a run says, gathered entry by entry: turns, batches, tasks and attempts.
//!
//! **Invariant:** no entry makes it fail. What this version does not know, or what is of no use, is left out.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use crate::{
    agent::Usage,
    journal::{Entry, Row},
    run::Sessions,
};

mod data;
mod line;
mod list;
mod share;
mod task;
mod text;
mod time;

pub use data::{event, run as run_data, task as task_data, whole_turn as turn_data};
pub use line::line;
pub use list::{Listed, Summary, list};
pub use share::Share;
pub use task::{Attempt, Called, Came, Prompt, Ran, Rejection, Task};
pub use text::{run, task, whole_turn as turn};

/// A run, as far as its journal goes.
#[derive(Debug, Default)]
pub struct History {
    pub turns: Vec<Turn>,
    /// Why the run ended as it did, where its status does not say.
    pub reason: Option<String>,
    /// Turns and batches that were taken back since. What they used was spent all the same.
    undone: Vec<Turn>,
    /// System texts by name.
    systems: BTreeMap<String, Arc<str>>,
    pub sessions: Sessions,
}

/// An agent spoke, and perhaps had tasks done.
#[derive(Debug, Default)]
pub struct Turn {
    pub number: u32,
    /// Nobody was asked where a plan was given.
    pub agent: Option<String>,
    pub usage: Usage,
    /// For how long its answers were waited for.
    pub took_ms: i64,
    asked_at_ms: Option<i64>,
    /// What it used without the question that is open.
    settled: Usage,
    /// What it was told, one after the other.
    pub prompts: Vec<Prompt>,
    /// How many of its questions were put to nobody.
    pub(super) withheld: usize,
    /// What its model called, one after the other.
    pub calls: Vec<Called>,
    /// What the run called by itself, one after the other.
    pub ran: Vec<Ran>,
    /// What it answered in the end.
    pub answer: Option<Arc<str>>,
    /// The model that gave it, and how it was read, where that was written down.
    pub model: Option<String>,
    pub read: Option<String>,
    pub rejections: Vec<Rejection>,
    /// What was wrong with the plans that were refused.
    pub refusals: Vec<Arc<str>>,
    pub batches: Vec<Batch>,
}

#[derive(Debug)]
pub struct Batch {
    pub id: Arc<str>,
    pub began_at_ms: i64,
    pub ended_at_ms: Option<i64>,
    /// How it ended.
    pub status: Option<String>,
    pub tasks: Vec<Task>,
}

impl History {
    /// A run that began and has no entry yet.
    pub fn new(started_at_ms: i64) -> History {
        History {
            sessions: Sessions::new(started_at_ms),
            ..History::default()
        }
    }

    /// Takes in the next entry.
    pub fn take(&mut self, row: &Row) {
        let entry = &row.entry;
        let data: Value = serde_json::from_str(&entry.data).unwrap_or_default();
        if entry.kind == "resumed" {
            self.stop();
            self.reason = None;
        }
        self.sessions.take(entry);
        match &*entry.kind {
            "retried" => self.take_back(entry, &data),
            "system" => {
                if let (Some(name), Some(body)) = (text(&data["name"]), &entry.body) {
                    self.systems.insert(name, Arc::clone(body));
                }
            }
            "asked" => {
                let prompt = self.prompt(entry, &data);
                let turn = self.turn(&data);
                turn.take(entry, &data);
                turn.prompts.push(prompt);
            }
            "answered" | "turn_rejected" | "plan_refused" | "batch_begun" => {
                self.turn(&data).take(entry, &data);
            }
            "called" => {
                let called = Called::of(entry, &data);
                match entry.task {
                    None => self.turn(&data).calls.push(called),
                    Some(_) => {
                        if let Some(task) = self.task_mut(entry) {
                            task.called(called);
                        }
                    }
                }
            }
            "tool" => {
                let number = data["turn"].as_u64();
                let mut turns = self.turns.iter_mut();
                // What runs before the first turn fails the run, or says nothing.
                if let Some(turn) = turns.rfind(|it| Some(u64::from(it.number)) == number) {
                    turn.ran.push(Ran::of(entry, &data));
                }
            }
            "started" => {
                let prompt = self.prompt(entry, &data);
                if let Some(task) = self.task_mut(entry) {
                    task.start(entry, prompt);
                }
            }
            "using" | "withheld" | "cut_short" if entry.task.is_none() => {
                self.turn(&data).take(entry, &data)
            }
            "rewritten" => {
                let system = self.prompt(entry, &data).system;
                if let Some(task) = self.task_mut(entry) {
                    task.rewritten(entry, system);
                }
            }
            "using" => {
                if let Some(task) = self.task_mut(entry) {
                    task.uses(entry, &data);
                }
            }
            "cut_short" => {
                if let Some(task) = self.task_mut(entry) {
                    task.cut_short(entry, &data);
                }
            }
            "accepted" | "rejected" | "withheld" | "task_ended" => {
                if let Some(task) = self.task_mut(entry) {
                    task.take(entry, &data);
                }
            }
            "batch_ended" => {
                if let Some(batch) = self.batch_mut(entry) {
                    batch.stop();
                    batch.ended_at_ms = Some(entry.at_ms);
                    batch.status = text(&data["status"]);
                }
            }
            "run_ended" => {
                self.stop();
                self.reason = text(&data["reason"]);
            }
            _ => (),
        }
    }

    /// An agent is to speak anew, or a batch to go on: nothing that came after it counts any more.
    fn take_back(&mut self, entry: &Entry, data: &Value) {
        let from = data["turn"].as_u64().unwrap_or_default();
        let turns = std::mem::take(&mut self.turns);
        let (mut kept, mut undone): (Vec<Turn>, Vec<Turn>) = turns
            .into_iter()
            .partition(|it| u64::from(it.number) < from);
        if let (Some(batch), false) = (&entry.batch, undone.is_empty()) {
            let mut turn = undone.remove(0);
            let at = turn.batches.iter().position(|it| it.id == *batch);
            let after = turn.batches.split_off(at.map_or(0, |it| it + 1));
            undone.push(Turn {
                batches: after,
                ..Turn::default()
            });
            if let Some(batch) = turn.batches.last_mut() {
                (batch.ended_at_ms, batch.status) = (None, None);
            }
            kept.push(turn);
        }
        self.undone.extend(undone);
        self.turns = kept;
    }

    /// Nobody works on the run any more: what is under way stays undone.
    pub fn stop(&mut self) {
        let batches = self.turns.iter_mut().flat_map(|it| &mut it.batches);
        batches.for_each(Batch::stop);
    }

    /// All that was used.
    pub fn usage(&self) -> Usage {
        let turns = self.turns.iter().map(Turn::whole_usage);
        sum(turns.chain(self.undone.iter().map(Turn::whole_usage)))
    }

    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.batches().flat_map(|it| &it.tasks)
    }

    /// How many tasks have an output, and how many there are.
    pub fn done(&self) -> (usize, usize) {
        let done = self.tasks().filter(|it| it.output().is_some());
        (done.count(), self.tasks().count())
    }

    /// The tasks of an id, each with its turn and its batch.
    pub fn named<'a>(&'a self, id: &'a str) -> impl Iterator<Item = (u32, &'a Batch, &'a Task)> {
        let batches = self
            .turns
            .iter()
            .flat_map(|turn| turn.batches.iter().map(move |it| (turn.number, it)));
        let tasks =
            batches.flat_map(|(turn, batch)| batch.tasks.iter().map(move |it| (turn, batch, it)));
        tasks.filter(move |it| it.2.id == id)
    }

    /// What was told, as far as an entry says.
    fn prompt(&self, entry: &Entry, data: &Value) -> Prompt {
        let name = data["system"].as_str().unwrap_or_default();
        Prompt {
            system: self.systems.get(name).cloned(),
            user: entry.body.clone(),
        }
    }

    /// The task that an entry is about.
    fn task_of(&self, entry: &Entry) -> Option<&Task> {
        let batch = entry.batch.as_ref()?;
        let batch = self.batches().filter(|it| it.id == *batch).last()?;
        batch.tasks.get(usize::try_from(entry.task?).ok()?)
    }

    fn task_mut(&mut self, entry: &Entry) -> Option<&mut Task> {
        let at = usize::try_from(entry.task?).ok()?;
        self.batch_mut(entry)?.tasks.get_mut(at)
    }

    fn batches(&self) -> impl Iterator<Item = &Batch> {
        self.turns.iter().flat_map(|it| &it.batches)
    }

    /// The last one of an id: it may have come several times.
    fn batch_mut(&mut self, entry: &Entry) -> Option<&mut Batch> {
        let id = entry.batch.as_ref()?;
        let batches = self.turns.iter_mut().flat_map(|it| &mut it.batches);
        batches.filter(|it| it.id == *id).last()
    }

    /// The turn that an entry names, which is the last one or a new one.
    fn turn(&mut self, data: &Value) -> &mut Turn {
        let number = data["turn"].as_u64().and_then(|it| u32::try_from(it).ok());
        let number = number.unwrap_or_default();
        let at = match self.turns.iter().rposition(|it| it.number == number) {
            Some(at) => at,
            None => {
                self.turns.push(Turn {
                    number,
                    ..Turn::default()
                });
                self.turns.len() - 1
            }
        };
        &mut self.turns[at]
    }
}

impl Turn {
    /// What it used, with its batches.
    fn whole_usage(&self) -> Usage {
        let tasks = self.batches.iter().flat_map(|it| &it.tasks);
        sum(tasks.map(Task::usage).chain([self.usage]))
    }

    fn take(&mut self, entry: &Entry, data: &Value) {
        match &*entry.kind {
            // Nobody will know more of the question before.
            "asked" => self.settled = self.usage,
            "using" => {
                self.usage = self.settled;
                self.usage.add(usage(data));
            }
            _ => {
                self.settled.add(usage(data));
                self.usage = self.settled;
            }
        }
        if let Some(agent) = text(&data["agent"]) {
            self.agent = Some(agent);
        }
        match &*entry.kind {
            "asked" => self.asked_at_ms = Some(entry.at_ms),
            "answered" | "turn_rejected" => {
                let asked_at_ms = self.asked_at_ms.take().unwrap_or(entry.at_ms);
                self.took_ms += entry.at_ms.saturating_sub(asked_at_ms);
            }
            _ => (),
        }
        match (&*entry.kind, &entry.body) {
            ("answered", answer) => {
                self.answer.clone_from(answer);
                self.model = text(&data["model"]);
                self.read = text(&data["read"]);
            }
            ("turn_rejected", _) => self.rejections.push(Rejection::of(entry, data)),
            ("withheld", _) if usage(data) == Usage::default() => self.withheld += 1,
            ("plan_refused", Some(report)) => self.refusals.push(Arc::clone(report)),
            ("batch_begun", Some(plan)) => self.batches.push(Batch::begun(entry, plan)),
            _ => (),
        }
    }
}

impl Batch {
    fn begun(entry: &Entry, plan: &str) -> Batch {
        let mut plan: Value = serde_json::from_str(plan).unwrap_or_default();
        let tasks = match plan["tasks"].take() {
            Value::Array(tasks) => tasks,
            _ => Vec::new(),
        };
        Batch {
            id: entry.batch.clone().unwrap_or_default(),
            began_at_ms: entry.at_ms,
            ended_at_ms: None,
            status: None,
            tasks: tasks
                .into_iter()
                .enumerate()
                .map(|(ix, it)| Task::planned(ix, it))
                .collect(),
        }
    }

    fn stop(&mut self) {
        self.tasks.iter_mut().for_each(|it| it.stop(None));
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn usage(data: &Value) -> Usage {
    let usage = data.get("usage").cloned();
    let usage = usage.and_then(|it| serde_json::from_value(it).ok());
    usage.unwrap_or_default()
}

fn sum(parts: impl Iterator<Item = Usage>) -> Usage {
    let mut sum = Usage::default();
    parts.for_each(|it| sum.add(it));
    sum
}

#[cfg(test)]
mod tests;
