//! Performs a workflow: turns of agents, and the batches they trigger.
//!
//! **Invariant:** a batch starts only with a [`Plan`](crate::plan::Plan), so nothing starts before the whole plan is accepted.
//! **Invariant:** a batch changes the context only by its two result keys, and only at its end.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    convert::Infallible,
    mem,
    path::Path,
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    accept::{How, Output},
    agent::{Agents, Usage},
    budget::Limit,
    compile::{Batch, First, Reads, Workflow},
    context::{Context, Json, path},
    contract::tools::LifecycleTrigger,
    diagnostic::Diagnostic,
    event::RunEvent,
    source::Source,
    tool::Tools,
};

mod around;
mod aside;
mod asked;
mod attempt;
mod batch;
mod bound;
mod calls;
mod clock;
mod dag;
pub mod drive;
mod ending;
mod gate;
mod log;
mod meter;
mod next;
mod past;
mod planning;
mod purse;
mod queue;
mod recall;
mod results;
mod reuse;
mod sessions;
mod spending;
mod start;
mod store;
mod streams;
mod tools;
mod turn;
mod withdrawal;
mod work;

use aside::Aside;
use batch::Done;
pub use bound::{Against, Bound, Measure, bound};
pub use clock::now_ms;
pub use ending::{Ending, FailedTool};
pub use log::Log;
pub use past::{Earlier, InFlight, Reader};
use planning::TaskList;
pub use planning::{Planned, accepted, ask_planner};
pub use results::Status;
pub use sessions::Sessions;
use spending::Spending;
pub use start::{BadInput, initial_context};
pub use store::{Replace, Store, copy_out};
pub use withdrawal::{Withdrawal, Withdrawals};

/// What a run is given.
pub struct Start<'a> {
    pub id: Arc<str>,
    /// The run's own folder. Its `artifacts` are what workers write.
    pub folder: &'a Path,
    pub context: Context,
    /// An answer that stands for that of the first trigger, which is then not asked.
    pub plan: Option<&'a Source>,
    /// Where the run writes down what it goes through, and what it went through before.
    pub log: Log,
    pub tools: Tools,
    /// What the run may spend, where its files do not say or say otherwise.
    pub budget: Limit,
    /// How long attempts under way may go on when the run is told to stop.
    pub grace: Duration,
    /// Tasks that people cancel while the run goes on.
    pub withdrawals: Option<Withdrawals>,
}

impl<'a> Start<'a> {
    /// A run that is given nothing, and of which nothing is written down.
    pub fn bare(id: impl Into<Arc<str>>, folder: &'a Path) -> Start<'a> {
        Start {
            id: id.into(),
            folder,
            context: Context::default(),
            plan: None,
            log: Log::default(),
            tools: Tools::default(),
            budget: Limit::default(),
            grace: Duration::ZERO,
            withdrawals: None,
        }
    }
}

/// Hears what a run says about itself.
pub type Hear<'a> = &'a mut (dyn FnMut(&RunEvent) + Send);

/// Runs a workflow to its end.
///
/// # Errors
/// The world failed: the run's folder cannot be written.
pub async fn workflow(
    workflow: &Workflow,
    agents: &Agents,
    start: Start<'_>,
    hear: Hear<'_>,
    cancel: &CancellationToken,
) -> anyhow::Result<Ending> {
    hear(&RunEvent::RunStarted {
        run: Arc::clone(&start.id),
        workflow: Arc::clone(&workflow.name),
    });
    let mut run = Run::new(workflow, agents, start, cancel);
    let Err(stop) = run.turns(hear).await;
    let (status, reason, faults) = run.judge(stop)?;
    run.end(status, hear).await?;
    run.tools.close().await;
    let (completed, tasks) = run.done;
    let data = json!({
        "status": status.as_str(),
        "reason": reason,
        "turns": run.turn,
        "usage": run.usage,
        "took_ms": run.log.worked_ms(),
        "tasks": tasks,
        "completed": completed,
    });
    run.log.run_ended(status.as_str(), data)?;
    hear(&RunEvent::RunEnded {
        status: status.as_str(),
        reason: reason.clone(),
        turns: run.turn,
        usage: run.usage,
    });
    Ok(Ending {
        status,
        reason,
        faults,
        context: run.context,
        turns: run.turn,
        usage: run.usage,
        used_by: run.used_by,
        files: run.store.files(),
        answer: run.last_answer.map(|(_, answer)| answer),
        text: run.last_text,
        batches: run.batches,
        failed_tools: run.failed_tools,
    })
}

/// Why no agent speaks any more.
enum Stop {
    Complete,
    Failed(String),
    /// Nothing of the batch started.
    BadPlan {
        batch: Arc<str>,
        faults: Vec<Diagnostic>,
        /// Whether its planner was asked again, and answered as before.
        is_same: bool,
    },
    Cancelled,
    Deadline(String),
    Budget(String),
    /// For a person, who has to answer before anything can go on.
    Waiting(String),
    /// The world failed.
    Broken(anyhow::Error),
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Stop {
        Stop::Broken(error)
    }
}

/// How a turn ended.
enum Turned {
    /// A tool wants the agent to speak again.
    Again,
    /// With this as the worst status of its batches, if it had any.
    Done(Option<Status>),
}

struct Run<'a> {
    workflow: &'a Workflow,
    agents: &'a Agents,
    id: Arc<str>,
    store: Store,
    aside: Aside,
    log: Log,
    tools: Arc<Tools>,
    spending: Spending,
    grace: Duration,
    withdrawals: Option<Withdrawals>,
    context: Context,
    given_plan: Option<&'a Source>,
    cancel: &'a CancellationToken,
    turn: u32,
    /// How often agents were asked in this turn, for reasons of their answers' content.
    round: u32,
    usage: Usage,
    used_by: BTreeMap<Arc<str>, Usage>,
    /// How many tasks were completed, and how many there were.
    done: (usize, usize),
    /// What stands for the task list each batch last ran with.
    ran: HashMap<Arc<str>, TaskList>,
    batches: BTreeMap<String, Status>,
    /// Who spoke last, and what came of it.
    last_answer: Option<(Arc<str>, Json)>,
    /// The text of that answer, where it is one for people although it is JSON.
    last_text: Option<String>,
    /// The tools that were called in this turn.
    called: BTreeSet<String>,
    /// Who set which variable to what is odd, as far as that was told.
    doubted: BTreeSet<String>,
    /// What went wrong in each batch in which anything did.
    why: BTreeMap<String, String>,
    /// The tools that failed, where their authors said what is to come of that.
    failed_tools: Vec<FailedTool>,
}

