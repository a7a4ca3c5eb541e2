//! Calls the author's functions and programs, and tools of servers. Knows of agents only their names.
//!
//! **Invariant:** whatever a model writes as arguments, and whatever a tool does, a call ends in its time: with a result, or
//! with an error that a model can read.
//! **Invariant:** a call that is dropped leaves nothing running behind it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, LazyLock},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::{
    sync::OnceCell,
    time::{error::Elapsed, timeout},
};

use crate::{
    child::{self, Ended, Program, env::Env},
    compile::tools::{Does, PromptSpec, ToolSpec, ToolSpecs},
    contract::tools::{LifecycleTrigger, SECONDS},
    prompt::cut,
};

mod arguments;
mod call;
mod check;
mod mcp;
mod python;
mod tape;

pub use call::{Bench, Call, Calls};
pub use check::{check, files};
use mcp::Server;
use python::Python;
pub use tape::{OwnCall, Recall, Tape};

/// The longest result that is read at all, in bytes. What a model is shown of it is the tool's own limit.
const MAX_BYTES: usize = 4 << 20;

/// The tools of a workflow, ready to be called.
#[derive(Debug, Default)]
pub struct Tools {
    tools: Vec<Arc<Tool>>,
    lifecycle: Vec<(LifecycleTrigger, Option<String>, Arc<Tool>)>,
    prompts: Vec<PromptSpec>,
    /// Not there where there is nothing to call.
    python: Option<Arc<Python>>,
    tape: Option<Arc<dyn Tape>>,
}

/// What one agent's model may call, and what the tools are given besides their arguments.
#[derive(Debug)]
pub struct Toolbox {
    tools: BTreeMap<Arc<str>, Arc<Tool>>,
    given: LazyLock<Given, Later>,
}

/// Makes what functions are given.
type Later = Box<dyn FnOnce() -> Given + Send>;

/// One tool.
#[derive(Debug)]
pub struct Tool {
    pub spec: ToolSpec,
    way: Way,
    /// The variables that only the engine sets.
    reserved: Arc<BTreeSet<String>>,
    /// Found out once: a function's file has to be read for it.
    definition: OnceCell<Definition>,
}

#[derive(Debug)]
enum Way {
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

/// What a model is told of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    pub name: Arc<str>,
    pub description: String,
    /// The arguments as a JSON Schema.
    pub parameters: Value,
}

impl Definition {
    /// How long it is where a model is told of it.
    pub fn bytes(&self) -> usize {
        self.description.len() + self.parameters.to_string().len()
    }
}

/// What a function is given besides its arguments.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// The variables that its agent may see.
    pub variables: Map<String, Value>,
    /// Who calls it, and where.
    pub runtime: Map<String, Value>,
}

/// What came of a call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Called {
    /// For a model: cut to the tool's limit.
    pub text: String,
    /// The whole result; a text that is no JSON as a text.
    #[serde(default)]
    pub value: Value,
    /// The variables that the function set, with their new values.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub changed: Map<String, Value>,
}

