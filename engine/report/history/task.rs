//! A task, attempt by attempt.

use std::sync::Arc;

use serde_json::Value;

use super::{sum, text, usage};
use crate::{accept, agent::Usage, journal::Entry};

#[derive(Debug)]
pub struct Task {
    pub id: String,
    pub agent: String,
    /// The task as it stands in the plan.
    pub planned: Value,
    pub attempts: Vec<Attempt>,
    /// What was used before there was an attempt: what goes ahead of it in vain is none.
    pub ahead: Usage,
    /// Whether the session ended in which it was last under way.
    is_stopped: bool,
    end: Option<End>,
}

/// How a task ended that has no output.
#[derive(Debug)]
struct End {
    is_failed: bool,
    because: Option<String>,
}

#[derive(Debug)]
pub struct Attempt {
    /// From 1.
    pub number: u32,
    pub started_at_ms: i64,
    pub ended_at_ms: Option<i64>,
    pub usage: Usage,
    pub prompt: Prompt,
    /// What its model called, one after the other.
    pub calls: Vec<Called>,
    /// The run that its output was taken from, if nobody was asked.
    pub reused: Option<String>,
    /// The model that answered, and how its answer was read, where that was written down.
    pub model: Option<String>,
    pub read: Option<String>,
    pub came: Came,
}

/// What was told in an attempt. Both are nothing for those who are not told: they see the context.
#[derive(Debug, Clone, Default)]
pub struct Prompt {
    pub system: Option<Arc<str>>,
    pub user: Option<Arc<str>>,
}

/// What came of an attempt.
#[derive(Debug)]
pub enum Came {
    /// Nothing yet.
    UnderWay,
    /// Nothing any more: the task or the run stopped before.
    CutShort,
    /// Nobody was asked, since there was not enough left to spend, or a person was not there.
    Withheld,
    Output(Arc<str>),
    Rejection(Rejection),
}

/// Why an answer did not count.
#[derive(Debug)]
pub struct Rejection {
    pub attempt: u32,
    pub failure: String,
    pub message: String,
    pub answer: Option<Arc<str>>,
}

/// A call that a model made while it was asked.
#[derive(Debug)]
pub struct Called {
    pub attempt: u32,
    pub tool: String,
    pub ok: bool,
    pub ms: u64,
    /// As the model wrote them.
    pub arguments: String,
    /// What the model was told, or as much of it as was written down.
    pub result: String,
    /// What the tool printed beside that.
    pub printed: String,
}

/// A call that the run made by itself: on an agent's answer, or at a certain point.
#[derive(Debug)]
pub struct Ran {
    /// Empty where it was for the run as a whole.
    pub agent: String,
    pub tool: String,
    pub ok: bool,
    pub ms: u64,
    /// What came of it, or what went wrong.
    pub result: String,
    /// One of those that its author named.
    pub outcome: Option<String>,
    pub printed: String,
}

impl Task {
    /// The task at a place of a plan.
    pub(super) fn planned(ix: usize, planned: Value) -> Task {
        let agent = ["execution_agent", "initial_agent", "capability"];
        let agent = agent.iter().find_map(|it| text(&planned[*it]));
        Task {
            id: id_of(&planned, ix),
            agent: agent.unwrap_or_default(),
            planned,
            attempts: Vec::new(),
            ahead: Usage::default(),
            is_stopped: false,
            end: None,
        }
    }

    pub(super) fn start(&mut self, entry: &Entry, prompt: Prompt) {
        self.is_stopped = false;
        let number = entry.attempt.unwrap_or_default();
        if let Some(before) = self.attempts.last_mut().filter(|it| it.number == number)
            && before.usage.cu_estimated
        {
            // It is the same for its provider, which takes nothing twice.
            before.usage.take_cu();
        }
        self.attempts.push(Attempt {
            number,
            started_at_ms: entry.at_ms,
            ended_at_ms: None,
            usage: Usage::default(),
            prompt,
            calls: Vec::new(),
            reused: None,
            model: None,
            read: None,
            came: Came::UnderWay,
        });
    }

    pub(super) fn called(&mut self, called: Called) {
        let number = called.attempt;
        if let Some(attempt) = self.attempts.iter_mut().rfind(|it| it.number == number) {
            attempt.calls.push(called);
        }
    }

    /// An attempt's agent is told another instruction.
    pub(super) fn rewritten(&mut self, entry: &Entry, system: Option<Arc<str>>) {
        let number = entry.attempt.unwrap_or_default();
        if let Some(attempt) = self.attempts.iter_mut().rfind(|it| it.number == number) {
            attempt.prompt.system = system;
        }
    }

    /// What an attempt is to be counted as, should nothing more be heard of it.
    pub(super) fn uses(&mut self, entry: &Entry, data: &Value) {
        let number = entry.attempt.unwrap_or_default();
        if let Some(attempt) = self.attempts.iter_mut().rfind(|it| it.number == number) {
            attempt.usage = usage(data);
        }
    }

    /// An attempt was given up, which used so much up to then.
    pub(super) fn cut_short(&mut self, entry: &Entry, data: &Value) {
        let number = entry.attempt.unwrap_or_default();
        let mut attempts = self.attempts.iter_mut();
        let attempt = attempts.rfind(|it| it.number == number && data["ahead"] != true);
        if let Some(attempt) = attempt {
            attempt.usage = usage(data);
            if matches!(attempt.came, Came::UnderWay) {
                attempt.came = Came::CutShort;
                attempt.ended_at_ms = Some(entry.at_ms);
            }
        } else {
            self.ahead.add(usage(data));
        }
    }

