//! Makes one attempt on a task: question, answer, acceptance.

use std::sync::Arc;

use super::{around::Around, meter::Meter};
use crate::{
    accept::{self, Output, Rejection, Terms},
    agent::{Agent, Request, Usage},
};

/// What an attempt comes back with.
pub(super) struct Answer {
    /// Counted whether the output is accepted or not.
    pub(super) usage: Usage,
    /// The model that answered, if one did.
    pub(super) model: Option<Arc<str>>,
    pub(super) output: Result<Output, Rejection>,
}

impl Answer {
    /// One that nobody was asked for.
    pub(super) fn free(output: Result<Output, Rejection>) -> Answer {
        Answer {
            usage: Usage::default(),
            model: None,
            output,
        }
    }
}

/// One attempt, with all it needs.
pub(super) struct Asking {
    pub(super) request: Request,
    pub(super) terms: Terms,
    pub(super) meter: Arc<Meter>,
    /// Whether the answer is an output already, with its type.
    pub(super) is_output: bool,
    /// What the author's functions do besides.
    pub(super) around: Option<Around>,
}

impl Asking {
    /// Straight on: question, answer, acceptance.
    pub(super) async fn make(mut self, agent: Arc<dyn Agent>) -> Answer {
        // What few attempts need is not part of every one's future, which would be moved about with it.
        if let Some(around) = &self.around {
            Box::pin(around.before(&mut self.request)).await;
        }
        let shape = self.request.shape.clone();
        let invocation = self.request.invocation.clone();
        let (witness, id) = (self.request.witness.clone(), self.request.task_id.clone());
        let mut answer = match self.meter.ask(&*agent, self.request).await {
            Err(rejection) => Answer {
                usage: rejection.usage,
                model: None,
                output: Err(rejection),
            },
            Ok(reply) => Answer {
                usage: reply.usage,
                model: reply.model,
                output: match &invocation {
                    Some(_) if self.is_output => accept::output(&reply.text),
                    Some(it) => accept::data(&reply.text, shape.as_deref(), &it.task.output_type),
                    None => accept::task(&reply.text, shape.as_deref(), &self.terms),
                },
            },
        };
        if let (Some(around), Ok(output)) = (&self.around, &answer.output) {
            let whose = (&*self.terms.agent, id.as_deref());
            if let Err(rejection) = Box::pin(around.after(whose, output, &witness)).await {
                answer.output = Err(rejection);
            }
        }
        answer
    }
}
