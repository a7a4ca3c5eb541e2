//! `tools.yaml`: what an agent may call, or what runs on its output.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{endpoint::Headers, name::Name};

/// Tools that agents may call, or that run on their output.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Tools", example = example())]
pub struct Tools {
    /// The tools.
    pub tools: Vec<Tool>,
    /// Servers of tools, spoken to by the Model Context Protocol.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mcp_servers: Vec<McpServer>,
    /// Functions that run at certain points of a run.
    pub lifecycle_tools: Vec<LifecycleTool>,
    /// The environment variables that tools may see, besides `PATH`, `HOME`, `LANG`, `TMPDIR` and `SYSTEMROOT`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<Name>,
}

impl Tools {
    /// The names of all tools, each with the agents that have it and where it is written.
    pub fn named(&self) -> impl Iterator<Item = (String, &AgentOrAgents, String)> {
        let tools = self.tools.iter().enumerate().filter_map(|(ix, it)| {
            let name = it.called()?.to_string();
            Some((name, &it.agent, format!("/tools/{ix}")))
        });
        let servers = self.mcp_servers.iter().enumerate();
        let served = servers.flat_map(|(ix, server)| {
            let tools = server.tools.iter().enumerate();
            tools.map(move |(at, tool)| {
                let at = format!("/mcp_servers/{ix}/tools/{at}");
                (server.called(tool), &server.agent, at)
            })
        });
        tools.chain(served)
    }
}

/// One tool.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// The agent, or the agents, that have it.
    pub agent: AgentOrAgents,
    /// The Python file, in the folder `tools` of the workflow.
    #[serde(default)]
    pub file: Option<Name>,
    /// The function in that file.
    #[serde(default)]
    pub function: Option<Name>,
    /// Instead of a file and a function: a program and its arguments. It reads the call's arguments as one JSON object, and what it prints is the result. A relative path with a `/` starts at the workflow's folder. No shell reads it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// What it is called. Without it, the name of the function; a command has to have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// The arguments as a JSON Schema. Without it, a function's own parameters and their annotations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Map<String, Value>>,
    /// How long one call may take.
    #[serde(default = "seconds")]
    #[schemars(range(min = 0.1, max = 86400))]
    pub timeout_seconds: f64,
    /// The longest result that a model is shown, in bytes. What is longer is cut.
    #[serde(default = "result_bytes")]
    #[schemars(range(min = 1, max = 4194304))]
    pub max_result_bytes: usize,
    /// What it does, for the model that may call it. Without it, the first line of the function's docstring.
    #[serde(default)]
    pub description: Option<String>,
    /// What kind of tool it is.
    #[serde(default)]
    pub tool_type: ToolType,
    /// Whether it runs on the agent's validated output instead of being called by the model.
    #[serde(default)]
    pub auto_tool_call: bool,
    /// Whether the model may call it.
    #[serde(default = "yes")]
    pub bind_to_agent: bool,
    /// How a user interface shows it.
    #[serde(default)]
    pub ui: Option<Map<String, Value>>,
    /// What it exchanges with a user interface.
    #[serde(default)]
    pub ui_contract: Option<Map<String, Value>>,
    /// What its result means for the run.
    #[serde(default)]
    pub outcome: Option<Outcome>,
}

/// A server of tools: a program, or an endpoint. It is started when its tools are first needed, and ends with the run.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpServer {
    /// What it is called in messages.
    pub name: Name,
    /// The agent, or the agents, whose models may call its tools.
    pub agent: AgentOrAgents,
    /// A program and its arguments, which speaks the protocol on its standard input and output. A relative path with a `/` starts at the workflow's folder. No shell reads it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Instead of a program: the address of a server that is reached over HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<Name>,
    /// What is sent along with every request to the address. A secret is taken from the environment.
    #[serde(default, skip_serializing_if = "Headers::is_empty")]
    pub headers: Headers,
    /// Whether the address may be one of plain http on another machine, where everybody between can read along.
    #[serde(default)]
    pub allow_plain_http: bool,
    /// The tools that may be called. What else the server has is not offered.
    #[schemars(length(min = 1))]
    pub tools: Vec<Name>,
    /// What stands before the names of its tools, for agents and in rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<Name>,
    /// How long one call may take, and the start before the first.
    #[serde(default = "seconds")]
    #[schemars(range(min = 0.1, max = 86400))]
    pub timeout_seconds: f64,
    /// The longest result that a model is shown, in bytes. What is longer is cut.
    #[serde(default = "result_bytes")]
    #[schemars(range(min = 1, max = 4194304))]
    pub max_result_bytes: usize,
}

