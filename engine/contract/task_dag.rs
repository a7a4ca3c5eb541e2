//! `extended_orchestration/task_dag.yaml`, or any other file with a DAG (Task Decomposition Format, *Task Object* and *DAG Format*).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Work, split up: tasks, and which of them need the output of which.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "DAG", example = example())]
pub struct Dag {
    /// The name of this DAG. Every task is told it as `metadata.dag_id`.
    #[schemars(regex(pattern = r"\S"))]
    pub dag_id: String,
    /// The tasks. Their order is the order of the results.
    pub tasks: Vec<Task>,
    /// Which task waits for which. Without any, the tasks are independent of each other.
    pub edges: Vec<Edge>,
}

/// One task: a capability, and what it is given.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The name of this task, unique in its DAG.
    #[schemars(regex(pattern = r"\S"))]
    pub task_id: String,
    /// What whoever carries the task out has to be capable of.
    #[schemars(regex(pattern = r"\S"))]
    pub capability: String,
    /// What the task works on: a literal, or the output of other tasks.
    pub input: Input,
    /// The type of the output. `json`, `text` and the like are usual; any text will do.
    #[serde(default = "default_output_type")]
    pub output_type: String,
    /// A guess at how many tokens the input has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_tokens_est: Option<u64>,
    /// The most that the task may cost, in CU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_price_cu: Option<f64>,
    /// The quality that is wished for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_tier: Option<Tier>,
    /// Anything else about the task. `requester`, `dag_id` and `priority` have a meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// The longest that one attempt may take, in milliseconds. Without it, `timeout_seconds` of `acmp.yaml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_ms: Option<u64>,
    /// Where the payment for the task is held. Handed on to the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escrow_id: Option<String>,
    /// How the provider has to prove what it answers, such as `result-hash`. Handed on to the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof_method: Option<String>,
}

fn default_output_type() -> String {
    "json".to_owned()
}

/// What a task works on: either a literal, or a reference to what other tasks put out.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Input {
    /// The output of other tasks.
    #[schemars(title = "reference")]
    Reference(Reference),
    /// Data, as it stands.
    #[schemars(title = "literal")]
    Literal(Literal),
}

/// Data, as it stands.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Literal {
    /// The type of the data. `text`, `json`, `image/png` and the like are usual; any text will do.
    #[serde(rename = "type")]
    pub kind: String,
    /// The data.
    pub data: Value,
}

/// The output of other tasks.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// Whose output it is. For each task named there is an edge into this one.
    pub source: Source,
}

/// Whose output a task works on: either `from_task` or `from_tasks`.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The task whose output it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_task: Option<String>,
    /// The tasks whose outputs are put into a list, in this order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_tasks: Option<Vec<String>>,
    /// The part of the output that is meant, such as `data.items[0].name`. Without it, the whole output. Only with `from_task`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

/// A quality that is wished for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Tier {
    /// The best.
    S,
    A,
    B,
}

/// One task waits for another.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// The task that is waited for.
    pub from: String,
    /// The task that waits.
    pub to: String,
    /// Whether the task that waits may begin with what there is so far of what it waits for. Both have to be carried out by providers that stream, and the task has to take the whole output. It is an optimisation, and changes no result.
    #[serde(default)]
    pub stream_eligible: bool,
}

fn example() -> Value {
    json!({
        "dag_id": "dag_f4e2a1",
        "tasks": [
            {
                "task_id": "task_split_01",
                "capability": "text-split",
                "input": { "type": "text", "data": "The first part. The second part." }
            },
            {
                "task_id": "task_sent_02",
                "capability": "sentiment-analysis",
                "input": { "source": { "from_task": "task_split_01", "field": "data.chunks[0]" } },
                "max_price_cu": 0.005
            }
        ],
        "edges": [{ "from": "task_split_01", "to": "task_sent_02" }]
    })
}
