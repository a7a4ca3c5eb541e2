//! The variables of a run, and what one agent sees of them.
//!
//! **Invariant:** a [`Context`] changes only between agents. A [`View`] never changes: whoever holds one has a snapshot.
//! **Invariant:** taking a view costs the same however much has been completed.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::Serialize;
use serde_json::Value;

pub mod expression;
mod json;
pub mod path;
mod task;

pub use self::{
    json::{Elsewhere, Joiner, Json},
    task::{Decomposition, Outputs, TaskFiles, TaskView},
};

/// Names that only the engine sets, inside a batch (Workflow Task Batches, *Runtime Execution Semantics*).
pub const RESERVED: &[&str] = &[
    "task_run_mode",
    "current_task_batch_id",
    "current_task_id",
    "current_task",
    "decomposition_plan",
    "completed_task_outputs",
    "dependency_task_outputs",
];

/// The variables of a run; in JSON, one object.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(transparent)]
pub struct Context {
    variables: Arc<BTreeMap<String, Json>>,
}

impl Context {
    pub fn get(&self, name: &str) -> Option<Cow<'_, Value>> {
        self.variables.get(name).map(Json::value)
    }

    pub fn set(&mut self, name: &str, value: impl Into<Json>) {
        let variables = Arc::make_mut(&mut self.variables);
        variables.insert(name.to_owned(), value.into());
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.keys().map(String::as_str)
    }

    /// All variables as one JSON object.
    pub fn to_value(&self) -> Value {
        let pairs = self.variables.iter();
        let pairs = pairs.map(|(name, value)| (name.clone(), value.to_value()));
        Value::Object(pairs.collect())
    }

    /// What an agent outside a batch sees.
    pub fn view(&self, sees: &Sees) -> View {
        View {
            context: self.clone(),
            sees: sees.clone(),
            task: None,
        }
    }
}

/// Which variables an agent sees.
#[derive(Debug, Clone, Default)]
pub enum Sees {
    /// There is no `context_variables.yaml` to say which.
    #[default]
    All,
    Only(Arc<BTreeSet<String>>),
}

impl Sees {
    pub fn has(&self, name: &str) -> bool {
        match self {
            Sees::All => true,
            Sees::Only(names) => name == "input" || names.contains(name),
        }
    }
}

/// A snapshot of what one agent sees.
#[derive(Debug, Clone)]
pub struct View {
    context: Context,
    sees: Sees,
    task: Option<Arc<TaskView>>,
}

impl View {
    pub fn in_task(mut self, task: TaskView) -> View {
        self.task = Some(Arc::new(task));
        self
    }

    /// The same snapshot, as another agent sees it.
    pub fn seen_by(&self, sees: &Sees) -> View {
        View {
            context: self.context.clone(),
            sees: sees.clone(),
            task: None,
        }
    }

    /// The same snapshot, as the tools of its agent see it: whole.
    pub fn seen_by_tools(&self) -> View {
        View {
            sees: Sees::All,
            ..self.clone()
        }
    }

    pub fn task(&self) -> Option<&TaskView> {
        self.task.as_deref()
    }

    /// The value of a variable, made when it is asked for.
    pub fn get(&self, name: &str) -> Option<Cow<'_, Value>> {
        if let Some(task) = &self.task
            && let Some(value) = task.get(name)
        {
            return Some(value);
        }
        let is_seen = self.sees.has(name);
        self.context.get(name).filter(|_| is_seen)
    }

    /// The names that have a value, in order: context variables, then those of the task.
    pub fn names(&self) -> Vec<&str> {
        let mut names: BTreeSet<&str> = self
            .context
            .names()
            .filter(|it| self.sees.has(it))
            .collect();
        if let Some(task) = &self.task {
            names.extend(task.own.keys().map(String::as_str));
            names.extend(RESERVED);
            names.extend([&*task.context_key, &*task.status_key]);
        }
        names.into_iter().collect()
    }

    /// The context variables an agent is told in its prompt: those of the run, without what a batch adds.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &Json)> {
        let all = self.context.variables.iter();
        let all = all.map(|(name, value)| (name.as_str(), value));
        all.filter(|(name, _)| self.sees.has(name))
    }
}

#[cfg(test)]
mod tests;
