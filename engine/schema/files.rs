//! The kinds of file a person writes, and the schema of each.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::{Schema, narrow, of};
use crate::contract;

/// A kind of file that a person writes or a planner emits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    TaskBatches,
    Agents,
    Agent,
    Orchestrator,
    TransitionGraph,
    ContextVariables,
    StructuredOutputs,
    Tools,
    Middleware,
    UiConfig,
    Providers,
    Plan,
    /// `tests/*.yaml` of a workflow's folder.
    Test,
    TaskDag,
    Acmp,
}

/// What the schemas of one workflow are narrowed to.
#[derive(Debug, Default)]
pub struct WorkflowNames {
    pub agents: Vec<String>,
    pub variables: Vec<String>,
    pub models: Vec<String>,
}

impl FileKind {
    pub const ALL: &[FileKind] = &[
        FileKind::TaskBatches,
        FileKind::Agents,
        FileKind::Agent,
        FileKind::Orchestrator,
        FileKind::TransitionGraph,
        FileKind::ContextVariables,
        FileKind::StructuredOutputs,
        FileKind::Tools,
        FileKind::Middleware,
        FileKind::UiConfig,
        FileKind::Providers,
        FileKind::Plan,
        FileKind::Test,
        FileKind::TaskDag,
        FileKind::Acmp,
    ];

    /// The name of its schema's file, without `.schema.json`.
    pub fn name(self) -> &'static str {
        match self {
            FileKind::TaskBatches => "task_batches",
            FileKind::Agents => "agents",
            FileKind::Agent => "agent",
            FileKind::Orchestrator => "orchestrator",
            FileKind::TransitionGraph => "transition_graph",
            FileKind::ContextVariables => "context_variables",
            FileKind::StructuredOutputs => "structured_outputs",
            FileKind::Tools => "tools",
            FileKind::Middleware => "middleware",
            FileKind::UiConfig => "ui_config",
            FileKind::Providers => "providers",
            FileKind::Plan => "plan",
            FileKind::Test => "test",
            FileKind::TaskDag => "task_dag",
            FileKind::Acmp => "acmp",
        }
    }

    /// The kind with a name, as `schema` and editors know it.
    pub fn named(name: &str) -> Option<FileKind> {
        FileKind::ALL.iter().find(|it| it.name() == name).copied()
    }

    /// Where it lies in a workflow's folder. Plans do not, nor does what workflows share.
    pub fn path(self) -> Option<String> {
        match self {
            FileKind::TaskBatches | FileKind::TaskDag => {
                Some(format!("extended_orchestration/{}.yaml", self.name()))
            }
            FileKind::Agent | FileKind::Providers | FileKind::Plan | FileKind::Test => None,
            other => Some(format!("{}.yaml", other.name())),
        }
    }

    pub fn schema_file(self) -> String {
        format!("{}.schema.json", self.name())
    }

    /// The JSON Schema that is published for it.
    pub fn json_schema(self) -> Value {
        match self {
            FileKind::TaskBatches => of::<contract::task_batches::TaskBatches>(),
            FileKind::Agents => of::<contract::agents::Agents>(),
            FileKind::Agent => of::<contract::agents::Agent>(),
            FileKind::Orchestrator => of::<contract::orchestrator::Orchestrator>(),
            FileKind::TransitionGraph => of::<contract::transition_graph::TransitionGraph>(),
            FileKind::ContextVariables => of::<contract::context_variables::ContextVariables>(),
            FileKind::StructuredOutputs => of::<contract::structured_outputs::StructuredOutputs>(),
            FileKind::Tools => of::<contract::tools::Tools>(),
            FileKind::Middleware => of::<contract::middleware::Middleware>(),
            FileKind::UiConfig => of::<contract::ui_config::UiConfig>(),
            FileKind::Providers => of::<contract::providers::Providers>(),
            FileKind::Plan => of::<contract::plan::Answer>(),
            FileKind::Test => of::<contract::test::Test>(),
            FileKind::TaskDag => of::<contract::task_dag::Dag>(),
            FileKind::Acmp => of::<contract::acmp::Acmp>(),
        }
    }

    /// The same, with the names of one workflow where a name is asked for.
    pub fn narrowed(self, names: &WorkflowNames) -> Value {
        let mut schema = self.json_schema();
        narrow::narrow(&mut schema, names);
        schema
    }

    /// The schema that files of this kind are held against, made once.
    pub fn schema(self) -> &'static Schema {
        static SCHEMAS: [LazyLock<Schema>; FileKind::ALL.len()] = [
            LazyLock::new(|| Schema::new(FileKind::TaskBatches.json_schema())),
            LazyLock::new(|| Schema::new(FileKind::Agents.json_schema())),
            LazyLock::new(|| Schema::new(FileKind::Agent.json_schema())),
            LazyLock::new(|| Schema::new(FileKind::Orchestrator.json_schema())),
            LazyLock::new(|| Schema::new(FileKind::TransitionGraph.json_schema())),
            LazyLock::new(|| Schema::new(FileKind::ContextVariables.json_schema())),
            LazyLock::new(|| Schema::new(FileKind::StructuredOutputs.json_schema())),
            LazyLock::new(|| Schema::new(FileKind::Tools.json_schema())),
            LazyLock::new(|| Schema::new(FileKind::Middleware.json_schema())),
            LazyLock::new(|| Schema::new(FileKind::UiConfig.json_schema())),
            LazyLock::new(|| Schema::new(FileKind::Providers.json_schema())),
            LazyLock::new(|| Schema::new(FileKind::Plan.json_schema())),
            LazyLock::new(|| Schema::new(FileKind::Test.json_schema())),
            LazyLock::new(|| Schema::new(FileKind::TaskDag.json_schema())),
            LazyLock::new(|| Schema::new(FileKind::Acmp.json_schema())),
        ];
        &SCHEMAS[self as usize]
    }
}

/// The text of a schema file: pretty, with a newline at the end.
pub fn text(schema: &Value) -> String {
    let mut text = serde_json::to_string_pretty(schema).unwrap_or_else(|_| json!({}).to_string());
    text.push('\n');
    text
}
