//! The most that a plan can cost, before anything is asked.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::meter::{BYTES_A_TOKEN, prompt_tokens, tokens_of};
use crate::{
    agent::Usage,
    budget::Limit,
    compile::{AgentSpec, Batch, Workflow},
    context::Context,
    contract::runtime::Runtime,
    graph::TaskIx,
    plan::Plan,
    prompt::{self, MAX_DEPENDENCY_BYTES, MAX_FEEDBACK_BYTES},
    usage::Cost,
};

/// What stands around a task and the outputs before it in a prompt, in bytes: headings and ids.
const AROUND: usize = 1_000;

/// What the tasks of a plan use at most, if every attempt is needed and every answer is as long as it may be. Prompts
/// are estimated, as they are for a budget.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// How often models, or whoever else has a provider, are asked.
    pub calls: u64,
    /// As far as it is known; nothing if `unknown` says why not.
    pub usage: Usage,
    /// What keeps it from having a bound, one sentence each.
    pub unknown: BTreeSet<String>,
    /// What keeps its cost from having one.
    pub unpriced: BTreeSet<String>,
    /// The same of each agent that is asked.
    pub agents: BTreeMap<Arc<str>, Part>,
    /// What the whole run may spend, and the batch.
    pub run: Limit,
    pub batch: Limit,
}

/// What one agent's tasks use at most.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Part {
    pub calls: u64,
    /// Nothing if nobody knows.
    pub tokens: Option<u64>,
    pub cost: Option<Cost>,
}

/// An amount of what a budget limits.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub enum Measure {
    Tokens(u64),
    Cost(Cost),
}

/// A budget, and the most of it that the tasks use, if that is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Against {
    /// Of the batch, or of the run, in which others are asked as well.
    pub is_of_batch: bool,
    pub limit: Measure,
    pub most: Option<Measure>,
}

/// The bound of a batch's plan, in the context that it would start in.
pub fn bound(workflow: &Workflow, batch: &Batch, plan: &Plan, context: &Context) -> Bound {
    let mut bound = Bound {
        run: workflow.budget,
        batch: batch.budget,
        ..Bound::default()
    };
    let attempts = u64::from(batch.policy.retry_limit) + 1;
    for (ix, task) in plan.tasks().iter().enumerate() {
        let Some(spec) = workflow.agents.get(&*task.agent) else {
            continue;
        };
        // All that stand in for each other may be asked in one attempt.
        let ways = spec.ways().count() as u64;
        if ways == 0 {
            continue;
        }
        let calls = attempts * ways * rounds(workflow, spec);
        bound.calls = bound.calls.saturating_add(calls);
        // Whatever is unknown of one task of an agent is unknown of all.
        let part = bound.agents.entry(Arc::clone(&spec.name)).or_default();
        part.calls = part.calls.saturating_add(calls);
        let Some(output) = limits(workflow, spec, &mut bound.unknown) else {
            continue;
        };
        let view = context.view(&spec.sees);
        let first = prompt_tokens(&prompt::task(&spec.instruction, &task.prompt, &view));
        let own = plan.decomposition().task(ix).text().len();
        let before = before(workflow, plan, TaskIx::new(ix));
        let schema = spec
            .shape
            .as_ref()
            .map_or(0, |it| it.json_schema().to_string().len());
        let asked = first + tokens_of(own + before + schema + AROUND);
        // What was wrong with an answer, and as much of the answer.
        let again = asked + tokens_of(2 * MAX_FEEDBACK_BYTES);
        let usage = Usage {
            input_tokens: asked.saturating_add(again.saturating_mul(attempts - 1)),
            output_tokens: output.saturating_mul(attempts),
            ..Usage::default()
        };
        let mut sum = Usage::default();
        let mut is_priced = true;
        for (provider, model) in spec.ways() {
            let price = workflow.providers.get(provider);
            let price = price.and_then(|it| it.price(model));
            if price.is_none() {
                is_priced = false;
                let agent = &spec.name;
                let unpriced = format!("nobody says what an answer of `{agent}` costs");
                bound.unpriced.insert(unpriced);
            }
            sum.add(Usage {
                cost: price.map(|it| it.of(usage)),
                ..usage
            });
        }
        let tokens = part.tokens.unwrap_or_default();
        part.tokens = Some(tokens.saturating_add(sum.tokens()));
        let cost = part.cost.unwrap_or_default();
        part.cost = sum.cost.filter(|_| is_priced).map(|it| cost.plus(it));
        bound.usage.add(sum);
    }
    bound
}

