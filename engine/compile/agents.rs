//! Agents: the workflow's own, and the shared ones it names.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{AgentSpec, Batch, Compiler, Emits, Form, Reads, USER, runtime};
use crate::{
    context::Sees,
    contract::{
        agents::Agent,
        name::Name,
        runtime::{Runtime, TemplateOutput},
        task_batches::SourceKind,
    },
    diagnostic::{Code, Diagnostic, Place, closest},
    load::Bundle,
    shape::{self, Shape, Shapes},
    source::pointer,
};

impl AgentSpec {
    /// Whether its answers are texts for people, also if one looks like JSON.
    pub fn speaks_texts(&self) -> bool {
        let says = match &self.runtime {
            Runtime::Openai { .. } | Runtime::A2a { .. } | Runtime::Human { .. } => true,
            Runtime::Template { output, .. } => *output == TemplateOutput::Text,
            Runtime::Command { .. } | Runtime::Scripted { .. } | Runtime::Acmp { .. } => false,
        };
        says && self.shape.is_none() && self.reads == Reads::Model
    }

    /// The person in front of the program, as they are asked unless the author says how: by what was said last.
    pub(super) fn user(bundle: &Bundle) -> AgentSpec {
        AgentSpec {
            name: USER.into(),
            instruction: "".into(),
            runtime: Runtime::Human {
                question: None,
                choices: Vec::new(),
                default: None,
                timeout_seconds: None,
            },
            home: bundle.folder.clone(),
            shape: None,
            reads: Reads::Model,
            writes: Vec::new(),
            sees: Sees::Only(Arc::default()),
            cache: false,
            provider: None,
            others: Vec::new(),
            at: bundle.orchestrator.at(""),
        }
    }
}

