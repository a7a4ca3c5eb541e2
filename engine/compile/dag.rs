//! DAGs: who serves which capability, and the DAG that a workflow is.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    AgentSpec, Batch, Compiler, Emits, First, Form, Merge, Reads, Workflow, batches::DAG, policy,
};
use crate::{
    budget::Limit,
    context::Sees,
    contract::{
        acmp::{Acmp, FailurePolicy},
        name::Name,
        orchestrator::Limits,
        runtime::Runtime,
        task_batches as written,
    },
    dag::{self, Dag, Shapes, Terms},
    diagnostic::{Code, Diagnostic, File, Place},
    load::Project,
    source::{Source, pointer},
    usage::Cost,
};

/// The agent that serves each capability.
pub type Capabilities = BTreeMap<String, Arc<str>>;

/// A DAG that is carried out as it stands.
#[derive(Debug)]
pub struct FixedDag {
    pub dag: Dag,
    /// How it is carried out.
    pub batch: Batch,
}

impl Workflow {
    /// A workflow without agents, for a DAG that others carry out.
    pub fn bare(name: &str, project: Project) -> Workflow {
        Workflow {
            name: name.into(),
            project,
            first: First::User,
            initial_message: None,
            max_turns: 1,
            turn_backoff: super::TURN_BACKOFF,
            limits: Limits::default(),
            agents: BTreeMap::new(),
            batches: Vec::new(),
            transitions: Default::default(),
            variables: Vec::new(),
            models: Vec::new(),
            tools: Default::default(),
            providers: BTreeMap::new(),
            budget: Limit::default(),
            capabilities: Capabilities::new(),
            acmp: Acmp::default(),
        }
    }

    /// Gives each capability that only providers serve an agent that asks them.
    pub(super) fn serve_by_providers(&mut self) {
        self.agents.retain(|it, _| !it.starts_with(PROVIDERS));
        self.capabilities.retain(|_, it| !it.starts_with(PROVIDERS));
        with_those_of_providers(&mut self.capabilities, &self.acmp);
        let served = self.capabilities.iter();
        let served = served.filter(|(_, agent)| agent.starts_with(PROVIDERS));
        for (capability, agent) in served {
            let capability = Name::new(capability).expect("a capability is not blank");
            let spec = AgentSpec {
                name: Arc::clone(agent),
                instruction: "".into(),
                runtime: Runtime::Acmp { capability },
                provider: None,
                others: Vec::new(),
                home: self.project.root.clone(),
                shape: None,
                reads: Reads::Model,
                writes: Vec::new(),
                sees: Sees::All,
                cache: false,
                at: Place::start_of(&Arc::new(File {
                    name: "acmp.yaml".to_owned(),
                    text: String::new(),
                })),
            };
            self.agents.insert(agent.to_string(), spec);
        }
    }

    /// Makes it a workflow that carries out a DAG and nothing else. Gives the warnings.
    ///
    /// # Errors
    /// What is wrong with the DAG.
    pub fn carry_out(&mut self, source: &Source) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
        self.serve_by_providers();
        let (fixed, warnings) = fixed(source, (&self.capabilities, &self.agents), &self.acmp)?;
        self.budget.cu = self.acmp.max_price_cu.map(Cost::new);
        self.first = First::Dag(Box::new(fixed));
        Ok(warnings)
    }
}

