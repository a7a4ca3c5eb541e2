//! Performs one batch: the attempts of its tasks, what is accepted of them, and what is published.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use serde_json::json;
use tokio::time::timeout;

use super::{
    Hear, Run, Status, Stop,
    drive::{self, Ended, Limits, Verdict, Work},
    results::{self, Fate},
    store::Store,
};
use crate::{
    accept::{self, EmittedFile, Failure, Output, Rejection, Terms},
    agent::{Agent, Request, Usage},
    compile::{AgentSpec, Batch},
    context::{Json, Outputs, TaskFiles, TaskView, View},
    event::{RunEvent, TaskEnd},
    graph::TaskIx,
    ownership::{FilePath, Ledger, Require},
    plan::{Plan, Task},
    prompt,
    schedule::{Command, End, Retry},
};

impl Run<'_> {
    /// Runs a plan. Gives what goes under the context key, the status, and why the run cannot go on, if it cannot.
    pub(super) async fn batch(
        &mut self,
        batch: &Batch,
        plan: Plan,
        hear: Hear<'_>,
    ) -> anyhow::Result<(Json, Status, Option<Stop>)> {
        hear(&RunEvent::BatchStarted {
            batch: Arc::clone(&batch.id),
            tasks: plan.tasks().len(),
            concurrency: batch.policy.concurrency,
        });
        let ids = plan.tasks().iter().map(|it| Arc::clone(&it.id)).collect();
        let files = self.files(batch, &plan)?;
        let n_tasks = plan.tasks().len();
        let mut work = Performance {
            batch,
            ledger: Ledger::new(plan.claims()),
            outputs: Arc::new(Outputs::new(ids)),
            completed: 0,
            fates: vec![Fate::default(); n_tasks],
            used: vec![Usage::default(); n_tasks],
            n_files: vec![0; n_tasks],
            files,
            broken: None,
            hear,
            plan,
            run: self.id.clone(),
            view: self.context.view(&crate::context::Sees::All),
            max_output_bytes: self.workflow.limits.max_output_bytes,
            max_file_bytes: self.workflow.limits.max_file_bytes,
            specs: &self.workflow.agents,
            agents: self.agents,
            store: &mut self.store,
        };
        let graph = work.plan.graph().clone();
        let driven = drive::Batch {
            graph: &graph,
            policy: &batch.policy,
            limits: Limits {
                deadline: batch.deadline,
                seed: fastrand::u64(..),
            },
        };
        drive::drive(driven, &mut work, self.cancel.cancelled()).await;
        if let Some(error) = work.broken.take() {
            return Err(error);
        }
        let status = results::status(batch, &work.fates);
        let results = results::merge(batch, &work.plan, &work.outputs, &work.fates);
        let count = |wanted: fn(&End) -> bool| {
            work.fates
                .iter()
                .filter_map(|it| it.end.as_ref())
                .filter(|it| wanted(it))
                .count()
        };
        (work.hear)(&RunEvent::BatchEnded {
            batch: Arc::clone(&batch.id),
            status: results::word(status),
            completed: count(|it| *it == End::Completed),
            failed: count(|it| *it == End::Failed),
            cancelled: count(|it| matches!(it, End::Cancelled(_))),
        });
        for used in &work.used {
            self.usage.add(*used);
        }
        let stop = match status {
            Status::Cancelled => Some(Stop::Cancelled),
            Status::Deadline => {
                let seconds = batch.deadline.unwrap_or_default().as_secs();
                Some(Stop::Deadline(format!(
                    "batch `{}` was not done within {seconds} seconds",
                    batch.id
                )))
            }
            _ => None,
        };
        let status = match stop {
            Some(_) => Status::Failed,
            None => status,
        };
        Ok((results, status, stop))
    }

    /// What programs read instead of finding it in their request, if any agent of the plan is one.
    fn files(&self, batch: &Batch, plan: &Plan) -> anyhow::Result<Option<HandedOut>> {
        let reads = |it: &Task| self.agents[&*it.agent].reads_files();
        if !plan.tasks().iter().any(reads) {
            return Ok(None);
        }
        // A batch id is any text, so it cannot name a folder.
        let number = self
            .workflow
            .batches
            .iter()
            .position(|it| it.id == batch.id)
            .unwrap_or_default();
        let folder = self
            .store
            .beside(&format!("batches/{}-turn-{}", number + 1, self.turn));
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make `{}`", folder.display()))?;
        let folder = fs::canonicalize(&folder)
            .with_context(|| format!("cannot find `{}`", folder.display()))?;
        let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let named = TaskFiles {
            plan: path("decomposition_plan.json"),
            outputs: path("completed_task_outputs.ndjson"),
        };
        fs::write(&named.plan, plan.decomposition().text())
            .with_context(|| format!("cannot write `{}`", named.plan))?;
        let outputs = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .open(&named.outputs);
        let outputs = outputs.with_context(|| format!("cannot write `{}`", named.outputs))?;
        let named = Arc::new(named);
        Ok(Some(HandedOut { named, outputs }))
    }
}

