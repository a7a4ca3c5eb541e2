//! The variables of a run, and what one agent sees of them.
//!
//! **Invariant:** a [`Context`] changes only between agents. A [`View`] never changes: whoever holds one has a snapshot.
//! **Invariant:** taking a view costs the same however much has been completed.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
};

use serde_json::{Map, Value, json};

pub mod expression;
pub mod path;

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

/// The variables of a run.
#[derive(Debug, Clone, Default)]
pub struct Context {
    variables: Arc<BTreeMap<String, Arc<Value>>>,
}

impl Context {
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.variables.get(name).map(Arc::as_ref)
    }

    pub fn set(&mut self, name: &str, value: Value) {
        let variables = Arc::make_mut(&mut self.variables);
        variables.insert(name.to_owned(), Arc::new(value));
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.variables.keys().map(String::as_str)
    }

    /// All variables as one JSON object.
    pub fn to_value(&self) -> Value {
        let pairs = self.variables.iter();
        let pairs = pairs.map(|(name, value)| (name.clone(), Value::clone(value)));
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

/// The outputs of the tasks of one batch, in plan order, each written once.
#[derive(Debug)]
pub struct Outputs {
    ids: Vec<Arc<str>>,
    slots: Vec<OnceLock<Slot>>,
}

#[derive(Debug)]
struct Slot {
    /// How many were completed before this one.
    before: usize,
    output: Arc<Value>,
}

impl Outputs {
    pub fn new(ids: Vec<Arc<str>>) -> Outputs {
        let slots = ids.iter().map(|_| OnceLock::new()).collect();
        Outputs { ids, slots }
    }

    /// Puts the output of the task at `task` there, the `before + 1`st of all. A second one is ignored.
    pub fn put(&self, task: usize, before: usize, output: Arc<Value>) {
        let slot = Slot { before, output };
        let second = self.slots[task].set(slot).is_err();
        debug_assert!(!second, "a task is completed once");
    }

    pub fn get(&self, task: usize) -> Option<&Arc<Value>> {
        self.slots[task].get().map(|it| &it.output)
    }

    /// Task ids and outputs in plan order, of the first `count` that were completed.
    pub fn first(&self, count: usize) -> impl Iterator<Item = (&Arc<str>, &Arc<Value>)> {
        let slots = self.ids.iter().zip(&self.slots);
        let slots = slots.filter_map(|(id, slot)| Some((id, slot.get()?)));
        let slots = slots.filter(move |(_, slot)| slot.before < count);
        slots.map(|(id, slot)| (id, &slot.output))
    }
}

/// What a task's agent sees besides the context.
#[derive(Debug)]
pub struct TaskView {
    pub batch_id: Arc<str>,
    pub task_id: Arc<str>,
    /// The task as the planner wrote it.
    pub task: Arc<Value>,
    /// The task's own variables: its `context_variables`, then its `context_fields`.
    pub own: BTreeMap<String, Arc<Value>>,
    /// The whole plan of this batch: `batch_id` and `tasks`.
    pub plan: Arc<Value>,
    /// Plan indices of the tasks that this one depends on.
    pub dependencies: Vec<usize>,
    pub outputs: Arc<Outputs>,
    /// How many outputs there were when the attempt began.
    pub completed: usize,
    /// The variables that receive this batch's results and status.
    pub context_key: Arc<str>,
    pub status_key: Arc<str>,
    /// Files that hold the plan and the outputs, for agents that read files.
    pub files: Option<Arc<TaskFiles>>,
}

/// Where a program finds what would make its request large.
#[derive(Debug)]
pub struct TaskFiles {
    /// A JSON file: `decomposition_plan`.
    pub plan: String,
    /// A file of one JSON object a line, `task_id` and `output`, in the order of completion.
    pub outputs: String,
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
        self.context
            .get(name)
            .filter(|_| is_seen)
            .map(Cow::Borrowed)
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
    pub fn variables(&self) -> impl Iterator<Item = (&str, &Value)> {
        let names = self.context.names().filter(|it| self.sees.has(it));
        names.filter_map(|it| Some((it, self.context.get(it)?)))
    }
}

impl TaskView {
    fn get(&self, name: &str) -> Option<Cow<'_, Value>> {
        match name {
            "task_run_mode" => Some(Cow::Owned(json!(true))),
            "current_task_batch_id" => Some(Cow::Owned(json!(&*self.batch_id))),
            "current_task_id" => Some(Cow::Owned(json!(&*self.task_id))),
            "current_task" => Some(Cow::Borrowed(&self.task)),
            "decomposition_plan" => Some(Cow::Borrowed(&self.plan)),
            "completed_task_outputs" => Some(Cow::Owned(self.completed_task_outputs())),
            "dependency_task_outputs" => Some(Cow::Owned(self.dependency_task_outputs())),
            _ if name == &*self.status_key => Some(Cow::Owned(json!("running"))),
            _ if name == &*self.context_key => Some(Cow::Owned(self.completed_task_outputs())),
            _ => self.own.get(name).map(|it| Cow::Borrowed(it.as_ref())),
        }
    }

    /// Task id to output, of every task that was completed when the attempt began.
    pub fn completed_task_outputs(&self) -> Value {
        object(self.outputs.first(self.completed))
    }

    /// Task id to output, of the tasks that this one depends on. All of them are there.
    pub fn dependency_task_outputs(&self) -> Value {
        object(self.dependency_outputs())
    }

    /// Task ids and outputs of the tasks that this one depends on, in plan order.
    pub fn dependency_outputs(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<Value>)> {
        let ids = &self.outputs.ids;
        let outputs = self.dependencies.iter();
        outputs.map(|it| {
            let output = self.outputs.get(*it);
            let output = output.expect("a task starts when all it depends on is completed");
            (&ids[*it], output)
        })
    }
}

fn object<'a>(outputs: impl Iterator<Item = (&'a Arc<str>, &'a Arc<Value>)>) -> Value {
    let pairs = outputs.map(|(id, output)| (id.to_string(), Value::clone(output)));
    Value::Object(pairs.collect::<Map<_, _>>())
}
