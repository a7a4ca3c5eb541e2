//! Asks an agent within the limits of its provider and the budget of the run, and counts what that costs.
//!
//! **Invariant:** every question of a run goes through a [`Meter`]; of an agent of no provider it only counts.
//! **Invariant:** the time an attempt may take begins when its question is asked, not when it begins to wait for that.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::gate::{Crowd, Gate, Inside};
use crate::{
    accept::{Failure, Rejection, Whose},
    agent::{Agent, Agents, Reply, Request, Usage},
    budget::{self, Amount, Hold, Ledger, Limit, Message},
    compile::{AgentSpec, Workflow},
    event::RunEvent,
    lane::How,
    prompt::Prompt,
    usage::Price,
};

/// How many bytes of text are one token, as a rule fewer than there are: an estimate is to be no less than the truth.
const BYTES_A_TOKEN: u64 = 3;
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

/// What asking one agent takes.
pub(super) struct Meter {
    /// Whether it is asked through a provider, which has to be paid.
    is_paid: bool,
    /// The way there, unless its answers are there already.
    gate: Option<Arc<Gate>>,
    price: Option<Price>,
    /// As far as it is known.
    max_output_tokens: u64,
    /// What a model is sent along with every question.
    schema_tokens: u64,
    purse: Arc<Purse>,
}

