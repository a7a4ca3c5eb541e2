//! What all questions of a run have in common: the ways to providers, and the money.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::json;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

use super::{
    gate::{Crowd, Gate},
    log::Log,
    meter::{Meter, Way},
    purse::Purse,
};
use crate::{
    agent::{Agents, Usage},
    budget::{Amount, Limit, Message},
    compile::Workflow,
    event::RunEvent,
    lane::{Pause, Ticket},
};

/// How often it is told, at most, how many wait.
const NEWS: Duration = Duration::from_millis(200);
/// A shorter wait for a rate is nothing to wonder at.
const LONG: Duration = Duration::from_secs(5);
/// Nor is a shorter wait that a provider asks for, or that grows by less than [`LONG`].
const LONG_PAUSE: Duration = Duration::from_secs(1);
/// As long as this the first call waits for a slot before that is told.
const LONG_FOR_A_SLOT: Duration = Duration::from_secs(10);

/// What the questions of one run have in common: the ways to providers, and the money.
pub(super) struct Spending {
    gates: BTreeMap<Arc<str>, Arc<Gate>>,
    meters: BTreeMap<Arc<str>, Arc<Meter>>,
    purse: Arc<Purse>,
    changed: Arc<Notify>,
    /// When it is to be told what has changed.
    due: Option<Instant>,
    /// When a wait for a slot is long.
    grows_long: Option<Instant>,
    /// What was last told of each gate.
    told: BTreeMap<Arc<str>, Told>,
}

/// What was told of a gate.
#[derive(Debug, Default)]
struct Told {
    waiting: usize,
    /// The number of the pause.
    paused: Option<u64>,
    /// Which waits.
    of_pause: Option<Pause>,
    of_rate: Option<Ticket>,
    of_slots: bool,
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
            grows_long: None,
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
                tokio::select! {
                    () = self.changed.notified() => (),
                    () = at(self.grows_long) => (),
                }
                *self.due.insert(Instant::now() + NEWS)
            }
        };
        sleep_until(due).await;
        self.due = None;
    }

    /// What has changed about the lanes since it was last told.
    pub(super) fn news(&mut self) -> Vec<RunEvent> {
        let mut news = Vec::new();
        self.grows_long = None;
        for (name, gate) in &self.gates {
            let now = gate.crowd();
            let told = self.told.entry(Arc::clone(name)).or_default();
            let paused = now.paused.map(|it| it.number);
            if (told.waiting, told.paused) != (now.waiting, paused) {
                news.push(RunEvent::Waiting {
                    provider: Arc::clone(name),
                    waiting: now.waiting,
                    paused_ms: now.pause().map(|it| it.as_millis() as u64),
                });
            }
            (told.waiting, told.paused) = (now.waiting, paused);
            if let Some((limit, left)) = told.of_wait(&now) {
                news.push(RunEvent::HeldUp {
                    provider: Arc::clone(name),
                    limit,
                    waiting: now.waiting,
                    for_ms: left.map(|it| it.as_millis() as u64),
                });
            }
            let grows_long = now.grows_long().filter(|_| !told.of_slots);
            let grows_long = grows_long.map(|it| Instant::now() + it);
            self.grows_long = self.grows_long.into_iter().chain(grows_long).min();
        }
        news
    }
}

/// A wait that is told: the limit, unless the provider asked for it, and how long it is.
type Wait = (Option<&'static str>, Option<Duration>);

impl Told {
    /// What is to be told of the wait of a crowd, which counts as told.
    fn of_wait(&mut self, now: &Crowd) -> Option<Wait> {
        if now.waiting == 0 {
            (self.of_pause, self.of_rate, self.of_slots) = (None, None, false);
            return None;
        }
        if let Some(pause) = now.paused
            && now.pause() >= Some(LONG_PAUSE)
        {
            let is_known = |it: Pause| it.number == pause.number && pause.until < it.until + LONG;
            if self.of_pause.is_some_and(is_known) {
                return None;
            }
            self.of_pause = Some(pause);
            return Some((None, now.pause()));
        }
        let held_up = now.held_up?;
        let is_long = match held_up.until {
            Some(until) => until.saturating_sub(held_up.since) >= LONG,
            None => now.at.saturating_sub(held_up.since) >= LONG_FOR_A_SLOT,
        };
        let is_news = is_long
            && match held_up.until {
                Some(_) => self.of_rate.replace(held_up.ticket) != Some(held_up.ticket),
                None => !std::mem::replace(&mut self.of_slots, true),
            };
        let left = held_up.until.map(|it| it.saturating_sub(now.at));
        is_news.then_some((Some(held_up.by.name()), left))
    }
}

impl Crowd {
    /// For how long nobody is let in.
    fn pause(&self) -> Option<Duration> {
        Some(self.paused?.until.saturating_sub(self.at))
    }

    /// After how long the wait for a slot is a long one.
    fn grows_long(&self) -> Option<Duration> {
        let held_up = self.held_up.filter(|it| it.until.is_none())?;
        Some((held_up.since + LONG_FOR_A_SLOT).saturating_sub(self.at))
    }
}

impl Log {
    /// What was told of lanes, as far as it is worth keeping.
    pub(super) fn held_up(&mut self, news: &RunEvent) {
        if let RunEvent::HeldUp {
            provider,
            limit,
            waiting,
            for_ms,
        } = news
        {
            let data =
                json!({ "provider": provider, "limit": limit, "waiting": waiting, "ms": for_ms });
            self.push("held_up", data, |_| ());
        }
    }
}

/// Waits until then, if that ever comes.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
