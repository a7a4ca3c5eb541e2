//! A model behind an OpenAI-compatible endpoint: chat completions, or responses.
//!
//! **Invariant:** the key is in the request's header and nowhere else: in no message, error or event.
//! **Invariant:** whether to try again is the engine's decision. The client's own retries are off.

use std::sync::Arc;

use super::{Agent, Answer, Request, build::BuildError, env::Env};

mod answer;
mod chat;
pub(super) mod http;
mod known;
mod later;
mod meaning;
mod model;
mod responses;
mod stream;
mod talk;

pub use known::Known;
use model::Model;
pub use model::{OPENAI_KEY, Settings};

/// A model that can be asked.
pub struct OpenAi {
    /// The first is asked; the others stand in for those before them.
    models: Arc<[Model]>,
}

impl OpenAi {
    /// # Errors
    /// There is no model or no key, or the endpoint's address cannot be used.
    pub fn new(settings: &[Settings<'_>], env: &Env, known: &Known) -> Result<OpenAi, BuildError> {
        let models = settings.iter().map(|it| Model::new(it, env, known));
        let models = models.collect::<Result<_, _>>()?;
        Ok(OpenAi { models })
    }
}

impl Agent for OpenAi {
    fn identity(&self) -> Vec<u8> {
        let all: Vec<String> = self.models.iter().map(Model::identity).collect();
        all.join("\n").into_bytes()
    }

    fn asks_leave(&self) -> bool {
        true
    }

    fn model(&self) -> Option<&str> {
        self.models.first().map(|it| &*it.name)
    }

    fn ask(&self, request: Request) -> Answer {
        let models = Arc::clone(&self.models);
        Box::pin(async move { talk::hold(&models, &request).await })
    }
}

#[cfg(test)]
mod tests;
