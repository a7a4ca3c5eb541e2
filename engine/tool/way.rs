//! One tool, and the ways in which it is called.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::{Map, Value, json};
use tokio::{
    sync::OnceCell,
    time::{Instant, error::Elapsed, timeout},
};

use super::{
    Called, Definition, Given, MAX_BYTES, Made, ToolError, Undefined, mcp::Server,
    printed::Printed, python::Python,
};
use crate::{
    child::{self, Ended, Ends, Program},
    compile::tools::ToolSpec,
    endpoint::Secrets,
    prompt::cut,
};

/// One tool.
#[derive(Debug)]
pub struct Tool {
    pub spec: ToolSpec,
    pub(super) way: Way,
    /// The variables that only the engine sets.
    pub(super) reserved: Arc<BTreeSet<String>>,
    /// What it may see and must not tell.
    pub(super) secrets: Arc<Secrets>,
    /// Found out once: a function's file has to be read for it.
    pub(super) definition: OnceCell<Definition>,
}

#[derive(Debug)]
pub(super) enum Way {
    Function {
        python: Arc<Python>,
        file: String,
        function: String,
    },
    Program(Program),
    Served {
        server: Arc<Server>,
        tool: String,
    },
}

/// Whether arguments that a function has no parameters for are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lax {
    Yes,
    No,
}

impl Tool {
    pub(super) async fn run(&self, output: &Value, given: &Given) -> Made {
        let arguments = match output {
            Value::Object(fields) => fields.clone(),
            other => Map::from_iter([("output".to_owned(), other.clone())]),
        };
        self.call(arguments, given, Lax::Yes).await
    }

    pub(super) async fn call(
        &self,
        arguments: Map<String, Value>,
        given: &Given,
        lax: Lax,
    ) -> Made {
        let printed = Printed::default();
        let came = self.reach(arguments, given, lax, &printed).await;
        Made {
            came: came.map_err(|it| it.without(&self.secrets)),
            printed: self.secrets.hide_in_answer(printed.take()),
        }
    }

    async fn reach(
        &self,
        arguments: Map<String, Value>,
        given: &Given,
        lax: Lax,
        printed: &Printed,
    ) -> Result<Called, ToolError> {
        let limit = self.spec.timeout;
        match &self.way {
            Way::Function {
                python,
                file,
                function,
            } => {
                let request = json!({
                    "do": "call",
                    "arguments": arguments,
                    "lax": lax == Lax::Yes,
                    "variables": given.variables,
                    "runtime": given.runtime,
                });
                let answer = python.ask(Some(file), function, request, limit, printed);
                let mut answer = answer.await?;
                let text = match answer["text"].take() {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                let mut changed = match answer["changed"].take() {
                    Value::Object(changed) => changed,
                    _ => Map::new(),
                };
                if let Some(name) = changed.keys().find(|it| self.reserved.contains(*it)) {
                    let message =
                        format!("it sets the variable `{name}`, which only the engine writes");
                    return Err(ToolError(message));
                }
                self.secrets.hide_in_fields(&mut changed);
                let is_text = answer["is_text"] == true;
                Ok(Called {
                    changed,
                    ..self.called(text, is_text)
                })
            }
            Way::Program(program) => {
                let input = Value::Object(arguments).to_string();
                let mut said = Ends::default();
                let run = child::run(program, input, MAX_BYTES, &mut said);
                let ended = timeout(limit, run).await;
                let said = said.to_string();
                let ended = match ended {
                    Ok(ended) => ended.map_err(|error| ToolError(program.not_started(&error)))?,
                    Err(elapsed) => {
                        printed.push(said.as_bytes());
                        return Err(late(limit, &elapsed));
                    }
                };
                // What a program said that failed is told as its error.
                let result = result(ended, &said)?;
                printed.push(said.as_bytes());
                Ok(self.called(result, true))
            }
            Way::Served { server, tool } => {
                let called = server.call(tool, arguments, limit).await;
                printed.push(server.said().await.as_bytes());
                let (text, value) = called?;
                let mut called = self.called(text, true);
                if let Some(mut value) = value {
                    self.secrets.hide_in_value(&mut value);
                    called.value = value;
                }
                Ok(called)
            }
        }
    }

    /// A result that is a text may be JSON all the same. A secret is hidden before the text is cut, where it could be in two.
    fn called(&self, text: String, is_text: bool) -> Called {
        let text = self.secrets.hide_in_answer(text);
        let value = match serde_json::from_str(&text) {
            Ok(value) => value,
            Err(_) if is_text => Value::from(text.as_str()),
            // JSON that is nested too deeply to be read.
            Err(_) => Value::Null,
        };
        Called {
            text: cut(&text, self.spec.max_result_bytes),
            value,
            changed: Map::new(),
        }
    }

    pub(super) async fn definition(&self) -> Result<&Definition, Undefined> {
        let begun = Instant::now();
        let definition = self.definition.get_or_try_init(|| self.define()).await;
        definition.map_err(|error| {
            let is_served = matches!(self.way, Way::Served { .. });
            // A file that says nothing in its time may do so when less is going on.
            let may_come = is_served || begun.elapsed() >= self.spec.timeout;
            Undefined { error, may_come }
        })
    }

    async fn define(&self) -> Result<Definition, ToolError> {
        let spec = &self.spec;
        let own = match &self.way {
            Way::Function {
                python,
                file,
                function,
            } if spec.parameters.is_none() || spec.description.is_none() => {
                let request = json!({ "do": "describe" });
                let printed = Printed::default();
                let asked = python.ask(Some(file), function, request, spec.timeout, &printed);
                asked.await?
            }
            Way::Served { server, tool } => {
                let (description, parameters) = server.describe(tool, spec.timeout).await?;
                json!({ "description": description, "parameters": parameters })
            }
            _ => json!({ "parameters": { "type": "object" } }),
        };
        let own_description = || own["description"].as_str().unwrap_or_default().to_owned();
        Ok(Definition {
            name: Arc::clone(&spec.name),
            description: spec.description.clone().unwrap_or_else(own_description),
            parameters: match &spec.parameters {
                Some(parameters) => Value::Object(parameters.clone()),
                None => own["parameters"].clone(),
            },
        })
    }
}

pub(super) fn late(limit: Duration, _: &Elapsed) -> ToolError {
    ToolError(format!("no result within {} seconds", limit.as_secs_f64()))
}

/// What a program printed, if it ended well.
fn result(ended: Ended, said: &str) -> Result<String, ToolError> {
    if ended.stdout.len() > MAX_BYTES {
        let message = format!("the result is longer than the {MAX_BYTES} bytes that are allowed");
        return Err(ToolError(message));
    }
    let how = match &ended.status {
        Ok(status) if status.success() => {
            return String::from_utf8(ended.stdout)
                .map(|it| it.trim_end().to_owned())
                .map_err(|_| ToolError("the result is not UTF-8".to_owned()));
        }
        Ok(status) => format!("it ended with {status}"),
        Err(error) => format!("it cannot be waited for: {error}"),
    };
    Err(ToolError(match said.trim() {
        "" => how,
        said => format!("{how}; it said: {said}"),
    }))
}
