//! What the author's functions do around an attempt on a task: they rewrite its instruction before.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{OnceCell, mpsc::UnboundedSender};

use super::work::Performance;
use crate::{
    agent::Request,
    context::View,
    event::RunEvent,
    graph::TaskIx,
    tool::{Given, Tools, Whose},
};

/// A task's instruction as the functions left it, from its first attempt on.
pub(super) type Rewritten = Arc<OnceCell<String>>;

/// What the functions of an attempt need.
pub(super) struct Around {
    tools: Arc<Tools>,
    about: (TaskIx, u32),
    given: Box<dyn Fn() -> Given + Send + Sync>,
    /// The message to the agent, without what was wrong with its last answer. Nothing: no function rewrites prompts.
    user: Option<String>,
    rewritten: Rewritten,
    said: UnboundedSender<Note>,
}

/// An attempt's agent is told another instruction.
pub(super) struct Note {
    about: (TaskIx, u32),
    system: String,
    /// Why functions were left out.
    faults: Vec<String>,
}

impl Around {
    /// Lets functions rewrite the prompt, as they did for the attempt before if there was one.
    pub(super) async fn before(&self, request: &mut Request) {
        let Some(user) = &self.user else { return };
        let whose = Whose {
            agent: &request.agent,
            task_id: request.task_id.as_deref(),
        };
        let mut faults = Vec::new();
        let rewrite = async {
            let told = (request.prompt.system.clone(), &**user);
            let (system, left_out) = self.tools.rewrite(whose, told, &self.given).await;
            faults = left_out;
            system
        };
        let system = self.rewritten.get_or_init(|| rewrite).await;
        request.prompt.system.clone_from(system);
        // What nobody listens to any more is of no use.
        let _ = self.said.send(Note {
            about: self.about,
            system: system.clone(),
            faults,
        });
    }
}

impl Performance<'_> {
    /// What the author's functions do in an attempt, if they do anything. The prompt is the one of a first attempt.
    pub(super) fn around(&self, about: (TaskIx, u32), request: &Request) -> Option<Around> {
        let (ix, attempt) = about;
        let reads_prompt = self.agents[&*request.agent].reads_prompt();
        let rewrites = reads_prompt && self.tools.rewrites(&request.agent);
        rewrites.then(|| Around {
            tools: Arc::clone(self.tools),
            about,
            given: Box::new(self.given(ix, attempt, &request.view)),
            user: rewrites.then(|| request.prompt.user.clone()),
            rewritten: Arc::clone(&self.rewritten[ix.at()]),
            said: self.notes.0.clone(),
        })
    }

    /// What the functions of a task are given: the variables of the run, and the task.
    pub(super) fn given(
        &self,
        ix: TaskIx,
        attempt: u32,
        view: &View,
    ) -> impl Fn() -> Given + Send + Sync + use<> {
        let task = &self.plan.tasks()[ix.at()];
        let view = view.seen_by_tools();
        let runtime = [
            ("agent", Value::from(&*task.agent)),
            ("workflow_name", Value::from(self.workflow)),
            ("run_id", Value::from(&*self.run)),
            ("batch_id", Value::from(&*self.batch.id)),
            ("task_id", Value::from(&*task.id)),
            ("attempt", Value::from(attempt)),
        ];
        let runtime = runtime.map(|(name, it)| (name.to_owned(), it));
        move || {
            let value = |it: &str| Some((it.to_owned(), view.get(it)?.into_owned()));
            Given {
                variables: view.names().into_iter().filter_map(value).collect(),
                runtime: runtime.iter().cloned().collect(),
            }
        }
    }

    /// A task's agent is told another instruction.
    pub(super) fn noted(&mut self, note: Note) {
        let (ix, attempt) = note.about;
        let about = (&self.batch.id, ix.number(), attempt);
        self.log.rewritten(about, &note.system);
        for message in note.faults {
            let id = &self.plan.tasks()[ix.at()].id;
            let message = format!("task `{id}`: {message}");
            (self.hear)(&RunEvent::Warning { message });
        }
    }
}