impl Bound {
    /// Asked and answered together, if there is a bound.
    pub fn tokens(&self) -> Option<u64> {
        self.unknown.is_empty().then(|| self.usage.tokens())
    }

    pub fn cost(&self) -> Option<Cost> {
        let is_known = self.unknown.is_empty() && self.unpriced.is_empty();
        self.usage.cost.filter(|_| is_known)
    }

    /// Every budget there is, that of the batch first.
    pub fn against(&self) -> Vec<Against> {
        let limits = [(true, self.batch), (false, self.run)];
        let budgets = limits.into_iter().flat_map(|(is_of_batch, limit)| {
            let tokens = limit.tokens.map(Measure::Tokens);
            let cost = limit.cost.map(Measure::Cost);
            let tokens = tokens.map(|it| (it, self.tokens().map(Measure::Tokens)));
            let cost = cost.map(|it| (it, self.cost().map(Measure::Cost)));
            let both = tokens.into_iter().chain(cost);
            both.map(move |(limit, most)| Against {
                is_of_batch,
                limit,
                most,
            })
        });
        budgets.collect()
    }
}

impl Against {
    /// Whether something of it is left whatever happens; nothing if nobody knows.
    pub fn is_below(&self) -> Option<bool> {
        self.most.map(|it| it < self.limit)
    }
}

/// Whether an agent's model may call tools.
fn may_call(workflow: &Workflow, spec: &AgentSpec) -> bool {
    let mut tools = workflow.tools.tools.iter();
    tools.any(|it| it.bound && it.agents.iter().any(|agent| **agent == *spec.name))
}

/// How often a model is asked for one answer: once, and once after each round of calls.
fn rounds(workflow: &Workflow, spec: &AgentSpec) -> u64 {
    match spec.runtime {
        Runtime::Openai {
            max_tool_rounds, ..
        } if may_call(workflow, spec) => u64::from(max_tool_rounds) + 1,
        _ => 1,
    }
}

/// The most tokens of one answer, if an agent's calls have a bound.
fn limits(workflow: &Workflow, spec: &AgentSpec, unknown: &mut BTreeSet<String>) -> Option<u64> {
    let name = &spec.name;
    if may_call(workflow, spec) {
        unknown.insert(format!("the model of `{name}` may call tools"));
        return None;
    }
    let output = spec.max_output_tokens();
    if output.is_none() {
        unknown.insert(format!("`{name}` has no `max_output_tokens`"));
    }
    output
}

/// The most bytes of the outputs before a task that are in its prompt.
fn before(workflow: &Workflow, plan: &Plan, task: TaskIx) -> usize {
    /// A token is seldom longer, in bytes.
    const LONG: u64 = 2 * BYTES_A_TOKEN;
    let output = |it: &TaskIx| {
        let agent = &plan.tasks()[it.at()].agent;
        let most = workflow.agents.get(&**agent);
        let most = most.and_then(AgentSpec::max_output_tokens);
        let bytes = most.map(|it| it.saturating_mul(LONG));
        bytes
            .and_then(|it| usize::try_from(it).ok())
            .unwrap_or(usize::MAX)
    };
    let needs = plan.graph().needs(task).iter().map(output);
    let bytes = needs.fold(0, usize::saturating_add);
    bytes.min(MAX_DEPENDENCY_BYTES)
}
