//! Context variables: declared, and their first values.

use serde_json::Value;

use super::{Batch, Compiler, Variable, Workflow};
use crate::{
    contract::context_variables::{Definition, SourceType},
    diagnostic::{Code, Diagnostic},
    source::pointer,
};

impl Compiler<'_> {
    pub(super) fn variables(&mut self, batches: &[Batch]) -> Vec<Variable> {
        let bundle = self.bundle;
        let Some(part) = &bundle.context_variables else {
            return Vec::new();
        };
        self.result_keys(batches);
        for (agent, visible) in &part.value.agents {
            let at = pointer("/agents", agent);
            if bundle.agent(agent).is_none() && !agent.eq_ignore_ascii_case("user") {
                let message =
                    format!("no file defines the agent `{agent}` that variables are listed for");
                let diagnostic =
                    Diagnostic::warning(Code::UnknownAgent, message).at(part.key_at(&at));
                self.push(
                    diagnostic
                        .found(agent.as_str())
                        .allowed(bundle.agent_names()),
                );
            }
            for (ix, name) in visible.variables.iter().enumerate() {
                let place = part.at(&format!("{at}/variables/{ix}"));
                self.expect_variable(name, place);
            }
        }
        let variables = part.value.definitions.iter();
        variables
            .map(|(name, it)| self.variable(name, it))
            .collect()
    }

    /// Result keys have to be declared, so that whoever reads them is known to read something.
    fn result_keys(&mut self, batches: &[Batch]) {
        let part = &self.bundle.task_batches;
        let n_batches = part.value.batches.len();
        for (ix, batch) in batches.iter().enumerate() {
            let (context, status) = match ix.checked_sub(n_batches) {
                None => (
                    format!("/batches/{ix}/result/context_key"),
                    format!("/batches/{ix}/result/status_key"),
                ),
                Some(ix) => (format!("/conveyors/{ix}/id"), format!("/conveyors/{ix}/id")),
            };
            self.expect_variable(&batch.context_key, part.at(&context));
            self.expect_variable(&batch.status_key, part.at(&status));
        }
    }

    fn variable(&self, name: &str, definition: &Definition) -> Variable {
        let source = definition.source.as_ref();
        let kind = source.map_or(SourceType::Computed, |it| it.kind);
        let default = source
            .and_then(|it| it.default.clone())
            .unwrap_or(Value::Null);
        Variable {
            name: name.to_owned(),
            kind: definition.kind.clone(),
            source: kind,
            default: match kind {
                SourceType::State | SourceType::Config | SourceType::File => {
                    coerced(default, definition.kind.as_deref())
                }
                _ => Value::Null,
            },
            env_var: source
                .and_then(|it| it.env_var.as_ref())
                .map(ToString::to_string),
            path: source
                .and_then(|it| it.path.as_ref())
                .map(|it| self.bundle.project.root.join(it.as_str())),
            format: source.and_then(|it| it.format),
            required: source.and_then(|it| it.required).unwrap_or(false),
        }
    }
}

impl Workflow {
    /// What is odd about a value that somebody sets a variable to during a run.
    pub fn doubt(&self, name: &str, value: &Value) -> Option<String> {
        if self.variables.is_empty() || name == "input" {
            return None;
        }
        let Some(variable) = self.variables.iter().find(|it| it.name == name) else {
            return Some("which is not declared".to_owned());
        };
        let declared = variable.kind.as_deref()?;
        let doubt = || format!("declared as `{declared}`, to {}", kind_of(value));
        (!is_of(declared, value)).then(doubt)
    }
}

/// Whether a value is of a type, as far as its word says anything. Null is of every type.
fn is_of(word: &str, value: &Value) -> bool {
    let word = word.to_lowercase();
    let word = word.split_once('[').map_or(&*word, |it| it.0);
    value.is_null()
        || match word {
            "string" | "str" | "text" => value.is_string(),
            "integer" | "int" => value.as_f64().is_some_and(|it| it.fract() == 0.0),
            "number" | "float" | "double" => value.is_number(),
            "boolean" | "bool" => value.is_boolean(),
            "array" | "list" | "tuple" => value.is_array(),
            "object" | "dict" | "map" => value.is_object(),
            _ => true,
        }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A default written as a text becomes the boolean or integer that its type says it is.
fn coerced(value: Value, kind: Option<&str>) -> Value {
    let Value::String(text) = &value else {
        return value;
    };
    let read = match kind {
        Some("boolean" | "bool") => match text.trim().to_lowercase().as_str() {
            "true" | "1" | "yes" => Some(Value::Bool(true)),
            "false" | "0" | "no" => Some(Value::Bool(false)),
            _ => None,
        },
        Some("integer" | "int") => text.trim().parse::<i64>().ok().map(Value::from),
        _ => None,
    };
    read.unwrap_or(value)
}
