//! What all questions of a run have in common: the ways to providers, and the money.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use super::{
    gate::{Crowd, Gate},
    meter::{Meter, Way},
    purse::Purse,
};
use crate::{
    agent::{Agents, Usage},
    budget::{Amount, Limit, Message},
    compile::Workflow,
    event::RunEvent,
};

/// How often it is told, at most, how many wait.
const NEWS: Duration = Duration::from_millis(200);

/// What the questions of one run have in common: the ways to providers, and the money.
pub(super) struct Spending {
    gates: BTreeMap<Arc<str>, Arc<Gate>>,
    meters: BTreeMap<Arc<str>, Arc<Meter>>,
    purse: Arc<Purse>,
    changed: Arc<Notify>,
    /// When it is to be told what has changed.
    due: Option<Instant>,
    /// What was last told of each gate.
    told: BTreeMap<Arc<str>, Crowd>,
}

impl Spending {
    /// For a run that may spend so much, and has spent some of it. `seed` decides what the chances of lanes are.
    pub(super) fn new(
        workflow: &Workflow,
        agents: &Agents,
        (limit, spent): (Limit, Usage),
        seed: u64,
    ) -> Spending {
        let changed = Arc::new(Notify::new());
        let purse = Arc::new(Purse::new(limit, spent));
        let mut gates = BTreeMap::new();
        let meters = workflow.agents.values().map(|spec| {
            let agent = agents.get(&*spec.name);
            let is_replayed = agent.is_some_and(|it| it.is_replayed());
            let asked = agent.and_then(|it| it.model()).or(spec.model());
            let ways = spec.ways().map(|(name, model)| {
                let provider = workflow.providers.get(name);
                let new = || {
                    let limits = provider.map(|it| it.limits).unwrap_or_default();
                    Arc::new(Gate::new(limits, seed, Arc::clone(&changed)))
                };
                let gate: &mut Arc<Gate> = gates.entry(Arc::clone(name)).or_insert_with(new);
                Way {
                    gate: (!is_replayed).then(|| Arc::clone(gate)),
                    price: provider.and_then(|it| it.price(model.or(asked))),
                }
            });
            let meter = Meter::new(spec, ways.collect(), asked.is_some(), &purse);
            (Arc::clone(&spec.name), Arc::new(meter))
        });
        let meters = meters.collect();
        Spending {
            gates,
            meters,
            purse,
            changed,
            due: None,
            told: BTreeMap::new(),
        }
    }

    pub(super) fn meter(&self, agent: &str) -> Arc<Meter> {
        Arc::clone(&self.meters[agent])
    }

    /// Whether anything of what may be spent has a limit.
    pub(super) fn is_limited(&self) -> bool {
        let ledger = self.purse.ledger();
        ledger.is_limited() || ledger.is_limited_in_cu()
    }

    /// A batch begins, or goes on, for which so much was spent before.
    pub(super) fn begin_batch(&self, id: &str, limit: Limit, spent: Usage) {
        self.purse
            .ledger()
            .begin_batch(id, limit, Amount::of(spent));
    }

    pub(super) fn end_batch(&self) {
        self.purse.ledger().end_batch();
    }

    /// Why nothing may be asked any more.
    pub(super) fn reached(&self) -> Option<String> {
        self.purse.ledger().reached().map(Message::to_string)
    }

    /// What is near its end, told once.
    pub(super) fn warnings(&self) -> impl Iterator<Item = RunEvent> + use<> {
        let warnings = self.purse.ledger().warnings();
        warnings.into_iter().map(|it| RunEvent::Warning {
            message: it.to_string(),
        })
    }

    /// Waits until there may be something to tell of the lanes. Nothing is lost if the wait is given up.
    pub(super) async fn changed(&mut self) {
        let due = match self.due {
            Some(due) => due,
            None => {
                self.changed.notified().await;
                *self.due.insert(Instant::now() + NEWS)
            }
        };
        sleep_until(due).await;
        self.due = None;
    }

    /// What has changed about the lanes since it was last told.
    pub(super) fn news(&mut self) -> Vec<RunEvent> {
        let mut news = Vec::new();
        for (name, gate) in &self.gates {
            let now = gate.crowd();
            let before = self.told.insert(Arc::clone(name), now);
            let is_paused = now.paused.is_some();
            let before = before.map_or((0, false), |it| (it.waiting, it.paused.is_some()));
            if before != (now.waiting, is_paused) {
                news.push(RunEvent::Waiting {
                    provider: Arc::clone(name),
                    waiting: now.waiting,
                    paused_ms: now.paused.map(|it| it.as_millis() as u64),
                });
            }
        }
        news
    }
}

#[cfg(test)]
mod tests;
