//! What a run writes down, and what it recalls of its earlier sessions.
//!
//! **Invariant:** what [`Log::commit`] has returned from survives; nothing is acted on before.
//! **Invariant:** a run asks in the same order whenever it is given the same answers. So what it wrote down is recalled
//! in order, and what does not fit there is an error, never a guess.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use anyhow::bail;
use serde_json::{Value, json};

use super::{
    clock::{now_ms, span},
    past::{Attempt, Earlier, Past, Step},
    tools::Done,
};
use crate::{
    accept::Rejection,
    agent::Usage,
    budget::Limit,
    journal::{self, Cursor, Entry, Journal, Mark},
    prompt::Prompt,
    schedule::Retry,
    tool::Calls,
};

mod answers;
mod vain;

pub(super) use answers::Origin;

/// The journal of one run, and its past.
#[derive(Default)]
pub struct Log {
    journal: Option<(Journal, Cursor)>,
    buffer: Vec<Entry>,
    past: VecDeque<Past>,
    undone: Usage,
    spent: Usage,
    raised: Limit,
    /// When the run would have started if all had been done in one session.
    since_ms: i64,
    /// The names of the system texts that were written down: tasks of one agent share theirs.
    systems: BTreeSet<String>,
}

/// What is recalled of asking an agent outside a batch.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// How many attempts were rejected, and what they used.
    pub(super) rejections: u32,
    pub(super) rejected_usage: Usage,
    /// By whom, of several that could be asked, the last one last.
    pub(super) failed: Vec<Arc<str>>,
    /// The answer that could be used, and what it used.
    pub(super) answer: Option<(Arc<str>, Usage)>,
    /// What the calls for that answer brought.
    pub(super) calls: Calls,
}

/// What is recalled of a batch.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) attempts: VecDeque<Attempt>,
    /// How long it was under way.
    pub(super) took: Duration,
    pub(super) has_begun: bool,
    pub(super) has_ended: bool,
}

impl Log {
    /// Goes on writing at a place of a journal, with what stands before that place.
    pub fn new(journal: Journal, cursor: Cursor, earlier: Earlier) -> Log {
        let mut past = earlier.steps;
        while past
            .pop_back_if(|it| matches!(it.step, Step::Session))
            .is_some()
        {}
        Log {
            journal: Some((journal, cursor)),
            buffer: Vec::new(),
            past,
            undone: earlier.undone,
            spent: earlier.spent,
            raised: earlier.raised,
            since_ms: now_ms() - earlier.worked_ms,
            systems: BTreeSet::new(),
        }
    }

    /// For how many milliseconds somebody has worked on the run, up to now.
    pub(super) fn worked_ms(&self) -> i64 {
        (now_ms() - self.since_ms).max(0)
    }

    /// What was used for steps that were taken back since.
    pub(super) fn undone(&self) -> Usage {
        self.undone
    }

    /// What earlier sessions used, all together.
    pub(super) fn spent(&self) -> Usage {
        self.spent
    }

    /// What a batch with a budget of its own may spend all the same, as somebody said who went on with the run.
    pub(super) fn raised(&self) -> Limit {
        self.raised
    }

    /// Whether something is still to be recalled.
    pub(super) fn is_recalling(&self) -> bool {
        !self.past.is_empty()
    }

    pub(super) fn recall_turn(&mut self, turn: u32, agent: &str) -> anyhow::Result<Asked> {
        let mut asked = Asked::default();
        while let Some(past) = self.next_step() {
            match &past.step {
                Step::TurnRejected { usage, asked: who } if past.turn == turn => {
                    asked.rejections += 1;
                    asked.rejected_usage.add(*usage);
                    if let Some(who) = who {
                        who.note(&mut asked.failed);
                    }
                }
                Step::Answered { agent: spoke, .. } if past.turn == turn && **spoke == *agent => {
                    let Some(Past {
                        step:
                            Step::Answered {
                                text, usage, calls, ..
                            },
                        ..
                    }) = self.past.pop_front()
                    else {
                        break;
                    };
                    asked.answer = Some((text, usage));
                    asked.calls = calls;
                    break;
                }
                other => bail!(misfit(
                    &format!("`{agent}` in turn {turn}"),
                    past.turn,
                    other
                )),
            }
            self.past.pop_front();
        }
        Ok(asked)
    }

    /// What came of a call of a tool, if it was made before.
    ///
    /// # Errors
    /// Something else came next.
    pub(super) fn recall_tool(&mut self, turn: u32, tool: &str) -> anyhow::Result<Option<Done>> {
        match self.next_step() {
            None => return Ok(None),
            Some(Past {
                turn: past,
                step: Step::Tool { tool: called, .. },
                ..
            }) if *past == turn && **called == *tool => (),
            Some(past) => bail!(misfit(
                &format!("the tool `{tool}` in turn {turn}"),
                past.turn,
                &past.step
            )),
        }
        match self.past.pop_front() {
            Some(Past {
                step: Step::Tool { done, .. },
                ..
            }) => Ok(Some(done)),
            _ => Ok(None),
        }
    }

