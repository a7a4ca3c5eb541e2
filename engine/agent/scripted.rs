//! Replies that were written down, for tests and examples.
//!
//! A task with replies of its own (`task_id`) takes those, the others take the rest. Within a batch the number of the attempt picks the reply, outside the number of the question, so results never depend on timing. The last reply repeats.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use super::{Agent, Answer, Reply, Request, Usage, capped};
use crate::{
    accept::{Failure, Rejection},
    contract::runtime::{self, ScriptedFailure, ScriptedReply},
};

pub struct Scripted {
    replies: Vec<runtime::Reply>,
    /// How often the agent was asked outside a batch.
    asked: AtomicUsize,
}

impl Scripted {
    pub fn new(replies: Vec<ScriptedReply>) -> Scripted {
        let replies = replies.into_iter().map(|it| match it {
            ScriptedReply::Text(text) => runtime::Reply {
                text: Some(text),
                ..runtime::Reply::default()
            },
            ScriptedReply::Reply(reply) => reply,
        });
        Scripted {
            replies: replies.collect(),
            asked: AtomicUsize::new(0),
        }
    }

    fn reply(&self, request: &Request) -> Option<runtime::Reply> {
        let task = request.task_id.as_deref();
        let is_own = |it: &&runtime::Reply| it.task_id.as_deref() == task && task.is_some();
        let own: Vec<&runtime::Reply> = self.replies.iter().filter(is_own).collect();
        let shared: Vec<&runtime::Reply> = self
            .replies
            .iter()
            .filter(|it| it.task_id.is_none())
            .collect();
        let number = match task {
            Some(_) => request.attempt as usize - 1,
            None => self.asked.fetch_add(1, Ordering::Relaxed),
        };
        let replies = if own.is_empty() { shared } else { own };
        replies
            .get(number)
            .or(replies.last())
            .map(|it| (*it).clone())
    }
}

impl Agent for Scripted {
    fn reads_prompt(&self) -> bool {
        false
    }

    fn ask(&self, request: Request) -> Answer {
        let reply = self.reply(&request);
        Box::pin(async move {
            let Some(reply) = reply else {
                let task: Arc<str> = request.task_id.clone().unwrap_or_default();
                let message = format!("no reply is written down for the task `{task}`");
                return Err(Rejection::new(Failure::NotFound, message));
            };
            if let Some(seconds) = reply.delay_seconds {
                let delay = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
                tokio::time::sleep(delay).await;
            }
            if let Some(failure) = reply.fail {
                return Err(failed(failure));
            }
            let mut text = match (reply.text, reply.json) {
                (Some(text), _) => text,
                (None, Some(json)) => json.to_string(),
                (None, None) => String::new(),
            };
            if let Some(limit) = reply.cut_at {
                let end = (0..=limit.min(text.len()))
                    .rev()
                    .find(|it| text.is_char_boundary(*it));
                text.truncate(end.unwrap_or(0));
            }
            let usage = Usage::default();
            Ok(Reply {
                text: capped(text, &request)?,
                usage,
            })
        })
    }
}

fn failed(failure: ScriptedFailure) -> Rejection {
    let failure = match failure {
        ScriptedFailure::RateLimited => Failure::RateLimited,
        ScriptedFailure::Overloaded => Failure::Overloaded,
        ScriptedFailure::Connection => Failure::Connection,
        ScriptedFailure::Authentication => Failure::Authentication,
        ScriptedFailure::NotFound => Failure::NotFound,
        ScriptedFailure::BadRequest => Failure::BadRequest,
        ScriptedFailure::Refused => Failure::Refused,
        ScriptedFailure::ProgramFailed => Failure::ProgramFailed,
        ScriptedFailure::Panic => panic!("the script says so"),
    };
    Rejection::new(failure, "the script says so")
}
