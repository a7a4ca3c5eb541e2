//! Asks an agent within the limits of its providers and the budget of the run, and counts what that costs.
//!
//! **Invariant:** every question of a run goes through a [`Meter`]; of an agent of no provider it only counts.
//! **Invariant:** the time an attempt may take does not pass while it waits for leave to ask.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep_until};

use super::{
    gate::{Gate, Inside},
    purse::{Held, Purse},
};
use crate::{
    accept::{Failure, Rejection, Whose},
    agent::{
        Agent, Call, Came, Granted, Leave, Leaves, Question, Reply, Request, SoFar, Usage, Witness,
    },
    budget::{Amount, Share},
    compile::AgentSpec,
    contract::runtime::Runtime,
    lane::How,
    prompt::Prompt,
    usage::{Cost, Price},
};

/// How many bytes of text are one token, as a rule fewer than there are: an estimate is to be no less than the truth.
pub(super) const BYTES_A_TOKEN: u64 = 3;
/// No answer is stopped before it is longer, in tokens.
const LONG: u64 = 4_096;
/// How many times `max_output_tokens` an answer may seem to have: a token may be as long as many bytes.
const FAR: u64 = 8;

/// What asking one agent takes.
pub(super) struct Meter {
    /// To whom it is asked through, the one that is asked first before those that stand in for it. Of an agent of no
    /// provider there is none.
    ways: Vec<Way>,
    /// As far as it is known.
    max_output_tokens: u64,
    /// What a model is sent along with every question.
    schema_tokens: u64,
    /// Whether it has others carry tasks out, up to the price of each.
    has_providers: bool,
    purse: Arc<Purse>,
}

/// To one model.
pub(super) struct Way {
    /// Unless its answers are there already.
    pub(super) gate: Option<Arc<Gate>>,
    pub(super) price: Option<Price>,
}

/// For how long an attempt has waited for leave.
#[derive(Default)]
struct Waited(Mutex<(Duration, Option<Instant>)>);

/// Gives leave for the calls of one attempt.
struct Attempt {
    meter: Arc<Meter>,
    waited: Arc<Waited>,
    witness: Witness,
}

/// A call under way.
struct UnderWay {
    meter: Arc<Meter>,
    way: usize,
    asked: u64,
    /// Who is told what a call used that was given up.
    witness: Witness,
    held: Held,
    inside: Option<Inside>,
    so_far: SoFar,
    has_ended: bool,
}

/// A task that providers carry out.
struct Given {
    held: Held,
    /// Who is told what it took when it was given up.
    witness: Witness,
}

impl Meter {
    /// `has_model` says whether it is a model that is asked.
    pub(super) fn new(
        spec: &AgentSpec,
        ways: Vec<Way>,
        has_model: bool,
        purse: &Arc<Purse>,
    ) -> Meter {
        let schema = spec.shape.as_ref().filter(|_| has_model);
        let schema = schema.map_or(0, |it| it.json_schema().to_string().len());
        Meter {
            ways,
            max_output_tokens: spec.max_output_tokens().unwrap_or(0),
            schema_tokens: tokens_of(schema),
            has_providers: matches!(spec.runtime, Runtime::Acmp { .. }),
            purse: Arc::clone(purse),
        }
    }

    /// Asks, as soon as that is allowed.
    pub(super) async fn ask(
        self: &Arc<Meter>,
        agent: &dyn Agent,
        mut request: Request,
    ) -> Result<Reply, Rejection> {
        let waited = Arc::new(Waited::default());
        if self.ways.is_empty() {
            let given = self.give(&request).await?;
            request.is_budgeted = given.is_some();
            let answer = in_time(agent, request, &waited).await;
            let usage = answer.as_ref().map_or_else(|it| it.usage, |it| it.usage);
            given.into_iter().for_each(|it| it.ended(usage));
            return answer;
        }
        if agent.asks_leave() {
            request.leave = Leave::of(Arc::new(Attempt {
                meter: Arc::clone(self),
                waited: Arc::clone(&waited),
                witness: request.witness.clone(),
            }));
            return in_time(agent, request, &waited).await;
        }
        let asked = prompt_tokens(&request.prompt);
        let call = self.leave(0, asked, &Witness::default()).await?;
        let answer = in_time(agent, request, &waited).await;
        let came = answer.as_ref().map(|it| (it.usage, it.text.len()));
        let usage = Box::new(call).ended(came);
        match answer {
            Ok(reply) => Ok(Reply { usage, ..reply }),
            Err(rejection) => Err(Rejection { usage, ..rejection }),
        }
    }

