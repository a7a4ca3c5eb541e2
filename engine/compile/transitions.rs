//! Who speaks after whom.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::Value;

use super::{Batch, Compiler, Emits, First, USER};
use crate::{
    context::{
        Context,
        expression::{self, Expression},
    },
    contract::{
        task_batches::FailurePolicy,
        tools::AgentOrAgents,
        transition_graph::{
            ConditionType, Rule as Written, TerminationReason, TransitionTarget, TransitionType,
        },
    },
    diagnostic::{Code, Diagnostic, Place},
};

/// The rules of a workflow, in the order in which they are tried.
#[derive(Debug, Default)]
pub struct Transitions {
    rules: Vec<Rule>,
    /// Whether a person wrote them. Without a graph, agents speak in the order of their file.
    is_written: bool,
}

#[derive(Debug)]
struct Rule {
    source: Arc<str>,
    next: Next,
    when: When,
}

/// What follows a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    Agent(Arc<str>),
    /// The run is complete.
    Complete,
    /// The run failed: a rule says so.
    Failed,
    /// A person is to speak.
    User,
    /// No rule of this agent holds.
    NoRule,
}

#[derive(Debug)]
enum When {
    Always,
    Equals {
        key: String,
        value: Value,
    },
    Holds(Expression),
    /// A tool was called in the turn.
    Called(String),
    Never,
}

impl Transitions {
    /// The first rule of an agent that holds: conditions in the order of the file, then the others. Warnings are about comparisons that make no sense.
    pub fn next(
        &self,
        source: &str,
        context: &Context,
        called: &BTreeSet<String>,
    ) -> (Next, Vec<String>) {
        let mut warnings = Vec::new();
        let mut rules = self.rules.iter().filter(|it| &*it.source == source);
        match rules.find(|it| it.when.holds(context, called, &mut warnings)) {
            Some(rule) => (rule.next.clone(), warnings),
            None => (Next::NoRule, warnings),
        }
    }

    /// Whether a rule with a condition holds after a turn of this agent.
    pub fn has_condition(
        &self,
        source: &str,
        context: &Context,
        called: &BTreeSet<String>,
    ) -> bool {
        let mut rules = self.rules.iter().filter(|it| &*it.source == source);
        rules.any(|it| {
            !matches!(it.when, When::Always) && it.when.holds(context, called, &mut Vec::new())
        })
    }

    pub(super) fn lead_to_user(&self) -> bool {
        self.rules.iter().any(|it| it.next == Next::User)
    }

    /// Whoever may have a turn. Where a DAG is carried out, nobody has.
    pub(super) fn reached(&self, first: &First) -> BTreeSet<String> {
        let mut reached = BTreeSet::new();
        let mut open = match first {
            First::Dag(_) => Vec::new(),
            First::Agent(name) => vec![&**name],
            First::User => vec![USER],
        };
        while let Some(name) = open.pop() {
            if reached.insert(name.to_owned()) {
                let rules = self.rules.iter().filter(|it| &*it.source == name);
                open.extend(rules.filter_map(|it| match &it.next {
                    Next::Agent(name) => Some(&**name),
                    Next::User => Some(USER),
                    _ => None,
                }));
            }
        }
        reached
    }
}

impl When {
    fn holds(
        &self,
        context: &Context,
        called: &BTreeSet<String>,
        warnings: &mut Vec<String>,
    ) -> bool {
        match self {
            When::Always => true,
            When::Never => false,
            When::Called(tool) => called.contains(tool),
            When::Equals { key, value } => {
                expression::equals(context.get(key).as_deref().unwrap_or(&Value::Null), value)
            }
            When::Holds(expression) => {
                let read = expression.variables();
                let read = read.filter_map(|(name, _)| Some((name, context.get(name)?)));
                let read: BTreeMap<&str, Cow<'_, Value>> = read.collect();
                let verdict = expression.evaluate(|it| read.get(it).map(AsRef::as_ref));
                warnings.extend(verdict.warnings);
                verdict.value
            }
        }
    }
}

