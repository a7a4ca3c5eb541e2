//! How a run ends, and what is left to do then.

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;

use super::{Hear, Run, Spoken, Status, Stop};
use crate::{
    accept::Output,
    agent::Usage,
    context::{Context, Json},
    contract::tools::LifecycleTrigger,
    diagnostic::Diagnostic,
    event::RunEvent,
};

/// How a run ended.
#[derive(Debug)]
pub struct Ending {
    pub status: Status,
    /// Why, where the status alone does not say.
    pub reason: Option<String>,
    /// What is wrong with the plan, if that is what ended the run.
    pub faults: Vec<Diagnostic>,
    pub context: Context,
    pub turns: u32,
    pub usage: Usage,
    /// Of that, what each agent used.
    pub used_by: BTreeMap<Arc<str>, Usage>,
    /// The files that were written, relative to the artifact folder, in order.
    pub files: Vec<String>,
    /// What the agent that spoke last answered.
    pub answer: Option<Json>,
    /// The text of that, where the agent speaks to people and what it said was read as JSON.
    pub text: Option<String>,
    /// The status of each batch that ran.
    pub batches: BTreeMap<String, Status>,
    /// The tools that failed without failing the run, one after the other.
    pub failed_tools: Vec<FailedTool>,
}

/// A tool that failed, and whose author said what is to come of that.
#[derive(Debug, Clone, Serialize)]
pub struct FailedTool {
    pub turn: u32,
    pub agent: Arc<str>,
    pub tool: Arc<str>,
    pub message: String,
    pub outcome: String,
}

impl Run<'_> {
    /// Counts what an agent used.
    pub(super) fn count(&mut self, agent: &Arc<str>, used: Usage) {
        self.usage.add(used);
        if used != Usage::default() {
            self.used_by.entry(Arc::clone(agent)).or_default().add(used);
        }
    }

    /// What an agent said that answers with texts, if that is JSON by chance and no files.
    pub(super) fn text_for_people(&self, agent: &str, spoken: &Spoken) -> Option<String> {
        let speaks_texts = self.workflow.agents[agent].speaks_texts();
        if spoken.read.is_none() || !speaks_texts {
            return None;
        }
        let files = Output::files_of(&spoken.value.value(), usize::MAX);
        let has_files = files.is_ok_and(|it| !it.is_empty());
        (!has_files).then(|| spoken.text.clone())
    }

    /// Runs what is to run at the end, which changes nothing about it. A run that was stopped has not ended.
    pub(super) async fn end(&mut self, status: Status, hear: Hear<'_>) -> anyhow::Result<()> {
        let how = match status {
            it if it.can_go_on() => return Ok(()),
            Status::Failed | Status::InvalidPlan => LifecycleTrigger::OnFail,
            _ => LifecycleTrigger::OnComplete,
        };
        for trigger in [LifecycleTrigger::AfterChat, how] {
            match self.at(trigger, None, hear).await {
                Err(Stop::Broken(error)) => return Err(error),
                Err(Stop::Failed(message)) => hear(&RunEvent::Warning { message }),
                _ => (),
            }
        }
        Ok(())
    }

    /// Keeps what went wrong in a batch, until the batch runs again.
    pub(super) fn note_why(&mut self, batch: &Arc<str>, why: Option<String>) {
        match why {
            Some(why) => self.why.insert(batch.to_string(), why),
            None => self.why.remove(&**batch),
        };
    }

    /// What went wrong in the batch that ended worst.
    pub(super) fn why(&self) -> Option<&str> {
        let worst = self.batches.iter().max_by_key(|it| it.1)?;
        self.why.get(worst.0).map(String::as_str)
    }

    /// The status of the whole run: that of its worst batch, unless something else ended it.
    pub(super) fn judge(
        &self,
        stop: Stop,
    ) -> anyhow::Result<(Status, Option<String>, Vec<Diagnostic>)> {
        let worst = self
            .batches
            .values()
            .copied()
            .max()
            .unwrap_or(Status::Completed);
        Ok(match stop {
            Stop::Broken(error) => return Err(error),
            Stop::Complete => (worst, self.why().map(str::to_owned), Vec::new()),
            Stop::Failed(reason) => {
                let status = match worst {
                    Status::Partial | Status::CompletedWithErrors
                        if reason.contains("no transition") =>
                    {
                        worst
                    }
                    _ => Status::Failed,
                };
                (status, Some(reason), Vec::new())
            }
            Stop::BadPlan {
                batch,
                faults,
                is_same,
            } => {
                let again = match is_same {
                    true => ": its planner was asked again, and answered the same",
                    false => "",
                };
                let reason = format!(
                    "the plan of batch `{batch}` was refused, and nothing of it started{again}"
                );
                (Status::InvalidPlan, Some(reason), faults)
            }
            Stop::Cancelled => (
                Status::Cancelled,
                Some("the run was told to stop".to_owned()),
                Vec::new(),
            ),
            Stop::Deadline(reason) => (Status::Deadline, Some(reason), Vec::new()),
            Stop::Budget(reason) => (Status::Budget, Some(reason), Vec::new()),
            Stop::Waiting(reason) => (Status::Waiting, Some(reason), Vec::new()),
        })
    }
}
