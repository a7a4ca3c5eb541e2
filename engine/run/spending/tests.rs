use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use fastrand::Rng;
use tokio::{task::JoinSet, time::sleep};

use super::*;
use crate::{
    accept::{Failure, Rejection},
    agent::{Agent, Answer, Leave, Question, Reply, Request, Streams, Witness},
    compile::{self, tests::bundle},
    context::{Context, Sees},
    prompt::Prompt,
    usage::Cost,
};

mod stops;
mod waits;

const SECOND: Duration = Duration::from_secs(1);

/// A worker behind a provider of four slots, with a price and a longest answer.
const WORKFLOW: &str = "
=== agents
agents:
  - {name: A, system_message: a, runtime: {kind: openai, provider: p, model: m, max_output_tokens: 100}}
  - {name: T, runtime: {kind: template, template: x, output: text}}
=== orchestrator
initial_agent: A
providers: {p: {max_concurrency: 4, prices: {m: {input: 1, output: 10}}}}
";

fn spending(limit: Limit, seed: u64) -> Spending {
    let (workflow, faults) = compile::compile(&bundle(WORKFLOW));
    let workflow = workflow.unwrap_or_else(|| panic!("{faults:?}"));
    let model: Arc<dyn Agent> = Arc::new(Model::new(0, |_, _| panic!("nobody asks it")));
    let agents = Agents::from([("A".to_owned(), model)]);
    Spending::new(&workflow, &agents, (limit, Usage::default()), seed)
}

fn tokens(tokens: u64) -> Limit {
    Limit {
        tokens: Some(tokens),
        ..Limit::default()
    }
}

/// A question of 90 tokens, as they are estimated, with so long for an answer.
fn question(seconds: u32) -> Request {
    Request {
        agent: "A".into(),
        task_id: None,
        attempt: 1,
        idempotency_key: String::new(),
        prompt: Prompt {
            system: String::new(),
            user: "?".repeat(270),
        },
        view: Context::default().view(&Sees::All),
        invocation: None,
        streams: Streams::default(),
        failed: Vec::new(),
        is_budgeted: false,
        shape: None,
        tools: None,
        timeout: SECOND * seconds,
        max_output_bytes: 1_000,
        leave: Leave::default(),
        witness: Witness::default(),
    }
}

/// How long a call takes, and what comes of it.
type Says = (Duration, Result<Reply, Rejection>);
type Script = fn(&mut Rng, u64) -> Says;

/// Somebody who answers by chance.
struct Model {
    rng: Mutex<Rng>,
    asked: AtomicU64,
    says: Script,
}

impl Model {
    fn new(seed: u64, says: Script) -> Model {
        Model {
            rng: Mutex::new(Rng::with_seed(seed)),
            asked: AtomicU64::new(0),
            says,
        }
    }
}

impl Agent for Model {
    fn model(&self) -> Option<&str> {
        Some("m")
    }

    fn ask(&self, _: Request) -> Answer {
        let number = self.asked.fetch_add(1, Relaxed);
        let (takes, answer) = (self.says)(&mut self.rng.lock().unwrap(), number);
        Box::pin(async move {
            sleep(takes).await;
            answer
        })
    }
}

fn used(input_tokens: u64, output_tokens: u64) -> Usage {
    Usage {
        input_tokens,
        output_tokens,
        ..Usage::default()
    }
}

fn reply(usage: Usage) -> Result<Reply, Rejection> {
    let text = "x".repeat(30);
    Ok(Reply {
        text,
        usage,
        ..Reply::default()
    })
}

fn rejected(failure: Failure, usage: Usage) -> Result<Reply, Rejection> {
    let rejection = Rejection::new(failure, "no");
    Err(Rejection { usage, ..rejection })
}

/// Sixteen workers ask until nothing is left. Gives what they used and how many were asked.
async fn spend(limit: Limit, seed: u64, says: Script) -> (Usage, u64) {
    let spending = spending(limit, seed);
    let model = Arc::new(Model::new(seed, says));
    let mut workers = JoinSet::new();
    for _ in 0..16 {
        let (meter, model) = (spending.meter("A"), Arc::clone(&model));
        workers.spawn(async move {
            let mut sum = Usage::default();
            loop {
                let answer = meter.ask(&*model, question(100)).await;
                match answer {
                    Ok(reply) => sum.add(reply.usage),
                    Err(rejection) if rejection.failure == Failure::Budget => return sum,
                    Err(rejection) => sum.add(rejection.usage),
                }
            }
        });
    }
    let mut sum = Usage::default();
    workers.join_all().await.iter().for_each(|it| sum.add(*it));
    assert!(spending.reached().is_some());
    let is_near = limit.tokens.is_none_or(|it| sum.tokens() * 10 >= it * 8);
    let warnings = spending.warnings().count();
    assert!(warnings <= 1 && (warnings == 1 || !is_near || limit.tokens.is_none()));
    assert_eq!(spending.warnings().count(), 0, "it is told once");
    assert_eq!(spending.gates["p"].crowd().waiting, 0);
    (sum, model.asked.load(Relaxed))
}

