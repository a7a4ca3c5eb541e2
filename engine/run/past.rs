//! What the journal of a run says of its earlier sessions, step by step.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use serde_json::Value;

mod data;

use self::data::{asked, calls, is_spent, usage};
use super::{aside::Aside, sessions::Sessions, tools::Done};
use crate::{
    accept::{Asked, Failure, Rejection},
    agent::Usage,
    budget::Limit,
    context::Json,
    journal::{Entry, Row},
    schedule::Retry,
    tool::Calls,
};

/// What earlier sessions of a run went through, as far as it still counts.
#[derive(Debug, Default)]
pub struct Earlier {
    pub(super) steps: VecDeque<Past>,
    /// What was used for steps that were taken back since. It was spent all the same.
    pub(super) undone: Usage,
    /// All that was used.
    pub(super) spent: Usage,
    /// What the run might spend, as it was last said.
    budget: Option<Limit>,
    /// What was said about that when somebody went on with it.
    pub(super) raised: Limit,
    /// For how many milliseconds somebody worked on the run.
    pub(super) worked_ms: i64,
}

/// One step of an earlier session.
#[derive(Debug)]
pub(super) struct Past {
    pub(super) at_ms: i64,
    pub(super) turn: u32,
    pub(super) step: Step,
}

#[derive(Debug)]
pub(super) enum Step {
    /// Another session begins.
    Session,
    TurnRejected {
        usage: Usage,
        asked: Option<Asked>,
    },
    Answered {
        agent: Arc<str>,
        text: Arc<str>,
        usage: Usage,
        calls: Calls,
    },
    Tool {
        tool: Arc<str>,
        done: Done,
    },
    BatchBegun {
        batch: Arc<str>,
    },
    Attempt(Attempt),
    BatchEnded,
}

/// How an attempt on a task ended, or the task itself.
#[derive(Debug)]
pub(super) struct Attempt {
    /// The task's place in the plan.
    pub(super) task: u32,
    pub(super) number: u32,
    pub(super) usage: Usage,
    /// The run that its output was taken from.
    pub(super) reused: Option<Arc<str>>,
    pub(super) came: Came,
}

#[derive(Debug)]
pub(super) enum Came {
    Output(Json),
    /// The last of several that the task is to be tried again after: they count no more, but it is told.
    Feedback(Option<Rejection>),
    Rejection {
        rejection: Rejection,
        retry: Retry,
        /// When the next attempt was to be made.
        until_ms: Option<i64>,
    },
    /// Somebody cancelled the task.
    Cancelled,
    /// Nothing but that it used something.
    CutShort,
}

/// What was asked when a session ended, and not answered: a place for people.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct InFlight {
    pub batch: Arc<str>,
    /// The task's place in the plan.
    pub task: u32,
    pub attempt: u32,
}

/// The past of a run, made from its entries one after the other.
#[derive(Debug)]
pub struct Reader {
    aside: Aside,
    past: VecDeque<Past>,
    undone: Usage,
    spent: Usage,
    budget: Option<Limit>,
    raised: Limit,
    sessions: Sessions,
    turn: u32,
    in_flight: BTreeMap<(u32, u32), InFlight>,
    open: Open,
    guesses: Guesses,
}

/// An attempt by its turn and, in a batch, its task and number.
type Key = (u32, Option<(u32, u32)>);

/// What attempts are to be counted as that have begun and not ended.
#[derive(Debug, Default)]
struct Open(BTreeMap<Key, Usage>);

/// What providers may have taken for attempts that were cut short, by turn and task. Where such an attempt is made again
/// it has its id, so that nobody takes anything twice.
type Guesses = BTreeMap<(u32, u32), Guess>;

/// Since when, for which attempt, and how much.
type Guess = (i64, Key, Usage);

impl Earlier {
    /// What the run might spend, as the last session that went on with it said.
    pub fn budget(&self) -> Option<Limit> {
        self.budget
    }

