//! Batches and conveyors (Workflow Task Batches, *Contract* and *Decomposition Conveyors*).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{Batch, Capabilities, Compiler, Emits, Form, Merge, policy, providers::limit};
use crate::{
    budget::Limit,
    contract::{
        name::{Name, Names},
        task_batches as written,
    },
    diagnostic::{Code, Diagnostic, Place},
    usage::Cost,
};

/// How long one attempt may take when nobody says.
pub(super) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// The task model of a batch whose planner emits a DAG.
pub(super) const DAG: &str = "Dag";

impl Compiler<'_> {
    /// Every batch, then every conveyor as the batch it stands for.
    pub(super) fn batches(&mut self, capabilities: &Capabilities) -> Vec<Batch> {
        let part = &self.bundle.task_batches;
        let mut batches = Vec::new();
        let mut ids: BTreeMap<String, Place> = BTreeMap::new();
        let mut keys: BTreeMap<String, Place> = BTreeMap::new();
        for (ix, batch) in part.value.batches.iter().enumerate() {
            let at = format!("/batches/{ix}");
            self.once(&mut ids, &batch.id, part.at(&format!("{at}/id")));
            self.expect_agent(
                &part.source,
                &format!("{at}/trigger_agent"),
                &batch.trigger_agent,
            );
            self.expect_agents(
                &format!("{at}/allowed_execution_agents"),
                &batch.allowed_execution_agents,
            );
            self.expect_allowed(batch, part.at(&format!("{at}/id")));
            for key in ["context_key", "status_key"] {
                let place = part.at(&format!("{at}/result/{key}"));
                let name = match key {
                    "context_key" => &batch.result.context_key,
                    _ => &batch.result.status_key,
                };
                self.own_key(&mut keys, name, place);
            }
            self.recovery(&at, batch);
            self.expect_served(&at, batch, capabilities);
            batches.push(self.explicit(batch, capabilities));
        }
        for (ix, conveyor) in part.value.conveyors.iter().enumerate() {
            let at = format!("/conveyors/{ix}");
            let is_new = self.once(&mut ids, &conveyor.id, part.at(&format!("{at}/id")));
            self.expect_agent(
                &part.source,
                &format!("{at}/decomposition_agent"),
                &conveyor.decomposition_agent,
            );
            self.expect_agents(
                &format!("{at}/execution_agents"),
                &conveyor.execution_agents,
            );
            let place = part.at(&format!("{at}/execution_agents"));
            if conveyor.execution_agents.is_empty() {
                let message = "`execution_agents` names nobody";
                self.push(Diagnostic::error(Code::OutOfBounds, message).at(place.clone()));
            }
            for agent in conveyor
                .execution_agents
                .iter()
                .filter(|it| **it == conveyor.decomposition_agent)
            {
                let message = format!("`{agent}` plans this batch and is allowed to carry it out");
                let help = "a planner that gives itself tasks is asked twice in different ways; use another agent";
                self.push(
                    Diagnostic::warning(Code::Rule, message)
                        .at(place.clone())
                        .help(help),
                );
            }
            // Two conveyors of one name write the same keys; once told is enough.
            for key in ["results", "status"].into_iter().filter(|_| is_new) {
                let key = format!("{}_{key}", conveyor.id);
                self.own_key(&mut keys, &key, part.at(&format!("{at}/id")));
            }
            batches.push(compiled(conveyor));
        }
        batches
    }

    /// Says who may work in a batch that does not say it: the Python engine lets everybody, and so do we.
    fn expect_allowed(&mut self, batch: &written::Batch, at: Place) {
        let is_said = !batch.allowed_execution_agents.is_empty();
        if is_said || &*batch.source.task_model == DAG {
            return;
        }
        let everybody = self.bundle.agent_names();
        let others = everybody.iter().filter(|it| **it != *batch.trigger_agent);
        let others: Vec<&str> = others.map(String::as_str).collect();
        let message = format!(
            "batch `{}` has no allow-list: its tasks may go to any agent of the workflow, also to `{}`, which plans it",
            batch.id, batch.trigger_agent
        );
        let help = format!(
            "name those who may work: `allowed_execution_agents: [{}]`",
            others.join(", ")
        );
        let missing = Diagnostic::warning(Code::MissingPiece, message);
        self.push(missing.at(at).help(help));
    }

    fn expect_agents(&mut self, at: &str, names: &Names) {
        let part = &self.bundle.task_batches;
        let value = part.source.value();
        let items = value
            .pointer(at)
            .and_then(|it| it.as_array())
            .cloned()
            .unwrap_or_default();
        for (ix, item) in items.iter().enumerate() {
            let name = item.as_str().map(str::trim).unwrap_or_default();
            if names.iter().any(|it| it.as_str() == name) {
                self.expect_agent(&part.source, &format!("{at}/{ix}"), name);
            }
        }
    }

    /// Whether the id is new.
    fn once(&mut self, ids: &mut BTreeMap<String, Place>, id: &Name, at: Place) -> bool {
        match ids.get(id.as_str()) {
            Some(first) => {
                let message = format!("the batch id `{id}` stands twice");
                let diagnostic = Diagnostic::error(Code::DuplicateName, message).at(at);
                self.push(diagnostic.related(first.clone(), "it stands here first"));
                false
            }
            None => ids.insert(id.to_string(), at).is_none(),
        }
    }

    /// One context key has one writer.
    fn own_key(&mut self, keys: &mut BTreeMap<String, Place>, key: &str, at: Place) {
        if let Some(first) = keys.get(key) {
            let message = format!(
                "the context key `{key}` has two writers; one would erase the other's results"
            );
            let diagnostic = Diagnostic::error(Code::KeyClash, message).at(at);
            self.push(diagnostic.related(first.clone(), "it is written here first"));
            return;
        }
        if key == "input" || crate::context::RESERVED.contains(&key) {
            let message = format!("`{key}` is set by the engine and cannot receive results");
            self.push(Diagnostic::error(Code::KeyClash, message).at(at));
            return;
        }
        keys.insert(key.to_owned(), at);
    }

    fn recovery(&mut self, at: &str, batch: &written::Batch) {
        let Some(recovery) = &batch.recovery else {
            return;
        };
        let part = &self.bundle.task_batches;
        if recovery.trigger_agent == batch.trigger_agent {
            let message = "a batch cannot be recovered by its own trigger";
            let place = part.at(&format!("{at}/recovery/trigger_agent"));
            self.push(Diagnostic::error(Code::Rule, message).at(place));
        }
        if batch.source.kind == written::SourceKind::StructuredOutput {
            let message = "`recovery` needs a source of kind `context_variable`";
            let place = part.key_at(&format!("{at}/recovery"));
            self.push(Diagnostic::error(Code::Rule, message).at(place));
        }
        let mut seen = vec![&batch.result.context_key, &batch.result.status_key];
        let keys = [
            ("request_key", &recovery.request_key),
            ("outcome_key", &recovery.outcome_key),
            ("status_key", &recovery.status_key),
        ];
        for (field, key) in keys {
            if seen.contains(&key) {
                let message = format!("the context key `{key}` has two uses");
                let place = part.at(&format!("{at}/recovery/{field}"));
                self.push(Diagnostic::error(Code::KeyClash, message).at(place));
            }
            seen.push(key);
        }
    }

    fn explicit(&self, batch: &written::Batch, capabilities: &Capabilities) -> Batch {
        let names = |names: &Names| names.iter().map(Name::to_string).collect::<Vec<_>>();
        let allowed = match batch.allowed_execution_agents.is_empty() {
            true => self.bundle.agent_names(),
            false => names(&batch.allowed_execution_agents),
        };
        Batch {
            id: batch.id.as_str().into(),
            trigger: batch.trigger_agent.as_str().into(),
            source: batch.source.kind,
            path: batch.source.path.to_string(),
            agent_field: batch.worker.agent_field.to_string(),
            prompt_field: batch.worker.prompt_field.to_string(),
            dependency_field: batch.execution.dependency_field.to_string(),
            context_fields: names(&batch.worker.context_fields),
            allowed,
            policy: policy(&batch.execution),
            failure_policy: batch.execution.failure_policy,
            timeout: batch
                .execution
                .timeout_seconds
                .map_or(DEFAULT_TIMEOUT, Duration::from_secs),
            deadline: batch.execution.deadline_seconds.map(Duration::from_secs),
            budget: Limit {
                cu: match &*batch.source.task_model {
                    DAG => self.bundle.acmp.value.max_price_cu.map(Cost::new),
                    _ => None,
                },
                ..limit(&batch.execution.budget)
            },
            context_key: batch.result.context_key.as_str().into(),
            status_key: batch.result.status_key.as_str().into(),
            merge: match batch.result.merge_strategy {
                written::MergeStrategy::CollectTaskOutputs => Merge::ByTask,
                written::MergeStrategy::CollectOutputs => Merge::List,
            },
            emits: match (&*batch.source.task_model, &batch.allowed_capabilities) {
                (DAG, allowed) => Emits::Dag {
                    capabilities: match allowed.is_empty() {
                        true => capabilities.keys().cloned().collect(),
                        false => names(allowed),
                    },
                },
                _ => Emits::Tasks,
            },
            require_owned_paths: batch.result.require_owned_paths,
            rerun: batch.rerun,
            form: Form::Batch,
        }
    }
}

