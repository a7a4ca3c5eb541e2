//! From a planner's answer to an accepted plan: the search for the task list, and the rounds of repair.

use std::{path::Path, sync::Arc};

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::{Hear, Run, Spoken, Start, Stop, turn};
use crate::{
    agent::Agents,
    compile::{Batch, Emits, Workflow, shapes_of},
    context::{Context, Json},
    contract::task_batches::{Rerun, SourceKind},
    dag::Terms,
    diagnostic::Diagnostic,
    event::RunEvent,
    plan::{self, Origin, Plan},
    source::Source,
    tool::Tools,
};

/// What came of asking a planner.
pub enum Planned {
    Accepted(Box<Plan>),
    Refused(Vec<Diagnostic>),
    /// The planner gave no answer that can be used, or somebody stopped it.
    Stopped(String),
}

/// What stands for a task list, to see whether it has changed.
pub(super) type TaskList = [u8; 32];

/// Asks the trigger of a batch for its plan, as a run would, and starts nothing.
///
/// # Errors
/// The world failed.
pub async fn ask_planner(
    workflow: &Workflow,
    agents: &Agents,
    batch: &Batch,
    context: Context,
    tools: Tools,
    cancel: &CancellationToken,
) -> anyhow::Result<Planned> {
    let start = Start {
        context,
        tools,
        ..Start::bare("plan", Path::new(""))
    };
    let mut run = Run::new(workflow, agents, start, cancel);
    run.turn = 1;
    let mut hear = |_: &RunEvent| ();
    let planned = async {
        let mut spoken = run
            .ask(&Arc::clone(&batch.trigger), None, &mut hear)
            .await?;
        run.settle(&batch.trigger, &spoken.value, &mut hear).await?;
        run.plan(batch, &mut spoken, None, &mut hear).await
    };
    Ok(match planned.await {
        Ok(Some((plan, _))) => Planned::Accepted(Box::new(plan)),
        Ok(None) => Planned::Stopped("the batch has run already".to_owned()),
        Err(Stop::BadPlan { faults, .. }) => Planned::Refused(faults),
        Err(
            Stop::Failed(reason)
            | Stop::Deadline(reason)
            | Stop::Budget(reason)
            | Stop::Waiting(reason),
        ) => Planned::Stopped(reason),
        Err(Stop::Broken(error)) => return Err(error),
        Err(Stop::Cancelled) => Planned::Stopped("stopped".to_owned()),
        Err(Stop::Complete) => Planned::Stopped("the run is complete".to_owned()),
    })
}

/// The plan of a batch, if what its planner emitted is one.
///
/// # Errors
/// Every fault.
pub fn accepted(
    workflow: &Workflow,
    batch: &Batch,
    tasks: &Json,
    origin: &Origin<'_>,
) -> Result<Plan, Vec<Diagnostic>> {
    let Emits::Dag { capabilities } = &batch.emits else {
        return plan::accept(batch, tasks, origin, &workflow.limits);
    };
    let terms = Terms {
        capabilities,
        shapes: &shapes_of(&workflow.capabilities, &workflow.agents),
        limits: &workflow.acmp.limits,
        max_price_cu: workflow.acmp.max_price_cu,
    };
    plan::accept_dag(batch, tasks, origin, &terms, &workflow.capabilities)
}

impl Run<'_> {
    /// The accepted plan of a batch, and its task list; nothing if the results of an earlier run of it stand.
    ///
    /// A planner whose plan is refused is shown the faults and asked again, a few times.
    pub(super) async fn plan(
        &mut self,
        batch: &Batch,
        spoken: &mut Spoken,
        given: Option<&Source>,
        hear: Hear<'_>,
    ) -> Result<Option<(Plan, TaskList)>, Stop> {
        let mut rounds_left = match given {
            Some(_) => 0,
            None if self.is_from_trigger(batch) => self.workflow.limits.plan_repair_limit,
            None => 0,
        };
        loop {
            let faults = match self.find_tasks(batch, &spoken.value, given) {
                Ok((tasks, origin)) => {
                    let list = TaskList::from(Sha256::digest(tasks.text().as_bytes()));
                    if batch.rerun == Rerun::Changed && self.ran.get(&batch.id) == Some(&list) {
                        return Ok(None);
                    }
                    match accepted(self.workflow, batch, &tasks, &origin) {
                        Ok(plan) => {
                            hear(&RunEvent::PlanAccepted {
                                batch: Arc::clone(&batch.id),
                                tasks: plan.tasks().len(),
                                dependencies: plan.graph().edges(),
                                critical_path: plan.graph().critical_path().len(),
                            });
                            return Ok(Some((plan, list)));
                        }
                        Err(faults) => faults,
                    }
                }
                Err(diagnostic) => vec![*diagnostic],
            };
            let report = crate::diagnostic::draw(&faults, crate::diagnostic::Style::Plain);
            self.log.plan_refused(self.turn, &batch.id, &report);
            hear(&RunEvent::PlanRejected {
                batch: Arc::clone(&batch.id),
                faults: faults.len(),
                report: report.clone(),
                rounds_left,
            });
            let refused = |faults, is_same| {
                let batch = Arc::clone(&batch.id);
                Err(Stop::BadPlan {
                    batch,
                    faults,
                    is_same,
                })
            };
            if rounds_left == 0 {
                return refused(faults, false);
            }
            rounds_left -= 1;
            self.round += 1;
            let again = turn::Again {
                prompt: &spoken.prompt,
                report: &report,
                answer: &spoken.text,
            };
            let agent = Arc::clone(&batch.trigger);
            let next = self.ask(&agent, Some(again), hear).await?;
            if next.text == spoken.text {
                return refused(faults, true);
            }
            *spoken = next;
            self.settle(&agent, &spoken.value, hear).await?;
        }
    }

    /// Sets what a planner's answer sets, by its save step and its tools.
    async fn settle(
        &mut self,
        agent: &Arc<str>,
        answer: &Json,
        hear: Hear<'_>,
    ) -> Result<(), Stop> {
        let value = answer.to_value();
        self.keep(agent, &value, hear).map_err(Stop::Failed)?;
        // Its next answer is asked for because of its plan, if it is at all.
        self.run_tools(agent, &value, hear).await.map(|_| ())
    }

    /// Whether asking the trigger again can change the task list.
    fn is_from_trigger(&self, batch: &Batch) -> bool {
        let root = batch
            .path
            .split('.')
            .map(str::trim)
            .find(|it| !it.is_empty());
        batch.source == SourceKind::StructuredOutput
            || !self.tools.auto(&batch.trigger).is_empty()
            || self.workflow.agents[&*batch.trigger]
                .writes
                .iter()
                .any(|(name, _)| Some(name.as_str()) == root)
    }

    fn find_tasks<'s>(
        &self,
        batch: &Batch,
        answer: &Json,
        given: Option<&'s Source>,
    ) -> Result<(Json, Origin<'s>), Box<Diagnostic>> {
        if let Some(source) = given {
            let (tasks, at) = plan::given(batch, source)?;
            return Ok((tasks, Origin::File(source, at)));
        }
        let (root, name) = match batch.source {
            SourceKind::StructuredOutput => {
                (answer.clone(), format!("answer of {}", batch.trigger))
            }
            SourceKind::ContextVariable => (
                self.context.to_value().into(),
                format!("context variable {}", batch.path),
            ),
        };
        let tasks = plan::find(batch, &root)?;
        Ok((tasks, Origin::Reply(name)))
    }
}
