//! What a run is given: its input, variables, a plan.

use std::{
    io::{self, Read},
    path::Path,
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Faults, args};
use crate::{
    compile::{First, Workflow},
    context::Context,
    diagnostic::{self, Code, Diagnostic},
    load,
    recording::Replay,
    run,
    source::{self, Source},
};

/// What a run is given, as far as it was written down by a person.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Inputs {
    pub(super) input: Option<String>,
    pub(super) set: Vec<(String, Value)>,
    pub(super) plan: Option<PlanFile>,
    /// What a run of `dag` is given instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) dag: Option<DagInputs>,
}

/// A DAG, and how it is carried out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct DagInputs {
    pub(super) file: PlanFile,
    /// Whose agents serve it.
    pub(super) workflow: Option<String>,
    pub(super) acmp: Option<PlanFile>,
    pub(super) how: args::DagOptions,
}

/// A file with a plan or the like, under the name it was given by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PlanFile {
    pub(super) name: String,
    pub(super) text: String,
}

impl Inputs {
    /// Reads what arguments name.
    pub(super) fn read(given: &args::Given, plan: Option<&Path>) -> Result<Inputs, Faults> {
        let mut faults = Vec::new();
        let mut inputs = Inputs::default();
        match given.input.as_deref().map(read_input).transpose() {
            Ok(input) => inputs.input = input,
            Err(fault) => faults.push(fault),
        }
        for text in &given.set {
            match text.split_once('=') {
                Some((key, value)) if !key.trim().is_empty() => {
                    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
                    inputs.set.push((key.trim().to_owned(), value));
                }
                _ => {
                    let message = format!("`--set {text}` is not of the form KEY=VALUE");
                    faults.push(Diagnostic::error(Code::BadInput, message));
                }
            }
        }
        match plan.map(|it| PlanFile::read(it, "plan")).transpose() {
            Ok(plan) => inputs.plan = plan,
            Err(fault) => faults.push(fault),
        }
        match faults.is_empty() {
            true => Ok(inputs),
            false => Err(faults),
        }
    }

    /// Takes another file in place of the one that stands in for a workflow's `acmp.yaml`.
    ///
    /// # Errors
    /// It cannot be read, or the run was given no DAG.
    pub(super) fn take_acmp(&mut self, file: &Path, run: &str) -> Result<(), Diagnostic> {
        let Some(dag) = &mut self.dag else {
            let message = format!("run `{run}` was not begun by `mozaiks-run dag`");
            let help = "the providers of a workflow stand in its `acmp.yaml`";
            return Err(Diagnostic::error(Code::BadInput, message).help(help));
        };
        dag.acmp = Some(PlanFile::read(file, "file of `--acmp`")?);
        Ok(())
    }

    /// What a recorded run was given; nothing where that cannot be read.
    pub(super) fn recorded(replay: &Replay) -> Inputs {
        serde_json::from_value(replay.head().given.clone()).unwrap_or_default()
    }

    /// The context a run begins with, and the plan it is given.
    pub(super) fn prepare(&self, workflow: &Workflow) -> Result<(Context, Option<Source>), Faults> {
        let mut faults = Vec::new();
        let plan = self.plan.as_ref().map(PlanFile::parse).transpose();
        let plan = plan.unwrap_or_else(|fault| {
            faults.push(fault);
            None
        });
        let context = run::initial_context(workflow, self.input.clone(), &self.set);
        let context = context.unwrap_or_else(|more| {
            faults.extend(more);
            Context::default()
        });
        if let First::Dag(fixed) = &workflow.first
            && (self.input.is_some() || plan.is_some())
        {
            let message = format!(
                "`{}` carries out the DAG `{}`, whose tasks have inputs of their own",
                workflow.name, fixed.dag.id
            );
            let help = "leave out `--input` and `--plan`; another DAG is carried out by `mozaiks-run dag FILE`";
            faults.push(Diagnostic::error(Code::BadInput, message).help(help));
        }
        match faults.is_empty() {
            true => Ok((context, plan)),
            false => Err(faults),
        }
    }
}

fn read_input(text: &str) -> Result<String, Diagnostic> {
    let fault = |message: String| Diagnostic::error(Code::BadInput, message);
    let (name, bytes) = match text.strip_prefix('@') {
        Some(path) => (
            path,
            load::read_bounded(Path::new(path))
                .map_err(|error| fault(format!("cannot read the input `{path}`: {error}")))?,
        ),
        None if text == "-" => {
            let mut bytes = Vec::new();
            let read = io::stdin()
                .take(source::MAX_BYTES as u64 + 1)
                .read_to_end(&mut bytes);
            read.map_err(|error| {
                fault(format!(
                    "cannot read the input from standard input: {error}"
                ))
            })?;
            ("standard input", bytes)
        }
        None => return Ok(text.to_owned()),
    };
    source::decode(name, bytes).map(|it| it.text.clone())
}

impl PlanFile {
    /// Reads a file that is `what`.
    pub(super) fn read(path: &Path, what: &str) -> Result<PlanFile, Diagnostic> {
        let name = path.display().to_string();
        let bytes = load::read_bounded(path).map_err(|error| {
            let message = format!("cannot read the {what} `{name}`: {error}");
            Diagnostic::error(Code::BadInput, message)
        })?;
        let text = source::decode(&name, bytes)?.text.clone();
        Ok(PlanFile { name, text })
    }

    pub(super) fn parse(&self) -> Result<Source, Diagnostic> {
        let file = Arc::new(diagnostic::File {
            name: self.name.clone(),
            text: self.text.clone(),
        });
        match self.name.ends_with(".json") {
            true => Source::parse_json(&file),
            false => Source::parse(&file),
        }
    }
}
