//! Replies that were written down, for tests and examples.
//!
//! A task that has replies of its own (`task_id`) takes those, one a question. The other tasks of a batch take the replies that are for nobody in particular: the first attempt the first, the second attempt the second. Outside a batch each question takes the next of them. The last reply repeats.
//!
//! **Invariant:** within a batch, the order in which tasks ask changes nothing.

use std::{
    collections::BTreeMap,
    fmt::Display,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};

use super::{Agent, Answer, Reply, Request, Usage, capped};
use crate::{
    accept::{Failure, Rejection},
    contract::runtime::{self, ScriptedFailure, ScriptedReply, ScriptedUsage},
    prompt::cut,
};

/// How much is shown of a question that has no reply, in bytes.
const SHOWN: usize = 120;

/// An agent that answers by heart.
#[derive(Debug)]
pub struct Scripted {
    /// The replies for nobody in particular.
    shared: Vec<runtime::Reply>,
    /// By task id. None of the lists is empty.
    own: BTreeMap<String, Vec<runtime::Reply>>,
    /// Where the replies stand, or where they would.
    at: String,
    /// How often was asked so far, by task; outside a batch by nobody.
    asked: Mutex<BTreeMap<Option<String>, usize>>,
}

impl Scripted {
    /// `at` is where the replies stand, for people; without any, where they would.
    pub fn new(replies: &[ScriptedReply], at: impl Display) -> Scripted {
        let mut shared = Vec::new();
        let mut own: BTreeMap<String, Vec<runtime::Reply>> = BTreeMap::new();
        for reply in replies {
            let reply = match reply {
                ScriptedReply::Text(text) => runtime::Reply {
                    text: Some(text.clone()),
                    ..runtime::Reply::default()
                },
                ScriptedReply::Reply(reply) => reply.clone(),
            };
            match &reply.task_id {
                Some(id) => own.entry(id.to_string()).or_default().push(reply),
                None => shared.push(reply),
            }
        }
        Scripted {
            shared,
            own,
            at: at.to_string(),
            asked: Mutex::default(),
        }
    }

    fn reply(&self, request: &Request) -> Option<runtime::Reply> {
        let (replies, number) = match request.task_id.as_deref() {
            None => (&self.shared, self.count(None)),
            Some(task) => match self.own.get(task) {
                Some(replies) => (replies, self.count(Some(task))),
                None => (&self.shared, (request.attempt as usize).saturating_sub(1)),
            },
        };
        replies.get(number).or(replies.last()).cloned()
    }

    /// That a question has no reply, and what to write for it to have one.
    fn nothing_for(&self, request: &Request) -> Rejection {
        let agent = &request.agent;
        let (whom, mut reply) = match &request.task_id {
            Some(task) => (format!("task `{task}`"), json!({ "task_id": task })),
            None => ("outside a batch".to_owned(), json!({})),
        };
        let mut lines = request.prompt.user.lines().map(str::trim);
        let asked = lines.find(|it| !it.is_empty()).unwrap_or_default();
        let asked = cut(asked, SHOWN);
        let shape = request.shape.as_ref();
        match shape.and_then(|it| it.strict_schema().ok()) {
            Some(schema) => reply["json"] = sample(&schema),
            None => reply["text"] = json!("..."),
        }
        let at = &self.at;
        let cure = match self.own.is_empty() {
            true => format!(
                "write `{}: [{reply}]` under `replies`, at {at}",
                json!(agent)
            ),
            false => format!("add `{reply}` to its replies, at {at}"),
        };
        Rejection::new(
            Failure::NotFound,
            format!(
                "no reply of `{agent}` is written down for {whom}, where it is asked `{asked}`; {cure}"
            ),
        )
    }

    /// How often was asked before.
    fn count(&self, task: Option<&str>) -> usize {
        // A number is never half written.
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let count = asked.entry(task.map(str::to_owned)).or_default();
        *count += 1;
        *count - 1
    }
}

impl Agent for Scripted {
    fn reads_prompt(&self) -> bool {
        // Whom there is no reply for is told with what they are asked.
        self.shared.is_empty()
    }

    fn ask(&self, request: Request) -> Answer {
        let reply = self.reply(&request);
        let reply = reply.ok_or_else(|| self.nothing_for(&request));
        Box::pin(async move {
            let reply = reply?;
            if let Some(seconds) = reply.delay_seconds.filter(|it| *it > 0.0) {
                let delay = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
                tokio::time::sleep(delay).await;
            }
            if let Some(failure) = reply.fail {
                let rejection = Rejection::new(failed(failure), "the script says so");
                let usage = used(reply.usage);
                return Err(Rejection { usage, ..rejection });
            }
            let mut text = match (reply.text, reply.json) {
                (Some(text), _) => text,
                (None, Some(json)) => json.to_string(),
                (None, None) => String::new(),
            };
            if let Some(limit) = reply.cut_at {
                text.truncate(text.floor_char_boundary(limit));
            }
            let text = capped(text, &request)?;
            Ok(Reply {
                text,
                usage: used(reply.usage),
                ..Reply::default()
            })
        })
    }
}

/// The least that a strict schema allows, or nearly so: to be filled in by people.
fn sample(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    if let Some(first) = schema["anyOf"].get(0) {
        return sample(first);
    }
    let fields = schema["properties"].as_object();
    match &schema["type"] {
        Value::String(kind) => match &**kind {
            "object" => {
                let fields = fields.into_iter().flatten();
                fields
                    .map(|(name, it)| (name.clone(), sample(it)))
                    .collect()
            }
            "array" => json!([]),
            "string" => json!("..."),
            "integer" | "number" => json!(0),
            "boolean" => json!(false),
            _ => Value::Null,
        },
        _ => Value::Null,
    }
}

fn used(usage: Option<ScriptedUsage>) -> Usage {
    let usage = usage.unwrap_or_default();
    Usage {
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cached_input_tokens: usage.cached_input_tokens,
        ..Usage::default()
    }
}

fn failed(failure: ScriptedFailure) -> Failure {
    match failure {
        ScriptedFailure::RateLimited => Failure::RateLimited,
        ScriptedFailure::Overloaded => Failure::Overloaded,
        ScriptedFailure::Connection => Failure::Connection,
        ScriptedFailure::Authentication => Failure::Authentication,
        ScriptedFailure::NotFound => Failure::NotFound,
        ScriptedFailure::BadRequest => Failure::BadRequest,
        ScriptedFailure::Refused => Failure::Refused,
        ScriptedFailure::ProgramFailed => Failure::ProgramFailed,
        ScriptedFailure::Panic => panic!("the script says so"),
    }
}

#[cfg(test)]
mod tests;
