//! What is heard of attempts under way: what models call while they are asked is written down, and told; and what they
//! use, in case nothing more is heard.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Hear, Run, log::Log, work::Performance};
use crate::{
    agent::{Kept, Witness, Word},
    context::View,
    event::RunEvent,
    graph::TaskIx,
    journal::Entry,
    tool::{Call, Calls, Toolbox},
};

/// Where attempts are heard, each word with what it is about.
pub(super) struct Ear<T> {
    said: UnboundedSender<(T, Word)>,
    heard: UnboundedReceiver<(T, Word)>,
    /// Of those who wait until what they said is written down.
    kept: Vec<Kept>,
}

impl<T: Copy + Send + Sync + 'static> Ear<T> {
    pub(super) fn new() -> Ear<T> {
        let (said, heard) = unbounded_channel();
        Ear {
            said,
            heard,
            kept: Vec::new(),
        }
    }

    /// One that tells what is about `about`.
    pub(super) fn witness(&self, about: T) -> Witness {
        let said = self.said.clone();
        Witness::new(move |word| {
            // What nobody listens to any more is of no use.
            let _ = said.send((about, word));
        })
    }

    /// Waits for the next word. Nothing is lost if the wait is given up.
    pub(super) async fn next(&mut self) -> (T, Word) {
        match self.heard.recv().await {
            Some(heard) => heard,
            None => std::future::pending().await,
        }
    }

    /// What was heard by now.
    pub(super) fn try_next(&mut self) -> Option<(T, Word)> {
        self.heard.try_recv().ok()
    }

    /// What was taken in is written down: whoever waits for that goes on.
    pub(super) fn has_kept(&mut self) {
        self.kept.clear();
    }
}

impl Run<'_> {
    /// The model of an agent outside a batch called a tool, or uses something.
    pub(super) fn heard(
        &mut self,
        agent: &Arc<str>,
        attempt: u32,
        word: Word,
        hear: Hear<'_>,
    ) -> anyhow::Result<()> {
        let mut data = json!({ "turn": self.turn, "agent": agent });
        let call = match word {
            Word::Used(usage, _kept) => {
                data["usage"] = json!(usage);
                self.log
                    .push("using", data, |it| it.attempt = Some(attempt));
                return self.log.flush();
            }
            Word::Called(call) => call,
        };
        self.log.call(&call, data, |it| it.attempt = Some(attempt));
        self.log.flush()?;
        hear(&RunEvent::ToolCalled {
            turn: Some(self.turn),
            batch: None,
            task: None,
            agent: Arc::clone(agent),
            attempt,
            ms: call.took.as_millis() as u64,
            tool: call.tool,
            ok: call.ok,
            printed: call.printed,
        });
        Ok(())
    }

    /// An answer counts: what the calls for it set is set now.
    pub(super) fn take_calls(&mut self, agent: &str, calls: Calls, hear: Hear<'_>) {
        for (variable, value) in calls.changed {
            let writer = match calls.tools.as_slice() {
                [one] => format!("the tool `{one}` of `{agent}`"),
                several => format!("one of the tools `{}` of `{agent}`", several.join("`, `")),
            };
            self.set(&writer, (&variable, value), hear);
        }
        self.called.extend(calls.tools);
    }
}

impl Performance<'_> {
    /// What a task's model may call. The tools are given the variables of the run, and the task.
    pub(super) fn toolbox(&self, ix: TaskIx, attempt: u32, view: &View) -> Option<Arc<Toolbox>> {
        let task = &self.plan.tasks()[ix.at()];
        // Most agents have no tools, and there are many tasks.
        if !self.tools.has_bound(&task.agent) {
            return None;
        }
        let given = self.given(ix, attempt, view);
        self.tools.toolbox(&task.agent, given)
    }

    /// The model of a task called a tool, or uses something.
    pub(super) fn heard(&mut self, (ix, attempt): (TaskIx, u32), word: Word) {
        let task = &self.plan.tasks()[ix.at()];
        let batch = &self.batch.id;
        let call = match word {
            Word::Used(usage, kept) => {
                self.log.using((batch, ix.number(), attempt), usage);
                return self.ear.kept.push(kept);
            }
            Word::Called(call) => call,
        };
        self.log.call(&call, json!({ "agent": task.agent }), |it| {
            it.batch = Some(Arc::clone(batch));
            it.task = Some(ix.number());
            it.attempt = Some(attempt);
        });
        (self.hear)(&RunEvent::ToolCalled {
            turn: None,
            batch: Some(Arc::clone(batch)),
            task: Some(Arc::clone(&task.id)),
            agent: Arc::clone(&task.agent),
            attempt,
            ms: call.took.as_millis() as u64,
            tool: call.tool,
            ok: call.ok,
            printed: call.printed,
        });
    }

    /// Takes in what was heard by now, which is before the end of whatever ends now.
    pub(super) fn hear_all(&mut self) {
        while let Some((about, word)) = self.ear.try_next() {
            self.heard(about, word);
        }
        while let Ok(note) = self.notes.1.try_recv() {
            self.noted(note);
        }
    }
}

impl Log {
    /// A model called a tool while it was asked.
    pub(super) fn call(&mut self, call: &Call, mut data: Value, more: impl FnOnce(&mut Entry)) {
        data["tool"] = json!(call.tool);
        data["ok"] = json!(call.ok);
        data["ms"] = json!(call.took.as_millis() as u64);
        let mut body = json!({ "arguments": call.arguments, "result": call.result });
        if !call.printed.is_empty() {
            body["printed"] = json!(call.printed);
        }
        self.push("called", data, |it| {
            it.body = Some(body.to_string().into());
            more(it);
        });
    }
}
