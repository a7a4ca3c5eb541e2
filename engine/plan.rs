//! What a planner emitted becomes a plan, or a list of everything that is wrong with it (Workflow Task Batches, *Runtime Execution Semantics*).
//!
//! **Invariant:** in a [`Plan`] ids are unique, every agent is on the allow-list, the order between tasks is acyclic and closed, no prompt is empty but where the task of a DAG has its input instead, and owned paths are disjoint.
//! **Invariant:** nothing is dropped, completed or guessed. What cannot be a task is a diagnostic.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use crate::{
    compile::{Batch, Capabilities},
    context::{Decomposition, Json, path},
    contract::orchestrator::Limits,
    dag::{self, Dag, Terms},
    diagnostic::{Code, Diagnostic, File},
    graph::TaskGraph,
    ownership::{Claims, OwnedPath},
    source::Source,
};

mod check;
mod task;

/// How many faults of one plan are told.
const MAX_FAULTS: usize = 100;

/// Tasks that may be carried out, in the order the planner wrote them.
#[derive(Debug)]
pub struct Plan {
    tasks: Vec<Task>,
    graph: TaskGraph,
    decomposition: Arc<Decomposition>,
}

/// One task of a plan.
#[derive(Debug, Clone)]
pub struct Task {
    pub id: Arc<str>,
    pub agent: Arc<str>,
    pub prompt: Arc<str>,
    pub owned: Arc<[OwnedPath]>,
    /// The owned paths as the planner wrote them, if it wrote any.
    pub owned_as_written: Option<Arc<Value>>,
    /// The task's `kind`, where it has one.
    pub kind: Option<Arc<Value>>,
    /// Context variables of this task's agent alone.
    pub own: BTreeMap<String, Arc<Value>>,
    /// The task of a DAG that it is. Its agent is given the input, and no prompt.
    pub invoke: Option<Arc<dag::Task>>,
}

impl Plan {
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The order between the tasks. Its indices are those of [`Plan::tasks`].
    pub fn graph(&self) -> &TaskGraph {
        &self.graph
    }

    /// Who owns which path.
    pub fn claims(&self) -> Claims {
        Claims::new(
            self.tasks
                .iter()
                .enumerate()
                .map(|(ix, it)| (ix, &*it.owned)),
        )
    }

    /// The tasks as the planner wrote them.
    pub fn decomposition(&self) -> &Arc<Decomposition> {
        &self.decomposition
    }
}

/// Where a task list was found, to say where its faults are.
pub enum Origin<'a> {
    /// A planner's answer or a context variable, by a name for people.
    Reply(String),
    /// A file that somebody wrote, and the JSON pointer to the list in it.
    File(&'a Source, String),
}

/// The task list at the batch's path: in the trigger's output, or among the context variables.
///
/// # Errors
/// There is nothing at that path, or it is no list.
pub fn find(batch: &Batch, root: &Json) -> Result<Json, Box<Diagnostic>> {
    // A plan is large: where it can be found in the text, no tree is made of it.
    if let Some(found) =
        path::resolve_text(&root.text(), &batch.path).filter(|it| it.starts_with('['))
    {
        return Ok(Json::of_text(found.to_owned()));
    }
    let root = root.to_value();
    let nowhere = |message: String| {
        let help = format!(
            "the planner's answer, or its save step, has to put a list of tasks at `{}`",
            batch.path
        );
        Box::new(Diagnostic::error(Code::NoPlan, message).help(help))
    };
    let found = match path::resolve(&root, &batch.path) {
        Ok(found) => found,
        Err(error) => {
            return Err(nowhere(format!(
                "batch `{}` finds no tasks at `{}`: {error}",
                batch.id, batch.path
            )));
        }
    };
    let parsed = match &*found {
        Value::String(text) => parsed_text(text),
        _ => None,
    };
    match parsed.as_ref().unwrap_or(&*found) {
        list @ (Value::Array(_) | Value::Object(_)) => Ok(Json::written(list)),
        other => {
            let found = crate::schema::describe(other);
            Err(nowhere(format!(
                "batch `{}` expects a list of tasks at `{}`, found {found}",
                batch.id, batch.path
            )))
        }
    }
}

/// The task list in a plan that somebody wrote to a file, and the JSON pointer to it: the file as the trigger's answer, a mapping with `tasks`, or the list itself.
///
/// # Errors
/// The file has none of these.
pub fn given(batch: &Batch, source: &Source) -> Result<(Json, String), Box<Diagnostic>> {
    let value = source.value();
    let dotted: Vec<&str> = batch
        .path
        .split('.')
        .map(str::trim)
        .filter(|it| !it.is_empty())
        .collect();
    let whole = format!("/{}", dotted.join("/"));
    let last = dotted.last().map(|it| format!("/{it}")).unwrap_or_default();
    for at in [whole.as_str(), last.as_str(), "/tasks", ""] {
        match value.pointer(at) {
            Some(list @ Value::Array(_)) => return Ok((Json::written(list), at.to_owned())),
            Some(list @ Value::Object(_)) if at == whole => {
                return Ok((Json::written(list), at.to_owned()));
            }
            _ => (),
        }
    }
    let message = format!("the plan has no task list at `{}`", batch.path);
    let help =
        "a plan file is a list of tasks, a mapping with `tasks`, or the planner's whole answer";
    Err(Box::new(
        Diagnostic::error(Code::NoPlan, message)
            .at(source.place(""))
            .help(help),
    ))
}

