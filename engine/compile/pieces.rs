//! The five pieces of a runnable batch (Workflow Task Batches, *Decomposition Taxonomy*): a planner, a model of its tasks, a save step, the batch itself, and a reader of the results.

use std::collections::BTreeMap;

use super::{AgentSpec, Batch, Compiler, Form, batches::DAG};
use crate::{
    contract::{context_variables::SourceType, task_batches::SourceKind},
    diagnostic::{Code, Diagnostic, Place},
    shape::Shapes,
};

impl Compiler<'_> {
    /// Names the pieces that are missing. The planner and the batch are there, or it could not have been compiled.
    pub(super) fn pieces(
        &mut self,
        agents: &BTreeMap<String, AgentSpec>,
        batches: &[Batch],
        shapes: &Shapes,
    ) {
        let part = &self.bundle.task_batches;
        for (ix, batch) in batches.iter().enumerate() {
            let at = match ix.checked_sub(part.value.batches.len()) {
                None => format!("/batches/{ix}"),
                Some(ix) => format!("/conveyors/{ix}"),
            };
            if batch.form == Form::Batch {
                self.task_model(batch, &at, ix, shapes);
                match batch.source {
                    SourceKind::ContextVariable => self.save_step(batch, batches, &at, agents),
                    SourceKind::StructuredOutput => self.planner_output(batch, &at, agents),
                }
            } else {
                self.planner_output(batch, &at, agents);
            }
            self.reader(batch, &at, agents);
        }
    }

    fn missing(&mut self, message: String, at: Place, help: String) {
        self.push(
            Diagnostic::warning(Code::MissingPiece, message)
                .at(at)
                .help(help),
        );
    }

    fn task_model(&mut self, batch: &Batch, at: &str, ix: usize, shapes: &Shapes) {
        let part = &self.bundle.task_batches;
        let model = &part.value.batches[ix].source.task_model;
        let is_known = model.starts_with("${")
            || ["DecomposedTask", DAG].contains(&model.as_str())
            || shapes.model(model).is_some();
        if is_known {
            return;
        }
        let message = format!(
            "batch `{}` has no task model: `{model}` is not defined",
            batch.id
        );
        let place = part.at(&format!("{at}/source/task_model"));
        let names = self.bundle.model_names();
        let diagnostic = Diagnostic::warning(Code::MissingPiece, message)
            .at(place)
            .found(model.as_str());
        let help = format!(
            "define `{model}` under `models` of `structured_outputs.yaml`; until then a task is any mapping"
        );
        self.push(diagnostic.allowed(names).help(help));
    }

    /// Something has to write the variable the tasks are read from.
    fn save_step(
        &mut self,
        batch: &Batch,
        batches: &[Batch],
        at: &str,
        agents: &BTreeMap<String, AgentSpec>,
    ) {
        let part = &self.bundle.task_batches;
        let variable = root(&batch.path);
        let place = part.at(&format!("{at}/source/path"));
        self.expect_variable(variable, place.clone());
        let is_written = agents
            .values()
            .any(|it| it.writes.iter().any(|(name, _)| name == variable));
        let is_result = batches.iter().any(|it| &*it.context_key == variable);
        let declared = self.bundle.context_variables.as_ref();
        let source = declared.and_then(|it| it.value.definitions.get(variable)?.source.as_ref());
        let is_given = variable == "input"
            || source.is_some_and(|it| match it.kind {
                SourceType::Runtime | SourceType::File | SourceType::Config => true,
                SourceType::State => it.default.as_ref().is_some_and(|it| !it.is_null()),
                _ => false,
            });
        // What a tool sets is not known before it runs.
        let mut tools = self.bundle.tools.iter().flat_map(|it| &it.value.tools);
        let is_left_to_a_tool = tools.any(|it| it.auto_tool_call);
        if is_written || is_result || is_given || is_left_to_a_tool {
            return;
        }
        let message = format!(
            "batch `{}` has no save step: nothing writes `{variable}`",
            batch.id
        );
        let help = format!(
            "give the planner `writes: {{{variable}: <path in its output>}}`, or a tool with `auto_tool_call: true` that sets it, or pass `--set {variable}=...`"
        );
        self.missing(message, place, help);
    }

    /// The planner's model has to have a place for the tasks.
    fn planner_output(&mut self, batch: &Batch, at: &str, agents: &BTreeMap<String, AgentSpec>) {
        let part = &self.bundle.task_batches;
        let Some(agent) = agents.get(&*batch.trigger) else {
            return;
        };
        let key = match batch.form {
            Form::Batch => "source/path",
            Form::Conveyor => "decomposition_agent",
        };
        let place = part.at(&format!("{at}/{key}"));
        match &agent.shape {
            None => {
                let message = format!(
                    "batch `{}` reads the output of `{}`, which answers with no model",
                    batch.id, batch.trigger
                );
                let help = format!(
                    "register a model for `{}` in `structured_outputs.yaml`",
                    batch.trigger
                );
                self.missing(message, place, help);
            }
            Some(shape) => {
                if let Err(nowhere) = shape.has_path(&batch.path) {
                    let message = format!(
                        "the tasks of batch `{}` are looked for at `{}`, but {nowhere}",
                        batch.id, batch.path
                    );
                    let diagnostic = Diagnostic::error(Code::NoSuchPath, message).at(place);
                    self.push(diagnostic.found(nowhere.part).allowed(nowhere.allowed));
                }
            }
        }
    }

    /// Somebody has to read the results.
    fn reader(&mut self, batch: &Batch, at: &str, agents: &BTreeMap<String, AgentSpec>) {
        let part = &self.bundle.task_batches;
        let is_worker =
            |name: &str| batch.form == Form::Conveyor && batch.allowed.iter().any(|it| it == name);
        let has_reader = agents.values().any(|it| {
            it.name != batch.trigger && !is_worker(&it.name) && it.sees.has(&batch.context_key)
        });
        let is_source = part
            .value
            .batches
            .iter()
            .any(|it| root(&it.source.path) == &*batch.context_key);
        if has_reader || is_source {
            return;
        }
        let message = format!(
            "nobody reads the results of batch `{}`: no later agent sees `{}`",
            batch.id, batch.context_key
        );
        let help = "add an agent that puts them together, and list the key for it in `context_variables.yaml`";
        self.missing(message, part.at(at), help.to_owned());
    }
}

/// The first part of a dotted path: the variable that it starts at.
fn root(path: &str) -> &str {
    let mut parts = path.split('.').map(str::trim);
    parts.find(|it| !it.is_empty()).unwrap_or_default()
}
