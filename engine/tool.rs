//! Calls the author's functions and programs, and tools of servers. Knows of agents only their names.
//!
//! **Invariant:** whatever a model writes as arguments, and whatever a tool does, a call ends in its time: with a result, or
//! with an error that a model can read.
//! **Invariant:** a call that is dropped leaves nothing running behind it.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, LazyLock},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::OnceCell;

use crate::{
    child::{Program, env::Env},
    compile::tools::{Does, PromptSpec, ToolSpec, ToolSpecs},
    contract::tools::{LifecycleTrigger, SECONDS},
    endpoint::Secrets,
    prompt::cut,
};

mod arguments;
mod call;
mod check;
mod mcp;
mod printed;
mod python;
mod syntax;
mod tape;
mod way;

pub use call::{Bench, Call, Calls, MAX_ARGUMENTS};
pub use check::{check, files, no_program};
use mcp::Server;
pub use printed::Made;
use printed::Printed;
use python::Python;
pub use tape::{OwnCall, Recall, Tape, Whose};
pub use way::Tool;
use way::{Lax, Way};

/// The longest result that is read at all, in bytes. What a model is shown of it is the tool's own limit.
const MAX_BYTES: usize = 4 << 20;

/// The tools of a workflow, ready to be called.
#[derive(Debug, Default)]
pub struct Tools {
    tools: Vec<Arc<Tool>>,
    lifecycle: Vec<(LifecycleTrigger, Option<String>, Arc<Tool>)>,
    prompts: Vec<PromptSpec>,
    /// What they may see and must not tell.
    secrets: Arc<Secrets>,
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

/// Why a model cannot be told of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undefined {
    pub error: ToolError,
    /// Whether it may be there another time.
    pub may_come: bool,
}

impl ToolError {
    fn without(self, secrets: &Secrets) -> ToolError {
        ToolError(secrets.hide_in_answer(self.0))
    }
}

impl Tools {
    /// What tools may see of `env` is looked up here; what is a secret of that is hidden in whatever they tell. Nothing is
    /// started before the first call.
    pub fn new(specs: &ToolSpecs, secrets: Secrets, env: &Env) -> Tools {
        let secrets = Arc::new(secrets);
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
                secrets: Arc::clone(&secrets),
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
            secrets: Arc::clone(&secrets),
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
    pub async fn run(
        &self,
        tool: &Tool,
        (whose, output): (Whose<'_>, &Value),
        given: &Given,
    ) -> Made {
        let call = OwnCall {
            whose,
            tool: &tool.spec.name,
            arguments: output,
        };
        let mut printed = String::new();
        let made = async {
            let made = tool.run(output, given).await;
            printed = made.printed;
            made.came
        };
        let came = tape::through(self.tape.as_deref(), &call, made).await;
        Made { came, printed }
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
        whose: Whose<'_>,
        (mut system, user): (String, &str),
        given: impl Fn() -> Given,
    ) -> (String, Vec<String>) {
        let agent = whose.agent;
        let mut faults = Vec::new();
        let limit = Duration::from_secs_f64(SECONDS);
        for spec in self.rewriting(agent) {
            let Some(python) = &self.python else { continue };
            let given = given();
            let told = json!({ "system": system, "user": user });
            let call = OwnCall {
                whose,
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
                let printed = Printed::default();
                let answer = python.ask(file, &spec.function, request, limit, &printed);
                let mut answer = answer.await?;
                let text = match answer["text"].take() {
                    Value::String(text) => text,
                    _ => system.clone(),
                };
                let value = Value::Null;
                let changed = Map::new();
                Ok(Called {
                    text: self.secrets.hide_in_answer(text),
                    value,
                    changed,
                })
            };
            let asked = async {
                asked
                    .await
                    .map_err(|it: ToolError| it.without(&self.secrets))
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

    /// Whether any function rewrites an agent's prompts.
    pub fn rewrites(&self, agent: &str) -> bool {
        self.rewriting(agent).next().is_some()
    }

    fn rewriting(&self, agent: &str) -> impl Iterator<Item = &PromptSpec> {
        let is_its = move |it: &&PromptSpec| it.agent.as_deref().is_none_or(|it| it == agent);
        self.prompts.iter().filter(is_its)
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
    /// A function cannot be found, or a server cannot be reached.
    pub async fn definitions(&self) -> Result<Vec<Definition>, Undefined> {
        let mut definitions = Vec::new();
        for tool in self.tools.values() {
            definitions.push(tool.definition().await?.clone());
        }
        Ok(definitions)
    }

    /// Calls a tool with the arguments as the model wrote them. It fails as well if there is no such tool, or if the
    /// arguments do not fit it.
    pub async fn call(&self, name: &str, arguments: &str, given: &Given) -> Made {
        let Some(tool) = self.tools.get(name) else {
            let name = cut(name, 100);
            let names: Vec<&str> = self.tools.keys().map(|it| &**it).collect();
            let error = format!("there is no tool `{name}`; there is {}", names.join(", "));
            return Made::from(Err(ToolError(error)));
        };
        let read = match tool.definition().await {
            Ok(definition) => arguments::read(arguments, definition),
            Err(undefined) => Err(undefined.error),
        };
        match read {
            Ok(arguments) => tool.call(arguments, given, Lax::No).await,
            Err(error) => Made::from(Err(error)),
        }
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests;