    /// What sessions that went on with the run said that it may spend, the last one first. A batch with a budget of its own may spend as much.
    pub fn raised(&self) -> Limit {
        self.raised
    }

    /// Another session says so.
    pub fn raise(&mut self, to: Limit) {
        self.raised = to.or(self.raised);
    }
}

impl Step {
    pub(super) fn describe(&self) -> String {
        match self {
            Step::Session => "another session".to_owned(),
            Step::TurnRejected { .. } => "a rejected answer".to_owned(),
            Step::Answered { agent, .. } => format!("an answer of `{agent}`"),
            Step::Tool { tool, .. } => format!("a call of the tool `{tool}`"),
            Step::BatchBegun { batch } => format!("batch `{batch}`"),
            Step::Attempt(_) => "an attempt on a task".to_owned(),
            Step::BatchEnded => "the end of a batch".to_owned(),
        }
    }
}

impl Reader {
    /// The past of a run that started then, and whose folder this is.
    pub fn new(started_at_ms: i64, folder: &Path) -> Reader {
        Reader {
            aside: Aside::new(folder),
            past: VecDeque::new(),
            undone: Usage::default(),
            spent: Usage::default(),
            budget: None,
            raised: Limit::default(),
            sessions: Sessions::new(started_at_ms),
            turn: 0,
            in_flight: BTreeMap::new(),
            open: Open::default(),
            guesses: Guesses::default(),
        }
    }

    /// Takes in the next entry.
    ///
    /// # Errors
    /// It is not what this version writes.
    pub fn take(&mut self, row: Row) -> anyhow::Result<()> {
        let seq = row.seq;
        let step = self.read(row.entry);
        step.with_context(|| format!("entry {seq} of the run's journal cannot be read"))
    }

    /// The past, and what was under way when it ended.
    pub fn finish(mut self) -> (Earlier, Vec<InFlight>) {
        self.give_up();
        let earlier = Earlier {
            steps: self.past,
            undone: self.undone,
            spent: self.spent,
            budget: self.budget,
            raised: self.raised,
            worked_ms: self.sessions.worked_ms(None),
        };
        (earlier, self.in_flight.into_values().collect())
    }