impl Compiler<'_> {
    pub(super) fn agents(
        &mut self,
        shapes: &Shapes,
        batches: &[Batch],
    ) -> BTreeMap<String, AgentSpec> {
        let mut seen: BTreeMap<&str, Place> = BTreeMap::new();
        for (ix, agent) in self.bundle.agents.value.agents.iter().enumerate() {
            let at = self.bundle.agents.at(&format!("/agents/{ix}/name"));
            match seen.get(agent.name.as_str()) {
                Some(first) => {
                    let message = format!("the agent `{}` is defined twice", agent.name);
                    let diagnostic = Diagnostic::error(Code::DuplicateName, message).at(at);
                    self.push(diagnostic.related(first.clone(), "it is defined here first"));
                }
                None => {
                    seen.insert(&agent.name, at);
                }
            }
        }
        let names = self.bundle.agent_names();
        let specs = names
            .iter()
            .filter_map(|it| self.agent(it, shapes, batches));
        specs.map(|it| (it.name.to_string(), it)).collect()
    }

    fn agent(&mut self, name: &str, shapes: &Shapes, batches: &[Batch]) -> Option<AgentSpec> {
        let bundle = self.bundle;
        let (agent, source, at, home) = bundle.agent(name)?;
        let own_shape = shapes.of_agent(name).cloned();
        let planned = match own_shape {
            None => self.plan_of(agent, batches),
            Some(_) => None,
        };
        let (shape, reads) = match planned {
            Some(plan) => (Some(plan), Reads::Plan),
            None => (own_shape, Reads::Model),
        };
        if agent.structured_outputs_required && shape.is_none() {
            let message =
                format!("`{name}` must answer with a model, but none is registered for it");
            let help =
                format!("add `{name}: <Model>` under `registry` of `structured_outputs.yaml`");
            let place = source.place(&pointer(&at, "structured_outputs_required"));
            self.push(
                Diagnostic::error(Code::UnknownType, message)
                    .at(place)
                    .help(help),
            );
        }
        let mut runtime = runtime(agent, bundle.orchestrator.value.defaults.runtime.as_ref());
        let named_at = match agent.runtime {
            Some(_) => source.place(&pointer(&pointer(&at, "runtime"), "provider")),
            None => bundle.orchestrator.at("/defaults/runtime/provider"),
        };
        let provider = self.provider(&mut runtime, named_at);
        let others = self.others(&runtime, provider.as_ref());
        let instruction = agent.instruction().unwrap_or_default();
        if instruction.trim().is_empty() && matches!(runtime, Runtime::Openai { .. }) {
            let message = format!("`{name}` is asked through a model, but has no instruction");
            let help = "give it `prompt_sections` or a `system_message`, or another `runtime`";
            let place = source.place(&pointer(&at, "name"));
            self.push(
                Diagnostic::error(Code::MissingKey, message)
                    .at(place)
                    .help(help),
            );
        }
        self.check_runtime(name, &runtime, |field| match agent.runtime {
            Some(_) => source.place(&format!("{}{field}", pointer(&at, "runtime"))),
            None => bundle.orchestrator.at(&format!("/defaults/runtime{field}")),
        });
        self.writes(agent, &at, shape.as_ref());
        Some(AgentSpec {
            name: name.into(),
            instruction: instruction.into(),
            runtime,
            provider,
            others,
            home: home.to_owned(),
            shape: shape.map(Arc::new),
            reads,
            writes: agent
                .writes
                .iter()
                .map(|(name, path)| (name.to_string(), path.clone()))
                .collect(),
            sees: self.sees(name, batches),
            cache: agent.cache,
            at: source.place(&pointer(&at, "name")),
        })
    }

    /// What a planner without a model of its own answers with, where its batch says it: a plan, or a DAG and nothing besides.
    fn plan_of(&self, agent: &Agent, batches: &[Batch]) -> Option<Shape> {
        let mut its = batches.iter().filter(|it| *it.trigger == *agent.name);
        let conveyor = its.clone().find(|it| it.form == Form::Conveyor);
        if let Some(batch) = conveyor {
            return Some(shape::decomposition_plan(&batch.allowed));
        }
        let (batch, None) = (its.next()?, its.next()) else {
            return None;
        };
        match &batch.emits {
            Emits::Dag { capabilities }
                if batch.source == SourceKind::StructuredOutput && agent.writes.is_empty() =>
            {
                let has_ceiling = self.bundle.acmp.value.max_price_cu.is_some();
                Some(shape::dag(&batch.path, capabilities, has_ceiling))
            }
            _ => None,
        }
    }

    /// The save step: variables that an agent's output sets.
    fn writes(&mut self, agent: &Agent, at: &str, shape: Option<&Shape>) {
        let Some((_, source, ..)) = self.bundle.agent(&agent.name) else {
            return;
        };
        for (variable, path) in &agent.writes {
            let at = pointer(&pointer(at, "writes"), variable);
            self.expect_variable(variable, source.key_place(&at));
            let Some(shape) = shape.filter(|_| !path.trim().is_empty()) else {
                continue;
            };
            if let Err(nowhere) = shape.has_path(path) {
                let message = format!("`{path}` leads nowhere in `{}`: {nowhere}", shape.name());
                let diagnostic = Diagnostic::error(Code::NoSuchPath, message).at(source.place(&at));
                self.push(diagnostic.found(nowhere.part).allowed(nowhere.allowed));
            }
        }
    }

    /// Notes a variable that `context_variables.yaml` does not declare. Without that file nothing has to be.
    pub(super) fn expect_variable(&mut self, name: &str, at: Place) {
        let fault = self.undeclared(name, at);
        fault.into_iter().for_each(|it| self.push(it));
    }

    /// What is wrong with naming a variable, if it is not declared.
    pub(super) fn undeclared(&self, name: &str, at: Place) -> Option<Diagnostic> {
        let part = self.bundle.context_variables.as_ref()?;
        if name == "input" || part.value.definitions.contains_key(name) {
            return None;
        }
        let names: Vec<String> = part.value.definitions.keys().map(Name::to_string).collect();
        let message = format!("the variable `{name}` is not declared");
        let diagnostic = Diagnostic::error(Code::UndeclaredVariable, message).at(at);
        let diagnostic = match closest(name, &names) {
            Some(near) => Diagnostic {
                suggestion: Some(near.to_owned()),
                ..diagnostic
            },
            None => diagnostic,
        };
        Some(diagnostic.help("declare it under `definitions` of `context_variables.yaml`"))
    }

    fn sees(&self, name: &str, batches: &[Batch]) -> Sees {
        let Some(part) = &self.bundle.context_variables else {
            return Sees::All;
        };
        let listed = part.value.agents.get(name);
        let names = listed.into_iter().flat_map(|it| it.variables.iter());
        let mut names: BTreeSet<String> = names.map(Name::to_string).collect();
        // A shared agent is written without knowing the workflow, so it sees the results of every batch.
        if listed.is_none() && self.bundle.shared_agents.contains_key(name) {
            let keys = batches
                .iter()
                .flat_map(|it| [&it.context_key, &it.status_key]);
            names.extend(keys.map(ToString::to_string));
        }
        Sees::Only(Arc::new(names))
    }
}