/// One ledger for all who spend.
struct Purse {
    ledger: Mutex<Ledger>,
    /// A call has ended.
    freed: Notify,
    /// There is no more.
    reached: CancellationToken,
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
        let purse = Arc::new(Purse {
            ledger: Mutex::new(Ledger::new(limit, Amount::of(spent))),
            freed: Notify::new(),
            reached: CancellationToken::new(),
        });
        let mut gates = BTreeMap::new();
        let meters = workflow.agents.values().map(|spec| {
            let agent = agents.get(&*spec.name);
            let is_replayed = agent.is_some_and(|it| it.is_replayed());
            let provider = spec.provider.as_ref().filter(|_| !is_replayed);
            let gate = provider.map(|name| {
                let limits = workflow.providers.get(name).map(|it| it.limits);
                let new = || {
                    let (limits, changed) = (limits.unwrap_or_default(), Arc::clone(&changed));
                    Arc::new(Gate::new(limits, seed, changed))
                };
                let gate: &mut Arc<Gate> = gates.entry(Arc::clone(name)).or_insert_with(new);
                Arc::clone(gate)
            });
            let model = agent.and_then(|it| it.model()).or(spec.model());
            let meter = Meter::new(workflow, spec, model, gate, &purse);
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

impl Meter {
    fn new(
        workflow: &Workflow,
        spec: &AgentSpec,
        model: Option<&str>,
        gate: Option<Arc<Gate>>,
        purse: &Arc<Purse>,
    ) -> Meter {
        let provider = spec.provider.as_ref();
        let provider = provider.and_then(|it| workflow.providers.get(it));
        let schema = spec.shape.as_ref().filter(|_| model.is_some());
        let schema = schema.map_or(0, |it| it.json_schema().to_string().len());
        Meter {
            is_paid: spec.provider.is_some(),
            gate,
            price: provider.and_then(|it| it.price(model)),
            max_output_tokens: spec.max_output_tokens().unwrap_or(0),
            schema_tokens: tokens_of(schema),
            purse: Arc::clone(purse),
        }
    }

    /// Asks, as soon as that is allowed.
    pub(super) async fn ask(
        &self,
        agent: &dyn Agent,
        request: Request,
    ) -> Result<Reply, Rejection> {
        if !self.is_paid {
            return self.count(in_time(agent, request).await, 0);
        }
        let asked = self.schema_tokens + prompt_tokens(&request.prompt);
        let most = self.priced(Usage {
            input_tokens: asked,
            output_tokens: self.max_output_tokens,
            ..Usage::default()
        });
        let inside = tokio::select! {
            biased;
            () = self.purse.reached.cancelled() => return Err(self.purse.refusal()),
            inside = self.enter(most.tokens()) => inside,
        };
        let held = self.purse.reserve(Amount::of(most)).await?;
        let answer = self.count(in_time(agent, request).await, asked);
        let (used, how) = match &answer {
            Ok(reply) => (reply.usage, How::Answered),
            Err(rejection) => (rejection.usage, how(rejection)),
        };
        held.settle(used);
        if let Some(inside) = inside {
            inside.leave(Some(used.tokens()).filter(|it| *it > 0), how);
        }
        answer
    }

    async fn enter(&self, tokens: u64) -> Option<Inside> {
        match &self.gate {
            Some(gate) => Some(gate.enter(tokens).await),
            None => None,
        }
    }

    /// Notes what an answer cost. Where there is a budget, what nobody says is estimated: a question of so many tokens
    /// was read, unless the endpoint refused to, and an answer was written.
    fn count(&self, answer: Result<Reply, Rejection>, asked: u64) -> Result<Reply, Rejection> {
        let estimated = |used: Usage, output_tokens: u64| match used.tokens() {
            0 if self.is_paid && self.purse.ledger().is_limited() => Usage {
                input_tokens: asked,
                output_tokens,
                ..used
            },
            _ => used,
        };
        match answer {
            Ok(reply) => {
                let usage = self.priced(estimated(reply.usage, tokens_of(reply.text.len())));
                Ok(Reply { usage, ..reply })
            }
            Err(rejection) => {
                let was_read = matches!(
                    rejection.failure,
                    Failure::Timeout | Failure::IdleTimeout | Failure::TooLong
                );
                let usage = match was_read {
                    true => estimated(rejection.usage, 0),
                    false => rejection.usage,
                };
                let usage = self.priced(usage);
                Err(Rejection { usage, ..rejection })
            }
        }
    }

    fn priced(&self, used: Usage) -> Usage {
        let price = self.price.filter(|_| used.tokens() > 0);
        Usage {
            cost: price.map(|it| it.of(used)).or(used.cost),
            ..used
        }
    }
}

impl Purse {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // Every entry of a ledger is whole before the lock ends.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves so much for a call, as soon as it is there.
    async fn reserve(self: &Arc<Purse>, amount: Amount) -> Result<Held, Rejection> {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // From here on it hears of every call that ends.
            freed.as_mut().enable();
            let answer = self.ledger().reserve(amount);
            match answer {
                budget::Answer::Go(hold) => {
                    return Ok(Held {
                        purse: Arc::clone(self),
                        hold: Some(hold),
                    });
                }
                budget::Answer::Wait => freed.await,
                budget::Answer::Never => {
                    self.reached.cancel();
                    self.freed.notify_waiters();
                    return Err(self.refusal());
                }
            }
        }
    }

    fn refusal(&self) -> Rejection {
        let message = self.ledger().reached().map(Message::to_string);
        Rejection::new(Failure::Budget, message.unwrap_or_default())
    }
}

/// What is held for a call under way. Dropped, it used nothing that anybody knows of.
struct Held {
    purse: Arc<Purse>,
    hold: Option<Hold>,
}

impl Held {
    fn settle(mut self, used: Usage) {
        self.close(Amount::of(used));
    }

    fn close(&mut self, used: Amount) {
        if let Some(hold) = self.hold.take() {
            self.purse.ledger().settle(hold, used);
            self.purse.freed.notify_waiters();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.close(Amount::default());
    }
}

async fn in_time(agent: &dyn Agent, request: Request) -> Result<Reply, Rejection> {
    if !agent.is_timed() {
        return agent.ask(request).await;
    }
    let (limit, witness) = (request.timeout, request.witness.clone());
    timeout(limit, agent.ask(request))
        .await
        .unwrap_or_else(|_| {
            let usage = witness.used();
            Err(Rejection {
                usage,
                ..Rejection::late(limit)
            })
        })
}

/// What a rejection says to the others who ask the same provider.
fn how(rejection: &Rejection) -> How {
    let failure = rejection.failure;
    match failure.whose() {
        Whose::Endpoints if failure.is_worth_a_retry() => How::Refused {
            floor: rejection.retry_after.unwrap_or_default(),
        },
        _ if failure.is_about_the_answer() => How::Answered,
        _ => How::Otherwise,
    }
}

/// About how many tokens a prompt has.
pub(super) fn prompt_tokens(prompt: &Prompt) -> u64 {
    tokens_of(prompt.system.len() + prompt.user.len())
}

fn tokens_of(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(BYTES_A_TOKEN)
}

#[cfg(test)]
mod tests;
