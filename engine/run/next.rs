//! Who speaks next, and what ends a run instead.

use std::sync::Arc;

use super::{Hear, Run, Status, Stop};
use crate::{
    accept::Rejection,
    compile::{USER, transitions::Next},
    event::RunEvent,
};

impl Run<'_> {
    /// Who speaks after a turn whose batches ended so. A person without a rule speaks to whoever spoke before.
    pub(super) fn after(
        &mut self,
        agent: &str,
        before: &Arc<str>,
        worst: Option<Status>,
        hear: Hear<'_>,
    ) -> Result<Arc<str>, Stop> {
        let why = self.why().map_or_else(String::new, |it| format!(": {it}"));
        let unhandled = worst.filter(|it| *it != Status::Completed);
        if worst == Some(Status::Failed)
            && !self
                .workflow
                .transitions
                .has_condition(agent, &self.context, &self.called)
        {
            return Err(Stop::Failed(format!(
                "a batch of `{agent}` failed{why}; no transition of `{agent}` has a condition that holds then"
            )));
        }
        match (self.next(agent, hear), unhandled) {
            (Next::Agent(name), _) => Ok(name),
            (Next::Complete, _) => Err(Stop::Complete),
            (Next::Failed, _) => Err(Stop::Failed(format!(
                "a transition of `{agent}` ends the run as failed"
            ))),
            (Next::User, _) => Ok(USER.into()),
            (Next::NoRule, _) if agent == USER => Ok(Arc::clone(before)),
            (Next::NoRule, Some(status)) => Err(Stop::Failed(format!(
                "a batch of `{agent}` ended as `{}`{why}; no transition of `{agent}` handles that",
                status.as_str()
            ))),
            (Next::NoRule, None) => Err(Stop::Failed(format!("no transition of `{agent}` holds"))),
        }
    }

    fn next(&self, agent: &str, hear: Hear<'_>) -> Next {
        let transitions = &self.workflow.transitions;
        let (next, warnings) = transitions.next(agent, &self.context, &self.called);
        for message in warnings {
            hear(&RunEvent::Warning { message });
        }
        next
    }

    /// Who speaks first, where it is the transitions from `user` that say so.
    pub(super) fn after_user(&self, hear: Hear<'_>) -> Result<Arc<str>, Stop> {
        match self.next(USER, hear) {
            Next::Agent(name) => Ok(name),
            _ => {
                let message = "no transition leads from `user` to an agent";
                Err(Stop::Failed(message.to_owned()))
            }
        }
    }

    /// Somebody has to answer, and did not: the run waits for them, unless it was told to stop.
    pub(super) fn waits(&self, rejection: Rejection) -> Stop {
        match self.cancel.is_cancelled() {
            true => Stop::Cancelled,
            false => Stop::Waiting(rejection.message),
        }
    }
}
