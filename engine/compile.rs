//! A workflow's files become a workflow: conveyors become batches, defaults become values, names become agents.
//!
//! **Invariant:** in a [`Workflow`] ids are unique, every agent named exists, result keys do not clash, and every expression parses.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use serde_json::Value;

use crate::{
    budget::Limit,
    context::Sees,
    contract::{
        acmp::Acmp,
        agents::Agent,
        context_variables::{FileFormat, SourceType},
        name::Name,
        orchestrator::Limits,
        runtime::Runtime,
        structured_outputs::StructuredOutputs,
        task_batches as written,
    },
    diagnostic::{Code, Diagnostic},
    load::{Bundle, Part, Project},
    schedule::{Backoff, Jitter, OnFailure, Policy},
    shape::{self, Fault, FaultKind, Shape, Shapes},
    source::Source,
    usage::Cost,
};

mod agents;
mod batches;
mod dag;
mod idle;
mod keys;
mod pieces;
pub mod providers;
mod runtimes;
mod servers;
pub mod tools;
pub mod transitions;
mod variables;

pub use dag::{Capabilities, FixedDag, shapes_of};
use providers::ProviderSpec;
use tools::ToolSpecs;
use transitions::Transitions;

/// A workflow that can be run.
#[derive(Debug)]
pub struct Workflow {
    pub name: Arc<str>,
    pub project: Project,
    pub first: First,
    pub initial_message: Option<String>,
    pub max_turns: u32,
    /// The wait between attempts outside a batch.
    pub turn_backoff: Backoff,
    pub limits: Limits,
    pub agents: BTreeMap<String, AgentSpec>,
    /// In the order in which they run: batches, then conveyors.
    pub batches: Vec<Batch>,
    pub transitions: Transitions,
    pub variables: Vec<Variable>,
    /// The names of all models, for schemas narrowed to this workflow.
    pub models: Vec<String>,
    pub tools: ToolSpecs,
    pub providers: BTreeMap<Arc<str>, ProviderSpec>,
    /// What one run may spend.
    pub budget: Limit,
    pub capabilities: Capabilities,
    /// How DAGs are carried out.
    pub acmp: Acmp,
}

/// The agent that is the person in front of the program, where a transition leads to them.
pub const USER: &str = "user";

/// Who speaks first.
#[derive(Debug)]
pub enum First {
    /// Nobody: the workflow is a DAG.
    Dag(Box<FixedDag>),
    Agent(Arc<str>),
    /// The agent to which the transitions lead from `user`.
    User,
}

/// One agent, with everything it needs to be asked.
#[derive(Debug, Clone)]
pub struct AgentSpec {
    pub name: Arc<str>,
    pub instruction: Arc<str>,
    pub runtime: Runtime,
    /// Whose limits hold when it is asked, and who is paid for it: a provider by its name, or an endpoint.
    pub provider: Option<Arc<str>>,
    /// The same of the models that stand in for its own, each with the model.
    pub others: Vec<(Arc<str>, Arc<str>)>,
    /// The folder that relative paths of its runtime start at.
    pub home: PathBuf,
    pub shape: Option<Arc<Shape>>,
    pub reads: Reads,
    /// Context variables its output sets: name, and dotted path in the output.
    pub writes: Vec<(String, String)>,
    pub sees: Sees,
    /// Whether the outputs of equal work may be taken again.
    pub cache: bool,
    /// Where it is defined.
    pub at: crate::diagnostic::Place,
}

/// How an agent's answer is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// It has to fit its model, which says what is kept of it.
    Model,
    /// It is a plan without a model of the author's: `plan` checks it, and every field of a task is kept.
    Plan,
}