/// What a turn brought.
struct Spoken {
    /// As text: a plan is large, and lives as long as its batch.
    value: Json,
    prompt: crate::prompt::Prompt,
    text: String,
    /// The model that said it, if one did.
    model: Option<Arc<str>>,
    read: Option<How>,
}

impl<'a> Run<'a> {
    /// A run in which nobody has spoken yet.
    fn new(
        workflow: &'a Workflow,
        agents: &'a Agents,
        start: Start<'a>,
        cancel: &'a CancellationToken,
    ) -> Run<'a> {
        let undone = start.log.undone();
        let budget = (start.budget.or(workflow.budget), start.log.spent());
        let spending = Spending::new(workflow, agents, budget, fastrand::u64(..));
        Run {
            workflow,
            agents,
            id: start.id,
            store: Store::new(start.folder),
            aside: Aside::new(start.folder),
            log: start.log,
            tools: Arc::new(start.tools),
            spending,
            grace: start.grace,
            withdrawals: start.withdrawals,
            context: start.context,
            given_plan: start.plan,
            cancel,
            turn: 0,
            round: 0,
            usage: undone,
            used_by: BTreeMap::new(),
            done: (0, 0),
            ran: HashMap::new(),
            batches: BTreeMap::new(),
            last_answer: None,
            last_text: None,
            called: BTreeSet::new(),
            doubted: BTreeSet::new(),
            why: BTreeMap::new(),
            failed_tools: Vec::new(),
        }
    }
}

