//! What has to hold between the tasks of a DAG (Task Decomposition Format, *DAG Constraints*).

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    mem,
    sync::Arc,
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Dag, Field, Input, MAX_FAULTS, Task, Terms, Told};
use crate::{
    context::Json,
    contract::task_dag as written,
    diagnostic::{Code, Diagnostic},
    graph::{Cycle, TaskGraph, TaskIx, unusable_id},
    source::Source,
};

/// Holds the tasks and edges of a document against each other. What did not fit the schema is left out, and was told.
pub(super) fn check(
    source: &Source,
    terms: &Terms<'_>,
    found: &mut Vec<Diagnostic>,
) -> Option<Dag> {
    let value = source.value();
    let items = |key: &str| value[key].as_array().map_or(&[][..], Vec::as_slice);
    let mut checker = Checker {
        source,
        terms,
        found,
        by_id: HashMap::new(),
        ids: Vec::new(),
        edges: HashSet::new(),
        eligible: Vec::new(),
        told: 0,
    };
    checker.ids(items("tasks"));
    checker.mixed(items("tasks"));
    let needs = checker.edges(items("edges"));
    let mut tasks = Vec::with_capacity(needs.len());
    let dag_id = value["dag_id"].as_str().unwrap_or_default();
    for (ix, item) in items("tasks").iter().enumerate() {
        let Ok(task) = written::Task::deserialize(item) else {
            continue;
        };
        checker.capability(ix, &task.capability);
        if let Some(input) = checker.input(ix, &task.input) {
            tasks.push(Arc::new(made(task, input, dag_id, item)));
        }
    }
    let graph = checker.order(&needs);
    checker.size(&tasks, graph.as_ref());
    checker.price(&tasks);
    let is_whole = tasks.len() == needs.len();
    let graph = graph.filter(|_| is_whole)?;
    let streams = checker.streams(&tasks);
    Some(Dag {
        id: dag_id.into(),
        tasks,
        graph: graph.with_streams(streams),
    })
}

fn made(task: written::Task, input: Input, dag_id: &str, item: &Value) -> Task {
    let mut metadata = task.metadata.unwrap_or_default();
    metadata.insert("dag_id".to_owned(), json!(dag_id));
    Task {
        id: task.task_id.into(),
        capability: task.capability.into(),
        input,
        output_type: task.output_type.into(),
        timeout: task.timeout_ms.map(Duration::from_millis),
        max_price_cu: task.max_price_cu,
        told: Told {
            input_tokens_est: task.input_tokens_est,
            preferred_tier: task.preferred_tier,
            escrow_id: task.escrow_id,
            proof_method: task.proof_method,
            metadata,
        },
        written: Json::written(item),
    }
}

struct Checker<'a> {
    source: &'a Source,
    terms: &'a Terms<'a>,
    found: &'a mut Vec<Diagnostic>,
    /// Where the task with an id stands; the first, if there are several.
    by_id: HashMap<String, TaskIx>,
    ids: Vec<String>,
    /// From and to.
    edges: HashSet<(TaskIx, TaskIx)>,
    /// Those that may stream, and where they stand.
    eligible: Vec<(TaskIx, TaskIx, usize)>,
    /// How many names led to no task. The comparison with all ids is dear, and of very many faults only the first are shown.
    told: usize,
}

