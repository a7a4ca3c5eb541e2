//! Replies that were written down, for tests and examples.
//!
//! A task that has replies of its own (`task_id`) takes those, one a question. The other tasks of a batch take the replies that are for nobody in particular: the first attempt the first, the second attempt the second. Outside a batch each question takes the next of them. The last reply repeats.
//!
//! **Invariant:** within a batch, the order in which tasks ask changes nothing.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use super::{Agent, Answer, Reply, Request, Usage, capped};
use crate::{
    accept::{Failure, Rejection},
    contract::runtime::{self, ScriptedFailure, ScriptedReply, ScriptedUsage},
};

/// An agent that answers by heart.
#[derive(Debug)]
pub struct Scripted {
    /// The replies for nobody in particular.
    shared: Vec<runtime::Reply>,
    /// By task id. None of the lists is empty.
    own: BTreeMap<String, Vec<runtime::Reply>>,
    /// How often was asked so far, by task; outside a batch by nobody.
    asked: Mutex<BTreeMap<Option<String>, usize>>,
}

impl Scripted {
    pub fn new(replies: &[ScriptedReply]) -> Scripted {
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
        false
    }

    fn ask(&self, request: Request) -> Answer {
        let reply = self.reply(&request);
        Box::pin(async move {
            let reply = reply.ok_or_else(|| nothing_for(&request))?;
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

fn nothing_for(request: &Request) -> Rejection {
    let message = match &request.task_id {
        Some(task) => format!("no reply is written down for the task `{task}`"),
        None => "no reply is written down for outside a batch".to_owned(),
    };
    Rejection::new(Failure::NotFound, message)
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
