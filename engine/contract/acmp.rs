//! `acmp.yaml`: how the DAGs of a workflow are carried out.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    name::{Name, Names},
    task_batches::{DEFAULT_CONCURRENCY, Retry},
};

/// How the DAGs of a workflow are carried out.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "ACMP", example = example())]
pub struct Acmp {
    /// The most tasks that run at once.
    #[schemars(range(min = 1, max = 10_000))]
    pub concurrency: u32,
    /// What a failed task means for the others.
    pub failure_policy: FailurePolicy,
    /// How often a task is tried again after its first attempt.
    #[schemars(range(min = 0, max = 100))]
    pub retry_limit: u32,
    /// How long to wait between attempts.
    pub retry: Retry,
    /// The longest one attempt may take, in seconds, for a task without a `timeout_ms` of its own.
    #[schemars(range(min = 1))]
    pub timeout_seconds: u64,
    /// The longest a whole DAG may take, in seconds. Without it, no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub deadline_seconds: Option<u64>,
    /// The most that all tasks of a DAG together may cost, in CU, all their attempts counted. With it, each task needs a `max_price_cu`: a DAG that may cost more is refused before anything starts, and where what a task may cost is not left for another attempt the run stops with status `budget`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_price_cu: Option<f64>,
    /// How large a DAG may get.
    pub limits: DagLimits,
    /// Who else may be asked. A capability that an agent of the workflow serves goes to that agent; any other to the first of these that serves it, and to the next where that one cannot. Where one fails a task that it was given, the next attempt is the next one's: whoever failed the task comes after the others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub providers: Vec<Provider>,
    /// What `mozaiks-run provide` takes for a task, in CU, by the capability that it asks for; for others, nothing. A task whose `max_price_cu` is less is refused.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub prices_cu: BTreeMap<Name, Cu>,
}

/// So many CU.
#[derive(Debug, Clone, Copy, Deserialize, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Cu(#[schemars(range(min = 0))] pub f64);

/// Somebody outside who serves capabilities, and is asked over ACMP.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// What people call it.
    pub name: Name,
    /// Where it is.
    pub endpoint: Endpoint,
    /// The capabilities it serves.
    #[schemars(length(min = 1))]
    pub capabilities: Names,
    /// The most tasks it is given at once.
    #[serde(default = "default_concurrency")]
    #[schemars(range(min = 1, max = 10_000))]
    pub concurrency: u32,
    /// The environment variable that holds the bearer token. A program sees the variable; to others the token is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_env: Option<Name>,
    /// How often it says that it is alive, in milliseconds, where it does not say so itself. After a silence of three times that a task is given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub heartbeat_interval_ms: Option<u64>,
    /// The longest message either side may send, in bytes.
    #[serde(default = "default_message_bytes")]
    #[schemars(range(min = 1024))]
    pub max_message_bytes: usize,
}

fn default_concurrency() -> u32 {
    DEFAULT_CONCURRENCY
}

fn default_message_bytes() -> usize {
    16 << 20
}

/// Where a provider is.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Endpoint {
    /// A program: one JSON message a line on its standard input and output.
    #[schemars(title = "stdio")]
    Stdio {
        /// The program and its arguments. A relative path with a `/` starts at the workflow's folder. No shell reads it.
        #[schemars(length(min = 1))]
        argv: Vec<String>,
        /// The environment variables the program may see, besides `PATH`, `HOME`, `LANG`, `TMPDIR` and `SYSTEMROOT`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        env: Vec<Name>,
        /// The folder the program runs in, relative to the workflow's folder. Without it, the workflow's folder.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cwd: Option<Name>,
    },
    /// A WebSocket: one JSON message a frame.
    #[schemars(title = "websocket")]
    Websocket {
        /// Its address, such as `ws://127.0.0.1:9000/`. Other machines are reached by `wss://`.
        url: Name,
        /// Whether it may be `ws://` on another machine, where everybody between can read along.
        #[serde(default)]
        allow_plain_http: bool,
    },
    /// Streamable HTTP: each message a request of its own.
    #[schemars(title = "http")]
    Http {
        /// Its address, such as `http://127.0.0.1:9000/`. Other machines are reached by `https://`.
        url: Name,
        /// Whether it may be `http://` on another machine, where everybody between can read along.
        #[serde(default)]
        allow_plain_http: bool,
    },
}

impl Default for Acmp {
    fn default() -> Acmp {
        Acmp {
            concurrency: DEFAULT_CONCURRENCY,
            failure_policy: FailurePolicy::default(),
            retry_limit: 0,
            retry: Retry::default(),
            timeout_seconds: 120,
            deadline_seconds: None,
            max_price_cu: None,
            limits: DagLimits::default(),
            providers: Vec::new(),
            prices_cu: BTreeMap::new(),
        }
    }
}

/// What a failed task means for the others. What needs it is cancelled in any case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailurePolicy {
    /// The first failed task ends the whole DAG. Status `failed`.
    #[default]
    FailFast,
    /// Branches that do not need the failed task go on. Status `partial`.
    BestEffort,
}

/// How large a DAG may get. One beyond them is refused before anything starts.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DagLimits {
    /// The most tasks.
    #[schemars(range(min = 1))]
    pub max_tasks: usize,
    /// The most edges.
    #[schemars(range(min = 1))]
    pub max_edges: usize,
    /// The longest chain of tasks that wait for each other.
    #[schemars(range(min = 1))]
    pub max_depth: usize,
    /// The largest input that is made of outputs for one task, in bytes.
    #[schemars(range(min = 1))]
    pub max_input_bytes: usize,
}

impl Default for DagLimits {
    fn default() -> DagLimits {
        DagLimits {
            max_tasks: 100_000,
            max_edges: 1_000_000,
            max_depth: 100_000,
            max_input_bytes: 64 << 20,
        }
    }
}

fn example() -> Value {
    json!({ "concurrency": 8, "failure_policy": "best-effort", "retry_limit": 2, "max_price_cu": 0.5, "providers": [{
        "name": "next door",
        "endpoint": { "kind": "websocket", "url": "ws://127.0.0.1:9000/" },
        "capabilities": ["sentiment-analysis"]
    }] })
}