impl Checker<'_> {
    fn fault(&mut self, code: Code, at: &str, message: String) -> &mut Diagnostic {
        let diagnostic = Diagnostic::error(code, message).at(self.source.place(at));
        self.found.push(diagnostic);
        self.found.last_mut().expect("it was just put there")
    }

    /// Inputs that are a literal and a reference at once. The schema took one of the two as meant, and calls the keys of the
    /// other one unknown, which is told no more.
    fn mixed(&mut self, tasks: &[Value]) {
        let mut keys = HashSet::new();
        let mut mixed = Vec::new();
        for (ix, task) in tasks.iter().enumerate() {
            let Some(input) = task["input"].as_object() else {
                continue;
            };
            let has = |key: &&str| input.contains_key(*key);
            if !has(&"source") || !["type", "data"].iter().any(has) {
                continue;
            }
            let at = format!("/tasks/{ix}/input");
            let present = ["source", "type", "data"].into_iter().filter(|it| has(it));
            let present = present.map(|it| self.source.key_place(&format!("{at}/{it}")));
            keys.extend(present.map(|it| it.span.start));
            let message = "an input is a literal (`type` and `data`) or a reference (`source`), and this is both";
            let diagnostic = Diagnostic::error(Code::Rule, message).at(self.source.key_place(&at));
            mixed.push(diagnostic.help("take out `source`, or `type` and `data`"));
        }
        let is_told = |it: &Diagnostic| {
            let start = it.at.as_ref().map(|it| it.span.start);
            it.code == Code::UnknownKey && start.is_some_and(|it| keys.contains(&it))
        };
        self.found.retain(|it| !is_told(it));
        self.found.extend(mixed);
    }

    fn ids(&mut self, tasks: &[Value]) {
        for (ix, task) in tasks.iter().enumerate() {
            let id = task["task_id"].as_str().unwrap_or_default().to_owned();
            let at = format!("/tasks/{ix}/task_id");
            // Blank, it was told by the schema.
            let unusable = unusable_id(&id).filter(|_| !id.trim().is_empty());
            if let Some((why, cure)) = unusable {
                let message = format!("the id of task {} {why}", ix + 1);
                let diagnostic = Diagnostic::error(Code::BadTaskId, message);
                let diagnostic = diagnostic.at(self.source.place(&at)).help(cure);
                self.found.push(diagnostic);
            }
            match self.by_id.get(&id) {
                Some(first) => {
                    let first = format!("/tasks/{}/task_id", first.at());
                    let diagnostic = Diagnostic::error(
                        Code::DuplicateTask,
                        format!("the task id `{id}` stands twice"),
                    );
                    let diagnostic = diagnostic.at(self.source.place(&at));
                    let first = self.source.place(&first);
                    self.found
                        .push(diagnostic.related(first, "it stands here first"));
                }
                // Blank, it was told by the schema.
                None if id.trim().is_empty() => (),
                None => {
                    self.by_id.insert(id.clone(), TaskIx::new(ix));
                }
            }
            self.ids.push(id);
        }
    }

    /// The task with an id. Says so, if there is none.
    fn task(&mut self, id: &str, at: &str, what: &str) -> Option<TaskIx> {
        if let Some(ix) = self.by_id.get(id) {
            return Some(*ix);
        }
        let message = format!("{what} `{id}`, which is no task of this DAG");
        let diagnostic = Diagnostic::error(Code::UnknownDependency, message);
        let diagnostic = diagnostic.at(self.source.place(at));
        self.told += 1;
        self.found.push(match self.told <= MAX_FAULTS {
            true => diagnostic.found(id).allowed(self.ids.iter().take(1000)),
            false => diagnostic,
        });
        None
    }

    /// For each task, what it waits for.
    fn edges(&mut self, edges: &[Value]) -> Vec<Vec<TaskIx>> {
        let mut needs = vec![Vec::new(); self.ids.len()];
        for (ix, edge) in edges.iter().enumerate() {
            let Ok(edge) = written::Edge::deserialize(edge) else {
                continue;
            };
            let at = format!("/edges/{ix}");
            let from = self.task(&edge.from, &format!("{at}/from"), "an edge leads from");
            let to = self.task(&edge.to, &format!("{at}/to"), "an edge leads to");
            let (Some(from), Some(to)) = (from, to) else {
                continue;
            };
            if self.edges.insert((from, to)) {
                needs[to.at()].push(from);
                if edge.stream_eligible {
                    self.eligible.push((from, to, ix));
                }
            } else {
                let message = format!(
                    "the edge from `{}` to `{}` stands twice",
                    edge.from, edge.to
                );
                self.fault(Code::DuplicateEdge, &at, message);
            }
        }
        needs
    }

    fn capability(&mut self, ix: usize, capability: &str) {
        let terms = self.terms;
        if terms.capabilities.iter().any(|it| it == capability) {
            return;
        }
        let message = format!("nobody who may be asked serves the capability `{capability}`");
        let help = "an agent with this word among its `capabilities` serves it, or a provider does";
        let at = self.source.place(&format!("/tasks/{ix}/capability"));
        let diagnostic = Diagnostic::error(Code::NotServed, message).at(at);
        let diagnostic = diagnostic.found(capability).allowed(terms.capabilities);
        self.found.push(diagnostic.help(help));
    }

    /// What the task at `ix` works on, if it can be known.
    fn input(&mut self, ix: usize, input: &written::Input) -> Option<Input> {
        let source = match input {
            written::Input::Literal(it) => {
                let literal = json!({ "type": it.kind, "data": it.data });
                return Some(Input::Literal(Json::written(&literal)));
            }
            written::Input::Reference(it) => &it.source,
        };
        let at = format!("/tasks/{ix}/input/source");
        let field = match source.field.as_deref().map(Field::parse).transpose() {
            Ok(field) => field,
            Err(error) => {
                let field = source.field.as_deref().unwrap_or_default();
                let message = format!(
                    "the field `{field}` cannot be read: column {}: {}",
                    error.column, error.message
                );
                let help = "a field is `data`, then `.name` and `[0]` as often as need be, such as `data.items[0].name`";
                let fault = self.fault(Code::BadField, &format!("{at}/field"), message);
                fault.help = Some(help.to_owned());
                return None;
            }
        };
        match (&source.from_task, &source.from_tasks) {
            (Some(id), None) => {
                let of = self.upstream(ix, id, &format!("{at}/from_task"))?;
                if let Some(field) = &field {
                    self.leads_somewhere(of, field, &format!("{at}/field"));
                }
                Some(Input::Output { of, field })
            }
            (None, Some(ids)) => self.several(ix, ids, source.field.is_some(), &at),
            _ => {
                let message = "a source has either `from_task` or `from_tasks`".to_owned();
                self.fault(Code::Rule, &at, message);
                None
            }
        }
    }

    /// What is taken of an output can be there, as far as it is known what the output looks like.
    fn leads_somewhere(&mut self, of: TaskIx, field: &Field, at: &str) {
        let task = &self.source.value()["tasks"][of.at()];
        let kind = task.get("output_type").and_then(Value::as_str);
        let shape = task["capability"].as_str();
        let shape = shape.and_then(|it| self.terms.shapes.get(it));
        let (Some(shape), "json") = (shape, kind.unwrap_or("json")) else {
            return;
        };
        if let Err(error) = shape.has_path(&field.in_payload()) {
            let message = format!(
                "the field `{field}` leads nowhere in the output of `{}`, which is a `{}`: {error}",
                self.ids[of.at()],
                shape.name()
            );
            self.fault(Code::BadField, at, message);
        }
    }

    fn several(&mut self, ix: usize, ids: &[String], has_field: bool, at: &str) -> Option<Input> {
        let at_ids = format!("{at}/from_tasks");
        if has_field {
            let message = "`field` goes with `from_task`, not with `from_tasks`".to_owned();
            let fault = self.fault(Code::Rule, &format!("{at}/field"), message);
            let help = "take the outputs whole; whoever is given them finds the part in each";
            fault.help = Some(help.to_owned());
        }
        if ids.is_empty() {
            let message = "`from_tasks` names no task".to_owned();
            self.fault(Code::Rule, &at_ids, message);
        }
        let mut seen = BTreeSet::new();
        let mut of = Vec::with_capacity(ids.len());
        for (place, id) in ids.iter().enumerate() {
            let at = format!("{at_ids}/{place}");
            of.extend(self.upstream(ix, id, &at));
            if !seen.insert(id) {
                let message = format!("`from_tasks` names `{id}` twice");
                self.fault(Code::Rule, &at, message);
            }
        }
        let is_whole = of.len() == ids.len();
        is_whole.then_some(Input::Outputs(of))
    }

    /// The task with an id, which has to have an edge into the one at `ix`.
    fn upstream(&mut self, ix: usize, id: &str, at: &str) -> Option<TaskIx> {
        let task = &self.ids[ix].clone();
        let of = self.task(id, at, &format!("the input of `{task}` comes from"))?;
        if !self.edges.contains(&(of, TaskIx::new(ix))) {
            let message =
                format!("the input of `{task}` comes from `{id}`, but there is no edge from it");
            let help = json!({ "from": id, "to": task });
            let fault = self.fault(Code::NoEdge, at, message);
            fault.help = Some(format!("add {help} to `edges`"));
        }
        Some(of)
    }

    /// The order between the tasks, if there is one. Names a cycle of each knot if not.
    fn order(&mut self, needs: &[Vec<TaskIx>]) -> Option<TaskGraph> {
        let cycles = match TaskGraph::new(needs) {
            Ok(graph) => return Some(graph),
            Err(cycles) => cycles,
        };
        let edges = self.source.value();
        let edges = edges["edges"].as_array().map_or(&[][..], Vec::as_slice);
        // A task waits for the next: the edge leads the other way.
        let ends = |(waits, on): (TaskIx, TaskIx)| [on, waits].map(|it| &*self.ids[it.at()]);
        let hops = cycles.found.iter().flat_map(Cycle::hops);
        let mut places: HashMap<[&str; 2], Option<usize>> =
            hops.map(|it| (ends(it), None)).collect();
        for (at, edge) in edges.iter().enumerate() {
            let ends = [&edge["from"], &edge["to"]].map(|it| it.as_str().unwrap_or_default());
            if let Some(place) = places.get_mut(&ends) {
                place.get_or_insert(at);
            }
        }
        for cycle in &cycles.found {
            let message = cycle.describe(|it| &self.ids[it.at()]);
            let mut hops = cycle.hops().map(|hop| {
                let [from, to] = ends(hop);
                let at = places[&[from, to]].unwrap_or_default();
                let at = self.source.place(&format!("/edges/{at}"));
                (at, format!("`{to}` waits for `{from}`"))
            });
            let mut diagnostic = Diagnostic::error(Code::Cycle, message);
            if let Some((first, _)) = hops.next() {
                diagnostic = diagnostic.at(first);
            }
            let diagnostic = diagnostic.help("take out one of these edges");
            let diagnostic = hops.fold(diagnostic, |it, (at, note)| it.related(at, note));
            self.found.push(diagnostic);
        }
        if let Some(more) = cycles.and_more() {
            self.found
                .push(Diagnostic::error(Code::Cycle, more).at(self.source.place("/edges")));
        }
        None
    }

    /// For each task the one whose output it may take in as it comes: what it works on is the whole of that, and nothing
    /// else. Says why any other edge cannot stream.
    fn streams(&mut self, tasks: &[Arc<Task>]) -> Vec<Option<TaskIx>> {
        let eligible = mem::take(&mut self.eligible);
        if eligible.is_empty() {
            return Vec::new();
        }
        let mut streams = vec![None; tasks.len()];
        for (from, to, ix) in eligible {
            let why = match &tasks[to.at()].input {
                Input::Output { of, field } if *of == from => match field {
                    Some(field) if !field.is_whole() => {
                        "a part of an output is not there before all of it is"
                    }
                    _ => {
                        streams[to.at()] = Some(from);
                        continue;
                    }
                },
                Input::Outputs(of) if of.contains(&from) => "the outputs of several are one list",
                _ => "the task does not work on what it waits for",
            };
            let message = format!("`stream_eligible` changes nothing here: {why}");
            let at = self.source.place(&format!("/edges/{ix}/stream_eligible"));
            self.found
                .push(Diagnostic::warning(Code::NotActedOn, message).at(at));
        }
        streams
    }

    fn size(&mut self, tasks: &[Arc<Task>], graph: Option<&TaskGraph>) {
        let limits = self.terms.limits;
        let depth = graph.map_or(0, |it| it.levels().into_iter().max().map_or(0, |it| it + 1));
        let largest = tasks.iter().map(|it| match &it.input {
            Input::Literal(literal) => literal.text().len(),
            _ => 0,
        });
        let sizes = [
            ("tasks", self.ids.len(), limits.max_tasks, "max_tasks"),
            ("edges", self.edges.len(), limits.max_edges, "max_edges"),
            (
                "tasks in a row",
                depth as usize,
                limits.max_depth,
                "max_depth",
            ),
            (
                "bytes in one input",
                largest.max().unwrap_or(0),
                limits.max_input_bytes,
                "max_input_bytes",
            ),
        ];
        for (what, size, limit, key) in sizes.into_iter().filter(|it| it.1 > it.2) {
            let message = format!("the DAG has {size} {what}; {limit} are allowed");
            let fault = self.fault(Code::PlanTooLarge, "", message);
            fault.help = Some(format!("`limits.{key}` of `acmp.yaml` sets this limit"));
        }
    }

    /// What the tasks may cost together keeps to the ceiling, so that none is refused for want of money half way.
    fn price(&mut self, tasks: &[Arc<Task>]) {
        let Some(ceiling) = self.terms.max_price_cu else {
            return;
        };
        let mut sum = 0.0;
        for (ix, task) in tasks.iter().enumerate() {
            match task.max_price_cu {
                Some(price) => sum += price,
                None => {
                    let message = format!(
                        "task `{}` may cost anything, but the DAG may cost {ceiling} CU",
                        task.id
                    );
                    let fault = self.fault(Code::Price, &format!("/tasks/{ix}"), message);
                    fault.help = Some("give it a `max_price_cu`".to_owned());
                }
            }
        }
        // Sums of decimals are not exact.
        if sum > ceiling * (1.0 + 1e-9) {
            let message = format!("the tasks may cost {sum} CU together; {ceiling} are allowed");
            self.fault(Code::Price, "/tasks", message);
        }
    }
}
