//! Answers that count, as a run writes them down.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{About, Log};
use crate::{
    accept::How,
    agent::{Reply, Usage},
    tool::Calls,
};

/// Where an output comes from.
#[derive(Debug, Clone, Default)]
pub(in crate::run) struct Origin {
    /// What equal work has the same of, if the agent's outputs may be taken again.
    pub(in crate::run) key: Option<String>,
    /// The run that the output was taken from, if nobody was asked.
    pub(in crate::run) run: Option<Arc<str>>,
    /// The model that it is of.
    pub(in crate::run) model: Option<Arc<str>>,
    /// How it was read.
    pub(in crate::run) read: Option<How>,
}

impl Log {
    pub(in crate::run) fn answered(
        &mut self,
        turn: u32,
        agent: &str,
        reply: &Reply,
        read: Option<How>,
    ) -> anyhow::Result<()> {
        let mut data = json!({ "turn": turn, "agent": agent, "usage": reply.usage });
        if reply.calls != Calls::default() {
            data["called"] = json!(reply.calls.tools);
            data["set"] = json!(reply.calls.changed);
        }
        came_by(&mut data, reply.model.as_deref(), read);
        let text = reply.text.as_str();
        self.push("answered", data, |it| it.body = Some(text.into()));
        self.commit()
    }

    pub(in crate::run) fn accepted(
        &mut self,
        about: About<'_>,
        output: &str,
        usage: Usage,
        origin: &Origin,
    ) {
        let mut data = json!({});
        if usage != Usage::default() {
            data["usage"] = json!(usage);
        }
        if let Some(key) = &origin.key {
            data["key"] = json!(key);
        }
        if let Some(run) = &origin.run {
            data["reused"] = json!(&**run);
        }
        came_by(&mut data, origin.model.as_deref(), origin.read);
        self.about("accepted", about, data, Some(output.into()));
    }
}

/// Notes which model an answer is of, and how it was read.
fn came_by(data: &mut Value, model: Option<&str>, read: Option<How>) {
    if let Some(model) = model {
        data["model"] = json!(model);
    }
    if let Some(read) = read {
        data["read"] = json!(read.as_str());
    }
}