impl Run<'_> {
    async fn begin(&mut self, hear: Hear<'_>) -> Result<(), Stop> {
        self.at(LifecycleTrigger::OnStart, None, hear).await?;
        self.at(LifecycleTrigger::BeforeChat, None, hear).await
    }

    async fn turns(&mut self, hear: Hear<'_>) -> Result<Infallible, Stop> {
        self.begin(hear).await?;
        let mut agent = match &self.workflow.first {
            First::Dag(fixed) => return Err(self.dag(fixed, hear).await?),
            First::Agent(name) => Arc::clone(name),
            First::User => self.after_user(hear)?,
        };
        let mut before = Arc::clone(&agent);
        loop {
            if self.turn == self.workflow.max_turns {
                let limit = self.workflow.max_turns;
                let message = format!(
                    "`{agent}` would take turn {}, but `max_turns` is {limit}",
                    limit + 1
                );
                return Err(Stop::Failed(message));
            }
            self.turn += 1;
            self.round = 0;
            self.called.clear();
            self.at(LifecycleTrigger::BeforeAgent, Some(&agent), hear)
                .await?;
            let turned = self.take_turn(&agent, hear).await?;
            self.at(LifecycleTrigger::AfterAgent, Some(&agent), hear)
                .await?;
            if let Turned::Done(worst) = turned {
                let next = self.after(&agent, &before, worst, hear)?;
                before = mem::replace(&mut agent, next);
            }
        }
    }

    /// One turn, with all that belongs to it.
    async fn take_turn(&mut self, agent: &Arc<str>, hear: Hear<'_>) -> Result<Turned, Stop> {
        hear(&RunEvent::TurnStarted {
            turn: self.turn,
            agent: Arc::clone(agent),
            recalled: self.log.is_recalling(),
        });
        let before = self.usage;
        let triggered: Vec<&Batch> = self
            .workflow
            .batches
            .iter()
            .filter(|it| it.trigger == *agent)
            .collect();
        let given = self.given_plan.take_if(|_| !triggered.is_empty());
        let spoken = match given {
            Some(source) => Spoken {
                value: Json::written(&source.value()),
                prompt: crate::prompt::Prompt::default(),
                text: String::new(),
                model: None,
                read: None,
            },
            None => self.ask(agent, None, hear).await?,
        };
        let speaks_again = self.save(agent, &spoken.value, hear).await?;
        hear(&RunEvent::TurnEnded {
            turn: self.turn,
            agent: Arc::clone(agent),
            usage: self.usage.since(before),
            model: spoken.model.clone(),
            read: spoken.read.map(How::as_str),
        });
        if speaks_again {
            return Ok(Turned::Again);
        }
        let mut worst = None;
        let mut spoken = spoken;
        for (ix, batch) in triggered.iter().enumerate() {
            let planned = self.plan(batch, &mut spoken, given, hear).await;
            let (plan, tasks) = match planned {
                Ok(Some(planned)) => planned,
                Ok(None) => {
                    hear(&RunEvent::BatchUnchanged {
                        batch: Arc::clone(&batch.id),
                    });
                    continue;
                }
                Err(stop) => {
                    if let Stop::BadPlan { .. } = stop {
                        self.context
                            .set(&batch.status_key, json!(Status::Failed.as_str()));
                        self.batches.insert(batch.id.to_string(), Status::Failed);
                    }
                    return Err(stop);
                }
            };
            self.ran.insert(Arc::clone(&batch.id), tasks);
            if ix + 1 == triggered.len() {
                // Nobody is asked to mend it any more, and a plan's text is long.
                spoken.text = String::new();
            }
            let done = self.batch(batch, plan, hear).await?;
            let Done {
                results,
                status,
                stop,
                why,
            } = done;
            self.note_why(&batch.id, why);
            self.context.set(&batch.context_key, results);
            self.context.set(&batch.status_key, json!(status.as_str()));
            self.batches.insert(batch.id.to_string(), status);
            if let Some(stop) = stop {
                return Err(stop);
            }
            worst = worst.max(Some(status));
            if status == Status::Failed {
                break;
            }
        }
        self.last_text = self.text_for_people(agent, &spoken);
        self.last_answer = Some((Arc::clone(agent), spoken.value));
        Ok(Turned::Done(worst))
    }

    /// Does what an agent's answer is for: its save step, its files, its tools. Says whether it is to speak again.
    async fn save(
        &mut self,
        agent: &Arc<str>,
        answer: &Json,
        hear: Hear<'_>,
    ) -> Result<bool, Stop> {
        let spec = &self.workflow.agents[&**agent];
        let has_tools = !self.tools.auto(agent).is_empty();
        // A plan is large, and as a rule goes nowhere but to its batch.
        if spec.reads == Reads::Plan && spec.writes.is_empty() && !has_tools {
            return Ok(false);
        }
        let value = answer.to_value();
        self.keep(agent, &value, hear).map_err(Stop::Failed)?;
        self.publish(agent, &value, hear)?;
        self.run_tools(agent, &value, hear).await
    }

    /// The save step: what the agent says it writes.
    fn keep(&mut self, agent: &str, value: &Value, hear: Hear<'_>) -> Result<(), String> {
        let workflow = self.workflow;
        for (variable, path) in &workflow.agents[agent].writes {
            let found = path::resolve(value, path);
            let found = found.map_err(|error| {
                format!("`{agent}` writes `{variable}` from `{path}`, but {error}")
            })?;
            let found = found.into_owned();
            self.set(&format!("`{agent}`"), (variable, found), hear);
        }
        Ok(())
    }

    /// Writes the files that an agent outside a batch answered with.
    fn publish(&mut self, agent: &str, value: &Value, hear: Hear<'_>) -> Result<(), Stop> {
        let files = Output::files_of(value, self.workflow.limits.max_file_bytes);
        let files = files.map_err(|rejection| {
            let message = rejection.message;
            Stop::Failed(format!(
                "the files of `{agent}` cannot be written: {message}"
            ))
        })?;
        for file in files.iter().filter(|it| self.store.has(it)) {
            let message = format!(
                "`{agent}` replaces the file `{}`, which this run has written before",
                file.path
            );
            hear(&RunEvent::Warning { message });
        }
        Ok(self.store.write(&files)?)
    }
}
