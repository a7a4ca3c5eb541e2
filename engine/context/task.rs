//! What a task's agent sees besides the context.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard},
};

use serde_json::{Map, Value, json};

use super::Json;

/// The outputs of the tasks of one batch, in plan order, each written once.
#[derive(Debug)]
pub struct Outputs {
    ids: Vec<Arc<str>>,
    slots: RwLock<Vec<Option<Slot>>>,
}

#[derive(Debug, Clone)]
struct Slot {
    /// How many were completed before this one.
    before: usize,
    output: Json,
}

/// The tasks of one batch as the planner wrote them.
#[derive(Debug)]
pub struct Decomposition {
    batch_id: Arc<str>,
    tasks: Vec<Json>,
    /// The whole as one value, made when somebody asks for it.
    whole: OnceLock<Value>,
}

#[derive(Debug)]
pub struct TaskView {
    pub batch_id: Arc<str>,
    pub task_id: Arc<str>,
    /// The task's place in the plan.
    pub ix: usize,
    /// The task's own variables: its `context_variables`, then its `context_fields`.
    pub own: BTreeMap<String, Arc<Value>>,
    pub plan: Arc<Decomposition>,
    /// Places of the tasks that this one depends on.
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

impl Outputs {
    pub fn new(ids: Vec<Arc<str>>) -> Outputs {
        let slots = RwLock::new(vec![None; ids.len()]);
        Outputs { ids, slots }
    }

    /// Puts the output of the task at `task` there, the `before + 1`st of all. A second one is ignored.
    pub fn put(&self, task: usize, before: usize, output: Json) {
        let slot = &mut self.slots.write().unwrap_or_else(PoisonError::into_inner)[task];
        debug_assert!(slot.is_none(), "a task is completed once");
        slot.get_or_insert(Slot { before, output });
    }

    pub fn get(&self, task: usize) -> Option<Json> {
        self.slots()[task].as_ref().map(|it| it.output.clone())
    }

    /// Holds an output in another way.
    pub fn hold(&self, task: usize, how: impl FnOnce(Json) -> Json) {
        let Some(output) = self.get(task) else {
            return;
        };
        let output = how(output);
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = &mut slots[task] {
            slot.output = output;
        }
    }

    /// Task ids and outputs in plan order, of the first `count` that were completed.
    pub fn first(&self, count: usize) -> Vec<(&Arc<str>, Json)> {
        let slots = self.slots();
        let slots = self.ids.iter().zip(slots.iter());
        let slots = slots.filter_map(|(id, slot)| Some((id, slot.as_ref()?)));
        let slots = slots.filter(move |(_, slot)| slot.before < count);
        slots.map(|(id, slot)| (id, slot.output.clone())).collect()
    }

    fn slots(&self) -> RwLockReadGuard<'_, Vec<Option<Slot>>> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Decomposition {
    pub fn new(batch_id: Arc<str>, tasks: Vec<Json>) -> Decomposition {
        Decomposition {
            batch_id,
            tasks,
            whole: OnceLock::new(),
        }
    }

    /// A task as the planner wrote it, by its place.
    pub fn task(&self, ix: usize) -> &Json {
        &self.tasks[ix]
    }

    /// What workers see as `decomposition_plan`: `batch_id` and `tasks`.
    pub fn value(&self) -> &Value {
        self.whole.get_or_init(|| {
            let tasks: Vec<Value> = self.tasks.iter().map(Json::to_value).collect();
            json!({ "batch_id": &*self.batch_id, "tasks": tasks })
        })
    }

    /// The same as text.
    pub fn text(&self) -> String {
        let tasks: Vec<_> = self.tasks.iter().map(Json::text).collect();
        let id = json!(&*self.batch_id);
        format!("{{\"batch_id\":{id},\"tasks\":[{}]}}", tasks.join(","))
    }
}

impl TaskView {
    pub(super) fn get(&self, name: &str) -> Option<Cow<'_, Value>> {
        match name {
            "task_run_mode" => Some(Cow::Owned(json!(true))),
            "current_task_batch_id" => Some(Cow::Owned(json!(&*self.batch_id))),
            "current_task_id" => Some(Cow::Owned(json!(&*self.task_id))),
            "current_task" => Some(Cow::Owned(self.task().to_value())),
            "decomposition_plan" => Some(Cow::Borrowed(self.plan.value())),
            "completed_task_outputs" => Some(Cow::Owned(self.completed_task_outputs())),
            "dependency_task_outputs" => Some(Cow::Owned(self.dependency_task_outputs())),
            _ if name == &*self.status_key => Some(Cow::Owned(json!("running"))),
            _ if name == &*self.context_key => Some(Cow::Owned(self.completed_task_outputs())),
            _ => self.own.get(name).map(|it| Cow::Borrowed(it.as_ref())),
        }
    }

    /// The task as the planner wrote it.
    pub fn task(&self) -> &Json {
        self.plan.task(self.ix)
    }

    /// Task id to output, of every task that was completed when the attempt began.
    pub fn completed_task_outputs(&self) -> Value {
        object(self.outputs.first(self.completed).into_iter())
    }

    /// Task id to output, of the tasks that this one depends on. All of them are there.
    pub fn dependency_task_outputs(&self) -> Value {
        object(self.dependency_outputs())
    }

    /// Task ids and outputs of the tasks that this one depends on, in plan order.
    pub fn dependency_outputs(&self) -> impl Iterator<Item = (&Arc<str>, Json)> {
        let ids = &self.outputs.ids;
        let outputs = self.dependencies.iter();
        outputs.map(|it| {
            let output = self.outputs.get(*it);
            let output = output.expect("a task starts when all it depends on is completed");
            (&ids[*it], output)
        })
    }
}

fn object<'a>(outputs: impl Iterator<Item = (&'a Arc<str>, Json)>) -> Value {
    let pairs = outputs.map(|(id, output)| (id.to_string(), output.to_value()));
    Value::Object(pairs.collect::<Map<_, _>>())
}
