//! Makes one attempt on a task: question, answer, acceptance.

use std::sync::Arc;

use super::meter::Meter;
use crate::{
    accept::{self, Output, Rejection, Terms},
    agent::{Agent, Request, Usage},
};

/// What an attempt comes back with: the usage is counted whether the output is accepted or not.
pub(super) type Answer = (Usage, Result<Output, Rejection>);

/// One attempt, with all it needs.
pub(super) struct Asking {
    pub(super) request: Request,
    pub(super) terms: Terms,
    pub(super) meter: Arc<Meter>,
}

impl Asking {
    /// Straight on: question, answer, acceptance.
    pub(super) async fn make(self, agent: Arc<dyn Agent>) -> Answer {
        let shape = self.request.shape.clone();
        match self.meter.ask(&*agent, self.request).await {
            Err(rejection) => (rejection.usage, Err(rejection)),
            Ok(reply) => {
                let output = accept::task(&reply.text, shape.as_deref(), &self.terms);
                (reply.usage, output)
            }
        }
    }
}
