//! The items of a task list, each read as a task.

use std::{collections::BTreeMap, slice, sync::Arc};

use serde_json::{Map, Value, value::RawValue};

use super::{Fault, Task, parsed_text};
use crate::{
    compile::{Batch, Form},
    context::{Json, RESERVED},
    diagnostic::Code,
    graph::{is_reserved_id, unusable_id},
    ownership::OwnedPath,
    schema::describe,
    source::pointer,
};

/// A task, and what it says about others, not yet checked.
pub(super) struct Draft {
    pub(super) task: Task,
    /// The task as the planner wrote it.
    pub(super) written: Json,
    /// A JSON pointer to it in the list.
    pub(super) at: String,
    /// The key of its id, where it has one.
    id_key: Option<&'static str>,
    /// What it says it depends on.
    pub(super) needs: Vec<Need>,
    /// Where in its list each of its owned paths stands.
    pub(super) owned_at: Vec<usize>,
    /// Whether it says anything of owned paths, readable or not.
    pub(super) declares_owned: bool,
}

/// The id of another task, and where in its list it stands, if there is a list.
pub(super) struct Need {
    pub(super) id: String,
    place: Option<usize>,
}

impl Draft {
    /// A JSON pointer to its id, or to the task if it has none of its own.
    pub(super) fn at_id(&self) -> String {
        self.id_key
            .map_or_else(|| self.at.clone(), |key| pointer(&self.at, key))
    }

    /// A JSON pointer to what it says it depends on.
    pub(super) fn at_need(&self, batch: &Batch, need: &Need) -> String {
        let list = pointer(&self.at, &batch.dependency_field);
        match need.place {
            Some(ix) => pointer(&list, ix),
            None => list,
        }
    }

    /// A JSON pointer to an owned path, by its place among those that could be read.
    pub(super) fn at_owned(&self, path: usize) -> String {
        pointer(&pointer(&self.at, "owned_paths"), self.owned_at[path])
    }
}

/// Reads every item, noting what is wrong with each. One item at a time is a tree.
pub(super) fn read(batch: &Batch, tasks: &Json, faults: &mut Vec<Fault>) -> Vec<Draft> {
    let mut drafts = Vec::new();
    match serde_json::from_str::<Vec<&RawValue>>(&tasks.text()) {
        Ok(items) => {
            drafts.reserve_exact(items.len());
            for (ix, item) in items.iter().enumerate() {
                let item = serde_json::from_str(item.get());
                let item = item.expect("it was written from a value");
                drafts.extend(draft(batch, ix, pointer("", ix), &item, faults));
            }
        }
        // The results of another batch can be a task list; what the engine added to them is none of its tasks.
        Err(_) => {
            let tasks = tasks.value();
            let items = tasks.as_object().into_iter().flatten();
            let items = items.filter(|(key, _)| !is_reserved_id(key)).enumerate();
            for (ix, (key, item)) in items {
                drafts.extend(draft(batch, ix, pointer("", key), item, faults));
            }
        }
    }
    drafts
}

