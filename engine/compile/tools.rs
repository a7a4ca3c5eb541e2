//! Tools: what an agent may call, and what runs on its output.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use serde_json::{Map, Value};

use super::{Batch, Compiler};
use crate::{
    context::RESERVED,
    contract::{
        endpoint::Headers,
        name::Name,
        tools::{
            AgentOrAgents, LifecycleTrigger, Outcome, RESULT_BYTES, SECONDS, Tool, ToolType,
            Tools as Written,
        },
    },
    diagnostic::{Code, Diagnostic, Place, Severity},
    load::Part,
};

/// The tools of a workflow.
#[derive(Debug, Clone, Default)]
pub struct ToolSpecs {
    pub tools: Vec<ToolSpec>,
    pub servers: Vec<ServerSpec>,
    /// Functions that run at certain points of a run.
    pub lifecycle: Vec<LifecycleSpec>,
    /// Functions that rewrite prompts, in order.
    pub prompts: Vec<PromptSpec>,
    /// The variables that no tool may set: only the engine does.
    pub reserved: BTreeSet<String>,
    /// The environment variables that they may see.
    pub env: Vec<Name>,
    /// The workflow's folder, which their paths start at.
    pub folder: PathBuf,
    /// The project's folder.
    pub project: PathBuf,
}

/// One tool.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    pub name: Arc<str>,
    pub agents: Vec<String>,
    pub does: Does,
    pub description: Option<String>,
    /// The arguments as a JSON Schema, if the author wrote one.
    pub parameters: Option<Map<String, Value>>,
    /// Whether it runs on its agents' outputs.
    pub auto: bool,
    /// Whether its agents' models may call it.
    pub bound: bool,
    pub outcome: Option<Outcome>,
    pub timeout: Duration,
    pub max_result_bytes: usize,
    /// Where it is written.
    pub at: Place,
}

/// A function that runs at a certain point of a run.
#[derive(Debug, Clone)]
pub struct LifecycleSpec {
    pub trigger: LifecycleTrigger,
    /// The agent it belongs to, or all.
    pub agent: Option<String>,
    pub tool: ToolSpec,
}

/// A function that rewrites prompts.
#[derive(Debug, Clone)]
pub struct PromptSpec {
    /// The agent whose prompts it rewrites, or all.
    pub agent: Option<String>,
    /// Without it, the function is one of a module.
    pub file: Option<String>,
    pub function: String,
    /// Where it is written.
    pub at: Place,
}

/// What a call of a tool does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Does {
    /// A function of a Python file. The file is in the folder `tools`, or beside it.
    Function { file: String, function: String },
    /// A program.
    Program { argv: Vec<String> },
    /// A tool of one of the servers.
    Served { server: usize, tool: String },
}

/// A server of tools.
#[derive(Debug, Clone)]
pub struct ServerSpec {
    pub name: Arc<str>,
    pub reached: Reached,
    /// Where it is written.
    pub at: Place,
}

/// How a server is reached.
#[derive(Debug, Clone)]
pub enum Reached {
    /// By starting it.
    Program { argv: Vec<String> },
    Url {
        url: String,
        headers: Headers,
        allow_plain_http: bool,
    },
}

