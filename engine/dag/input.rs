//! What a task works on becomes a literal (Task Decomposition Format, *Input References*).

use std::fmt;

use serde_json::{Value, json};

use super::{Input, field::Nowhere};
use crate::{context::Json, graph::TaskIx};

/// Why there is no literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unresolved {
    /// The field leads nowhere in the output.
    Nowhere { field: String, why: Nowhere },
    /// It would be so many bytes.
    TooLarge { bytes: usize, limit: usize },
}

impl Input {
    /// The literal: `type` and `data`. All outputs that it is made of are there.
    ///
    /// # Errors
    /// Why it cannot be made.
    pub fn resolve(
        &self,
        output: impl Fn(TaskIx) -> Json,
        limit: usize,
    ) -> Result<Json, Unresolved> {
        let literal = match self {
            Input::Literal(literal) => return Ok(literal.clone()),
            Input::Output { of, field: None } => output(*of),
            Input::Output {
                of,
                field: Some(field),
            } => {
                // The tree is kept: many tasks may take their parts of one output.
                let whole = output(*of);
                let whole = whole.value();
                let part = field.resolve(&whole).map_err(|why| {
                    let field = field.to_string();
                    Unresolved::Nowhere { field, why }
                })?;
                let kind = match part {
                    _ if field.is_whole() => whole["type"].as_str().unwrap_or("json"),
                    Value::String(_) => "text",
                    _ => "json",
                };
                Json::of_text(format!("{{\"type\":{},\"data\":{part}}}", json!(kind)))
            }
            Input::Outputs(of) => {
                let bytes = of.iter().map(|it| output(*it).length() + 1).sum();
                if bytes > limit {
                    return Err(Unresolved::TooLarge { bytes, limit });
                }
                let outputs: Vec<Json> = of.iter().map(|it| output(*it)).collect();
                let outputs: Vec<_> = outputs.iter().map(Json::text).collect();
                Json::of_text(format!(
                    "{{\"type\":\"json\",\"data\":[{}]}}",
                    outputs.join(",")
                ))
            }
        };
        match literal.length() {
            bytes if bytes > limit => Err(Unresolved::TooLarge { bytes, limit }),
            _ => Ok(literal),
        }
    }
}

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unresolved::Nowhere { field, why } => write!(f, "`{field}` leads nowhere: {why}"),
            Unresolved::TooLarge { bytes, limit } => {
                write!(f, "the input would be {bytes} bytes; {limit} are allowed")
            }
        }
    }
}

impl std::error::Error for Unresolved {}