    /// Waits until a task may be given away for the most that it may cost. Where nobody says how much that is, it may be
    /// as long as something is left, and what it took is settled afterwards; so are its tokens.
    async fn give(&self, request: &Request) -> Result<Option<Given>, Rejection> {
        let is_limited = {
            let ledger = self.purse.ledger();
            ledger.is_limited() || ledger.is_limited_in_cu()
        };
        if !self.has_providers || !is_limited {
            return Ok(None);
        }
        let task = request.invocation.as_ref().map(|it| &it.task);
        let price = task.and_then(|it| it.max_price_cu).map(Cost::new);
        let amount = Amount {
            cu: price.unwrap_or(Cost::LEAST),
            ..Amount::default()
        };
        Ok(Some(Given {
            held: self.purse.reserve(amount).await?,
            witness: request.witness.clone(),
        }))
    }

    /// Waits until one of the models may be asked so many tokens.
    async fn leave(
        self: &Arc<Meter>,
        way: usize,
        tokens: u64,
        witness: &Witness,
    ) -> Result<UnderWay, Rejection> {
        let asked = self.schema_tokens.saturating_add(tokens);
        let most = Usage {
            input_tokens: asked,
            output_tokens: self.max_output_tokens,
            ..Usage::default()
        };
        let most = self.priced(way, most);
        let enter = async {
            match self.ways.get(way).and_then(|it| it.gate.as_ref()) {
                Some(gate) => Some(gate.enter(most.tokens()).await),
                None => None,
            }
        };
        let inside = tokio::select! {
            biased;
            refusal = self.purse.reached() => return Err(refusal),
            inside = enter => inside,
        };
        let held = self.purse.reserve(Amount::of(most)).await?;
        let (meter, share) = (Arc::clone(self), held.share());
        let so_far = SoFar::watched(move |came| meter.stops(way, asked, share, came));
        Ok(UnderWay {
            meter: Arc::clone(self),
            way,
            asked,
            witness: witness.clone(),
            held,
            inside,
            so_far,
            has_ended: false,
        })
    }

    /// Why an answer is stopped of which so much has come: it is far longer than it may be, or than can be paid.
    fn stops(&self, way: usize, asked: u64, share: Option<Share>, came: Came) -> Option<String> {
        let bytes = came.bytes.unwrap_or(0);
        if tokens_of(bytes) <= LONG {
            return None;
        }
        let most = self.max_output_tokens;
        let said = tokens_of(bytes.saturating_sub(came.thought));
        if most > 0 && said > most.saturating_mul(FAR).max(LONG) {
            return Some(format!(
                "the answer was stopped after {bytes} bytes: it was to have {most} tokens at most"
            ));
        }
        let used = Amount::of(self.priced(way, self.used_so_far(asked, came)));
        let ledger = self.purse.ledger();
        let whose = ledger.is_far_beyond(share?, used)?;
        Some(format!(
            "the answer was stopped after {bytes} bytes: that is far more than what is left of the budget of {whose}"
        ))
    }

    /// What a call has used when so much of its answer has come: what the endpoint said, and an estimate of the rest.
    fn used_so_far(&self, asked: u64, came: Came) -> Usage {
        let Came { usage, later, .. } = came;
        match usage.tokens() {
            0 => self.estimated(asked, came.bytes.unwrap_or(0)),
            _ => Usage {
                output_tokens: usage.output_tokens.saturating_add(tokens_of(later)),
                estimated: usage.estimated || later > 0,
                ..usage
            },
        }
    }

    /// A question of so many tokens was read, and an answer of so many bytes was written.
    fn estimated(&self, asked: u64, answer: usize) -> Usage {
        let most = self.max_output_tokens;
        let answer = tokens_of(answer);
        // What seems to be a little more is as much as was allowed.
        let output_tokens = match answer <= most.saturating_mul(2) {
            true => answer.min(most),
            false => answer,
        };
        Usage {
            input_tokens: asked,
            output_tokens,
            estimated: true,
            ..Usage::default()
        }
    }

    fn priced(&self, way: usize, used: Usage) -> Usage {
        let price = self.ways.get(way).and_then(|it| it.price);
        let price = price.filter(|_| used.tokens() > 0);
        Usage {
            cost: price.map(|it| it.of(used)).or(used.cost),
            ..used
        }
    }
}

impl Given {
    fn ended(mut self, used: Usage) {
        self.held.settle(used);
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        // What has ended is settled already.
        let used = self.witness.used();
        self.held.settle(used);
    }
}

impl UnderWay {
    /// What it is to be counted as where nobody will know what came of it: the question was read. Answers that are there
    /// already are bought from nobody.
    fn asks(&self) -> Usage {
        if !self.is_bought() {
            return Usage::default();
        }
        let used = Usage {
            input_tokens: self.asked,
            estimated: true,
            ..Usage::default()
        };
        self.meter.priced(self.way, used)
    }

    /// What an answer of so many bytes is to be counted as. What the endpoint does not say of it is estimated.
    fn counted(&self, used: Usage, answer: usize) -> Usage {
        let used = match self.is_bought() {
            true => self.with_what_is_missing(used, answer),
            false => used,
        };
        self.meter.priced(self.way, used)
    }

