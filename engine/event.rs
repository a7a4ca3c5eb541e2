//! What a run says about itself.
//!
//! **Invariant:** an event is written down before its effect is visible, and nothing that listens can change the run.

use std::sync::Arc;

use serde::Serialize;

use crate::agent::Usage;

/// One thing that happened.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RunEvent {
    RunStarted {
        run: Arc<str>,
        workflow: Arc<str>,
    },
    TurnStarted {
        /// From 1.
        turn: u32,
        agent: Arc<str>,
        /// Whether the agent answered in an earlier session of the run, and is not asked again.
        recalled: bool,
    },
    /// An agent outside a batch answered with something that cannot be used, and is asked again.
    TurnRejected {
        turn: u32,
        agent: Arc<str>,
        attempt: u32,
        failure: &'static str,
        message: String,
        retry_in_ms: Option<u64>,
    },
    TurnEnded {
        turn: u32,
        agent: Arc<str>,
        usage: Usage,
        /// The model that answered, where one did.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<Arc<str>>,
        /// How the answer was read: `strict`, `after_thought`, `fence` or `first_value`.
        #[serde(skip_serializing_if = "Option::is_none")]
        read: Option<&'static str>,
    },
    /// A planner's answer was refused as a whole. It is asked again while `rounds_left` is above zero.
    PlanRejected {
        batch: Arc<str>,
        faults: usize,
        report: String,
        rounds_left: u32,
    },
    /// A planner's answer was accepted as a whole. Nothing of it has started.
    PlanAccepted {
        batch: Arc<str>,
        tasks: usize,
        dependencies: usize,
        critical_path: usize,
    },
    /// A trigger spoke again with the same task list: the results stand.
    BatchUnchanged {
        batch: Arc<str>,
    },
    BatchStarted {
        batch: Arc<str>,
        tasks: usize,
        concurrency: u32,
    },
    /// Tasks of the batch were done in an earlier session of the run, and are not done again.
    BatchRecalled {
        batch: Arc<str>,
        completed: usize,
        failed: usize,
    },
    TaskStarted {
        batch: Arc<str>,
        task: Arc<str>,
        agent: Arc<str>,
        /// From 1.
        attempt: u32,
    },
    AttemptRejected {
        batch: Arc<str>,
        task: Arc<str>,
        attempt: u32,
        failure: &'static str,
        message: String,
        /// When the next attempt is made, if there is one.
        retry_in_ms: Option<u64>,
    },
    /// A model called a tool while it was asked: in a task, or in a turn.
    ToolCalled {
        #[serde(skip_serializing_if = "Option::is_none")]
        turn: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        batch: Option<Arc<str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        task: Option<Arc<str>>,
        agent: Arc<str>,
        attempt: u32,
        tool: String,
        ok: bool,
        ms: u64,
        /// Beside its result.
        #[serde(skip_serializing_if = "String::is_empty")]
        printed: String,
    },
    /// The run called a tool by itself: on an agent's answer, or at a certain point.
    ToolRan {
        turn: u32,
        /// For whom; empty where it is for the run as a whole.
        agent: Arc<str>,
        tool: Arc<str>,
        ok: bool,
        ms: u64,
        /// One of those that its author named.
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<String>,
        /// What went wrong.
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        #[serde(skip_serializing_if = "String::is_empty")]
        printed: String,
    },
    TaskEnded {
        batch: Arc<str>,
        task: Arc<str>,
        end: TaskEnd,
        attempts: u32,
        /// The run that its output was taken from, if nobody was asked.
        #[serde(skip_serializing_if = "Option::is_none")]
        reused: Option<Arc<str>>,
        /// The model that answered, where one did.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<Arc<str>>,
        /// How the answer was read: `strict`, `after_thought`, `fence` or `first_value`.
        #[serde(skip_serializing_if = "Option::is_none")]
        read: Option<&'static str>,
        usage: Usage,
        files: usize,
    },
    BatchEnded {
        batch: Arc<str>,
        status: &'static str,
        completed: usize,
        failed: usize,
        cancelled: usize,
    },
    /// How many calls wait to be let in by a provider, which may have asked everybody to wait.
    Waiting {
        provider: Arc<str>,
        waiting: usize,
        paused_ms: Option<u64>,
    },
    /// Calls wait for long enough that somebody may wonder: the provider asked for it, or one of its limits is reached. It
    /// is told once of each wait.
    HeldUp {
        provider: Arc<str>,
        /// The limit, as authors write it. Without one the provider asked to wait.
        limit: Option<&'static str>,
        waiting: usize,
        /// When the next one is made, as a rule; nobody knows that of a slot.
        for_ms: Option<u64>,
    },
    /// Something that is allowed, but that somebody should know.
    Warning {
        message: String,
    },
    RunEnded {
        status: &'static str,
        /// Why, where the status alone does not say.
        reason: Option<String>,
        turns: u32,
        usage: Usage,
    },
}

/// How a task ended.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum TaskEnd {
    Completed,
    Failed {
        failure: &'static str,
        message: String,
    },
    Cancelled {
        because: String,
    },
}