impl Compiler<'_> {
    pub(super) fn transitions(&mut self, batches: &[Batch]) -> Transitions {
        let bundle = self.bundle;
        let Some(part) = &bundle.transition_graph else {
            return self.in_order(batches);
        };
        let mut conditions = Vec::new();
        let mut others = Vec::new();
        for (ix, rule) in part.value.transition_rules.iter().enumerate() {
            let at = format!("/transition_rules/{ix}");
            let is_user = rule.source_agent.eq_ignore_ascii_case("user");
            if !is_user && bundle.agent(&rule.source_agent).is_none() {
                let message = format!(
                    "no file defines the agent `{}`, so this rule never holds",
                    rule.source_agent
                );
                let diagnostic = Diagnostic::warning(Code::UnknownAgent, message)
                    .at(part.at(&format!("{at}/source_agent")));
                self.push(
                    diagnostic
                        .found(rule.source_agent.as_str())
                        .allowed(bundle.agent_names()),
                );
            }
            let next = self.target(rule, &at);
            let when = self.condition(rule, &at);
            let rules = match rule.transition_type {
                TransitionType::Condition => &mut conditions,
                TransitionType::AfterTurn => &mut others,
            };
            let source = match is_user {
                true => "user",
                false => rule.source_agent.as_str(),
            };
            let source = source.into();
            rules.push(Rule { source, next, when });
        }
        conditions.append(&mut others);
        Transitions {
            rules: conditions,
            is_written: true,
        }
    }

    /// Without a graph: the agents that are neither triggers nor workers, in the order of their file, then the end.
    fn in_order(&mut self, batches: &[Batch]) -> Transitions {
        let is_worker = |name: &str| {
            batches.iter().any(|it| {
                it.form == super::Form::Conveyor && it.allowed.iter().any(|it| it == name)
            })
        };
        // Who serves a DAG is asked by it.
        let has_dag = batches.iter().any(|it| it.emits != Emits::Tasks);
        let is_trigger = |name: &str| batches.iter().any(|it| &*it.trigger == name);
        let listed = |name: &str| {
            batches.iter().any(|it| {
                it.form == super::Form::Batch
                    && it.allowed.len() < self.bundle.agent_names().len()
                    && it.allowed.iter().any(|it| it == name)
            })
        };
        let mut chain: Vec<Arc<str>> = Vec::new();
        for batch in batches {
            if !chain.contains(&batch.trigger) {
                chain.push(Arc::clone(&batch.trigger));
            }
        }
        for agent in &self.bundle.agents.value.agents {
            let name = agent.name.as_str();
            let serves = has_dag && !agent.capabilities.is_empty();
            if !is_worker(name) && !is_trigger(name) && !listed(name) && !serves {
                chain.push(name.into());
            }
        }
        let ends = chain
            .iter()
            .skip(1)
            .map(|it| Next::Agent(Arc::clone(it)))
            .chain([Next::Complete]);
        let rules = chain.iter().zip(ends).map(|(source, next)| Rule {
            source: Arc::clone(source),
            next,
            when: When::Always,
        });
        Transitions {
            rules: rules.collect(),
            is_written: false,
        }
    }

    fn target(&mut self, rule: &Written, at: &str) -> Next {
        let part = self
            .bundle
            .transition_graph
            .as_ref()
            .expect("the rule stands in it");
        let target = rule.target_agent.as_str();
        let next = match target.to_lowercase().as_str() {
            "terminate" if rule.termination_reason == Some(TerminationReason::WorkflowFailed) => {
                Next::Failed
            }
            "terminate" => Next::Complete,
            "user" => Next::User,
            _ => {
                self.expect_agent(&part.source, &format!("{at}/target_agent"), target);
                Next::Agent(target.into())
            }
        };
        let place = |key: &str| part.at(&format!("{at}/{key}"));
        let is_end = matches!(next, Next::Complete | Next::Failed);
        if rule.termination_reason.is_some() && !is_end {
            self.rule(
                "`termination_reason` goes with `target_agent: terminate`",
                place("termination_reason"),
            );
        }
        let fits = match rule.transition_target {
            None => true,
            Some(TransitionTarget::TerminateTarget) => is_end,
            Some(TransitionTarget::RevertToUserTarget) => next == Next::User,
            Some(TransitionTarget::AgentTarget) => matches!(next, Next::Agent(_)),
        };
        if !fits {
            let message = format!("this `transition_target` does not fit `target_agent: {target}`");
            self.rule(&message, place("transition_target"));
        }
        next
    }

    fn condition(&mut self, rule: &Written, at: &str) -> When {
        let part = self
            .bundle
            .transition_graph
            .as_ref()
            .expect("the rule stands in it");
        let place = |key: &str| part.at(&format!("{at}/{key}"));
        let given = [
            ("condition_type", rule.condition_type.is_some()),
            ("condition_key", rule.condition_key.is_some()),
            ("condition_value", rule.condition_value.is_some()),
            ("context_expression", rule.context_expression.is_some()),
            ("tool_name", rule.tool_name.is_some()),
        ];
        let wanted: &[&str] = match (rule.transition_type, rule.condition_type) {
            (TransitionType::AfterTurn, _) => &[],
            (_, None) => {
                self.rule(
                    "a rule of type `condition` needs a `condition_type`",
                    place("transition_type"),
                );
                return When::Never;
            }
            (_, Some(ConditionType::ContextEquals)) => {
                &["condition_type", "condition_key", "condition_value"]
            }
            (_, Some(ConditionType::ContextExpression)) => {
                &["condition_type", "context_expression"]
            }
            (_, Some(ConditionType::ToolCalled)) => &["condition_type", "tool_name"],
        };
        for (key, is_given) in given {
            if is_given && !wanted.contains(&key) {
                let message = format!("`{key}` has no use in a rule of this type");
                let place = part.key_at(&format!("{at}/{key}"));
                self.rule(&message, place);
            }
            // A value that is left out is null.
            if !is_given && wanted.contains(&key) && key != "condition_value" {
                let message = format!("a rule of this type needs `{key}`");
                self.rule(&message, place("condition_type"));
            }
        }
        match (rule.transition_type, rule.condition_type) {
            (TransitionType::AfterTurn, _) => When::Always,
            (_, Some(ConditionType::ContextEquals)) => {
                let key = rule
                    .condition_key
                    .as_ref()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                self.expect_variable(&key, place("condition_key"));
                let value = rule.condition_value.clone().unwrap_or(Value::Null);
                When::Equals { key, value }
            }
            (_, Some(ConditionType::ContextExpression)) => {
                let text = rule.context_expression.as_deref();
                text.map_or(When::Never, |it| {
                    self.expression(it, place("context_expression"))
                })
            }
            (_, Some(ConditionType::ToolCalled)) => {
                let Some(tool) = &rule.tool_name else {
                    return When::Never;
                };
                self.expect_tool(&rule.source_agent, tool, place("tool_name"));
                When::Called(tool.to_string())
            }
            (_, None) => When::Never,
        }
    }

    /// Notes a tool that the agent does not have.
    fn expect_tool(&mut self, agent: &str, tool: &str, at: Place) {
        let tools = self.bundle.tools.iter().flat_map(|it| it.value.named());
        let is_its = |it: &AgentOrAgents| it.names().iter().any(|it| it.as_str() == agent);
        let its = tools.filter(|(_, agents, _)| is_its(agents));
        let names: Vec<String> = its.map(|(name, ..)| name).collect();
        if !names.iter().any(|it| it == tool) {
            let message = format!("`{agent}` has no tool `{tool}`, so this rule never holds");
            let diagnostic = Diagnostic::warning(Code::UnknownTool, message).at(at);
            self.push(diagnostic.found(tool).allowed(names));
        }
    }

    fn expression(&mut self, text: &str, place: Place) -> When {
        // Inside a quoted or plain text on one line, a byte of the expression is a byte of the file.
        let within = |span: std::ops::Range<usize>| {
            let written = &place.file.text[place.span.clone()];
            match written.find(text) {
                Some(start) if !text.is_empty() => Place {
                    file: Arc::clone(&place.file),
                    span: place.span.start + start + span.start
                        ..place.span.start + start + span.end,
                },
                _ => place.clone(),
            }
        };
        match expression::parse(text) {
            Ok(expression) => {
                let variables: Vec<_> = expression
                    .variables()
                    .map(|(name, span)| (name.to_owned(), span))
                    .collect();
                for (name, span) in variables {
                    self.expect_variable(&name, within(span));
                }
                When::Holds(expression)
            }
            Err(error) => {
                let diagnostic =
                    Diagnostic::error(Code::Expression, error.message).at(within(error.span));
                self.push(match error.help {
                    Some(help) => diagnostic.help(help),
                    None => diagnostic,
                });
                When::Never
            }
        }
    }

    fn rule(&mut self, message: &str, at: Place) {
        self.push(Diagnostic::error(Code::Rule, message).at(at));
    }

    /// Notes triggers that no turn can lead to, and batch statuses that no rule handles.
    pub(super) fn reach(
        &mut self,
        first: &Option<First>,
        transitions: &Transitions,
        batches: &[Batch],
    ) {
        let Some(first) = first.as_ref().filter(|_| transitions.is_written) else {
            return;
        };
        let reached = transitions.reached(first);
        let part = &self.bundle.task_batches;
        for (ix, batch) in batches.iter().enumerate() {
            let at = match ix.checked_sub(part.value.batches.len()) {
                None => format!("/batches/{ix}/trigger_agent"),
                Some(ix) => format!("/conveyors/{ix}/decomposition_agent"),
            };
            if !reached.contains(&*batch.trigger) {
                let message = format!(
                    "no transition leads to `{}`, so batch `{}` never runs",
                    batch.trigger, batch.id
                );
                let help = "add a rule with this agent as `target_agent`";
                self.push(
                    Diagnostic::warning(Code::UnreachedTrigger, message)
                        .at(part.at(&at))
                        .help(help),
                );
                continue;
            }
            self.statuses(batch, transitions, part.at(&at));
        }
    }

    /// A status word that no rule of the trigger handles would end the run in the middle.
    fn statuses(&mut self, batch: &Batch, transitions: &Transitions, at: Place) {
        let mut unhandled = vec!["completed"];
        match batch.failure_policy {
            FailurePolicy::FailBatch => unhandled.push("failed"),
            FailurePolicy::ContinueWithAvailable => unhandled.push("partial"),
            FailurePolicy::CollectErrors => unhandled.push("completed_with_errors"),
        }
        for rule in transitions
            .rules
            .iter()
            .filter(|it| it.source == batch.trigger)
        {
            match &rule.when {
                When::Always => return,
                When::Equals { key, value } if *key == *batch.status_key => {
                    unhandled.retain(|it| value.as_str() != Some(it));
                }
                When::Holds(expression) => {
                    // Only what the expression says of the status can be known before the run.
                    let is_about_status = expression
                        .variables()
                        .any(|(name, _)| name == &*batch.status_key);
                    if !is_about_status {
                        return;
                    }
                    unhandled.retain(|status| {
                        let value = Value::from(*status);
                        !expression
                            .evaluate(|it| (it == &*batch.status_key).then_some(&value))
                            .value
                    });
                }
                When::Equals { .. } | When::Called(_) | When::Never => return,
            }
        }
        // A failed batch that nobody handles ends the run as failed, which is what its author asked for.
        for status in unhandled.into_iter().filter(|it| *it != "failed") {
            let message = format!(
                "no transition of `{}` handles batch `{}` ending as `{status}`",
                batch.trigger, batch.id
            );
            let help = format!(
                "add a rule on `{} == '{status}'`, or an `after_turn` rule; without one the run ends there",
                batch.status_key
            );
            self.push(
                Diagnostic::warning(Code::UnhandledStatus, message)
                    .at(at.clone())
                    .help(help),
            );
        }
    }
}
