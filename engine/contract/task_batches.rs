//! `extended_orchestration/task_batches.yaml` (Workflow Task Batches, *Contract* and *Decomposition Conveyors*).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    name::{Name, Names},
    providers::Budget,
};

/// Which agents plan work, which may carry it out, and how far each batch may go.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Task batches", example = example())]
pub struct TaskBatches {
    /// The version of this file's format. There is only `1`.
    #[serde(default)]
    pub version: Version,
    /// Batches with every field spelled out, for planners that write their own kind of task list.
    #[serde(default)]
    pub batches: Vec<Batch>,
    /// Batches in short form: a planner, the agents it may use, and limits. The rest has canonical values.
    #[serde(default)]
    pub conveyors: Vec<Conveyor>,
}

/// The number 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(with = "u8", extend("const" = 1))]
pub struct Version;

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Version, D::Error> {
        match u8::deserialize(deserializer)? {
            1 => Ok(Version),
            other => Err(serde::de::Error::custom(format!("version {other}, not 1"))),
        }
    }
}

/// One planned batch of work: where its task list stands, how a task names its worker, its limits, and where the results go.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// The name of this batch, unique among all batches and conveyors of the file.
    pub id: Name,
    /// The agent after whose turn the task list is expected to be there. The batch runs when that turn is over.
    pub trigger_agent: Name,
    /// Where the task list stands.
    pub source: Source,
    /// How a task says which agent does it and what that agent is told.
    #[serde(default)]
    pub worker: Worker,
    /// Concurrency, retries, time limits and what a failure means.
    #[serde(default)]
    pub execution: Execution,
    /// Which context variables receive the results and the status.
    pub result: ResultKeys,
    /// A later attempt at what was rejected, started by another agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-not-acted-on" = "rejected tasks are retried inside the batch"))]
    pub recovery: Option<Recovery>,
    /// The agents that a task of this batch may name. Empty means any agent of the workflow.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub allowed_execution_agents: Names,
    /// The capabilities that a DAG of this batch may name. Empty means any that an agent of the workflow serves.
    #[serde(default, skip_serializing_if = "Names::is_empty")]
    pub allowed_capabilities: Names,
    /// Whether a trigger that speaks again runs the batch again.
    #[serde(default)]
    pub rerun: Rerun,
}

/// Where a task list stands.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Whether `path` starts at the context variables or at the trigger agent's own structured output.
    pub kind: SourceKind,
    /// A dotted path to the task list, such as `app_task_batch_items` or `BuildPlan.tasks`.
    pub path: Name,
    /// The model of one task, from `structured_outputs.yaml`. `${variable}` takes the name from a context variable. `Dag` means that a whole ACMP DAG stands at `path`: `dag_id`, `tasks` and `edges`.
    pub task_model: Name,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// The path starts at a context variable, which the planner's save step has written.
    ContextVariable,
    /// The path starts at the validated structured output of the trigger agent.
    StructuredOutput,
}

/// How a task says which agent does it and what that agent is told.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Worker {
    /// How a task is carried out. `ag2_agent` means: by the agent that `agent_field` names, whatever its runtime.
    pub mode: WorkerMode,
    /// The field of a task that holds the name of the agent that does it.
    pub agent_field: Name,
    /// The field of a task that holds the instruction for that agent.
    pub prompt_field: Name,
    /// Fields of a task that its agent sees as context variables of the same name.
    pub context_fields: Names,
}