    pub(super) fn take(&mut self, entry: &Entry, data: &Value) {
        let number = entry.attempt.unwrap_or_default();
        let came = match (&*entry.kind, &entry.body) {
            ("accepted", Some(output)) => Came::Output(Arc::clone(output)),
            ("rejected", _) => Came::Rejection(Rejection::of(entry, data)),
            ("withheld", _) => Came::Withheld,
            _ => {
                self.stop(Some(entry.at_ms));
                self.end = Some(End {
                    is_failed: data["end"] == "failed",
                    because: text(&data["because"]),
                });
                return;
            }
        };
        if let Some(attempt) = self.attempts.iter_mut().rfind(|it| it.number == number) {
            attempt.ended_at_ms = Some(entry.at_ms);
            attempt.usage = usage(data);
            attempt.reused = text(&data["reused"]);
            attempt.model = text(&data["model"]);
            attempt.read = text(&data["read"]);
            attempt.came = came;
        } else {
            self.ahead.add(usage(data));
        }
    }

    /// What is under way stays undone, since a time or since nobody knows when.
    pub(super) fn stop(&mut self, at_ms: Option<i64>) {
        self.is_stopped = true;
        for attempt in &mut self.attempts {
            if matches!(attempt.came, Came::UnderWay) {
                attempt.came = Came::CutShort;
                attempt.ended_at_ms = at_ms;
            }
        }
    }

    /// One word for how it stands.
    pub fn status(&self) -> &'static str {
        match (&self.end, self.attempts.last().map(|it| &it.came)) {
            (_, Some(Came::Output(_))) => "completed",
            (Some(end), _) if end.is_failed => "failed",
            (Some(_), _) => "cancelled",
            (None, Some(Came::UnderWay)) => "running",
            (None, Some(_)) if self.is_stopped => "interrupted",
            (None, Some(_)) => "retrying",
            (None, None) => "waiting",
        }
    }

    /// Why it was cancelled, or what its last answer lacked.
    pub fn reason(&self) -> Option<&str> {
        let end = self.end.as_ref()?;
        let rejection = self.rejections().last().map(|it| it.message.as_str());
        end.because.as_deref().or(rejection)
    }

    pub fn output(&self) -> Option<&Arc<str>> {
        self.attempts.iter().find_map(|it| match &it.came {
            Came::Output(output) => Some(output),
            _ => None,
        })
    }

    /// The paths of the files that its output carries.
    pub fn files(&self) -> Vec<String> {
        let output = self.output().filter(|it| it.contains("\"code_files\""));
        let output: Option<Value> = output.and_then(|it| serde_json::from_str(it).ok());
        let files = output.and_then(|it| accept::Output::files_of(&it, usize::MAX).ok());
        files
            .into_iter()
            .flatten()
            .map(|it| it.path.to_string())
            .collect()
    }

    pub fn rejections(&self) -> impl Iterator<Item = &Rejection> {
        self.attempts.iter().filter_map(|it| match &it.came {
            Came::Rejection(rejection) => Some(rejection),
            _ => None,
        })
    }

    /// For how long its attempts were under way, as far as that is known; not the time between them, in which the run may
    /// have been stopped.
    pub fn took_ms(&self) -> Option<i64> {
        let took = self.attempts.iter().filter_map(Attempt::took_ms);
        took.reduce(i64::saturating_add)
    }

    /// How many attempts were made. One that was made again because it was cut short is the same.
    pub fn attempts_made(&self) -> u32 {
        let made = self.attempts.iter().filter(|it| it.was_made());
        made.map(|it| it.number).max().unwrap_or(0)
    }

    pub fn usage(&self) -> Usage {
        sum(self.attempts.iter().map(|it| it.usage).chain([self.ahead]))
    }
}

impl Attempt {
    pub fn took_ms(&self) -> Option<i64> {
        Some(self.ended_at_ms?.saturating_sub(self.started_at_ms))
    }

    /// Whether anybody was asked.
    pub fn was_made(&self) -> bool {
        !matches!(self.came, Came::Withheld) || self.usage != Usage::default()
    }
}

impl Called {
    pub(super) fn of(entry: &Entry, data: &Value) -> Called {
        let body = entry.body.as_deref().unwrap_or_default();
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        Called {
            attempt: entry.attempt.unwrap_or_default(),
            tool: text(&data["tool"]).unwrap_or_default(),
            ok: data["ok"] == true,
            ms: data["ms"].as_u64().unwrap_or_default(),
            arguments: text(&body["arguments"]).unwrap_or_default(),
            result: text(&body["result"]).unwrap_or_default(),
            printed: text(&body["printed"]).unwrap_or_default(),
        }
    }
}

impl Ran {
    pub(super) fn of(entry: &Entry, data: &Value) -> Ran {
        let body = entry.body.as_deref().unwrap_or_default();
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        Ran {
            agent: text(&data["agent"]).unwrap_or_default(),
            tool: text(&data["tool"]).unwrap_or_default(),
            ok: data["ok"] == true,
            ms: data["ms"].as_u64().unwrap_or_default(),
            result: text(&body["text"]).unwrap_or_default(),
            outcome: text(&body["outcome"]),
            printed: text(&body["printed"]).unwrap_or_default(),
        }
    }
}

impl Rejection {
    pub(super) fn of(entry: &Entry, data: &Value) -> Rejection {
        Rejection {
            attempt: entry.attempt.unwrap_or_default(),
            failure: text(&data["failure"]).unwrap_or_default(),
            message: text(&data["message"]).unwrap_or_default(),
            answer: entry.body.clone(),
        }
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