/// One batch of a workflow (Workflow Task Batches, *Contract*).
#[derive(Debug, Clone)]
pub struct Batch {
    pub id: Arc<str>,
    pub trigger: Arc<str>,
    pub source: written::SourceKind,
    pub path: String,
    pub agent_field: String,
    pub prompt_field: String,
    pub dependency_field: String,
    pub context_fields: Vec<String>,
    /// The agents a task may name. Never empty.
    pub allowed: Vec<String>,
    pub policy: Policy,
    pub failure_policy: written::FailurePolicy,
    /// Of one attempt.
    pub timeout: Duration,
    /// Of the whole batch.
    pub deadline: Option<Duration>,
    /// What all its attempts together may spend.
    pub budget: Limit,
    pub context_key: Arc<str>,
    pub status_key: Arc<str>,
    pub merge: Merge,
    pub emits: Emits,
    pub require_owned_paths: bool,
    pub rerun: written::Rerun,
    pub form: Form,
}

/// What is published of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merge {
    /// A mapping from task id to output, with `_meta` and, after failures, `_failed`.
    ByTask,
    /// A list of outputs.
    List,
    /// The output of the one task that nothing waits for; of several, a mapping from task id to output.
    Leaves,
}

/// What stands where a batch looks for its tasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Emits {
    /// A list of tasks, each of which names its agent.
    Tasks,
    /// A DAG, whose tasks may name these capabilities.
    Dag { capabilities: Vec<String> },
}

/// Which section of the file a batch was written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Batch,
    Conveyor,
}

/// A context variable and its first value.
#[derive(Debug, Clone)]
pub struct Variable {
    pub name: String,
    /// A word for the type of its values.
    pub kind: Option<String>,
    pub source: SourceType,
    pub default: Value,
    pub env_var: Option<String>,
    pub path: Option<PathBuf>,
    pub format: Option<FileFormat>,
    pub required: bool,
}

/// Compiles a bundle. Gives every mistake and every warning; a workflow only if there is no mistake.
pub fn compile(bundle: &Bundle) -> (Option<Workflow>, Vec<Diagnostic>) {
    let mut compiler = Compiler {
        bundle,
        diagnostics: Vec::new(),
    };
    compiler.name();
    let shapes = compiler.shapes();
    let capabilities = compiler.capabilities();
    let batches = compiler.batches(&capabilities);
    let mut agents = compiler.agents(&shapes, &batches);
    let variables = compiler.variables(&batches);
    let transitions = compiler.transitions(&batches);
    let first = match &bundle.task_dag {
        Some(source) => compiler
            .dag(source, (&capabilities, &agents))
            .map(First::Dag),
        None => compiler.first(&batches),
    };
    if transitions.lead_to_user() {
        let user = agents.entry(USER.to_owned());
        user.or_insert_with(|| AgentSpec::user(bundle));
    }
    compiler.reach(&first, &transitions, &batches);
    compiler.pieces(&agents, &batches, &shapes);
    let tools = compiler.tools(&batches);
    compiler.idle(&agents);
    let providers = compiler.providers();
    compiler.prices(&agents, &batches, &providers);

    let diagnostics = compiler.diagnostics;
    let orchestrator = &bundle.orchestrator.value;
    let workflow = first.filter(|_| !diagnostics.iter().any(Diagnostic::is_error));
    let mut workflow = workflow.map(|first| Workflow {
        name: bundle.name.as_str().into(),
        project: bundle.project.clone(),
        first,
        initial_message: orchestrator.initial_message.clone(),
        max_turns: orchestrator.max_turns,
        turn_backoff: TURN_BACKOFF,
        limits: orchestrator.limits.clone(),
        agents,
        batches,
        transitions,
        variables,
        models: bundle.model_names(),
        tools,
        providers,
        budget: providers::limit(&orchestrator.budget),
        capabilities,
        acmp: bundle.acmp.value.clone(),
    });
    if let Some(workflow) = &mut workflow {
        workflow.serve_by_providers();
        if matches!(workflow.first, First::Dag(_)) {
            workflow.budget.cu = workflow.acmp.max_price_cu.map(Cost::new);
        }
    }
    (workflow, diagnostics)
}

