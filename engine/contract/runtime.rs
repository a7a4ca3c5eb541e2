//! `runtime` of an agent: how it is asked.

use std::{collections::BTreeMap, num::NonZeroU64};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{endpoint::Headers, name::Name};

/// How an agent is asked.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Runtime {
    /// A model behind an OpenAI-compatible endpoint.
    #[schemars(title = "openai")]
    Openai {
        /// The provider whose limits and prices hold, and whose endpoint it is. Without it, the provider that has this `base_url`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<Name>,
        /// The model's name. Without it, the environment variable `MOZAIKS_MODEL`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<Name>,
        /// Where the endpoint is, up to and with `/v1`. Without it, the environment variable `OPENAI_BASE_URL`; without that, OpenAI's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base_url: Option<Name>,
        /// The environment variable that holds the key. Without it, `OPENAI_API_KEY`. A loopback endpoint needs none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        api_key_env: Option<Name>,
        /// Which of its APIs the endpoint is asked by.
        #[serde(default)]
        api: Api,
        /// What is sent along with every request. A secret is taken from the environment.
        #[serde(default, skip_serializing_if = "Headers::is_empty")]
        headers: Headers,
        /// Whether the endpoint may be one of plain http on another machine, where everybody between can read along.
        #[serde(default)]
        allow_plain_http: bool,
        /// Who is asked, in this order, where the model's endpoint is the trouble: the kinds `rate_limited`, `quota`, `overloaded`, `timeout`, `idle_timeout`, `connection`, `authentication` and `not_found`. All within one attempt.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        fallback: Vec<Fallback>,
        /// How freely the model chooses its words; 0 is the least. Without it, the endpoint's default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(min = 0, max = 2))]
        temperature: Option<f64>,
        /// The most tokens an answer may have. Without it, the endpoint's default. An answer that streams is stopped when it is far longer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_output_tokens: Option<NonZeroU64>,
        /// How the endpoint is asked for a structured output.
        #[serde(default)]
        structured: Structured,
        /// Whether the answer is sent piece by piece, so that a slow one can be told from a dead one.
        #[serde(default = "default_stream")]
        stream: bool,
        /// The longest silence of the endpoint, in seconds, before the attempt is given up. Without `stream`, the whole answer comes after a silence.
        #[serde(default = "default_idle_timeout")]
        idle_timeout_seconds: NonZeroU64,
        /// How often the model may call tools, any number of them each time, before it has to answer.
        #[serde(default = "default_tool_rounds")]
        #[schemars(range(min = 1, max = 100))]
        max_tool_rounds: u32,
        /// More fields for the request's body, as the endpoint names them. None of those that say what is asked, of which model and how long the answer may be: they have fields of their own, and budgets go by them. Only where the endpoint knows the longest answer by another name, that may stand here, in place of `max_output_tokens`.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        extra_body: BTreeMap<String, Value>,
    },
    /// A program: one JSON request on its standard input, one JSON value on its standard output.
    #[schemars(title = "command")]
    Command {
        /// The provider that the program asks: its calls are counted among those of the others.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<Name>,
        /// The program and its arguments. A relative path with a `/` starts at the workflow's folder. No shell reads it.
        #[schemars(length(min = 1))]
        argv: Vec<String>,
        /// The environment variables the program may see, besides `PATH`, `HOME`, `LANG`, `TMPDIR` and `SYSTEMROOT`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        env: Vec<Name>,
        /// The folder the program runs in, relative to the workflow's folder. Without it, the workflow's folder.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cwd: Option<Name>,
        /// Whether `completed_task_outputs` and `decomposition_plan` stand in the request itself instead of in files that it names.
        #[serde(default)]
        inline: bool,
    },
    /// Nobody: a MiniJinja template over the context makes the answer. For splitting an input and for putting results together.
    #[schemars(title = "template")]
    Template {
        /// The template. It sees every context variable the agent may see, `input`, and in a batch `current_task`, `dependency_task_outputs` and the like.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        template: Option<String>,
        /// The template's file, relative to the file that names it. Instead of `template`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        template_file: Option<Name>,
        /// What the template makes.
        #[serde(default)]
        output: TemplateOutput,
        /// The most steps a rendering may take.
        #[serde(default = "default_fuel")]
        fuel: NonZeroU64,
    },
    /// The providers of `acmp.yaml` that serve a capability.
    #[schemars(title = "acmp")]
    Acmp {
        /// The capability.
        capability: Name,
    },
    /// A remote agent that speaks A2A 1.0 or 0.3 (JSON-RPC), found by its card.
    #[schemars(title = "a2a")]
    A2a {
        /// The provider whose limits hold.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<Name>,
        /// The address of the agent, under which its card lies at `.well-known/agent-card.json`; or that of a card, if it ends in `.json`.
        url: Name,
        /// Where the agent answers. Without it, where its card says, which has to be the card's own host and port: key and headers go nowhere else.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        endpoint: Option<Name>,
        /// The environment variable that holds a key, which is sent as a bearer token.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        api_key_env: Option<Name>,
        /// What is sent along with every request. A secret is taken from the environment.
        #[serde(default, skip_serializing_if = "Headers::is_empty")]
        headers: Headers,
        /// Whether the agent may be one of plain http on another machine, where everybody between can read along.
        #[serde(default)]
        allow_plain_http: bool,
        /// The longest silence of the agent, in seconds, before the attempt is given up.
        #[serde(default = "default_idle_timeout")]
        idle_timeout_seconds: NonZeroU64,
    },
    /// A person at the terminal, who may take as long as they like: the run can be left, and resumed days later.
    #[schemars(title = "human")]
    Human {
        /// The question, as a MiniJinja template over what the agent may see. Without it, what another agent would be told: the task's prompt, or the message of the turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<String>,
        /// The answers there are to choose from, by number or text. Without them, any text.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        choices: Vec<Choice>,
        /// The answer that an empty line stands for, and that is taken with `--no-input`, where nobody can be asked, and when the time is up. One of the choices, if there are any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default: Option<Name>,
        /// How long the person may take, in seconds. Without it, without end: the timeout of a batch is not for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_seconds: Option<NonZeroU64>,
    },
    /// Nobody: replies written down, one after the other; the last repeats. For tests and examples.
    #[schemars(title = "scripted")]
    Scripted {
        /// The provider that these replies are as if from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<Name>,
        /// The replies, in order. A text is a reply as it stands.
        #[schemars(length(min = 1))]
        replies: Vec<ScriptedReply>,
    },
}