    pub(super) fn recall_batch(&mut self, turn: u32, batch: &str) -> anyhow::Result<Batch> {
        let mut recalled = Batch::default();
        let Some(past) = self.next_step() else {
            return Ok(recalled);
        };
        match &past.step {
            Step::BatchBegun { batch: begun } if past.turn == turn && **begun == *batch => (),
            other => bail!(misfit(
                &format!("batch `{batch}` in turn {turn}"),
                past.turn,
                other
            )),
        }
        recalled.has_begun = true;
        let mut since = past.at_ms;
        let mut until = since;
        self.past.pop_front();
        while let Some(past) = self.past.pop_front() {
            match past.step {
                Step::Attempt(attempt) => recalled.attempts.push_back(attempt),
                Step::Session => {
                    recalled.took += span(since, until);
                    since = past.at_ms;
                }
                Step::BatchEnded => {
                    recalled.has_ended = true;
                    break;
                }
                other => bail!(misfit(
                    &format!("the end of batch `{batch}`"),
                    past.turn,
                    &other
                )),
            }
            until = past.at_ms;
        }
        recalled.took += span(since, until);
        Ok(recalled)
    }

    /// The next step that is about the run itself.
    fn next_step(&mut self) -> Option<&Past> {
        while self
            .past
            .pop_front_if(|it| matches!(it.step, Step::Session))
            .is_some()
        {}
        self.past.front()
    }

    /// An agent is about to be asked outside a batch.
    pub(super) fn asked(&mut self, turn: u32, agent: &str, attempt: u32, prompt: &Prompt) {
        let mut data = json!({ "turn": turn, "agent": agent });
        let body = self.told(prompt, &mut data);
        self.push("asked", data, |it| {
            it.attempt = Some(attempt);
            it.body = body;
        });
    }

    pub(super) fn turn_rejected(
        &mut self,
        turn: u32,
        agent: &str,
        attempt: u32,
        rejection: &Rejection,
    ) {
        let failure = rejection.failure.as_str();
        let message = &rejection.message;
        let mut data = json!({
            "turn": turn,
            "agent": agent,
            "failure": failure,
            "message": message,
            "usage": rejection.usage,
        });
        note_asked(&mut data, rejection);
        self.push("turn_rejected", data, |it| {
            it.attempt = Some(attempt);
            it.body.clone_from(&rejection.answer);
        });
    }

    pub(super) fn plan_refused(&mut self, turn: u32, batch: &Arc<str>, report: &str) {
        let data = json!({ "turn": turn });
        self.push("plan_refused", data, |it| {
            it.batch = Some(Arc::clone(batch));
            it.body = Some(report.into());
        });
    }

    pub(super) fn batch_begun(
        &mut self,
        turn: u32,
        batch: &Arc<str>,
        plan: String,
    ) -> anyhow::Result<()> {
        self.push("batch_begun", json!({ "turn": turn }), |it| {
            it.batch = Some(Arc::clone(batch));
            it.body = Some(plan.into());
        });
        self.commit()
    }

    pub(super) fn started(&mut self, about: About<'_>, prompt: &Prompt) {
        let mut data = json!({});
        let body = self.told(prompt, &mut data);
        self.about("started", about, data, body);
    }

    /// The agent of an attempt is told another instruction than it would be.
    pub(super) fn rewritten(&mut self, about: About<'_>, system: &str) {
        let (system, mut data) = (system.to_owned(), json!({}));
        let user = String::new();
        self.told(&Prompt { system, user }, &mut data);
        self.about("rewritten", about, data, None);
    }

    /// The last output of equal work, and the run it is of.
    pub(super) fn equal_work(&self, key: &str) -> anyhow::Result<Option<(String, Arc<str>)>> {
        match &self.journal {
            Some((journal, _)) => journal.equal_work(key),
            None => Ok(None),
        }
    }

    /// Notes in an entry's data by which name its system text is written down, and gives the rest of the prompt.
    fn told(&mut self, prompt: &Prompt, data: &mut Value) -> Option<Arc<str>> {
        self.journal.as_ref()?;
        if !prompt.system.is_empty() {
            let mut name = journal::hash(&prompt.system);
            name.truncate(16);
            if self.systems.insert(name.clone()) {
                let body = Some(prompt.system.as_str().into());
                self.push("system", json!({ "name": name }), |it| it.body = body);
            }
            data["system"] = json!(name);
        }
        (!prompt.user.is_empty()).then(|| prompt.user.as_str().into())
    }

