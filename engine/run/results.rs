//! What a batch publishes: outputs, failures, and what it says about itself (Workflow Task Batches, *Failure Model*).

use std::{collections::BTreeMap, sync::Arc};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::log::Origin;
use crate::{
    accept::{Failure, Rejection},
    compile::{Batch, Merge},
    context::{Joiner, Json, Outputs},
    contract::task_batches::FailurePolicy,
    graph::TaskIx,
    plan::{Plan, Task},
    prompt,
    schedule::{Cause, End},
};

/// How a batch or a run ended, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    Completed,
    /// Some tasks failed or were cancelled, and the others were carried out.
    Partial,
    /// As [`Status::Partial`], with the failures published for somebody to handle.
    CompletedWithErrors,
    Failed,
    /// A plan was refused, so that nothing started.
    InvalidPlan,
    /// The time for a batch was up.
    Deadline,
    /// Nothing more may be spent.
    Budget,
    /// A person has to answer before it can go on.
    Waiting,
    Cancelled,
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Completed => "completed",
            Status::Partial => "partial",
            Status::CompletedWithErrors => "completed_with_errors",
            Status::Failed => "failed",
            Status::InvalidPlan => "invalid_plan",
            Status::Deadline => "deadline",
            Status::Budget => "budget",
            Status::Waiting => "waiting",
            Status::Cancelled => "cancelled",
        }
    }

    /// Whether a run that stopped so goes on when it is resumed.
    pub fn can_go_on(self) -> bool {
        matches!(
            self,
            Status::Deadline | Status::Budget | Status::Waiting | Status::Cancelled
        )
    }

    /// The exit code of the program.
    pub fn exit_code(self) -> u8 {
        match self {
            Status::Completed => 0,
            Status::Failed => 1,
            Status::InvalidPlan => 2,
            Status::Partial | Status::CompletedWithErrors => 3,
            Status::Deadline | Status::Budget => 4,
            Status::Waiting => 5,
            Status::Cancelled => 130,
        }
    }
}

/// What is known of a task when its batch is over.
#[derive(Debug, Clone, Default)]
pub(super) struct Fate {
    pub(super) end: Option<End>,
    pub(super) attempts: u32,
    /// How many of them count no more, because the task was to be tried again.
    pub(super) before: u32,
    pub(super) rejection: Option<Box<Rejection>>,
    /// Who failed it, of several that could be asked, the last one last.
    pub(super) failed: Vec<Arc<str>>,
    pub(super) origin: Origin,
}

/// The status that a batch ends with.
pub(super) fn status(batch: &Batch, fates: &[Fate]) -> Status {
    let has = |wanted: fn(&End) -> bool| fates.iter().filter_map(|it| it.end.as_ref()).any(wanted);
    if has(|it| matches!(it, End::Cancelled(Cause::Requested))) {
        Status::Cancelled
    } else if has(|it| matches!(it, End::Cancelled(Cause::Deadline))) {
        Status::Deadline
    } else if has(|it| matches!(it, End::Cancelled(Cause::Budget))) {
        Status::Budget
    } else {
        let has_failed = has(|it| *it == End::Failed);
        let is_whole = !has(|it| matches!(it, End::Cancelled(Cause::Withdrawn)));
        match batch.failure_policy {
            _ if is_whole && !has_failed => Status::Completed,
            FailurePolicy::FailBatch if has_failed => Status::Failed,
            FailurePolicy::CollectErrors => Status::CompletedWithErrors,
            FailurePolicy::FailBatch | FailurePolicy::ContinueWithAvailable => Status::Partial,
        }
    }
}

/// The word for it in the results. A batch that was cut short has failed.
pub(super) fn word(status: Status) -> &'static str {
    match status {
        Status::InvalidPlan => "failed",
        it if it.can_go_on() => "failed",
        other => other.as_str(),
    }
}

/// What goes under the batch's context key. There may be very many outputs: of none a copy is made.
pub(super) fn merge(batch: &Batch, plan: &Plan, outputs: &Outputs, fates: &[Fate]) -> Json {
    if batch.merge == Merge::Leaves {
        return leaves(plan, outputs);
    }
    let n_tasks = plan.tasks().len();
    let mut all = Joiner::default();
    if batch.merge == Merge::List {
        let mut before = "[";
        for output in (0..n_tasks).filter_map(|it| outputs.get(it)) {
            all.text(before);
            all.value(output);
            before = ",";
        }
        all.text(if before == "[" { "[]" } else { "]" });
        return all.end();
    }
    all.text("{");
    let mut failed = Map::new();
    let mut completed_tasks: Vec<&str> = Vec::new();
    for (ix, (task, fate)) in plan.tasks().iter().zip(fates).enumerate() {
        match outputs.get(ix) {
            Some(output) => {
                completed_tasks.push(&*task.id);
                all.text(&format!("{}:", json!(&*task.id)));
                all.value(output);
                all.text(",");
            }
            None => {
                failed.insert(task.id.to_string(), failure(plan, ix, fate, fates));
            }
        }
    }
    let reused_tasks = plan.tasks().iter().zip(fates);
    let reused_tasks = reused_tasks.filter_map(|(task, fate)| {
        let run = fate.origin.run.as_ref()?;
        Some((&*task.id, run))
    });
    let failed_tasks: Vec<&String> = failed.keys().collect();
    let meta = Meta {
        batch_id: &batch.id,
        status: word(status(batch, fates)),
        task_count: plan.tasks().len(),
        concurrency: batch.policy.concurrency,
        completed_tasks,
        failed_tasks,
        reused_tasks: reused_tasks.collect(),
        result_context_key: &batch.context_key,
    };
    let meta = serde_json::to_string(&meta).expect("texts and numbers are JSON");
    if !failed.is_empty() || batch.failure_policy == FailurePolicy::CollectErrors {
        let failed = serde_json::to_string(&failed).expect("it is JSON");
        all.text(&format!("\"_failed\":{failed},"));
    }
    all.text(&format!("\"_meta\":{meta}}}"));
    all.end()
}

