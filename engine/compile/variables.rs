//! Context variables: declared, and their first values.

use serde_json::Value;

use super::{Batch, Compiler, Variable};
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