impl Workflow {
    /// The planner for whose answer a plan can be given, where nobody else can be meant and it is asked for nothing else
    /// but to plan.
    pub fn sole_planner(&self) -> Option<&Arc<str>> {
        let mut triggers = self.batches.iter().map(|it| &it.trigger);
        let first = match &self.first {
            First::Agent(first) => triggers.clone().find(|it| *it == first),
            First::User | First::Dag(_) => None,
        };
        let only = triggers
            .next()
            .filter(|it| triggers.all(|other| other == *it));
        let planner = first.or(only)?;
        let mut workers = self.batches.iter().flat_map(|it| &it.allowed);
        (!workers.any(|it| **it == **planner)).then_some(planner)
    }
}

impl Bundle {
    /// The names of all models, literals and unions of `structured_outputs.yaml`.
    pub fn model_names(&self) -> Vec<String> {
        let outputs = self.structured_outputs.iter();
        let names = outputs.flat_map(|it| it.value.models.iter().map(|it| it.0.to_owned()));
        names.collect()
    }

    /// The names of all context variables: those declared, and those that batches write.
    pub fn variable_names(&self) -> Vec<String> {
        let declared = self.context_variables.iter();
        let declared = declared.flat_map(|it| it.value.definitions.keys().map(Name::to_string));
        let written = self.task_batches.value.batches.iter();
        let written = written.flat_map(|it| [&it.result.context_key, &it.result.status_key]);
        let written = written.map(Name::to_string);
        let derived = self.task_batches.value.conveyors.iter();
        let derived =
            derived.flat_map(|it| [format!("{}_results", it.id), format!("{}_status", it.id)]);
        let names: BTreeSet<String> = declared.chain(written).chain(derived).collect();
        names.into_iter().collect()
    }
}

struct Compiler<'a> {
    bundle: &'a Bundle,
    diagnostics: Vec<Diagnostic>,
}

impl Compiler<'_> {
    fn push(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Notes an agent that no file defines.
    fn expect_agent(&mut self, source: &Source, pointer: &str, name: &str) {
        if self.bundle.agent(name).is_some() {
            return;
        }
        let message = format!("no file defines an agent `{name}`");
        let shared = self.bundle.project.root.join("agents");
        let help = format!(
            "define it in `agents.yaml` of this workflow, or as `{}`",
            shared.join(format!("{name}.yaml")).display()
        );
        let names = self.bundle.agent_names();
        let diagnostic = Diagnostic::error(Code::UnknownAgent, message).at(source.place(pointer));
        self.push(diagnostic.found(name).allowed(names).help(help));
    }

    fn name(&mut self) {
        let orchestrator = &self.bundle.orchestrator;
        let Some(name) = &orchestrator.value.workflow_name else {
            return;
        };
        if !name.eq_ignore_ascii_case(&self.bundle.name) {
            let message = format!(
                "`workflow_name` is `{name}`, but the folder is `{}`",
                self.bundle.name
            );
            let help = "name both alike; the case of letters does not count";
            let at = orchestrator.at("/workflow_name");
            self.push(
                Diagnostic::error(Code::NameMismatch, message)
                    .at(at)
                    .help(help),
            );
        }
    }

    fn shapes(&mut self) -> Shapes {
        let Some(part) = &self.bundle.structured_outputs else {
            return shape::compile(&StructuredOutputs::default()).0;
        };
        let (shapes, faults) = shape::compile(&part.value);
        for fault in faults {
            self.push(model_fault(part, fault));
        }
        for agent in part.value.registry.keys() {
            if self.bundle.agent(agent).is_none() {
                let message =
                    format!("no file defines the agent `{agent}` that a model is registered for");
                let at = part.key_at(&crate::source::pointer("/registry", agent));
                let names = self.bundle.agent_names();
                let diagnostic = Diagnostic::warning(Code::UnknownAgent, message).at(at);
                self.push(diagnostic.found(agent.as_str()).allowed(names));
            }
        }
        shapes
    }

    /// Who speaks first: the one named, else the first trigger, else the first agent.
    fn first(&mut self, batches: &[Batch]) -> Option<First> {
        let orchestrator = &self.bundle.orchestrator;
        if let Some(name) = &orchestrator.value.initial_agent {
            if name.eq_ignore_ascii_case("user") {
                return Some(First::User);
            }
            self.expect_agent(&orchestrator.source, "/initial_agent", name);
            return Some(First::Agent(name.as_str().into()));
        }
        let trigger = batches.first().map(|it| Arc::clone(&it.trigger));
        let agents = &self.bundle.agents.value.agents;
        let first = trigger.or_else(|| agents.first().map(|it| it.name.as_str().into()));
        if first.is_none() {
            let message = "there is no agent to begin with";
            let at = self.bundle.agents.at("");
            self.push(
                Diagnostic::error(Code::UnknownAgent, message)
                    .at(at)
                    .help("define one in `agents.yaml`"),
            );
        }
        first.map(First::Agent)
    }
}

