//! Arguments as a model wrote them.

use serde_json::{Map, Value};

use super::{Definition, ToolError};
use crate::prompt::cut;

/// How many faults are told at once.
const FAULTS: usize = 5;
/// How much is told of one: it may quote what the model wrote.
const FAULT_BYTES: usize = 500;

/// Reads arguments, if they fit.
pub(super) fn read(text: &str, tool: &Definition) -> Result<Map<String, Value>, ToolError> {
    let name = &tool.name;
    // Some models write nothing for no arguments.
    let text = match text.trim() {
        "" => "{}",
        text => text,
    };
    let value: Value = serde_json::from_str(text)
        .map_err(|error| ToolError(format!("the arguments of `{name}` are not JSON: {error}")))?;
    let validator = jsonschema::validator_for(&tool.parameters).map_err(|error| {
        let error = cut(&error.to_string(), FAULT_BYTES);
        ToolError(format!(
            "the parameters of `{name}` are no JSON Schema: {error}"
        ))
    })?;
    let faults: Vec<String> = validator
        .iter_errors(&value)
        .take(FAULTS)
        .map(|error| {
            let message = cut(&error.to_string(), FAULT_BYTES);
            match error.instance_path().as_str() {
                "" => message,
                at => format!("{at}: {message}"),
            }
        })
        .collect();
    match value {
        Value::Object(arguments) if faults.is_empty() => Ok(arguments),
        _ if faults.is_empty() => Err(ToolError(format!(
            "the arguments of `{name}` are no JSON object"
        ))),
        _ => Err(ToolError(format!(
            "the arguments of `{name}` do not fit: {}",
            faults.join("; ")
        ))),
    }
}