/// Answers, rejected answers and failures, none of which uses more than was estimated.
fn as_estimated(rng: &mut Rng, _: u64) -> Says {
    let usage = used(rng.u64(1..=90), rng.u64(0..=100));
    let takes = Duration::from_millis(rng.u64(..3_000));
    let answer = match rng.u8(..8) {
        0 => rejected(Failure::RateLimited, Usage::default()),
        1 => rejected(Failure::Truncated, usage),
        2 => rejected(Failure::Refused, usage),
        _ => reply(usage),
    };
    (takes, answer)
}

/// As [`as_estimated`], but some answers have up to a thousand tokens.
fn without_a_bound(rng: &mut Rng, number: u64) -> Says {
    match rng.bool() {
        true => as_estimated(rng, number),
        false => (SECOND, reply(used(90, rng.u64(..1_000)))),
    }
}

#[tokio::test(start_paused = true)]
async fn sixteen_workers_do_not_spend_more_than_there_is() {
    for seed in 0..300 {
        let most = Rng::with_seed(seed).u64(500..20_000);
        let (sum, _) = spend(tokens(most), seed, as_estimated).await;
        let spent = sum.tokens();
        assert!(spent <= most, "seed {seed}: {spent} of {most}");
        assert!(spent + 190 > most, "seed {seed}: only {spent} of {most}");
    }
}