fn draft(
    batch: &Batch,
    ix: usize,
    at: String,
    item: &Value,
    faults: &mut Vec<Fault>,
) -> Option<Draft> {
    let parsed;
    let object = match item {
        Value::Object(object) => object,
        Value::String(text) => match parsed_text(text) {
            Some(Value::Object(object)) => {
                parsed = object;
                &parsed
            }
            _ => return not_a_task(ix, at, item, faults),
        },
        _ => return not_a_task(ix, at, item, faults),
    };
    let (id, id_key) = id(batch, ix, &at, object, faults).unzip();
    let name = id.as_deref().map_or_else(
        || format!("number {}", ix + 1),
        |it: &str| format!("`{it}`"),
    );
    let mut reader = Fields {
        object,
        at: &at,
        name: &name,
        faults,
    };
    let agent = reader.text(&batch.agent_field, Code::BadTaskField);
    let prompt = reader.text(&batch.prompt_field, Code::NoPrompt);
    let needs = reader.needs(batch);
    let (owned, owned_at) = reader.owned();
    let own = reader.own(batch);
    let task = Task {
        id: id?.into(),
        agent: agent.unwrap_or_default().into(),
        prompt: prompt.unwrap_or_default().into(),
        owned: owned.into(),
        owned_as_written: object
            .get("owned_paths")
            .filter(|it| it.is_array())
            .map(|it| Arc::new(it.clone())),
        kind: object
            .get("kind")
            .filter(|it| !it.is_null())
            .map(|it| Arc::new(it.clone())),
        own,
        invoke: None,
    };
    // What is written but cannot be read has its own fault.
    let declares_owned = match object.get("owned_paths") {
        None | Some(Value::Null) => false,
        Some(Value::Array(paths)) => !paths.is_empty(),
        Some(_) => true,
    };
    let written = serde_json::to_string(object).expect("a map with texts as keys is JSON");
    Some(Draft {
        task,
        written: Json::of_text(written),
        at,
        id_key: id_key?,
        needs,
        owned_at,
        declares_owned,
    })
}

fn not_a_task(ix: usize, at: String, item: &Value, faults: &mut Vec<Fault>) -> Option<Draft> {
    let message = format!(
        "item {} of the task list is {}, not a task",
        ix + 1,
        describe(item)
    );
    let fault = Fault::new(Code::NotATask, at, message);
    faults.push(fault.with(|it| {
        it.help("a task is a mapping; nothing is left out of a plan, so nothing starts")
    }));
    None
}

/// The task's id, and its key. Only tasks of explicit batches may call it `id` or `name`, or leave it out.
fn id(
    batch: &Batch,
    ix: usize,
    at: &str,
    object: &Map<String, Value>,
    faults: &mut Vec<Fault>,
) -> Option<(String, Option<&'static str>)> {
    let keys: &[&'static str] = match batch.form {
        Form::Conveyor => &["task_id"],
        Form::Batch => &["task_id", "id", "name"],
    };
    let given = keys
        .iter()
        .find_map(|key| Some((*key, object.get(*key).filter(|it| is_truthy(it))?)));
    let number = ix + 1;
    let (key, value) = match (given, batch.form) {
        (Some(given), _) => given,
        (None, Form::Batch) => return Some((format!("task_{number}"), None)),
        (None, Form::Conveyor) => {
            let message = format!("task {number} has no `task_id`");
            faults.push(Fault::new(Code::BadTaskId, at, message));
            return None;
        }
    };
    let at = pointer(at, key);
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) if batch.form == Form::Batch => number.to_string(),
        other => {
            let found = describe(other);
            let message = format!("the id of task {number} is {found}, not a text");
            let fault = Fault::new(Code::BadTaskId, at, message);
            faults.push(match other {
                Value::Number(_) => fault.with(|it| it.help("put it in quotes")),
                _ => fault,
            });
            return None;
        }
    };
    match unusable_id(&text) {
        None => Some((text, Some(key))),
        Some((why, cure)) => {
            let message = format!("the id of task {number} {why}");
            let fault = Fault::new(Code::BadTaskId, at, message);
            faults.push(fault.with(|it| it.help(cure)));
            None
        }
    }
}

fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Number(number) => number.as_f64() != Some(0.0),
        _ => true,
    }
}

/// Reads the fields of one task.
struct Fields<'a> {
    object: &'a Map<String, Value>,
    at: &'a str,
    name: &'a str,
    faults: &'a mut Vec<Fault>,
}