/// The batch that a conveyor stands for.
fn compiled(conveyor: &written::Conveyor) -> Batch {
    let key = |suffix: &str| -> Arc<str> { format!("{}_{suffix}", conveyor.id).into() };
    let execution = written::Execution {
        concurrency: conveyor.concurrency,
        failure_policy: conveyor.failure_policy,
        retry_limit: conveyor.retry_limit,
        retry: conveyor.retry.clone(),
        ..written::Execution::default()
    };
    Batch {
        id: conveyor.id.as_str().into(),
        trigger: conveyor.decomposition_agent.as_str().into(),
        source: written::SourceKind::StructuredOutput,
        path: "DecompositionPlan.tasks".to_owned(),
        agent_field: "execution_agent".to_owned(),
        prompt_field: "task_prompt".to_owned(),
        dependency_field: execution.dependency_field.to_string(),
        context_fields: Vec::new(),
        allowed: conveyor
            .execution_agents
            .iter()
            .map(Name::to_string)
            .collect(),
        policy: policy(&execution),
        failure_policy: conveyor.failure_policy,
        timeout: conveyor
            .timeout_seconds
            .map_or(DEFAULT_TIMEOUT, Duration::from_secs),
        deadline: conveyor.deadline_seconds.map(Duration::from_secs),
        budget: limit(&conveyor.budget),
        context_key: key("results"),
        status_key: key("status"),
        merge: Merge::ByTask,
        emits: Emits::Tasks,
        require_owned_paths: conveyor.require_owned_paths,
        rerun: conveyor.rerun,
        form: Form::Conveyor,
    }
}