#[tokio::test(start_paused = true)]
async fn money_is_kept_to_as_well() {
    for seed in 0..100 {
        let cost = Cost::new(Rng::with_seed(seed).f64() * 0.05 + 0.002);
        let limit = Limit {
            cost: Some(cost),
            ..Limit::default()
        };
        let (sum, _) = spend(limit, seed, as_estimated).await;
        let spent = sum.cost.unwrap_or_default();
        assert!(spent <= cost, "seed {seed}: {spent:?} of {cost:?}");
        // 90 tokens at 1 and 100 at 10, for a million.
        assert!(spent.plus(Cost::new(0.001_09)) > cost, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_overshot_was_in_flight() {
    for seed in 0..300 {
        let most = Rng::with_seed(seed).u64(500..20_000);
        let (sum, _) = spend(tokens(most), seed, without_a_bound).await;
        // Four slots, and a thousand tokens above the estimate in each.
        assert!(sum.tokens() <= most + 4 * 900, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_says_is_estimated() {
    let says: fn(&mut Rng, u64) -> Says = |_, number| match number % 3 {
        0 => (SECOND, reply(Usage::default())),
        1 => (SECOND * 200, reply(Usage::default())),
        _ => (SECOND, rejected(Failure::Overloaded, Usage::default())),
    };
    let (sum, asked) = spend(tokens(2_000), 0, says).await;
    // 90 tokens of a question that was read, and 10 of an answer.
    let (answers, late) = (asked.div_ceil(3), (asked + 1) / 3);
    assert_eq!(
        (sum.input_tokens, sum.output_tokens),
        (90 * (answers + late), 10 * answers)
    );
}

#[tokio::test(start_paused = true)]
async fn what_an_answer_used_is_estimated_without_a_budget_as_well() {
    let estimated = |input, output| Usage {
        estimated: true,
        ..used(input, output)
    };
    // What is said, or the half of it that can be true, and what is counted.
    let cases: [(Script, Usage); 6] = [
        (|_, _| (SECOND, reply(used(0, 0))), estimated(90, 10)),
        (|_, _| (SECOND, reply(used(7, 0))), estimated(7, 10)),
        (|_, _| (SECOND, reply(used(0, 7))), estimated(90, 7)),
        (|_, _| (SECOND, reply(used(7, 7))), used(7, 7)),
        (
            |_, _| (SECOND, rejected(Failure::Truncated, used(0, 0))),
            estimated(90, 0),
        ),
        // It was no answer.
        (
            |_, _| (SECOND, rejected(Failure::Overloaded, used(0, 0))),
            used(0, 0),
        ),
    ];
    for (says, expected) in cases {
        let spending = spending(Limit::default(), 0);
        let model = Model::new(0, says);
        let answer = spending.meter("A").ask(&model, question(100)).await;
        let usage = answer.map_or_else(|it| it.usage, |it| it.usage);
        assert_eq!(usage.cost.is_some(), usage.tokens() > 0);
        assert_eq!(
            Usage {
                cost: None,
                ..usage
            },
            expected
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_for_an_answer_begins_with_its_question() {
    let spending = spending(Limit::default(), 0);
    let model = Arc::new(Model::new(0, |_, _| (SECOND * 9, reply(used(1, 1)))));
    let begun = Instant::now();
    let mut calls = JoinSet::new();
    for _ in 0..12 {
        let (meter, model) = (spending.meter("A"), Arc::clone(&model));
        calls.spawn(async move { meter.ask(&*model, question(10)).await });
    }
    let answers = calls.join_all().await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(begun.elapsed(), SECOND * 27, "four at a time");
}

#[tokio::test(start_paused = true)]
async fn what_costs_nothing_needs_no_money() {
    let spending = spending(tokens(100), 0);
    let model = Model::new(0, |_, _| (SECOND, reply(used(0, 0))));
    let answer = spending.meter("A").ask(&model, question(1)).await;
    assert_eq!(answer.err().map(|it| it.failure), Some(Failure::Budget));
    assert!(spending.meter("T").ask(&model, question(2)).await.is_ok());
    assert_eq!(model.asked.load(Relaxed), 1);
}

/// Asks twice, with a tool of three seconds in between; the second time somebody else.
struct Caller(Model);

impl Agent for Caller {
    fn asks_leave(&self) -> bool {
        true
    }

    fn ask(&self, request: Request) -> Answer {
        let answers = [(0, 300), (1, 600)].map(|(model, bytes)| {
            let (leave, witness) = (request.leave.clone(), request.witness.clone());
            let answer = self.0.ask(request.clone());
            async move {
                let call = leave.ask(Question { model, bytes }).await?;
                let answer = answer.await;
                let used = call.ended(answer.as_ref().map(|it| (it.usage, it.text.len())));
                witness.uses(used);
                answer.map(|_| used)
            }
        });
        Box::pin(async move {
            let [first, second] = answers;
            let mut sum = first.await?;
            sleep(SECOND * 3).await;
            sum.add(second.await?);
            reply(sum)
        })
    }
}

/// As [`WORKFLOW`], with one slot each, and a model that stands in.
const TWO: &str = "
=== agents
agents:
  - {name: A, system_message: a, runtime: {kind: openai, provider: p, model: m, max_output_tokens: 100, fallback: [{model: n, base_url: 'http://127.0.0.1:2'}]}}
=== orchestrator
initial_agent: A
providers:
  p: {max_concurrency: 1, prices: {m: {input: 1, output: 10}}}
  q: {base_url: 'http://127.0.0.1:2', max_concurrency: 1, prices: {n: {input: 2, output: 20}}}
";

fn two(limit: Limit) -> Spending {
    let (workflow, faults) = compile::compile(&bundle(TWO));
    let workflow = workflow.unwrap_or_else(|| panic!("{faults:?}"));
    Spending::new(&workflow, &Agents::new(), (limit, Usage::default()), 0)
}

#[tokio::test(start_paused = true)]
async fn each_call_of_a_model_has_its_own_slot_and_price() {
    let spending = two(Limit::default());
    let caller = Arc::new(Caller(Model::new(0, |_, _| {
        (SECOND * 4, reply(used(1_000, 100)))
    })));
    let begun = Instant::now();
    let mut attempts = JoinSet::new();
    for _ in 0..4 {
        let (meter, caller) = (spending.meter("A"), Arc::clone(&caller));
        // Four seconds, three, and four: what is waited is not counted.
        attempts.spawn(async move { meter.ask(&*caller, question(12)).await });
    }
    for answer in attempts.join_all().await {
        let usage = answer.map(|it| it.usage).expect("it is in time");
        assert_eq!((usage.input_tokens, usage.output_tokens), (2_000, 200));
        // 1,000 tokens at 1 and 100 at 10, and the same at twice the price.
        assert_eq!(usage.cost.map(Cost::amount), Some(0.006));
    }
    // While one calls its tool, the next asks.
    assert_eq!(begun.elapsed(), SECOND * (4 * 4 + 3 + 4));
}

#[tokio::test(start_paused = true)]
async fn a_budget_can_end_between_two_calls() {
    let spending = two(tokens(1_300));
    let caller = Caller(Model::new(0, |_, _| (SECOND, reply(used(1_000, 100)))));
    let answer = spending.meter("A").ask(&caller, question(60)).await;
    let rejection = answer.expect_err("there is not enough for the second");
    assert_eq!(rejection.failure, Failure::Budget);
    let reached = spending.reached().unwrap_or_default();
    assert!(
        reached.contains("1100 of 1300 tokens are used, and the next call may use 300"),
        "{reached}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_under_way_when_time_was_up_is_counted() {
    let spending = two(tokens(10_000));
    let caller = Caller(Model::new(0, |_, _| (SECOND * 4, reply(used(1_000, 100)))));
    // The first call is answered, and the second is not.
    let answer = spending.meter("A").ask(&caller, question(10)).await;
    let rejection = answer.expect_err("it is too late");
    assert_eq!(rejection.failure, Failure::Timeout);
    assert_eq!(
        (rejection.usage.input_tokens, rejection.usage.output_tokens),
        (1_200, 100)
    );
    assert_eq!(spending.gates["q"].crowd().waiting, 0);
}