/// A model that is asked in place of another. What it does not say is as it is there.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fallback {
    /// The model's name.
    pub model: Name,
    /// Where its endpoint is, if it is another. It is then sent neither the headers of the first model nor the key that the first one names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<Name>,
    /// The environment variable that holds its key. Without it, at the same endpoint that of the first model; at another one `OPENAI_API_KEY`, unless the first names that as its own. A loopback endpoint needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<Name>,
    /// What is sent along with every request.
    #[serde(default, skip_serializing_if = "Headers::is_empty")]
    pub headers: Headers,
    /// Whether the endpoint may be one of plain http on another machine.
    #[serde(default)]
    pub allow_plain_http: bool,
}

/// One of the answers a person can choose.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Choice {
    /// The answer as it stands.
    #[schemars(title = "text")]
    Text(Name),
    /// What is shown, and the value that it stands for.
    #[schemars(title = "value")]
    Value(ChoiceOfValue),
}

/// What is shown to a person, and the value that it stands for.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChoiceOfValue {
    /// What is shown.
    pub text: Name,
    /// The answer: any value. Where a model is registered, it has to fit it.
    pub json: Value,
}

impl Runtime {
    /// As its `kind` is written.
    pub fn kind(&self) -> &'static str {
        match self {
            Runtime::Openai { .. } => "openai",
            Runtime::Command { .. } => "command",
            Runtime::Template { .. } => "template",
            Runtime::A2a { .. } => "a2a",
            Runtime::Acmp { .. } => "acmp",
            Runtime::Human { .. } => "human",
            Runtime::Scripted { .. } => "scripted",
        }
    }
}

impl Choice {
    /// What is shown.
    pub fn text(&self) -> &str {
        match self {
            Choice::Text(text) | Choice::Value(ChoiceOfValue { text, .. }) => text,
        }
    }

    /// What it stands for.
    pub fn answer(&self) -> String {
        match self {
            Choice::Text(text) => text.to_string(),
            Choice::Value(it) => it.json.to_string(),
        }
    }
}

fn default_stream() -> bool {
    true
}

/// Long enough for a model that thinks before it says anything.
fn default_idle_timeout() -> NonZeroU64 {
    NonZeroU64::new(120).expect("not zero")
}

fn default_tool_rounds() -> u32 {
    8
}

fn default_fuel() -> NonZeroU64 {
    NonZeroU64::new(50_000_000).expect("not zero")
}

/// An API of an OpenAI-compatible endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// Chat completions, which all of them have.
    #[default]
    Chat,
    /// Responses.
    Responses,
}

/// How an endpoint is asked for a structured output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Structured {
    /// By the first of the others that the endpoint takes and keeps to, which is found out once a run.
    #[default]
    Auto,
    /// By a strict JSON Schema. The endpoint holds the model to it.
    Strict,
    /// By a promise of some JSON object. The prompt carries the schema.
    JsonObject,
    /// By the prompt alone.
    Prompt,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TemplateOutput {
    /// The rendered text is JSON.
    #[default]
    Json,
    /// The rendered text is the answer.
    Text,
}

/// One reply that was written down.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ScriptedReply {
    /// The reply as it stands.
    #[schemars(title = "text")]
    Text(String),
    /// A reply with more to it.
    #[schemars(title = "reply")]
    Reply(Reply),
}

/// A reply with more to it: for one task only, late, failing, or cut off.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// The reply as it stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The reply as a value, sent as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<Value>,
    /// Only for the task with this id. Other tasks pass over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<Name>,
    /// How long the reply takes, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub delay_seconds: Option<f64>,
    /// What the reply says it used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<ScriptedUsage>,
    /// Fail in this way instead of replying.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail: Option<ScriptedFailure>,
    /// Send only the first bytes of the reply, as when a connection breaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_at: Option<usize>,
}

/// What a scripted reply says it used, in tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptedUsage {
    /// What was asked.
    pub input_tokens: u64,
    /// What was answered.
    pub output_tokens: u64,
    /// Those of `input_tokens` that had been read before.
    pub cached_input_tokens: u64,
}

/// The ways a scripted reply can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScriptedFailure {
    /// The endpoint asks to slow down. Tried again.
    RateLimited,
    /// The endpoint is too busy. Tried again.
    Overloaded,
    /// The connection broke. Tried again.
    Connection,
    /// The key was refused. Not tried again.
    Authentication,
    /// There is no such model or program. Not tried again.
    NotFound,
    /// The request was refused as malformed. Not tried again.
    BadRequest,
    /// The model declined to answer. Tried again.
    Refused,
    /// The program ended in an error. Tried again.
    ProgramFailed,
    /// The agent panics inside the engine. Tried again.
    Panic,
}