/// Files for programs, one of which grows with every output.
struct HandedOut {
    named: Arc<TaskFiles>,
    outputs: File,
}

/// A batch under way.
struct Performance<'a> {
    run: Arc<str>,
    batch: &'a Batch,
    plan: Plan,
    specs: &'a std::collections::BTreeMap<String, AgentSpec>,
    agents: &'a crate::agent::Agents,
    /// The context as it was when the batch began.
    view: View,
    outputs: Arc<Outputs>,
    completed: usize,
    ledger: Ledger,
    store: &'a mut Store,
    fates: Vec<Fate>,
    used: Vec<Usage>,
    n_files: Vec<usize>,
    files: Option<HandedOut>,
    /// The world failed. No more is accepted, and the run ends with it.
    broken: Option<anyhow::Error>,
    max_output_bytes: usize,
    max_file_bytes: usize,
    hear: Hear<'a>,
}

/// What an attempt comes back with: the usage is counted whether the output is accepted or not.
type Answer = (Usage, Result<Output, Rejection>);

impl Work for Performance<'_> {
    type Answer = Answer;

    fn attempt(
        &mut self,
        ix: TaskIx,
        attempt: u32,
    ) -> impl Future<Output = Answer> + Send + 'static {
        let task = &self.plan.tasks()[ix.at()];
        let spec = &self.specs[&*task.agent];
        let agent = Arc::clone(&self.agents[&*task.agent]);
        self.fates[ix.at()].attempts = attempt;
        let view = self.view.seen_by(&spec.sees).in_task(TaskView {
            batch_id: Arc::clone(&self.batch.id),
            task_id: Arc::clone(&task.id),
            ix: ix.at(),
            own: task.own.clone(),
            plan: Arc::clone(self.plan.decomposition()),
            dependencies: self
                .plan
                .graph()
                .needs(ix)
                .iter()
                .map(|it| it.at())
                .collect(),
            outputs: Arc::clone(&self.outputs),
            completed: self.completed,
            context_key: Arc::clone(&self.batch.context_key),
            status_key: Arc::clone(&self.batch.status_key),
            files: self.files.as_ref().map(|it| Arc::clone(&it.named)),
        });
        let asking = Asking {
            terms: self.terms(task),
            run: Arc::clone(&self.run),
            attempt,
            instruction: Arc::clone(&spec.instruction),
            text: Arc::clone(&task.prompt),
            shape: spec.shape.clone(),
            last: self.fates[ix.at()].rejection.as_deref().cloned(),
            timeout: self.batch.timeout,
            max_output_bytes: self.max_output_bytes,
        };
        asking.make(agent, view)
    }

    fn judge(&mut self, ix: TaskIx, attempt: u32, answer: Ended<Answer>) -> Verdict {
        let outcome = match answer {
            Ended::Answered((usage, outcome)) => {
                self.used[ix.at()].add(usage);
                outcome
            }
            Ended::Panicked(message) => {
                let message = format!("the attempt broke inside the engine: {message}");
                Err(Rejection::new(Failure::Internal, message))
            }
        };
        debug_assert_eq!(self.fates[ix.at()].attempts, attempt);
        match outcome.and_then(|output| self.take(ix, output)) {
            Ok(()) => Verdict::Accepted,
            Err(rejection) => Verdict::Rejected(self.reject(ix, rejection)),
        }
    }

    fn observe(&mut self, command: &Command, wait: Option<Duration>) {
        let event = match *command {
            Command::Start { task, attempt } => {
                let task = &self.plan.tasks()[task.at()];
                RunEvent::TaskStarted {
                    batch: Arc::clone(&self.batch.id),
                    task: Arc::clone(&task.id),
                    agent: Arc::clone(&task.agent),
                    attempt,
                }
            }
            Command::Delay { task, .. } => {
                let fate = &self.fates[task.at()];
                let rejection = fate.rejection.as_ref();
                RunEvent::AttemptRejected {
                    batch: Arc::clone(&self.batch.id),
                    task: Arc::clone(&self.plan.tasks()[task.at()].id),
                    attempt: fate.attempts,
                    failure: rejection.map_or("internal", |it| it.failure.as_str()),
                    message: rejection.map(|it| it.message.clone()).unwrap_or_default(),
                    retry_in_ms: wait.map(|it| it.as_millis() as u64),
                }
            }
            Command::Drop { .. } => return,
            Command::Settle { task, end } => {
                self.fates[task.at()].end = Some(end);
                self.ended(task, end)
            }
        };
        (self.hear)(&event);
    }
}