fn model_fault(part: &Part<StructuredOutputs>, fault: Fault) -> Diagnostic {
    let code = match fault.kind {
        FaultKind::UnknownType | FaultKind::Cycle => Code::UnknownType,
        FaultKind::Keys => Code::Rule,
        FaultKind::Name | FaultKind::Value => Code::NotAllowed,
        FaultKind::TooLarge => Code::TooLarge,
    };
    let diagnostic = Diagnostic::error(code, fault.message)
        .at(part.at(&fault.pointer))
        .found(fault.found)
        .allowed(fault.allowed);
    match fault.help {
        Some(help) => diagnostic.help(help),
        None => diagnostic,
    }
}

const TURN_BACKOFF: Backoff = Backoff {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(60),
    jitter: Jitter::Full,
};

fn policy(execution: &written::Execution) -> Policy {
    let seconds = |it: f64| Duration::try_from_secs_f64(it.max(0.0)).unwrap_or(Duration::MAX);
    Policy {
        concurrency: execution.concurrency,
        retry_limit: execution.retry_limit,
        backoff: Backoff {
            initial: seconds(execution.retry.initial_seconds),
            max: seconds(execution.retry.max_seconds),
            jitter: match execution.retry.jitter {
                written::Jitter::Full => Jitter::Full,
                written::Jitter::None => Jitter::None,
            },
        },
        on_failure: match execution.failure_policy {
            written::FailurePolicy::FailBatch => OnFailure::Stop,
            written::FailurePolicy::ContinueWithAvailable
            | written::FailurePolicy::CollectErrors => OnFailure::Continue,
        },
    }
}

/// The runtime an agent is asked by: its own, else the workflow's, else `openai`.
fn runtime(agent: &Agent, default: Option<&Runtime>) -> Runtime {
    match (&agent.runtime, default) {
        (Some(own), Some(default)) => within(own.clone(), default),
        (Some(own), None) => own.clone(),
        (None, Some(default)) => default.clone(),
        (None, None) => {
            let openai = serde_json::json!({ "kind": "openai" });
            serde_json::from_value(openai).expect("every field of `openai` has a default")
        }
    }
}

/// A model's own runtime that names no endpoint takes the workflow's, with the key to it; where it names no model
/// either, that too.
fn within(mut own: Runtime, default: &Runtime) -> Runtime {
    if let Runtime::Openai {
        provider: provider @ None,
        model,
        base_url: base_url @ None,
        api_key_env,
        headers,
        allow_plain_http,
        fallback,
        ..
    } = &mut own
        && let Runtime::Openai {
            provider: their_provider,
            model: their_model,
            base_url: their_url,
            api_key_env: their_key,
            headers: their_headers,
            allow_plain_http: their_plain,
            fallback: their_fallback,
            ..
        } = default
    {
        provider.clone_from(their_provider);
        base_url.clone_from(their_url);
        *allow_plain_http |= *their_plain;
        *api_key_env = api_key_env.take().or_else(|| their_key.clone());
        if headers.is_empty() {
            headers.clone_from(their_headers);
        }
        if model.is_none() {
            model.clone_from(their_model);
            if fallback.is_empty() {
                fallback.clone_from(their_fallback);
            }
        }
    }
    own
}

#[cfg(test)]
pub(crate) mod tests;