    fn read(&mut self, entry: Entry) -> anyhow::Result<()> {
        let data: Value = serde_json::from_str(&entry.data)?;
        if let Some(turn) = data["turn"].as_u64() {
            self.turn = u32::try_from(turn)?;
        }
        let task = (self.turn, entry.task.unwrap_or_default());
        let at_ms = entry.at_ms;
        if matches!(&*entry.kind, "resumed" | "retried") {
            self.give_up();
        }
        if matches!(&*entry.kind, "batch_ended" | "retried") {
            // What was cut short before is not made again.
            let guesses = std::mem::take(&mut self.guesses);
            guesses.into_values().for_each(|it| self.count_guess(it));
        }
        self.sessions.take(&entry);
        let attempt = (self.turn, entry.task.zip(entry.attempt));
        let mut used = usage(&data)?;
        if entry.kind == "cut_short" && data["ahead"] != true {
            let number = self.in_flight.get(&task).map(|it| it.attempt);
            if used.cu_estimated && number.is_some() && number == entry.attempt {
                let guess = used.take_cu();
                self.guesses.insert(task, (at_ms, attempt, guess));
            }
        }
        if is_spent(&entry.kind) {
            self.spent.add(used);
            self.open.0.remove(&attempt);
        }
        let step = match &*entry.kind {
            "using" => {
                self.open.0.insert(attempt, usage(&data)?);
                return Ok(());
            }
            "resumed" => {
                self.in_flight.clear();
                let budget = serde_json::from_value(data["budget"].clone());
                self.budget = budget.unwrap_or(self.budget);
                let raised = serde_json::from_value(data["raised"].clone());
                self.raised = raised.unwrap_or(self.raised);
                Step::Session
            }
            "turn_rejected" => Step::TurnRejected {
                usage: usage(&data)?,
                asked: asked(&data),
            },
            "answered" => Step::Answered {
                agent: data["agent"].as_str().context("no agent")?.into(),
                text: entry.body.context("no answer")?,
                usage: usage(&data)?,
                calls: calls(&data)?,
            },
            "tool" => Step::Tool {
                tool: data["tool"].as_str().context("no tool")?.into(),
                done: serde_json::from_str(&entry.body.context("no result")?)?,
            },
            "batch_begun" => Step::BatchBegun {
                batch: entry.batch.context("no batch")?,
            },
            "started" => {
                let attempt = entry.attempt.context("no attempt")?;
                let batch = entry.batch.context("no batch")?;
                let (task, in_flight) = (
                    task,
                    InFlight {
                        batch,
                        task: task.1,
                        attempt,
                    },
                );
                self.in_flight.insert(task, in_flight);
                self.guesses.remove(&task);
                return Ok(());
            }
            "accepted" | "rejected" => {
                self.in_flight.remove(&task);
                Step::Attempt(self.attempt(entry, &data)?)
            }
            // What came of it nobody knows, but for what it used; or it is asked again from its beginning.
            "withheld" | "cut_short" => {
                if entry.kind == "withheld" {
                    self.in_flight.remove(&task);
                }
                self.cut_short(at_ms, attempt, used);
                return Ok(());
            }
            "delayed" => {
                self.delay(task.1, data["until_ms"].as_i64());
                return Ok(());
            }
            "batch_ended" => {
                self.in_flight.clear();
                Step::BatchEnded
            }
            "retried" if entry.batch.is_none() => {
                // An agent is to speak anew, as if nothing had come after it.
                let kept = self.past.iter().position(|it| it.turn >= self.turn);
                self.undo(kept.unwrap_or(self.past.len()));
                return Ok(());
            }
            "retried" => {
                let tasks = serde_json::from_value(data["tasks"].clone())?;
                return self.retry(&entry.batch.context("no batch")?, &tasks);
            }
            "task_ended" if data["is_withdrawn"] == true => {
                self.in_flight.remove(&task);
                let guess = self.guesses.remove(&task);
                guess.into_iter().for_each(|it| self.count_guess(it));
                Step::Attempt(self.attempt(entry, &data)?)
            }
            // For people.
            "asked" | "called" | "held_up" | "rewritten" | "system" | "task_ended"
            | "plan_refused" | "run_ended" => return Ok(()),
            other => anyhow::bail!("`{other}` is no kind of entry"),
        };
        self.past.push_back(Past {
            at_ms,
            turn: self.turn,
            step,
        });
        Ok(())
    }

    /// An attempt came to no end, and used so much.
    fn cut_short(&mut self, at_ms: i64, (turn, task): Key, usage: Usage) {
        let Some((task, number)) = task else {
            return self.undone.add(usage);
        };
        let step = Step::Attempt(Attempt {
            task,
            number,
            usage,
            reused: None,
            came: Came::CutShort,
        });
        if usage != Usage::default() {
            self.past.push_back(Past { at_ms, turn, step });
        }
    }

    /// Nobody will ever know what was taken.
    fn count_guess(&mut self, (at_ms, attempt, guess): Guess) {
        self.spent.add(guess);
        self.cut_short(at_ms, attempt, guess);
    }

    /// Nobody works on the run any more: what was under way counts as it was written down to.
    fn give_up(&mut self) {
        let at_ms = self.sessions.last_ms();
        for (attempt, usage) in std::mem::take(&mut self.open.0) {
            self.spent.add(usage);
            self.cut_short(at_ms, attempt, usage);
        }
    }

