//! What the author's functions do around an attempt on a task: they rewrite its instruction before, and tools run on its
//! output after.
//!
//! **Invariant:** tools run on an output that nobody else rejects: its files are the task's by then.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use serde_json::Value;
use tokio::sync::{OnceCell, mpsc::UnboundedSender};

use super::{
    tools::{Done, judge},
    work::Performance,
};
use crate::{
    accept::{Failure, Output, Rejection},
    agent::{Request, Usage, Witness},
    context::View,
    event::RunEvent,
    graph::TaskIx,
    ownership::{FilePath, Ledger},
    prompt::cut,
    tool::{Call, Given, MAX_ARGUMENTS, Tool, Tools, Whose},
};

/// What attempts share with those who judge them.
pub(super) type Shared<T> = Arc<Mutex<T>>;

/// A task's instruction as the functions left it, from its first attempt on.
pub(super) type Rewritten = Arc<OnceCell<String>>;

/// What the functions of an attempt need.
pub(super) struct Around {
    tools: Arc<Tools>,
    about: (TaskIx, u32),
    given: Box<dyn Fn() -> Given + Send + Sync>,
    /// Whether it is a task of a DAG.
    is_invoked: bool,
    /// The message to the agent, without what was wrong with its last answer. Nothing: no function rewrites prompts.
    user: Option<String>,
    rewritten: Rewritten,
    said: UnboundedSender<Note>,
    /// What runs on its output, one after the other.
    auto: Vec<Arc<Tool>>,
    ledger: Shared<Ledger>,
    /// The ids of all tasks.
    ids: Arc<[Arc<str>]>,
}

/// What the functions of an attempt have to tell.
pub(super) struct Note {
    about: (TaskIx, u32),
    system: Option<String>,
    /// Why functions were left out, or what tools failed that are provided for.
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
            system: Some(system.clone()),
            faults,
        });
    }

    /// Runs the tools on an output, until one does not take it.
    pub(super) async fn after(
        &self,
        (agent, task_id): (&str, Option<&str>),
        output: &Output,
        witness: &Witness,
    ) -> Result<(), Rejection> {
        if self.auto.is_empty() {
            return Ok(());
        }
        let (ix, attempt) = self.about;
        claim(&mut lock(&self.ledger), (ix, &self.ids), output)?;
        witness.keep(Usage::default()).await;
        let whose = Whose { agent, task_id };
        // Of a task of a DAG it is the data that it made.
        let value = match output.value.get("data").filter(|_| self.is_invoked) {
            Some(data) => data,
            None => &output.value,
        };
        for tool in &self.auto {
            let begun = Instant::now();
            let made = self.tools.run(tool, (whose, value), &(self.given)()).await;
            let done = judge(tool, made);
            witness.calls(Call {
                tool: tool.spec.name.to_string(),
                arguments: cut(&value.to_string(), MAX_ARGUMENTS),
                ok: done.ok,
                result: done.text.clone(),
                printed: done.printed.clone(),
                took: begun.elapsed(),
            });
            if let Some(message) = refusal(tool, &done, attempt) {
                let rejection = Rejection::new(Failure::ToolFailed, message);
                return Err(rejection.with_answer(&output.value.to_string()));
            }
            if let (false, Some(terms)) = (done.ok, &tool.spec.outcome) {
                let (name, outcome) = (&tool.spec.name, done.outcome(terms));
                let fault = format!(
                    "the tool `{name}` failed: {}; that counts as `{outcome}`",
                    done.text
                );
                let _ = self.said.send(Note {
                    about: self.about,
                    system: None,
                    faults: vec![fault],
                });
            }
        }
        Ok(())
    }
}

/// Why a tool does not take an output, if so.
fn refusal(tool: &Tool, done: &Done, attempt: u32) -> Option<String> {
    let (name, said) = (&tool.spec.name, &done.text);
    match &tool.spec.outcome {
        None => (!done.ok).then(|| format!("the tool `{name}` failed: {said}")),
        Some(terms) => {
            let outcome = done.outcome(terms);
            let is_refused = terms.retry_on.iter().any(|it| it.as_str() == outcome);
            (is_refused && attempt < terms.max_attempts)
                .then(|| format!("the tool `{name}` says `{outcome}`: {said}"))
        }
    }
}

/// Gives a task the files of an output, if they can be its.
pub(super) fn claim(
    ledger: &mut Ledger,
    (ix, ids): (TaskIx, &[Arc<str>]),
    output: &Output,
) -> Result<(), Rejection> {
    let paths: Vec<FilePath> = output.files.iter().map(|it| it.path.clone()).collect();
    ledger.claim(ix.at(), &paths).map_err(|violations| {
        let name = |it: usize| ids[it].to_string();
        let messages: Vec<String> = violations.iter().map(|it| it.describe(name)).collect();
        Rejection::new(Failure::OutsideOwnedPaths, messages.join("; "))
            .with_answer(&output.value.to_string())
    })
}

/// Every entry of a ledger is whole before the lock ends.
pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Performance<'_> {
    /// What the author's functions do in an attempt, if they do anything. The prompt is the one of a first attempt.
    pub(super) fn around(&self, about: (TaskIx, u32), request: &Request) -> Option<Around> {
        let (ix, attempt) = about;
        let reads_prompt = self.agents[&*request.agent].reads_prompt();
        let rewrites = reads_prompt && self.tools.rewrites(&request.agent);
        let auto = self.tools.auto(&request.agent);
        (rewrites || !auto.is_empty()).then(|| Around {
            tools: Arc::clone(self.tools),
            about,
            is_invoked: request.invocation.is_some(),
            given: Box::new(self.given(ix, attempt, &request.view)),
            user: rewrites.then(|| request.prompt.user.clone()),
            rewritten: Arc::clone(&self.rewritten[ix.at()]),
            said: self.notes.0.clone(),
            auto,
            ledger: Arc::clone(&self.ledger),
            ids: Arc::clone(&self.ids),
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

    /// A task's agent is told another instruction, or a tool of it failed.
    pub(super) fn noted(&mut self, note: Note) {
        let (ix, attempt) = note.about;
        let about = (&self.batch.id, ix.number(), attempt);
        if let Some(system) = &note.system {
            self.log.rewritten(about, system);
        }
        for message in note.faults {
            let id = &self.plan.tasks()[ix.at()].id;
            let message = format!("task `{id}`: {message}");
            (self.hear)(&RunEvent::Warning { message });
        }
    }
}