impl McpServer {
    /// What a tool of it is called.
    pub fn called(&self, tool: &str) -> String {
        let prefix = self.prefix.as_deref().unwrap_or_default();
        format!("{prefix}{tool}")
    }
}

/// How long a function may take that its author sets no limit for.
pub const SECONDS: f64 = 60.0;

/// How much of a result is told, in bytes, where its author does not say.
pub const RESULT_BYTES: usize = 64 << 10;

fn seconds() -> f64 {
    SECONDS
}

fn result_bytes() -> usize {
    RESULT_BYTES
}

fn yes() -> bool {
    true
}

impl Tool {
    /// What it is called.
    pub fn called(&self) -> Option<&Name> {
        self.name.as_ref().or(self.function.as_ref())
    }
}

#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum AgentOrAgents {
    /// One agent.
    #[schemars(title = "agent")]
    One(Name),
    /// Several agents.
    #[schemars(title = "agents")]
    Several(Vec<Name>),
}

impl AgentOrAgents {
    pub fn names(&self) -> &[Name] {
        match self {
            AgentOrAgents::One(agent) => std::slice::from_ref(agent),
            AgentOrAgents::Several(agents) => agents,
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[expect(non_camel_case_types, reason = "the words of the file format")]
pub enum ToolType {
    /// A function.
    #[default]
    Agent_Tool,
    /// A function that shows something and waits for a person.
    UI_Tool,
    /// Something that is shown.
    UI_Surface,
}

/// What a tool's result means for the run.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The context variable that receives the outcome.
    pub context_key: Name,
    /// The context variable that counts the attempts.
    pub attempts_key: Name,
    /// The field of the result that holds the outcome.
    #[serde(default = "status")]
    pub result_field: Name,
    /// The outcomes there are.
    pub values: Vec<Name>,
    /// The outcome when the tool fails.
    pub error_value: Name,
    /// The most attempts.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100))]
    pub max_attempts: u32,
    /// The outcomes after which the agent speaks again.
    #[serde(default)]
    pub retry_on: Vec<Name>,
}

fn status() -> Name {
    Name::from_static("status")
}

fn one() -> u32 {
    1
}

/// A function that runs at a certain point of a run.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LifecycleTool {
    /// When it runs.
    pub trigger: LifecycleTrigger,
    /// The agent it belongs to, or null.
    #[serde(default)]
    pub agent: Option<Name>,
    /// The Python file, in the folder `tools` of the workflow.
    pub file: Name,
    /// The function in that file.
    pub function: Name,
    /// What it does.
    #[serde(default)]
    pub description: Option<String>,
    /// What kind of tool it is.
    #[serde(default)]
    pub tool_type: ToolType,
    /// How a user interface shows it.
    #[serde(default)]
    pub ui: Option<Map<String, Value>>,
    /// What it exchanges with a user interface.
    #[serde(default)]
    pub ui_contract: Option<Map<String, Value>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LifecycleTrigger {
    /// Before the first turn.
    BeforeChat,
    /// After the last turn.
    AfterChat,
    /// Before a turn.
    BeforeAgent,
    /// After a turn.
    AfterAgent,
    /// When the run starts.
    OnStart,
    /// When the run is complete.
    OnComplete,
    /// When the run failed.
    OnFail,
}

fn example() -> Value {
    json!({
        "tools": [{
            "agent": "Planner",
            "file": "save_plan.py",
            "function": "save_plan",
            "description": "Writes the plan to the context.",
            "auto_tool_call": true
        }]
    })
}