/// What a DAG comes to: the output of the task that nothing waits for; of several, those there are, by id.
fn leaves(plan: &Plan, outputs: &Outputs) -> Json {
    let graph = plan.graph();
    let leaves: Vec<TaskIx> = graph
        .tasks()
        .filter(|it| graph.feeds(*it).is_empty())
        .collect();
    if let [leaf] = leaves[..] {
        return outputs.get(leaf.at()).unwrap_or(Value::Null.into());
    }
    let mut all = Joiner::default();
    let mut before = "{";
    for leaf in leaves {
        if let Some(output) = outputs.get(leaf.at()) {
            all.text(&format!("{before}{}:", json!(&*plan.tasks()[leaf.at()].id)));
            all.value(output);
            before = ",";
        }
    }
    all.text(if before == "{" { "{}" } else { "}" });
    all.end()
}

/// How much is told of what went wrong, in bytes.
const MAX_WHY: usize = 500;

/// What went wrong first in plan order, and how many tasks it went wrong with.
pub(super) fn why(plan: &Plan, fates: &[Fate]) -> Option<String> {
    let all: Vec<(&Task, &Fate)> = plan.tasks().iter().zip(fates).collect();
    let ended = |end: End| all.iter().filter(move |it| it.1.end == Some(end));
    let withdrawn = End::Cancelled(Cause::Withdrawn);
    let (why, end) = match (ended(End::Failed).next(), ended(withdrawn).next()) {
        (Some((task, fate)), _) => {
            let why = fate.rejection.as_ref().map(|it| it.to_string());
            let why = prompt::cut(&why.unwrap_or_default(), MAX_WHY);
            let why = format!("task `{}` failed: {why}", task.id);
            (why, End::Failed)
        }
        (None, Some((task, _))) => (format!("somebody cancelled task `{}`", task.id), withdrawn),
        (None, None) => return None,
    };
    Some(match ended(end).count() {
        1 => why,
        n => format!("{why} (and {} more)", n - 1),
    })
}

/// What a batch says about itself, under `_meta`.
#[derive(Serialize)]
struct Meta<'a> {
    batch_id: &'a str,
    status: &'static str,
    task_count: usize,
    concurrency: u32,
    completed_tasks: Vec<&'a str>,
    failed_tasks: Vec<&'a String>,
    /// Whose output was taken from an earlier run, and from which.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    reused_tasks: BTreeMap<&'a str, &'a Arc<str>>,
    result_context_key: &'a str,
}

/// Why a task has no output.
fn failure(plan: &Plan, ix: usize, fate: &Fate, fates: &[Fate]) -> Value {
    let task = &plan.tasks()[ix];
    let (status, kind, error) = match fate.end {
        Some(End::Failed) => {
            let rejection = fate.rejection.as_ref();
            let kind = rejection.map_or(Failure::Internal, |it| it.failure);
            (
                "failed",
                kind,
                rejection.map(|it| it.message.clone()).unwrap_or_default(),
            )
        }
        Some(End::Cancelled(cause)) => {
            let kind = match cause {
                Cause::NeedsFailed(_) | Cause::NeedsWithdrawn(_) => Failure::DependencyBlocked,
                Cause::BatchStopped(_) => Failure::BatchStopped,
                Cause::Deadline => Failure::Deadline,
                Cause::Budget => Failure::Budget,
                Cause::Requested | Cause::Withdrawn => Failure::Cancelled,
            };
            ("cancelled", kind, because(plan, cause))
        }
        Some(End::Completed) | None => {
            let never = "it never started".to_owned();
            ("cancelled", Failure::Cancelled, never)
        }
    };
    let needs = plan.graph().needs(TaskIx::new(ix));
    let blocked_by: Vec<&str> = needs
        .iter()
        .filter(|it| fates[it.at()].end != Some(End::Completed))
        .map(|it| &*plan.tasks()[it.at()].id)
        .collect();
    json!({
        "task_id": &*task.id,
        "status": status,
        "failure_kind": kind.as_str(),
        "error": error,
        "worker_agent": &*task.agent,
        "attempts": fate.attempts,
        "blocked_by": blocked_by,
    })
}

/// Why a task was cancelled, for people.
pub(super) fn because(plan: &Plan, cause: Cause) -> String {
    let id = |it: TaskIx| &plan.tasks()[it.at()].id;
    match cause {
        Cause::NeedsFailed(task) => format!("it needs `{}`, which failed", id(task)),
        Cause::BatchStopped(task) => format!("the batch stopped when `{}` failed", id(task)),
        Cause::Withdrawn => "somebody cancelled it".to_owned(),
        Cause::NeedsWithdrawn(task) => format!("it needs `{}`, which somebody cancelled", id(task)),
        Cause::Deadline => "the time for the batch was up".to_owned(),
        Cause::Budget => "there was not enough left to spend".to_owned(),
        Cause::Requested => "the run was told to stop".to_owned(),
    }
}