    fn attempt(&mut self, entry: Entry, data: &Value) -> anyhow::Result<Attempt> {
        let came = match &*entry.kind {
            "accepted" => {
                let output = Json::of_text(String::from(&*entry.body.context("no output")?));
                Came::Output(self.aside.put(output))
            }
            "task_ended" => Came::Cancelled,
            _ => {
                let failure = data["failure"].as_str().and_then(Failure::from_word);
                let message = data["message"].as_str().unwrap_or_default();
                let mut rejection = Rejection::new(failure.context("no kind of failure")?, message);
                rejection.answer = entry.body;
                rejection.asked = asked(data);
                let retry = match &data["retry"] {
                    Value::String(word) if word == "never" => Retry::Never,
                    Value::String(word) if word == "backoff" => Retry::Backoff,
                    other => Retry::NotBefore(Duration::from_millis(
                        other.as_u64().context("no word on another attempt")?,
                    )),
                };
                Came::Rejection {
                    rejection,
                    retry,
                    until_ms: None,
                }
            }
        };
        Ok(Attempt {
            task: entry.task.context("no task")?,
            number: entry.attempt.context("no attempt")?,
            usage: usage(data)?,
            reused: data["reused"].as_str().map(Arc::from),
            came,
        })
    }

    /// Takes back that tasks of a batch failed, and all that came after the batch.
    fn retry(&mut self, batch: &str, tasks: &BTreeSet<u32>) -> anyhow::Result<()> {
        let turn = self.turn;
        let is_its_begin =
            |it: &Past| matches!(&it.step, Step::BatchBegun { batch: begun } if **begun == *batch);
        let begun = self
            .past
            .iter()
            .rposition(|it| it.turn == turn && is_its_begin(it));
        let begun = begun.context("there is no such batch")?;
        let mut feedback: BTreeMap<u32, Past> = BTreeMap::new();
        let of_batch = begun + 1;
        let is_end = |it: &Past| matches!(it.step, Step::BatchEnded);
        if let Some(n) = self.past.range(of_batch..).position(is_end) {
            self.undo(of_batch + n);
        }
        for mut past in self.past.split_off(of_batch) {
            match &mut past.step {
                Step::Attempt(Attempt {
                    came: Came::CutShort,
                    ..
                }) => self.past.push_back(past),
                Step::Attempt(attempt) if tasks.contains(&attempt.task) => {
                    if let Some(Past {
                        step: Step::Attempt(before),
                        ..
                    }) = feedback.get(&attempt.task)
                    {
                        attempt.usage.add(before.usage);
                    }
                    match &attempt.came {
                        Came::Rejection { rejection, .. } => {
                            attempt.came = Came::Feedback(Some(rejection.clone()));
                        }
                        // The attempt that was given up counts: the next one has another id.
                        Came::Cancelled => attempt.came = Came::Feedback(None),
                        Came::Output(_) | Came::Feedback(_) | Came::CutShort => (),
                    }
                    feedback.insert(attempt.task, past);
                }
                _ => self.past.push_back(past),
            }
        }
        self.past.extend(feedback.into_values());
        self.in_flight.clear();
        Ok(())
    }

    /// Takes back all steps from a place on.
    fn undo(&mut self, at: usize) {
        for past in self.past.drain(at..) {
            match past.step {
                Step::TurnRejected { usage, .. } | Step::Answered { usage, .. } => {
                    self.undone.add(usage);
                }
                Step::Attempt(attempt) => self.undone.add(attempt.usage),
                Step::Session | Step::BatchBegun { .. } | Step::BatchEnded | Step::Tool { .. } => {}
            }
        }
        self.in_flight.clear();
    }

    /// Notes the wait for the attempt after the last rejection of a task, which was a moment ago.
    fn delay(&mut self, task: u32, at_ms: Option<i64>) {
        for past in self.past.iter_mut().rev() {
            match &mut past.step {
                Step::Attempt(attempt) if attempt.task == task => {
                    if let Came::Rejection { until_ms, .. } = &mut attempt.came {
                        *until_ms = at_ms;
                    }
                    return;
                }
                Step::BatchBegun { .. } => return,
                _ => (),
            }
        }
    }
}