impl Default for Worker {
    fn default() -> Worker {
        Worker {
            mode: WorkerMode::Ag2Agent,
            agent_field: Name::from_static("initial_agent"),
            prompt_field: Name::from_static("initial_message"),
            context_fields: Names::default(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkerMode {
    /// The agent that the task names.
    Ag2Agent,
}

/// Concurrency, retries, time limits and what a failure means.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Execution {
    /// The most tasks that run at once.
    #[schemars(range(min = 1, max = 10_000))]
    pub concurrency: u32,
    /// The field of a task that lists the ids of the tasks it waits for.
    pub dependency_field: Name,
    /// What a failed task means for the others.
    pub failure_policy: FailurePolicy,
    /// How often a task is tried again after its first attempt.
    #[schemars(range(min = 0, max = 100))]
    pub retry_limit: u32,
    /// The longest one attempt may take, in seconds. Without it, 120.
    #[schemars(range(min = 1))]
    pub timeout_seconds: Option<u64>,
    /// The longest the whole batch may take, waiting between attempts included, in seconds. Without it, no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub deadline_seconds: Option<u64>,
    /// How long to wait between attempts.
    pub retry: Retry,
    /// What the batch may spend, all its attempts together.
    #[serde(skip_serializing_if = "is_unlimited")]
    pub budget: Budget,
}

fn is_unlimited(budget: &Budget) -> bool {
    *budget == Budget::default()
}

impl Default for Execution {
    fn default() -> Execution {
        Execution {
            concurrency: DEFAULT_CONCURRENCY,
            dependency_field: Name::from_static("depends_on"),
            failure_policy: FailurePolicy::default(),
            retry_limit: 0,
            timeout_seconds: None,
            deadline_seconds: None,
            retry: Retry::default(),
            budget: Budget::default(),
        }
    }
}

pub const DEFAULT_CONCURRENCY: u32 = 4;

fn default_concurrency() -> u32 {
    DEFAULT_CONCURRENCY
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailurePolicy {
    /// The first failed task stops the batch: what runs is cancelled, what waits never starts. Status `failed`.
    #[default]
    FailBatch,
    /// Everything that does not depend on the failed task still runs. Status `partial`.
    ContinueWithAvailable,
    /// Like `continue_with_available`, with the failures always published under `_failed`. Status `completed_with_errors`.
    CollectErrors,
}

/// How long to wait before an attempt that follows a failed one: a random time up to `initial_seconds`, doubled with every failure, never above `max_seconds`.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Retry {
    /// The longest wait after the first failure, in seconds.
    #[schemars(range(min = 0))]
    pub initial_seconds: f64,
    /// The longest wait there ever is, in seconds.
    #[schemars(range(min = 0))]
    pub max_seconds: f64,
    /// Whether the wait is drawn at random, so that tasks that failed together do not come back together.
    pub jitter: Jitter,
}

impl Default for Retry {
    fn default() -> Retry {
        Retry {
            initial_seconds: 1.0,
            max_seconds: 60.0,
            jitter: Jitter::Full,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Jitter {
    /// Any time between none and the longest.
    Full,
    /// Always the longest.
    None,
}

/// Which context variables receive what a batch made. Agents that speak after it read them.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResultKeys {
    /// The context variable that receives the outputs.
    pub context_key: Name,
    /// The context variable that receives the status: `running`, then `completed`, `partial`, `completed_with_errors` or `failed`.
    pub status_key: Name,
    /// The shape of the outputs under `context_key`.
    #[serde(default)]
    pub merge_strategy: MergeStrategy,
    /// Whether every task must own paths, write every file it owns, and write nothing else.
    #[serde(default = "yes")]
    pub require_owned_paths: bool,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MergeStrategy {
    /// A mapping from task id to output, in plan order, with `_meta` and, after failures, `_failed`.
    #[default]
    CollectTaskOutputs,
    /// A list of the outputs, in plan order.
    CollectOutputs,
}

/// Whether a trigger that speaks again runs its batch again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rerun {
    /// Only if the content of its task list changed; otherwise the results stand.
    #[default]
    Changed,
    /// Every time.
    Always,
}

/// A later attempt at what was rejected, started by another agent. Read for compatibility.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recovery {
    /// The agent after whose turn a recovery is looked for. Not the batch's own trigger.
    pub trigger_agent: Name,
    /// The context variable that holds the request.
    pub request_key: Name,
    /// The context variable that receives the outcome.
    pub outcome_key: Name,
    /// The context variable that receives the status of the recovery.
    pub status_key: Name,
    /// Context variables that belong to the request.
    #[serde(default)]
    pub input_keys: Names,
}

/// A batch in short form. Its planner answers with `DecompositionPlan.tasks`, each task with `execution_agent` and `task_prompt`; results go to `{id}_results`, the status to `{id}_status`.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Conveyor {
    /// The name of this conveyor, unique among all batches and conveyors of the file.
    pub id: Name,
    /// The agent that splits the work up.
    pub decomposition_agent: Name,
    /// The only agents a task may name. A plan that names any other is refused as a whole, before anything starts.
    #[schemars(length(min = 1))]
    pub execution_agents: Names,
    /// The most tasks that run at once.
    #[serde(default = "default_concurrency")]
    #[schemars(range(min = 1, max = 10_000))]
    pub concurrency: u32,
    /// What a failed task means for the others.
    #[serde(default)]
    pub failure_policy: FailurePolicy,
    /// How often a task is tried again after its first attempt.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100))]
    pub retry_limit: u32,
    /// The longest one attempt may take, in seconds. Without it, 120.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub timeout_seconds: Option<u64>,
    /// The longest the whole batch may take, in seconds. Without it, no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub deadline_seconds: Option<u64>,
    /// How long to wait between attempts.
    #[serde(default)]
    pub retry: Retry,
    /// What the batch may spend, all its attempts together.
    #[serde(default, skip_serializing_if = "is_unlimited")]
    pub budget: Budget,
    /// Whether every task must own paths, write every file it owns, and write nothing else.
    #[serde(default)]
    pub require_owned_paths: bool,
    /// Whether a planner that speaks again runs the batch again.
    #[serde(default)]
    pub rerun: Rerun,
}

fn example() -> serde_json::Value {
    json!({
        "version": 1,
        "conveyors": [{
            "id": "handbook",
            "decomposition_agent": "Planner",
            "execution_agents": ["Writer", "Editor"],
            "concurrency": 6,
            "retry_limit": 2,
            "timeout_seconds": 300
        }]
    })
}