/// What went wrong with a call, told to the model that made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError(pub String);

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Tools {
    /// What tools may see of `env` is looked up here. Nothing is started before the first call.
    pub fn new(specs: &ToolSpecs, env: &Env) -> Tools {
        let python = Arc::new(Python::new(specs, env));
        let servers = specs.servers.iter();
        let servers = servers.map(|it| Arc::new(Server::new(it, specs, env)));
        let servers: Vec<Arc<Server>> = servers.collect();
        let reserved = Arc::new(specs.reserved.clone());
        let tool = |spec: &ToolSpec| {
            let way = match &spec.does {
                Does::Function { file, function } => Way::Function {
                    python: Arc::clone(&python),
                    file: file.clone(),
                    function: function.clone(),
                },
                Does::Program { argv } => {
                    Way::Program(Program::new(argv, &specs.env, None, &specs.folder, env))
                }
                Does::Served { server, tool } => Way::Served {
                    server: Arc::clone(&servers[*server]),
                    tool: tool.clone(),
                },
            };
            Arc::new(Tool {
                spec: spec.clone(),
                way,
                reserved: Arc::clone(&reserved),
                definition: OnceCell::new(),
            })
        };
        let lifecycle = specs.lifecycle.iter();
        Tools {
            tools: specs.tools.iter().map(tool).collect(),
            lifecycle: lifecycle
                .map(|it| (it.trigger, it.agent.clone(), tool(&it.tool)))
                .collect(),
            prompts: specs.prompts.clone(),
            python: Some(Arc::clone(&python)),
            tape: None,
        }
    }

    /// With somebody between the calls and the world.
    pub fn on_tape(mut self, tape: Option<Arc<dyn Tape>>) -> Tools {
        self.tape = tape;
        self
    }

    /// Runs a tool on an agent's output: its fields are the arguments, as far as the tool has parameters for them.
    ///
    /// # Errors
    /// The tool failed.
    pub async fn run(
        &self,
        tool: &Tool,
        (agent, output): (&str, &Value),
        given: &Given,
    ) -> Result<Called, ToolError> {
        let call = OwnCall {
            agent,
            tool: &tool.spec.name,
            arguments: output,
        };
        tape::through(self.tape.as_deref(), &call, tool.run(output, given)).await
    }

    /// What runs at a point of a run, for an agent if it is a turn of one, in the file's order.
    pub fn at(&self, trigger: LifecycleTrigger, agent: Option<&str>) -> Vec<Arc<Tool>> {
        let due = self.lifecycle.iter().filter(|(when, whose, _)| {
            *when == trigger && (whose.is_none() || agent.is_none() || whose.as_deref() == agent)
        });
        due.map(|(.., tool)| Arc::clone(tool)).collect()
    }

    /// An agent's instruction as the prompt functions leave it, and what went wrong with those that are left out for it.
    pub async fn rewrite(
        &self,
        agent: &str,
        (mut system, user): (String, &str),
        given: impl Fn() -> Given,
    ) -> (String, Vec<String>) {
        let mut faults = Vec::new();
        let limit = Duration::from_secs_f64(SECONDS);
        let is_its = |it: &&PromptSpec| it.agent.as_deref().is_none_or(|it| it == agent);
        for spec in self.prompts.iter().filter(is_its) {
            let Some(python) = &self.python else { continue };
            let given = given();
            let told = json!({ "system": system, "user": user });
            let call = OwnCall {
                agent,
                tool: &spec.function,
                arguments: &told,
            };
            let request = json!({
                "do": "rewrite",
                "system": system,
                "user": user,
                "variables": given.variables,
                "runtime": given.runtime,
            });
            let asked = async {
                let file = spec.file.as_deref();
                let mut answer = python.ask(file, &spec.function, request, limit).await?;
                let text = match answer["text"].take() {
                    Value::String(text) => text,
                    _ => system.clone(),
                };
                let value = Value::Null;
                let changed = Map::new();
                Ok(Called {
                    text,
                    value,
                    changed,
                })
            };
            match tape::through(self.tape.as_deref(), &call, asked).await {
                Ok(called) => system = called.text,
                Err(error) => faults.push(format!(
                    "the prompt function `{}` of `{agent}` is left out: {error}",
                    spec.function
                )),
            }
        }
        (system, faults)
    }

    fn of(&self, agent: &str) -> impl Iterator<Item = &Arc<Tool>> {
        let is_its = move |it: &&Arc<Tool>| it.spec.agents.iter().any(|name| name == agent);
        self.tools.iter().filter(is_its)
    }

    /// What runs on an agent's output, in the file's order.
    pub fn auto(&self, agent: &str) -> Vec<Arc<Tool>> {
        let auto = self.of(agent).filter(|it| it.spec.auto);
        auto.cloned().collect()
    }

    /// Whether an agent's model may call anything.
    pub fn has_bound(&self, agent: &str) -> bool {
        self.of(agent).any(|it| it.spec.bound)
    }

    /// What an agent's model may call, if anything. What functions are given is made when one is called first: it may be
    /// large.
    pub fn toolbox(
        &self,
        agent: &str,
        given: impl FnOnce() -> Given + Send + 'static,
    ) -> Option<Arc<Toolbox>> {
        let bound = self.of(agent).filter(|it| it.spec.bound);
        let tools: BTreeMap<_, _> = bound
            .map(|it| (Arc::clone(&it.spec.name), Arc::clone(it)))
            .collect();
        (!tools.is_empty()).then(|| {
            let given: Later = Box::new(given);
            let given = LazyLock::new(given);
            Arc::new(Toolbox { tools, given })
        })
    }
}