impl Fields<'_> {
    fn fault(&mut self, code: Code, pointer: String, message: String) {
        self.faults.push(Fault::new(code, pointer, message));
    }

    /// A text that has to be there and not blank.
    fn text(&mut self, key: &str, if_absent: Code) -> Option<String> {
        match self.object.get(key) {
            Some(Value::String(text)) if !text.trim().is_empty() => Some(text.trim().to_owned()),
            None | Some(Value::Null | Value::String(_)) => {
                let message = format!("task {} has no `{key}`", self.name);
                let at = self
                    .object
                    .get(key)
                    .map_or(self.at.to_owned(), |_| pointer(self.at, key));
                self.fault(if_absent, at, message);
                None
            }
            Some(other) => {
                let message = format!(
                    "`{key}` of task {} is {}, not a text",
                    self.name,
                    describe(other)
                );
                self.fault(Code::BadTaskField, pointer(self.at, key), message);
                None
            }
        }
    }

    fn needs(&mut self, batch: &Batch) -> Vec<Need> {
        let key = batch.dependency_field.as_str();
        let mut needs = Vec::new();
        let (items, is_list) = match self.object.get(key) {
            None | Some(Value::Null) => return needs,
            Some(Value::Array(items)) => (items.as_slice(), true),
            Some(one @ Value::String(_)) if batch.form == Form::Batch => {
                (slice::from_ref(one), false)
            }
            Some(other) => {
                let at = pointer(self.at, key);
                let message = format!(
                    "`{key}` of task {} is {}, not a list of task ids",
                    self.name,
                    describe(other)
                );
                self.fault(Code::BadTaskField, at, message);
                return needs;
            }
        };
        needs.reserve_exact(items.len());
        for (ix, item) in items.iter().enumerate() {
            let id = match item {
                Value::String(text) => text.trim().to_owned(),
                Value::Number(number) if batch.form == Form::Batch => number.to_string(),
                other => {
                    let message = format!(
                        "task {} depends on {}, not on the id of a task",
                        self.name,
                        describe(other)
                    );
                    let at = pointer(&pointer(self.at, key), ix);
                    self.fault(Code::BadTaskField, at, message);
                    continue;
                }
            };
            let place = is_list.then_some(ix);
            needs.push(Need { id, place });
        }
        needs
    }

    fn owned(&mut self) -> (Vec<OwnedPath>, Vec<usize>) {
        let at = |it: &Fields<'_>| pointer(it.at, "owned_paths");
        let items = match self.object.get("owned_paths") {
            None | Some(Value::Null) => return (Vec::new(), Vec::new()),
            Some(Value::Array(items)) => items,
            Some(other) => {
                let message = format!(
                    "`owned_paths` of task {} is {}, not a list of paths",
                    self.name,
                    describe(other)
                );
                self.fault(Code::BadTaskField, at(self), message);
                return (Vec::new(), Vec::new());
            }
        };
        let mut owned = Vec::new();
        let mut owned_at = Vec::new();
        for (ix, item) in items.iter().enumerate() {
            let Value::String(text) = item else {
                let message = format!(
                    "an owned path of task {} is {}, not a text",
                    self.name,
                    describe(item)
                );
                self.fault(Code::BadTaskField, pointer(&at(self), ix), message);
                continue;
            };
            match OwnedPath::parse(text) {
                Ok(path) => {
                    owned.push(path);
                    owned_at.push(ix);
                }
                Err(fault) => {
                    let message = format!("task {} cannot own `{text}`: {fault}", self.name);
                    self.fault(Code::BadOwnedPath, pointer(&at(self), ix), message);
                }
            }
        }
        (owned, owned_at)
    }

    /// The task's own variables: `context_variables`, then the fields the batch lists. The engine's names stay the engine's.
    fn own(&mut self, batch: &Batch) -> BTreeMap<String, Arc<Value>> {
        let mut own = BTreeMap::new();
        if let Some(Value::Object(variables)) = self.object.get("context_variables") {
            own.extend(
                variables
                    .iter()
                    .map(|(name, value)| (name.clone(), Arc::new(value.clone()))),
            );
        }
        for field in &batch.context_fields {
            if let Some(value) = self.object.get(field) {
                own.insert(field.clone(), Arc::new(value.clone()));
            }
        }
        own.retain(|name, _| {
            !RESERVED.contains(&name.as_str())
                && *name != *batch.context_key
                && *name != *batch.status_key
        });
        own
    }
}
