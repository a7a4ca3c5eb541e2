//! Buyers that say anything that has to do with chunks, in any order, and go whenever they like.

use fastrand::Rng;

use super::*;

const TASKS: [&str; 4] = ["a", "b", "c", "d"];

/// A buyer, and the requests that it waits for.
type Monkey = (Buyer, Vec<u32>);

fn any_chunk(rng: &mut Rng, task: &str) -> Value {
    let (seq, is_last) = (rng.usize(..3), rng.usize(..3) == 0);
    let data = match rng.usize(..6) {
        0 => json!("x".repeat(300)),
        1 => json!({ "a": [1] }),
        2 => Value::Null,
        _ => json!("ß"),
    };
    let mut params = chunks::params(task, seq, json!({ "type": "text", "data": data }), is_last);
    match rng.usize(..20) {
        0 => params["seq"] = json!(-1),
        1 => params["chunk"] = json!([]),
        2 => params["final"] = json!("yes"),
        3 => params["task_id"] = json!(["a"]),
        _ => (),
    }
    params
}

async fn act(rng: &mut Rng, serving: &Serving, monkeys: &mut Vec<Monkey>, id: u32) {
    let at = rng.usize(..monkeys.len());
    let (buyer, waits) = &mut monkeys[at];
    let task = TASKS[rng.usize(..TASKS.len())];
    match rng.usize(..20) {
        0 => sleep(Duration::from_secs(rng.u64(..15))).await,
        1 => buyer.cancel(task).await,
        2 => {
            monkeys.remove(at);
            monkeys.push((serving.buyer(rng.u8(1..3)), Vec::new()));
        }
        3..8 => {
            let mut more = json!({
                "stream": rng.bool(),
                "input_stream": rng.usize(..4) > 0,
                "capability": if rng.usize(..4) > 0 { "echo" } else { "sleep" },
            });
            if rng.usize(..3) == 0 {
                more["input"] = json!({ "type": "text", "data": "y" });
            }
            if rng.usize(..3) == 0 {
                more["timeout_ms"] = json!(rng.u64(..5000));
            }
            buyer.ask(id, task, more).await;
            waits.push(id);
        }
        8 => settled().await,
        _ => buyer.put(any_chunk(rng, task)).await,
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_they_do_everybody_is_answered_and_nothing_is_left() {
    let mut asked = 0;
    for seed in 0..400 {
        let rng = &mut Rng::with_seed(seed);
        let limits = Limits {
            open_bytes: 16_000,
            message_bytes: 500,
            remembered: 3,
            heartbeat: Duration::from_secs(10_000),
            ..Limits::default()
        };
        let serving = Serving::new(limits);
        let mut monkeys: Vec<Monkey> = [1, 2, 1].map(|it| (serving.buyer(it), Vec::new())).into();
        for id in 0..rng.u32(5..60) {
            act(rng, &serving, &mut monkeys, id).await;
        }
        for (buyer, waits) in &mut monkeys {
            for id in waits {
                let answer = buyer.answer(*id).await;
                let is_answer = answer.get("result").is_some() != answer.get("error").is_some();
                assert!(is_answer, "seed {seed}: {answer}");
                let again = buyer.heard.iter().any(|it| it["id"] == *id);
                assert!(!again, "seed {seed}: {id} is answered twice");
            }
        }
        drop(monkeys);
        // What has begun goes on without them, and what came early waits.
        sleep(Limits::default().timeout + Duration::from_secs(20)).await;
        // All of an address' share.
        let mut buyer = serving.buyer(1);
        let large = json!({ "type": "text", "data": "x".repeat(9600) });
        buyer.ask(1, "large", json!({ "input": large })).await;
        let outcome = buyer.outcome(1).await;
        assert_eq!(outcome.len(), 9600, "seed {seed}: {outcome}");
        asked += serving.asked();
    }
    assert!(asked > 400, "{asked} were asked");
}
