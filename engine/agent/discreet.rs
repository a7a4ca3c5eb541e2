//! An agent that tells no keys.

use std::{mem, sync::Arc};

use super::{Agent, Agents, Answer, Closing, Ready, Reply, Request};
use crate::{accept::Rejection, endpoint::Secrets};

/// An agent whose answers may quote what it was given to know, a key among it.
struct Discreet {
    agent: Arc<dyn Agent>,
    secrets: Arc<Secrets>,
}

/// The agents, with these hidden in whatever they say.
pub(super) fn all(agents: Agents, secrets: Secrets) -> Agents {
    if secrets.is_empty() {
        return agents;
    }
    let secrets = Arc::new(secrets);
    let discreet = |agent| -> Arc<dyn Agent> {
        let secrets = Arc::clone(&secrets);
        Arc::new(Discreet { agent, secrets })
    };
    let agents = agents.into_iter();
    agents.map(|(name, it)| (name, discreet(it))).collect()
}

impl Agent for Discreet {
    fn ask(&self, request: Request) -> Answer {
        let answer = self.agent.ask(request);
        let secrets = Arc::clone(&self.secrets);
        Box::pin(async move {
            match answer.await {
                Ok(reply) => Ok(without(reply, &secrets)),
                Err(rejection) => Err(said_without(rejection, &secrets)),
            }
        })
    }

    fn identity(&self) -> Vec<u8> {
        self.agent.identity()
    }

    fn model(&self) -> Option<&str> {
        self.agent.model()
    }

    fn asks_leave(&self) -> bool {
        self.agent.asks_leave()
    }

    fn is_replayed(&self) -> bool {
        self.agent.is_replayed()
    }

    fn reads_prompt(&self) -> bool {
        self.agent.reads_prompt()
    }

    fn is_timed(&self) -> bool {
        self.agent.is_timed()
    }

    fn reads_files(&self) -> bool {
        self.agent.reads_files()
    }

    fn takes_chunks(&self) -> Ready {
        self.agent.takes_chunks()
    }

    fn close(&self) -> Closing {
        self.agent.close()
    }
}

fn without(mut reply: Reply, secrets: &Secrets) -> Reply {
    reply.text = secrets.hide_in_answer(reply.text);
    secrets.hide_in_fields(&mut reply.calls.changed);
    reply
}

fn said_without(mut rejection: Rejection, secrets: &Secrets) -> Rejection {
    rejection.message = secrets.hide_in_answer(mem::take(&mut rejection.message));
    let answer = rejection.answer.take();
    rejection.answer = answer.map(|it| secrets.hide_in_answer(it.to_string()).into());
    rejection
}
