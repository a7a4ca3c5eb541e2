//! A DAG document becomes tasks that may be carried out, or a list of everything that is wrong with it (Task Decomposition Format, *DAG Format*).
//!
//! **Invariant:** in a [`Dag`] ids are unique, the order between tasks is acyclic and closed, what a task works on comes over an edge of its own, every capability is served, and prices keep to their ceiling.
//! **Invariant:** a DAG never leaves the engine: whoever carries out a task is given an [`Invocation`], whose input is a literal.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::{
    context::Json,
    contract::{acmp::DagLimits, task_dag::Tier},
    diagnostic::{self, Diagnostic},
    graph::{TaskGraph, TaskIx},
    schema::FileKind,
    shape::Shape,
    source::Source,
};

mod check;
mod field;
mod input;

pub use field::{Field, FieldError};
pub use input::Unresolved;

/// How many faults of one DAG are told.
const MAX_FAULTS: usize = 100;

/// Tasks that may be carried out, in the order they were written in.
#[derive(Debug)]
pub struct Dag {
    pub id: Arc<str>,
    tasks: Vec<Arc<Task>>,
    graph: TaskGraph,
}

/// One task of a DAG.
#[derive(Debug)]
pub struct Task {
    /// Its name in the DAG. What a provider knows it by is the [`Invocation`]'s.
    pub id: Arc<str>,
    pub capability: Arc<str>,
    pub input: Input,
    pub output_type: Arc<str>,
    /// Of one attempt.
    pub timeout: Option<Duration>,
    /// The most it may cost, in CU.
    pub max_price_cu: Option<f64>,
    /// What else whoever carries it out is told.
    pub told: Told,
    /// The task as it was written.
    pub written: Json,
}

/// What a task works on.
#[derive(Debug)]
pub enum Input {
    /// Data, as it stands: `type` and `data`.
    Literal(Json),
    /// The output of one task, or a part of it.
    Output { of: TaskIx, field: Option<Field> },
    /// The outputs of several tasks, in this order.
    Outputs(Vec<TaskIx>),
}

/// What whoever carries out a task is told of it, besides its input.
#[derive(Debug)]
pub struct Told {
    pub input_tokens_est: Option<u64>,
    pub preferred_tier: Option<Tier>,
    pub escrow_id: Option<String>,
    pub proof_method: Option<String>,
    /// With `dag_id`.
    pub metadata: Map<String, Value>,
}

/// One attempt on a task, as whoever carries it out sees it: a literal input, and an id of its own.
#[derive(Debug)]
pub struct Invocation {
    /// Unique to this attempt. The same whenever the same attempt is made again, so that nobody carries it out twice.
    pub task_id: String,
    pub task: Arc<Task>,
    /// `type` and `data`.
    pub input: Json,
    pub timeout: Duration,
}

/// Shapes of payloads, by capability.
pub type Shapes = BTreeMap<String, Arc<Shape>>;

/// What a DAG is held against.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// The capabilities that are served, and allowed.
    pub capabilities: &'a [String],
    /// What the payloads of a capability's JSON look like, where that is known.
    pub shapes: &'a Shapes,
    pub limits: &'a DagLimits,
    /// The most that all tasks together may cost, in CU.
    pub max_price_cu: Option<f64>,
}

/// Accepts a document as a whole, or says everything that is wrong with it. Warnings come with it.
///
/// # Errors
/// Every fault, by place; of very many the first, and how many more there are.
pub fn accept(
    source: &Source,
    terms: &Terms<'_>,
) -> Result<(Dag, Vec<Diagnostic>), Vec<Diagnostic>> {
    let (_, mut found) = FileKind::TaskDag.schema().read::<Value>(source);
    let dag = check::check(source, terms, &mut found);
    diagnostic::sort(&mut found);
    match dag.filter(|_| !found.iter().any(Diagnostic::is_error)) {
        Some(dag) => Ok((dag, found)),
        None => {
            diagnostic::keep_first(&mut found, MAX_FAULTS);
            Err(found)
        }
    }
}

impl Dag {
    pub fn tasks(&self) -> &[Arc<Task>] {
        &self.tasks
    }

    /// The order between the tasks. Its indices are those of [`Dag::tasks`].
    pub fn graph(&self) -> &TaskGraph {
        &self.graph
    }

    pub fn into_parts(self) -> (Vec<Arc<Task>>, TaskGraph) {
        (self.tasks, self.graph)
    }
}

impl Invocation {
    /// The id of an attempt, made of what is the same whenever it is made again.
    pub fn id_of(key: &str) -> String {
        let digest = Sha256::digest(key);
        let hex: String = digest[..16].iter().map(|it| format!("{it:02x}")).collect();
        format!("task_{hex}")
    }

    /// What `acmp/invoke` carries.
    pub fn params(&self) -> Value {
        let told = &self.task.told;
        let mut params = json!({
            "task_id": self.task_id,
            "capability": &*self.task.capability,
            "input": self.input.to_value(),
            "output_type": &*self.task.output_type,
            "timeout_ms": u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX),
            "stream": false,
            "input_stream": false,
            "metadata": told.metadata,
        });
        let optional = [
            ("input_tokens_est", json!(told.input_tokens_est)),
            ("max_price_cu", json!(self.task.max_price_cu)),
            ("preferred_tier", json!(told.preferred_tier)),
            ("escrow_id", json!(told.escrow_id)),
            ("proof_method", json!(told.proof_method)),
        ];
        for (name, value) in optional.into_iter().filter(|(_, it)| !it.is_null()) {
            params[name] = value;
        }
        params
    }
}

#[cfg(test)]
mod tests;