    pub(super) fn rejected(
        &mut self,
        about: About<'_>,
        rejection: &Rejection,
        retry: Retry,
        usage: Usage,
    ) {
        let retry = match retry {
            Retry::Never => json!("never"),
            Retry::Backoff => json!("backoff"),
            Retry::NotBefore(floor) => json!(floor.as_millis() as u64),
        };
        let mut data = json!({
            "failure": rejection.failure.as_str(),
            "message": rejection.message,
            "retry": retry,
            "usage": usage,
        });
        note_asked(&mut data, rejection);
        self.about("rejected", about, data, rejection.answer.clone());
    }

    pub(super) fn delayed(&mut self, about: About<'_>, wait: Duration) {
        let until = now_ms().saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
        self.about("delayed", about, json!({ "until_ms": until }), None);
    }

    pub(super) fn ended(&mut self, about: About<'_>, end: Value) {
        self.about("task_ended", about, end, None);
    }

    pub(super) fn batch_ended(&mut self, batch: &Arc<str>, data: Value) -> anyhow::Result<()> {
        self.push("batch_ended", data, |it| it.batch = Some(Arc::clone(batch)));
        self.commit()
    }

    /// A tool ran on an agent's answer, which was written down before it.
    pub(super) fn called(
        &mut self,
        turn: u32,
        agent: &str,
        tool: &str,
        took: Duration,
        done: &Done,
    ) -> anyhow::Result<()> {
        let ms = took.as_millis() as u64;
        let data = json!({ "turn": turn, "agent": agent, "tool": tool, "ok": done.ok, "ms": ms });
        let body = serde_json::to_string(done)?;
        self.push("tool", data, |it| it.body = Some(body.into()));
        self.commit()
    }

    /// The last thing that is said of a session.
    pub(super) fn run_ended(&mut self, status: &str, data: Value) -> anyhow::Result<()> {
        self.push("run_ended", data, |_| ());
        if let Some((journal, cursor)) = &mut self.journal {
            let mark = Mark {
                status,
                ended_at_ms: Some(now_ms()),
            };
            boundary();
            journal.append_and_mark(cursor, &self.buffer, &mark)?;
            boundary();
        }
        self.buffer.clear();
        Ok(())
    }

    /// Makes durable what was said so far.
    pub(super) fn commit(&mut self) -> anyhow::Result<()> {
        if let Some((journal, cursor)) = &mut self.journal
            && !self.buffer.is_empty()
        {
            boundary();
            journal.append(cursor, &self.buffer)?;
            boundary();
        }
        self.buffer.clear();
        Ok(())
    }

    /// Writes down what was said so far, for whoever looks at the run. It need not survive a loss of power.
    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        if let Some((journal, cursor)) = &mut self.journal
            && !self.buffer.is_empty()
        {
            journal.append_soon(cursor, &self.buffer)?;
        }
        self.buffer.clear();
        Ok(())
    }

    fn about(&mut self, kind: &'static str, about: About<'_>, data: Value, body: Option<Arc<str>>) {
        let (batch, task, attempt) = about;
        self.push(kind, data, |it| {
            it.batch = Some(Arc::clone(batch));
            it.task = Some(task);
            it.attempt = Some(attempt);
            it.body = body;
        });
    }

    pub(super) fn push(&mut self, kind: &'static str, data: Value, more: impl FnOnce(&mut Entry)) {
        if self.journal.is_none() {
            return;
        }
        let mut entry = Entry {
            at_ms: now_ms(),
            kind: kind.into(),
            batch: None,
            task: None,
            attempt: None,
            data: data.to_string(),
            body: None,
        };
        more(&mut entry);
        self.buffer.push(entry);
    }
}

/// Where the crash tests kill the program: `MOZAIKS_CRASH_AT` counts these places. Built for tests alone.
#[cfg(debug_assertions)]
pub(super) fn boundary() {
    use std::sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    };
    static AT: LazyLock<Option<u64>> =
        LazyLock::new(|| std::env::var("MOZAIKS_CRASH_AT").ok()?.parse().ok());
    static PASSED: AtomicU64 = AtomicU64::new(0);
    if *AT == Some(PASSED.fetch_add(1, Ordering::Relaxed)) {
        // No destructor runs and no buffer is written, as with `kill -9`.
        std::process::abort();
    }
}

#[cfg(not(debug_assertions))]
pub(super) fn boundary() {}

/// A batch, a task by its place in the plan, and the number of an attempt.
pub(super) type About<'a> = (&'a Arc<str>, u32, u32);

/// Notes who failed: another one is asked next, also by whoever goes on with the run.
fn note_asked(data: &mut Value, rejection: &Rejection) {
    if let Some(asked) = &rejection.asked {
        data["provider"] = json!(&*asked.provider);
    }
}

fn misfit(wanted: &str, turn: u32, found: &Step) -> String {
    format!(
        "the journal of this run does not fit its workflow: after what was done, {wanted} is next, but the journal goes on with {} in turn {turn}; start the run anew, or resume it with the files it began with",
        found.describe()
    )
}