impl Compiler<'_> {
    pub(super) fn tools(&mut self, batches: &[Batch]) -> ToolSpecs {
        let mut tools = ToolSpecs {
            folder: self.bundle.folder.clone(),
            project: self.bundle.project.root.clone(),
            ..ToolSpecs::default()
        };
        let keys = batches
            .iter()
            .flat_map(|it| [&*it.context_key, &*it.status_key]);
        tools.reserved = keys
            .chain(RESERVED.iter().copied())
            .map(str::to_owned)
            .collect();
        tools.prompts = self.prompts();
        let Some(part) = &self.bundle.tools else {
            return tools;
        };
        tools.lifecycle = self.lifecycle(part);
        tools.env.clone_from(&part.value.env);
        for (ix, tool) in part.value.tools.iter().enumerate() {
            let at = format!("/tools/{ix}");
            self.tools_agents(&tool.agent, &at, part);
            self.outcome(tool, &at, part, &tools.reserved);
            let does = self.does(tool, &at, part);
            let (Some(does), Some(name)) = (does, tool.called()) else {
                continue;
            };
            tools.tools.push(ToolSpec {
                name: name.as_str().into(),
                agents: tool.agent.names().iter().map(Name::to_string).collect(),
                does,
                description: tool.description.clone(),
                parameters: tool.parameters.clone(),
                auto: tool.auto_tool_call,
                // One that runs by itself is not called besides.
                bound: tool.bind_to_agent && !tool.auto_tool_call,
                outcome: tool.outcome.clone(),
                timeout: Duration::try_from_secs_f64(tool.timeout_seconds).unwrap_or(Duration::MAX),
                max_result_bytes: tool.max_result_bytes,
                at: part.at(&format!("{at}/file")),
            });
        }
        self.servers(part, &mut tools);
        self.tools_names(part);
        tools
    }

    pub(super) fn tools_agents(&mut self, agents: &AgentOrAgents, at: &str, part: &Part<Written>) {
        for (ix, agent) in agents.names().iter().enumerate() {
            let at = match agents {
                AgentOrAgents::One(_) => format!("{at}/agent"),
                AgentOrAgents::Several(_) => format!("{at}/agent/{ix}"),
            };
            self.expect_agent(&part.source, &at, agent);
        }
    }

    /// What is to come of a tool's result.
    fn outcome(
        &mut self,
        tool: &Tool,
        at: &str,
        part: &Part<Written>,
        reserved: &BTreeSet<String>,
    ) {
        let Some(terms) = &tool.outcome else { return };
        let place = |key: &str| part.at(&format!("{at}/outcome{key}"));
        if !tool.auto_tool_call {
            let message = "an `outcome` is accepted but not acted on without `auto_tool_call: true`: what a model calls tells the model alone";
            self.push(Diagnostic::warning(Code::NotActedOn, message).at(place("")));
        }
        let keys = [
            ("/context_key", &terms.context_key),
            ("/attempts_key", &terms.attempts_key),
        ];
        for (key, variable) in keys {
            match reserved.contains(variable.as_str()) || variable.as_str() == "input" {
                true => {
                    let message = format!("only the engine writes the variable `{variable}`");
                    self.push(Diagnostic::error(Code::NotAllowed, message).at(place(key)));
                }
                // It is set all the same, for those who are not held to a list.
                false => {
                    let severity = Severity::Warning;
                    let fault = self.undeclared(variable, place(key));
                    let fault = fault.map(|it| Diagnostic { severity, ..it });
                    fault.into_iter().for_each(|it| self.push(it));
                }
            }
        }
        let known: Vec<&str> = terms.values.iter().map(|it| it.as_str()).collect();
        for (ix, outcome) in terms.retry_on.iter().enumerate() {
            if known.contains(&outcome.as_str()) || *outcome == terms.error_value {
                continue;
            }
            let message = format!("`{outcome}` is no outcome of this tool");
            let fault = Diagnostic::error(Code::NotAllowed, message);
            let fault = fault.at(place(&format!("/retry_on/{ix}")));
            self.push(fault.found(outcome.as_str()).allowed(known.clone()));
        }
    }

    /// What a tool does, if it is one that runs here.
    fn does(&mut self, tool: &Tool, at: &str, part: &Part<Written>) -> Option<Does> {
        if tool.tool_type != ToolType::Agent_Tool {
            let message = "a tool that is shown to a person is accepted but not acted on: nobody looks at a run of this version";
            let at = part.at(&format!("{at}/tool_type"));
            self.push(Diagnostic::warning(Code::NotActedOn, message).at(at));
            return None;
        }
        let found = match (&tool.file, &tool.function, tool.command.as_slice()) {
            (Some(file), Some(function), []) => Does::Function {
                file: file.to_string(),
                function: function.to_string(),
            },
            (None, None, [_, ..]) if tool.name.is_some() => Does::Program {
                argv: tool.command.clone(),
            },
            _ => {
                let message = "a tool has either `file` and `function`, or `command` and `name`";
                self.push(Diagnostic::error(Code::Rule, message).at(part.at(at)));
                return None;
            }
        };
        if let Does::Function { file, .. } = &found
            && !is_inside(file)
        {
            let message =
                format!("the file of a tool lies in the workflow's folder, not at `{file}`");
            let at = part.at(&format!("{at}/file"));
            self.push(Diagnostic::error(Code::NotAllowed, message).at(at));
            return None;
        }
        Some(found)
    }

    fn lifecycle(&mut self, part: &Part<Written>) -> Vec<LifecycleSpec> {
        let mut specs = Vec::new();
        for (ix, tool) in part.value.lifecycle_tools.iter().enumerate() {
            let at = format!("/lifecycle_tools/{ix}");
            if let Some(agent) = &tool.agent {
                self.expect_agent(&part.source, &format!("{at}/agent"), agent);
            }
            let place = part.at(&format!("{at}/file"));
            if tool.tool_type != ToolType::Agent_Tool || !self.is_kept_inside(&tool.file, &place) {
                continue;
            }
            specs.push(LifecycleSpec {
                trigger: tool.trigger,
                agent: tool.agent.as_ref().map(Name::to_string),
                tool: ToolSpec {
                    name: tool.function.as_str().into(),
                    agents: Vec::new(),
                    does: Does::Function {
                        file: tool.file.to_string(),
                        function: tool.function.to_string(),
                    },
                    description: None,
                    parameters: None,
                    auto: true,
                    bound: false,
                    outcome: None,
                    timeout: Duration::from_secs_f64(SECONDS),
                    max_result_bytes: RESULT_BYTES,
                    at: place,
                },
            });
        }
        specs
    }

    fn prompts(&mut self) -> Vec<PromptSpec> {
        let Some(part) = &self.bundle.middleware else {
            return Vec::new();
        };
        let mut specs = Vec::new();
        for (ix, written) in part.value.prompt_middleware.iter().enumerate() {
            let at = format!("/prompt_middleware/{ix}");
            let is_for_all = written.agent.eq_ignore_ascii_case("all");
            if !is_for_all {
                self.expect_agent(&part.source, &format!("{at}/agent"), &written.agent);
            }
            let place = part.at(&at);
            if let Some(file) = &written.filename
                && !self.is_kept_inside(file, &place)
            {
                continue;
            }
            specs.push(PromptSpec {
                agent: (!is_for_all).then(|| written.agent.to_string()),
                file: written.filename.as_ref().map(Name::to_string),
                function: written.function.to_string(),
                at: place,
            });
        }
        specs
    }

    /// Notes a function of a file outside the workflow's folder: the predecessor shares some, and this version does not.
    fn is_kept_inside(&mut self, file: &str, at: &Place) -> bool {
        let is_inside = is_inside(file);
        if !is_inside {
            let message = format!(
                "the functions of `{file}` are accepted but not run: the file lies outside the workflow's folder"
            );
            self.push(Diagnostic::warning(Code::NotActedOn, message).at(at.clone()));
        }
        is_inside
    }

    /// A model that calls a tool says its name and no more.
    fn tools_names(&mut self, part: &Part<Written>) {
        let tools: Vec<_> = part.value.named().collect();
        for (ix, (name, agents, at)) in tools.iter().enumerate() {
            let is_other = |(other, others, _): &&(String, &AgentOrAgents, String)| {
                other == name && others.names().iter().any(|it| agents.names().contains(it))
            };
            if tools[..ix].iter().any(|it| is_other(&it)) {
                let message = format!("an agent has two tools named `{name}`");
                let help = match at.starts_with("/tools") {
                    true => "give one of them another `name`",
                    false => "give the server a `prefix` for the names of its tools",
                };
                self.push(
                    Diagnostic::error(Code::DuplicateName, message)
                        .at(part.at(at))
                        .help(help),
                );
            }
        }
    }
}

/// Whether a path stays in the folder it starts at, as far as it says.
fn is_inside(path: &str) -> bool {
    let is_plain = |it: &str| it != ".." && !it.contains([':', '\0']);
    !path.starts_with(['/', '\\']) && path.split(['/', '\\']).all(is_plain)
}