impl Compiler<'_> {
    /// Who serves which capability. One capability has one agent, or nobody could say who does a task.
    pub(super) fn capabilities(&mut self) -> Capabilities {
        let part = &self.bundle.agents;
        let mut capabilities = Capabilities::new();
        let mut seen: BTreeMap<&str, Place> = BTreeMap::new();
        for (ix, agent) in part.value.agents.iter().enumerate() {
            for (place, capability) in agent.capabilities.iter().enumerate() {
                let at = part.at(&format!("/agents/{ix}/capabilities/{place}"));
                if let Some(first) = seen.get(capability.as_str()) {
                    let message = format!("two agents serve the capability `{capability}`");
                    let diagnostic = Diagnostic::error(Code::DuplicateName, message).at(at);
                    self.diagnostics
                        .push(diagnostic.related(first.clone(), "it is served here first"));
                    continue;
                }
                seen.insert(capability, at);
                capabilities.insert(capability.to_string(), agent.name.as_str().into());
            }
        }
        let part = &self.bundle.acmp;
        for capability in part.value.prices_cu.keys() {
            if !capabilities.contains_key(capability.as_str()) {
                let message = format!("no agent here serves the capability `{capability}`");
                let at = part.key_at(&pointer("/prices_cu", capability));
                let diagnostic = Diagnostic::error(Code::NotServed, message).at(at);
                let diagnostic = diagnostic.found(capability.as_str());
                self.diagnostics
                    .push(diagnostic.allowed(capabilities.keys()));
            }
        }
        with_those_of_providers(&mut capabilities, &part.value);
        capabilities
    }

    /// Notes a capability that a batch allows and nobody serves.
    pub(super) fn expect_served(
        &mut self,
        at: &str,
        batch: &written::Batch,
        capabilities: &Capabilities,
    ) {
        let part = &self.bundle.task_batches;
        let allowed = &batch.allowed_capabilities;
        let at = format!("{at}/allowed_capabilities");
        if !allowed.is_empty() && batch.source.task_model.as_str() != DAG {
            let message = "`allowed_capabilities` goes with the task model `Dag`";
            self.push(Diagnostic::error(Code::Rule, message).at(part.key_at(&at)));
        }
        for (ix, capability) in allowed.iter().enumerate() {
            if !capabilities.contains_key(capability.as_str()) {
                let message = format!("nobody serves the capability `{capability}`");
                let at = part.at(&format!("{at}/{ix}"));
                let diagnostic = Diagnostic::error(Code::NotServed, message).at(at);
                let diagnostic = diagnostic.found(capability.as_str());
                self.push(diagnostic.allowed(capabilities.keys()));
            }
        }
    }

    /// The DAG that the workflow is.
    pub(super) fn dag(&mut self, source: &Source, served: Served<'_>) -> Option<Box<FixedDag>> {
        let batches = &self.bundle.task_batches.value;
        if !batches.batches.is_empty() || !batches.conveyors.is_empty() {
            let message = "a workflow with a `task_dag.yaml` has no batches";
            let help =
                "a batch whose `task_model` is `Dag` carries out the DAG that its planner makes";
            let at = source.place("");
            self.push(Diagnostic::error(Code::Rule, message).at(at).help(help));
        }
        match fixed(source, served, &self.bundle.acmp.value) {
            Ok((fixed, warnings)) => {
                self.diagnostics.extend(warnings);
                Some(Box::new(fixed))
            }
            Err(faults) => {
                self.diagnostics.extend(faults);
                None
            }
        }
    }
}

/// What an agent that asks providers is called, before the capability.
const PROVIDERS: &str = "acmp:";

/// Adds what only providers serve.
fn with_those_of_providers(capabilities: &mut Capabilities, acmp: &Acmp) {
    let served = acmp.providers.iter().flat_map(|it| it.capabilities.iter());
    for capability in served {
        let agent = || format!("{PROVIDERS}{capability}").into();
        capabilities
            .entry(capability.to_string())
            .or_insert_with(agent);
    }
}

/// Who serves which capability, and the agents.
pub(super) type Served<'a> = (&'a Capabilities, &'a BTreeMap<String, AgentSpec>);

/// What the outputs of capabilities look like, where their agents have a model.
pub fn shapes_of(capabilities: &Capabilities, agents: &BTreeMap<String, AgentSpec>) -> Shapes {
    let shapes = capabilities.iter().filter_map(|(capability, agent)| {
        let shape = agents.get(&**agent)?.shape.clone()?;
        Some((capability.clone(), shape))
    });
    shapes.collect()
}

fn fixed(
    source: &Source,
    (capabilities, agents): Served<'_>,
    acmp: &Acmp,
) -> Result<(FixedDag, Vec<Diagnostic>), Vec<Diagnostic>> {
    let served: Vec<String> = capabilities.keys().cloned().collect();
    let terms = Terms {
        capabilities: &served,
        shapes: &shapes_of(capabilities, agents),
        limits: &acmp.limits,
        max_price_cu: acmp.max_price_cu,
    };
    let (dag, warnings) = dag::accept(source, &terms)?;
    let batch = batch(&dag, acmp);
    Ok((FixedDag { dag, batch }, warnings))
}

/// The batch that a DAG is carried out as.
fn batch(dag: &Dag, acmp: &Acmp) -> Batch {
    let failure_policy = match acmp.failure_policy {
        FailurePolicy::FailFast => written::FailurePolicy::FailBatch,
        FailurePolicy::BestEffort => written::FailurePolicy::ContinueWithAvailable,
    };
    let execution = written::Execution {
        concurrency: acmp.concurrency,
        failure_policy,
        retry_limit: acmp.retry_limit,
        retry: acmp.retry.clone(),
        ..written::Execution::default()
    };
    Batch {
        id: Arc::clone(&dag.id),
        trigger: "".into(),
        source: written::SourceKind::StructuredOutput,
        path: String::new(),
        agent_field: "capability".to_owned(),
        prompt_field: "input".to_owned(),
        dependency_field: execution.dependency_field.to_string(),
        context_fields: Vec::new(),
        allowed: Vec::new(),
        policy: policy(&execution),
        failure_policy,
        timeout: Duration::from_secs(acmp.timeout_seconds),
        budget: Limit::default(),
        deadline: acmp.deadline_seconds.map(Duration::from_secs),
        context_key: "dag_result".into(),
        status_key: "dag_status".into(),
        merge: Merge::Leaves,
        emits: Emits::Dag {
            capabilities: Vec::new(),
        },
        require_owned_paths: false,
        rerun: written::Rerun::Always,
        form: Form::Batch,
    }
}
