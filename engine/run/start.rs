//! The context a run begins with.

use std::{env, fs};

use serde_json::Value;

use crate::{
    compile::{Variable, Workflow},
    context::{Context, RESERVED},
    contract::context_variables::{FileFormat, SourceType},
    diagnostic::{Code, Diagnostic, File},
    source::{self, Source},
};

/// What a run was given cannot be used.
pub type BadInput = Vec<Diagnostic>;

/// Declared variables with their first values, then what the run is given.
///
/// # Errors
/// A variable that is set but not declared, one that is required and not set, or a file that cannot be read.
pub fn initial_context(
    workflow: &Workflow,
    input: Option<String>,
    set: &[(String, Value)],
) -> Result<Context, BadInput> {
    let mut context = Context::default();
    let mut faults = Vec::new();
    for variable in &workflow.variables {
        match first_value(variable) {
            Ok(value) => context.set(&variable.name, value),
            Err(diagnostic) => faults.push(diagnostic),
        }
    }
    let declared: Vec<&str> = workflow
        .variables
        .iter()
        .map(|it| it.name.as_str())
        .collect();
    for (name, value) in set {
        let is_reserved = RESERVED.contains(&name.as_str());
        let is_result = workflow
            .batches
            .iter()
            .any(|it| *it.context_key == **name || *it.status_key == **name);
        if is_reserved || is_result {
            let message = format!("`--set {name}=...`: this variable is written by the engine");
            faults.push(Diagnostic::error(Code::BadInput, message));
        } else if !declared.is_empty() && !declared.contains(&name.as_str()) {
            let message = format!("`--set {name}=...`: this variable is not declared");
            let diagnostic = Diagnostic::error(Code::BadInput, message).found(name);
            faults.push(diagnostic.allowed(declared.iter().copied()));
        } else {
            context.set(name, value.clone());
        }
    }
    for variable in workflow.variables.iter().filter(|it| it.required) {
        let is_given = set.iter().any(|(name, _)| *name == variable.name);
        let is_null = context.get(&variable.name).is_none_or(|it| it.is_null());
        let is_due = matches!(variable.source, SourceType::Config | SourceType::Runtime);
        if is_due && is_null && !is_given {
            let message = format!("the variable `{}` has to be given", variable.name);
            let set = format!("pass `--set {}=VALUE`", variable.name);
            let help = match &variable.env_var {
                Some(env_var) => format!("{set}, or set the environment variable `{env_var}`"),
                None => set,
            };
            faults.push(Diagnostic::error(Code::BadInput, message).help(help));
        }
    }
    let input = input.or_else(|| workflow.initial_message.clone());
    context.set("input", Value::from(input.unwrap_or_default()));
    match faults.is_empty() {
        true => Ok(context),
        false => Err(faults),
    }
}

fn first_value(variable: &Variable) -> Result<Value, Diagnostic> {
    match variable.source {
        SourceType::Config => {
            let set = variable.env_var.as_ref().and_then(|it| env::var(it).ok());
            Ok(set.map_or_else(|| variable.default.clone(), Value::from))
        }
        SourceType::File => read(variable),
        SourceType::State => Ok(variable.default.clone()),
        _ => Ok(Value::Null),
    }
}

fn read(variable: &Variable) -> Result<Value, Diagnostic> {
    let Some(path) = &variable.path else {
        return Ok(variable.default.clone());
    };
    let shown = path.display().to_string();
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(_) if !variable.default.is_null() => return Ok(variable.default.clone()),
        Err(error) => {
            let message = format!(
                "the variable `{}` comes from the file `{shown}`: {error}",
                variable.name
            );
            return Err(Diagnostic::error(Code::MissingFile, message));
        }
    };
    let file: std::sync::Arc<File> = source::decode(&shown, bytes)?;
    let by_ending = || match path.extension().and_then(|it| it.to_str()) {
        Some("json") => FileFormat::Json,
        Some("yaml" | "yml") => FileFormat::Yaml,
        _ => FileFormat::Text,
    };
    match variable.format.unwrap_or_else(by_ending) {
        FileFormat::Json => Ok(Source::parse_json(&file)?.value()),
        FileFormat::Yaml => Ok(Source::parse(&file)?.value()),
        FileFormat::Text => Ok(Value::from(file.text.clone())),
    }
}