impl Performance<'_> {
    fn terms(&self, task: &Task) -> Terms {
        Terms {
            task_id: Arc::clone(&task.id),
            agent: Arc::clone(&task.agent),
            kind: task.kind.clone(),
            owned: Arc::clone(&task.owned),
            owned_as_written: task.owned_as_written.clone(),
            require: match self.batch.require_owned_paths {
                true => Require::Declared,
                false => Require::Nothing,
            },
            max_file_bytes: self.max_file_bytes,
        }
    }

    /// Takes an output in: its files get owners and are written, and it is there for whoever needs it.
    fn take(&mut self, ix: TaskIx, output: Output) -> Result<(), Rejection> {
        let paths: Vec<FilePath> = output.files.iter().map(|it| it.path.clone()).collect();
        let plan = &self.plan;
        self.ledger.claim(ix.at(), &paths).map_err(|violations| {
            let name = |it: usize| plan.tasks()[it].id.to_string();
            let messages: Vec<String> = violations.iter().map(|it| it.describe(name)).collect();
            Rejection::new(Failure::OutsideOwnedPaths, messages.join("; "))
                .with_answer(&output.value.to_string())
        })?;
        let value = Json::written(&output.value);
        if let Err(error) = self.write(ix, &output.files, &value) {
            let message = format!("{error:#}");
            self.broken.get_or_insert(error);
            return Err(Rejection::new(Failure::Internal, message));
        }
        if !output.dropped.is_empty() {
            let id = &self.plan.tasks()[ix.at()].id;
            let message = format!(
                "task `{id}` answered with keys that its model does not have, left out: {}",
                output.dropped.join(", ")
            );
            (self.hear)(&RunEvent::Warning { message });
        }
        self.n_files[ix.at()] = output.files.len();
        self.outputs.put(ix.at(), self.completed, value);
        self.completed += 1;
        self.fates[ix.at()].rejection = None;
        Ok(())
    }

    fn write(&mut self, ix: TaskIx, files: &[EmittedFile], output: &Json) -> anyhow::Result<()> {
        self.store.write(files)?;
        if let Some(files) = &mut self.files {
            let id = json!(&*self.plan.tasks()[ix.at()].id);
            writeln!(files.outputs, "{{\"task_id\":{id},\"output\":{output}}}")
                .with_context(|| format!("cannot write `{}`", files.named.outputs))?;
        }
        Ok(())
    }

    /// Whether another attempt can help.
    fn reject(&mut self, ix: TaskIx, rejection: Rejection) -> Retry {
        let fate = &mut self.fates[ix.at()];
        let is_same_answer = fate
            .rejection
            .as_ref()
            .is_some_and(|it| it.answer.is_some() && it.answer == rejection.answer);
        let retry = match rejection.retry_after {
            _ if is_same_answer || self.broken.is_some() => Retry::Never,
            _ if !rejection.failure.is_worth_a_retry() => Retry::Never,
            Some(floor) => Retry::NotBefore(floor),
            None => Retry::Backoff,
        };
        fate.rejection = Some(Box::new(rejection));
        retry
    }

    fn ended(&self, ix: TaskIx, end: End) -> RunEvent {
        let fate = &self.fates[ix.at()];
        RunEvent::TaskEnded {
            batch: Arc::clone(&self.batch.id),
            task: Arc::clone(&self.plan.tasks()[ix.at()].id),
            end: match end {
                End::Completed => TaskEnd::Completed,
                End::Failed => TaskEnd::Failed {
                    failure: fate
                        .rejection
                        .as_ref()
                        .map_or("internal", |it| it.failure.as_str()),
                    message: fate
                        .rejection
                        .as_ref()
                        .map(|it| it.message.clone())
                        .unwrap_or_default(),
                },
                End::Cancelled(cause) => TaskEnd::Cancelled {
                    because: results::because(&self.plan, cause),
                },
            },
            attempts: fate.attempts,
            usage: self.used[ix.at()],
            files: self.n_files[ix.at()],
        }
    }
}

/// One attempt, with all it needs.
struct Asking {
    run: Arc<str>,
    terms: Terms,
    attempt: u32,
    instruction: Arc<str>,
    text: Arc<str>,
    shape: Option<Arc<crate::shape::Shape>>,
    /// What was wrong with the attempt before.
    last: Option<Rejection>,
    timeout: Duration,
    max_output_bytes: usize,
}

impl Asking {
    /// Straight on: prompt, question, answer, acceptance.
    async fn make(self, agent: Arc<dyn Agent>, view: View) -> Answer {
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
