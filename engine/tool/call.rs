//! The calls that a model makes while it is asked.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Given, Toolbox};
use crate::prompt::cut;

/// How much is kept of a tool's name and of its arguments, as a model wrote them, and how much of an error is told.
const MAX_NAME: usize = 100;
pub const MAX_ARGUMENTS: usize = 16 << 10;
const MAX_ERROR: usize = 16 << 10;

/// A call that a model made, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub tool: String,
    /// As the model wrote them.
    pub arguments: String,
    pub ok: bool,
    /// The result, or what went wrong: what the model is told.
    pub result: String,
    /// What the tool printed beside that.
    pub printed: String,
    pub took: Duration,
}

/// What calls brought that were made for one answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// The tools that were called, each once, in the order of their first call.
    pub tools: Vec<String>,
    /// The variables that they set.
    pub changed: Map<String, Value>,
}

impl Calls {
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }
}

/// An agent's tools, as one attempt calls them: what a call sets, the next one sees.
#[derive(Debug)]
pub struct Bench<'a> {
    toolbox: &'a Toolbox,
    /// Not there before a function is called.
    given: Option<Given>,
    pub calls: Calls,
}

impl<'a> Bench<'a> {
    pub fn new(toolbox: &'a Toolbox) -> Bench<'a> {
        Bench {
            toolbox,
            given: None,
            calls: Calls::default(),
        }
    }

    /// Makes a call. That it fails is a result as any other.
    pub async fn call(&mut self, tool: &str, arguments: &str) -> Call {
        let begun = Instant::now();
        let made = match self.toolbox.is_function(tool) {
            true => {
                let given = self.given.get_or_insert_with(|| self.toolbox.given.clone());
                self.toolbox.call(tool, arguments, given).await
            }
            false => {
                let nothing = Given::default();
                self.toolbox.call(tool, arguments, &nothing).await
            }
        };
        let took = begun.elapsed();
        let (ok, result) = match made.came {
            Ok(called) => {
                if let Some(given) = &mut self.given {
                    let changed = called.changed.iter();
                    let changed = changed.map(|(name, value)| (name.clone(), value.clone()));
                    given.variables.extend(changed);
                }
                self.calls.changed.extend(called.changed);
                (true, called.text)
            }
            Err(error) => (false, cut(&error.0, MAX_ERROR)),
        };
        let tool = cut(tool, MAX_NAME);
        if self.toolbox.tools.contains_key(&*tool) && !self.calls.tools.contains(&tool) {
            self.calls.tools.push(tool.clone());
        }
        Call {
            tool,
            arguments: cut(arguments, MAX_ARGUMENTS),
            ok,
            result,
            printed: made.printed,
            took,
        }
    }
}