    /// Whether somebody is paid for it: not in a replayed run, where only a budget makes it count as if.
    fn is_bought(&self) -> bool {
        let way = self.meter.ways.get(self.way);
        way.is_some_and(|it| it.gate.is_some()) || self.meter.purse.ledger().is_limited()
    }

    /// Where an endpoint says that a question, or an answer, has no tokens at all, it does not know.
    fn with_what_is_missing(&self, used: Usage, answer: usize) -> Usage {
        let estimate = self.meter.estimated(self.asked, answer);
        let of = |said: u64, estimate: u64| if said == 0 { estimate } else { said };
        let all = Usage {
            input_tokens: of(used.input_tokens, estimate.input_tokens),
            output_tokens: of(used.output_tokens, estimate.output_tokens),
            ..used
        };
        Usage {
            estimated: used.estimated || all != used,
            ..all
        }
    }

    /// What a call is to be counted as that came to no end. Of an answer that had begun it is known that somebody
    /// counts it; of one that had not, it is taken for granted where there is a budget.
    fn unfinished(&self) -> Usage {
        let came = self.so_far.came();
        let used = match came.bytes {
            None if !self.meter.purse.ledger().is_limited() => came.usage,
            _ => self.meter.used_so_far(self.asked, came),
        };
        self.meter.priced(self.way, used)
    }

    fn end(&mut self, used: Usage, how: How) {
        self.has_ended = true;
        self.held.settle(used);
        if let Some(inside) = self.inside.take() {
            inside.leave(Some(used.tokens()).filter(|it| *it > 0), how);
        }
    }
}

impl Call for UnderWay {
    fn ended(mut self: Box<Self>, came: Result<(Usage, usize), &Rejection>) -> Usage {
        let (used, how) = match came {
            Ok((used, answer)) => {
                let came = self.so_far.came().bytes.unwrap_or(0);
                (self.counted(used, answer.max(came)), How::Answered)
            }
            Err(rejection) => {
                let was_read = matches!(
                    rejection.failure,
                    Failure::Timeout | Failure::IdleTimeout | Failure::TooLong
                );
                let has_begun = self.so_far.came().bytes.is_some();
                let used = match rejection.usage.tokens() {
                    0 if was_read || has_begun => self.unfinished(),
                    // It was an answer, if not one that can be used.
                    0 if rejection.failure.is_about_the_answer() => {
                        let answer = rejection.answer.as_ref().map_or(0, |it| it.len());
                        self.counted(rejection.usage, answer)
                    }
                    _ => self.meter.priced(self.way, rejection.usage),
                };
                (used, how(rejection))
            }
        };
        self.end(used, how);
        used
    }

    fn so_far(&self) -> SoFar {
        self.so_far.clone()
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if !self.has_ended {
            let used = self.unfinished();
            self.witness.uses(used);
            self.end(used, How::Otherwise);
        }
    }
}

impl Leaves for Attempt {
    fn ask(&self, question: Question) -> Granted<'_> {
        Box::pin(async move {
            let tokens = tokens_of(question.bytes);
            let begin = async {
                let leave = self.meter.leave(question.model, tokens, &self.witness);
                let call = leave.await?;
                self.witness.keep(call.asks()).await;
                Ok(call)
            };
            let call = self.waited.during(begin).await?;
            Ok(Box::new(call) as Box<dyn Call>)
        })
    }
}

impl Waited {
    fn state(&self) -> MutexGuard<'_, (Duration, Option<Instant>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn so_far(&self) -> Duration {
        let (before, since) = *self.state();
        before + since.map(|it| it.elapsed()).unwrap_or_default()
    }

    async fn during<T>(&self, wait: impl Future<Output = T>) -> T {
        self.state().1 = Some(Instant::now());
        let done = wait.await;
        let so_far = self.so_far();
        *self.state() = (so_far, None);
        done
    }
}

/// Asks, and takes no answer that comes too late.
async fn in_time(agent: &dyn Agent, request: Request, waited: &Waited) -> Result<Reply, Rejection> {
    /// Some thirty years: as good as never, and no clock overflows.
    const NEVER: Duration = Duration::from_secs(1 << 30);
    if !agent.is_timed() {
        return agent.ask(request).await;
    }
    let (limit, witness) = (request.timeout, request.witness.clone());
    let begun = Instant::now();
    let due = || begun + limit.min(NEVER) + waited.so_far();
    let mut answer = agent.ask(request);
    loop {
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            () = sleep_until(due()) => (),
        }
        if due() <= Instant::now() {
            // What was under way says now what it used.
            drop(answer);
            let usage = witness.used();
            return Err(Rejection {
                usage,
                ..Rejection::late(limit)
            });
        }
    }
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

pub(super) fn tokens_of(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(BYTES_A_TOKEN)
}
