//! Makes one attempt on a task: prompt, question, answer, acceptance.

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;

use crate::{
    accept::{self, Failure, Output, Rejection, Terms},
    agent::{Agent, Request, Usage},
    context::View,
    prompt,
};

/// What an attempt comes back with: the usage is counted whether the output is accepted or not.
pub(super) type Answer = (Usage, Result<Output, Rejection>);

/// One attempt, with all it needs.
pub(super) struct Asking {
    pub(super) run: Arc<str>,
    pub(super) terms: Terms,
    pub(super) attempt: u32,
    pub(super) instruction: Arc<str>,
    pub(super) text: Arc<str>,
    pub(super) shape: Option<Arc<crate::shape::Shape>>,
    /// What was wrong with the attempt before.
    pub(super) last: Option<Rejection>,
    pub(super) timeout: Duration,
    pub(super) max_output_bytes: usize,
}

impl Asking {
    /// Straight on: prompt, question, answer, acceptance.
    pub(super) async fn make(self, agent: Arc<dyn Agent>, view: View) -> Answer {
        let mut prompt = match agent.reads_prompt() {
            true => prompt::task(&self.instruction, &self.text, &view),
            false => prompt::Prompt::default(),
        };
        if let Some(last) = self.last.filter(|it| it.failure.is_about_the_answer()) {
            prompt = prompt::after(&prompt, &last);
        }
        let batch_id = view
            .task()
            .map(|it| Arc::clone(&it.batch_id))
            .unwrap_or_default();
        let request = Request {
            agent: Arc::clone(&self.terms.agent),
            task_id: Some(Arc::clone(&self.terms.task_id)),
            attempt: self.attempt,
            idempotency_key: format!(
                "{}/{batch_id}/{}/{}",
                self.run, self.terms.task_id, self.attempt
            ),
            prompt,
            view,
            shape: self.shape.clone(),
            max_output_bytes: self.max_output_bytes,
        };
        match timeout(self.timeout, agent.ask(request)).await {
            Err(_) => {
                let message = format!("no answer within {} seconds", self.timeout.as_secs());
                (
                    Usage::default(),
                    Err(Rejection::new(Failure::Timeout, message)),
                )
            }
            Ok(Err(rejection)) => (rejection.usage, Err(rejection)),
            Ok(Ok(reply)) => {
                let output = accept::task(&reply.text, self.shape.as_deref(), &self.terms);
                (reply.usage, output)
            }
        }
    }
}