impl Toolbox {
    /// Whether a tool is a function, which is given more than its arguments.
    fn is_function(&self, name: &str) -> bool {
        let tool = self.tools.get(name);
        tool.is_some_and(|it| matches!(it.way, Way::Function { .. }))
    }

    /// What a model is told of its tools, by name.
    ///
    /// # Errors
    /// A function cannot be found.
    pub async fn definitions(&self) -> Result<Vec<Definition>, ToolError> {
        let mut definitions = Vec::new();
        for tool in self.tools.values() {
            definitions.push(tool.definition().await?.clone());
        }
        Ok(definitions)
    }

    /// Calls a tool with the arguments as the model wrote them.
    ///
    /// # Errors
    /// There is no such tool, the arguments do not fit it, or it failed.
    pub async fn call(
        &self,
        name: &str,
        arguments: &str,
        given: &Given,
    ) -> Result<Called, ToolError> {
        let Some(tool) = self.tools.get(name) else {
            let name = cut(name, 100);
            let names: Vec<&str> = self.tools.keys().map(|it| &**it).collect();
            return Err(ToolError(format!(
                "there is no tool `{name}`; there is {}",
                names.join(", ")
            )));
        };
        let definition = tool.definition().await?;
        let arguments = arguments::read(arguments, definition)?;
        tool.call(arguments, given, Lax::No).await
    }
}

/// Whether arguments that a function has no parameters for are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lax {
    Yes,
    No,
}

impl Tool {
    async fn run(&self, output: &Value, given: &Given) -> Result<Called, ToolError> {
        let arguments = match output {
            Value::Object(fields) => fields.clone(),
            other => Map::from_iter([("output".to_owned(), other.clone())]),
        };
        self.call(arguments, given, Lax::Yes).await
    }

    async fn call(
        &self,
        arguments: Map<String, Value>,
        given: &Given,
        lax: Lax,
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
                let mut answer = python.ask(Some(file), function, request, limit).await?;
                let text = match answer["text"].take() {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                let changed = match answer["changed"].take() {
                    Value::Object(changed) => changed,
                    _ => Map::new(),
                };
                if let Some(name) = changed.keys().find(|it| self.reserved.contains(*it)) {
                    let message =
                        format!("it sets the variable `{name}`, which only the engine writes");
                    return Err(ToolError(message));
                }
                let is_text = answer["is_text"] == true;
                Ok(Called {
                    changed,
                    ..self.called(text, is_text)
                })
            }
            Way::Program(program) => {
                let input = Value::Object(arguments).to_string();
                let ended = timeout(limit, child::run(program, input, MAX_BYTES)).await;
                let ended = ended.map_err(|it| late(limit, &it))?;
                let ended = ended.map_err(|error| ToolError(program.not_started(&error)))?;
                Ok(self.called(printed(ended)?, true))
            }
            Way::Served { server, tool } => {
                let (text, value) = server.call(tool, arguments, limit).await?;
                let called = self.called(text, true);
                Ok(Called {
                    value: value.unwrap_or(called.value),
                    ..called
                })
            }
        }
    }

    /// A result that is a text may be JSON all the same.
    fn called(&self, text: String, is_text: bool) -> Called {
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

    async fn definition(&self) -> Result<&Definition, ToolError> {
        self.definition.get_or_try_init(|| self.define()).await
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
                python
                    .ask(Some(file), function, request, spec.timeout)
                    .await?
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

fn late(limit: Duration, _: &Elapsed) -> ToolError {
    ToolError(format!("no result within {} seconds", limit.as_secs_f64()))
}

/// What a program printed, if it ended well.
fn printed(ended: Ended) -> Result<String, ToolError> {
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
    Err(ToolError(match ended.stderr.to_string().trim() {
        "" => how,
        said => format!("{how}; it said: {said}"),
    }))
}

#[cfg(unix)]
#[cfg(test)]
mod tests;