/// Accepts a task list as a whole, or says everything that is wrong with it.
///
/// # Errors
/// Every fault, by place; of very many the first, and how many more there are.
pub fn accept(
    batch: &Batch,
    tasks: &Json,
    origin: &Origin<'_>,
    limits: &Limits,
) -> Result<Plan, Vec<Diagnostic>> {
    let mut faults = Vec::new();
    let drafts = task::read(batch, tasks, &mut faults);
    let needs = check::references(batch, &drafts, &mut faults);
    let graph = check::order(batch, &drafts, &needs, &mut faults);
    check::size(&drafts, graph.as_ref(), limits, &mut faults);
    check::ownership(batch, &drafts, &mut faults);
    match graph.filter(|_| faults.is_empty()) {
        Some(graph) => {
            let written = drafts.iter().map(|it| it.written.clone()).collect();
            let decomposition = Arc::new(Decomposition::new(Arc::clone(&batch.id), written));
            let tasks = drafts.into_iter().map(|it| it.task).collect();
            Ok(Plan {
                tasks,
                graph,
                decomposition,
            })
        }
        None => Err(place(faults, tasks, origin)),
    }
}

/// Accepts a planner's DAG as a whole, or says everything that is wrong with it.
///
/// # Errors
/// Every fault, by place.
pub fn accept_dag(
    batch: &Batch,
    dag: &Json,
    origin: &Origin<'_>,
    terms: &Terms<'_>,
    who: &Capabilities,
) -> Result<Plan, Vec<Diagnostic>> {
    let source = match origin {
        Origin::File(source, pointer) => source.part(pointer),
        Origin::Reply(name) => written(name, dag),
    };
    let nowhere = || {
        vec![Diagnostic::error(
            Code::NoPlan,
            "there is no DAG to be read",
        )]
    };
    let source = source.ok_or_else(nowhere)?;
    let (dag, _) = dag::accept(&source, terms)?;
    Ok(of_dag(batch, &dag, who))
}

/// A DAG as a plan: each task goes to whoever serves its capability.
pub fn of_dag(batch: &Batch, dag: &Dag, who: &Capabilities) -> Plan {
    let tasks = dag.tasks().iter().map(|task| Task {
        id: Arc::clone(&task.id),
        agent: Arc::clone(&who[&*task.capability]),
        prompt: "".into(),
        owned: Arc::default(),
        owned_as_written: None,
        kind: None,
        own: BTreeMap::new(),
        invoke: Some(Arc::clone(task)),
    });
    let written = dag.tasks().iter().map(|it| it.written.clone()).collect();
    Plan {
        tasks: tasks.collect(),
        graph: dag.graph().clone(),
        decomposition: Arc::new(Decomposition::new(Arc::clone(&batch.id), written)),
    }
}

/// A fault, by its place in the task list.
struct Fault {
    diagnostic: Diagnostic,
    pointer: String,
    related: Vec<(String, String)>,
}

impl Fault {
    fn new(code: Code, pointer: impl Into<String>, message: impl Into<String>) -> Fault {
        Fault {
            diagnostic: Diagnostic::error(code, message),
            pointer: pointer.into(),
            related: Vec::new(),
        }
    }

    fn with(mut self, change: impl FnOnce(Diagnostic) -> Diagnostic) -> Fault {
        self.diagnostic = change(self.diagnostic);
        self
    }

    fn related(mut self, pointer: impl Into<String>, note: impl Into<String>) -> Fault {
        self.related.push((pointer.into(), note.into()));
        self
    }
}

/// Gives every fault its place: in the file, or in the reply written out as JSON.
fn place(faults: Vec<Fault>, tasks: &Json, origin: &Origin<'_>) -> Vec<Diagnostic> {
    let (reply, prefix);
    let (source, prefix) = match origin {
        Origin::File(source, pointer) => (Some(*source), pointer.as_str()),
        Origin::Reply(name) => {
            reply = written(name, tasks);
            prefix = "";
            (reply.as_ref(), prefix)
        }
    };
    let placed = faults.into_iter().map(|fault| {
        let Some(source) = source else {
            return fault.diagnostic;
        };
        let at = |pointer: &str| source.place(&format!("{prefix}{pointer}"));
        let diagnostic = fault.diagnostic.at(at(&fault.pointer));
        let related = fault.related.into_iter();
        related.fold(diagnostic, |it, (pointer, note)| {
            it.related(at(&pointer), note)
        })
    });
    let mut placed: Vec<Diagnostic> = placed.collect();
    crate::diagnostic::sort(&mut placed);
    crate::diagnostic::keep_first(&mut placed, MAX_FAULTS);
    placed
}

/// A reply written out as JSON, one value a line.
fn written(name: &str, reply: &Json) -> Option<Source> {
    let text = serde_json::to_string_pretty(&*reply.value()).unwrap_or_default();
    let name = name.to_owned();
    Source::parse(&Arc::new(File { name, text })).ok()
}

/// What a text that is JSON says. A planner that packs JSON into JSON may not lose a key by it either.
fn parsed_text(text: &str) -> Option<Value> {
    let file = File {
        name: String::new(),
        text: text.to_owned(),
    };
    let source = Source::parse_json(&Arc::new(file)).ok()?;
    Some(source.value())
}

#[cfg(test)]
mod tests;
