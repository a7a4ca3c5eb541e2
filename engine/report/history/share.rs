//! What each agent of a run took.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{History, Task, Turn, time};
use crate::{
    agent::Usage,
    report::{
        NAME, clip,
        lines::{about, cu},
        table,
    },
};

/// What an agent took, all its questions together.
#[derive(Debug, Default)]
pub struct Share {
    /// How often it was asked.
    pub asked: usize,
    /// For how long answers were waited for, as if one after the other.
    pub took_ms: i64,
    pub usage: Usage,
}

impl History {
    /// By the agent's name. What was taken back since was taken all the same.
    pub fn shares(&self) -> BTreeMap<&str, Share> {
        let mut shares: BTreeMap<&str, Share> = BTreeMap::new();
        for turn in self.turns.iter().chain(&self.undone) {
            if let Some(agent) = &turn.agent {
                shares.entry(agent).or_default().add_turn(turn);
            }
            for task in turn.batches.iter().flat_map(|it| &it.tasks) {
                shares.entry(&task.agent).or_default().add_task(task);
            }
        }
        shares.retain(|_, it| it.asked > 0);
        shares
    }
}

impl Share {
    fn add_turn(&mut self, turn: &Turn) {
        self.asked += turn.prompts.len().saturating_sub(turn.withheld);
        self.took_ms = self.took_ms.saturating_add(turn.took_ms);
        self.usage.add(turn.usage);
    }

    fn add_task(&mut self, task: &Task) {
        self.asked += usize::from(task.ahead != Usage::default());
        self.usage.add(task.ahead);
        for attempt in &task.attempts {
            self.asked += usize::from(attempt.was_made());
            let took = attempt.took_ms().unwrap_or(0);
            self.took_ms = self.took_ms.saturating_add(took);
            self.usage.add(attempt.usage);
        }
    }
}

/// For programs.
pub(super) fn data(history: &History) -> Value {
    let shares = history.shares().into_iter().map(|(agent, it)| {
        let data = json!({ "asked": it.asked, "took_ms": it.took_ms, "usage": it.usage });
        (agent.to_owned(), data)
    });
    Value::Object(shares.collect())
}

/// For people: nothing, where nobody says what was used.
pub(super) fn text(history: &History) -> String {
    let shares = history.shares();
    if shares.values().all(|it| it.usage == Usage::default()) {
        return String::new();
    }
    let mut rows = vec![["AGENT", "ASKED", "TOOK", "TOKENS", "CACHED", "COST"].map(str::to_owned)];
    rows.extend(shares.into_iter().map(|(agent, it)| {
        [
            clip(agent, NAME),
            it.asked.to_string(),
            time::span(it.took_ms),
            tokens(it.usage),
            it.usage.cached_input_tokens.to_string(),
            cost(it.usage),
        ]
    }));
    format!("\n{}", table(&rows))
}

/// Asked and answered.
pub(super) fn tokens(usage: Usage) -> String {
    match (usage.input_tokens, usage.output_tokens) {
        (0, 0) => "-".to_owned(),
        (input, output) => format!("{}{input}/{output}", about(usage)),
    }
}

pub(super) fn cost(usage: Usage) -> String {
    let cost = usage
        .cost
        .map(|it| format!("{}{}", about(usage), it.amount()));
    match (cost, cu(usage)) {
        (Some(cost), Some(cu)) => format!("{cost} + {cu}"),
        (cost, cu) => cost.or(cu).unwrap_or_else(|| "-".to_owned()),
    }
}
