use tokio::{
    task::{JoinSet, yield_now},
    time::timeout,
};

use super::*;
use crate::lane::Kept;

const SECOND: Duration = Duration::from_secs(1);

fn gate(concurrency: Option<u32>, requests: Option<u64>, seed: u64) -> Arc<Gate> {
    let limits = Limits {
        concurrency,
        requests,
        tokens: None,
    };
    Arc::new(Gate::new(limits, seed, Arc::default()))
}

#[tokio::test(start_paused = true)]
async fn one_after_the_other_gets_the_slot() {
    let gate = gate(Some(2), None, 0);
    let begun = Instant::now();
    let mut calls = JoinSet::new();
    for it in 0..6_u32 {
        let gate = Arc::clone(&gate);
        calls.spawn(async move {
            let inside = gate.enter(0).await;
            sleep(SECOND).await;
            inside.leave(None, How::Answered);
            (it, begun.elapsed().as_secs())
        });
    }
    yield_now().await;
    let crowd = gate.crowd();
    assert_eq!((crowd.waiting, crowd.paused), (4, None));
    assert_eq!(crowd.held_up.map(|it| it.by), Some(Kept::Slots));
    let ends = calls.join_all().await;
    assert_eq!(ends, [(0, 1), (1, 1), (2, 2), (3, 2), (4, 3), (5, 3)]);
    assert_eq!(gate.crowd().waiting, 0);
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_holds_nobody_up() {
    let gate = gate(Some(1), None, 0);
    let inside = gate.enter(0).await;
    // The first in the queue goes away just when it is its turn.
    let first = timeout(SECOND, gate.enter(0));
    let second = async {
        yield_now().await;
        gate.enter(0).await
    };
    let leaves = async {
        sleep(SECOND * 2).await;
        drop(inside);
    };
    let (first, second, ()) = tokio::join!(first, second, leaves);
    assert!(first.is_err());
    assert_eq!(gate.crowd().waiting, 0);
    drop(second);
    assert!(
        timeout(SECOND, gate.enter(0)).await.is_ok(),
        "the slot is free"
    );
}

#[tokio::test(start_paused = true)]
async fn a_rate_is_waited_for() {
    let gate = gate(None, Some(2), 0);
    let begun = Instant::now();
    for expected in [0, 0, 60, 60, 120] {
        drop(gate.enter(0).await);
        assert_eq!(begun.elapsed().as_secs(), expected);
    }
}

/// Sixteen callers, the first of whom are refused: when each is let in, in milliseconds.
async fn times(seed: u64) -> Vec<u128> {
    let gate = gate(None, None, seed);
    let begun = Instant::now();
    let refused = gate.enter(0).await;
    refused.leave(None, How::Refused { floor: SECOND * 3 });
    let mut calls = JoinSet::new();
    for _ in 0..16 {
        let gate = Arc::clone(&gate);
        calls.spawn(async move {
            let inside = gate.enter(0).await;
            let at = begun.elapsed().as_millis();
            sleep(SECOND * 9).await;
            inside.leave(None, How::Answered);
            at
        });
    }
    calls.join_all().await
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_asked_for_is_everybodys() {
    let first = times(0).await;
    assert_eq!(
        first,
        times(0).await,
        "a seed decides all that is left to chance"
    );
    for seed in 0..50 {
        let times = times(seed).await;
        assert!(
            times.iter().all(|it| (3_000..6_000).contains(it)),
            "{times:?}"
        );
    }
    let mut apart = first;
    apart.dedup();
    assert!(apart.len() > 8, "they do not come back together: {apart:?}");
}

/// Callers that come, are refused, panic and give up at random leave no slot behind.
#[tokio::test(start_paused = true)]
async fn no_slot_is_lost() {
    for seed in 0..200 {
        let mut rng = Rng::with_seed(seed);
        let slots = rng.u32(1..4);
        let gate = gate(Some(slots), rng.bool().then(|| rng.u64(3..40)), seed);
        let mut calls = JoinSet::new();
        for _ in 0..30 {
            let gate = Arc::clone(&gate);
            let (patience, takes) = (rng.u64(0..30_000), rng.u64(0..3_000));
            let how = match rng.u8(..3) {
                0 => How::Refused { floor: SECOND },
                1 => How::Otherwise,
                _ => How::Answered,
            };
            let is_dropped = rng.bool();
            calls.spawn(async move {
                let patience = Duration::from_millis(patience);
                let Ok(inside) = timeout(patience, gate.enter(1)).await else {
                    return;
                };
                sleep(Duration::from_millis(takes)).await;
                if !is_dropped {
                    inside.leave(Some(1), how);
                }
            });
        }
        calls.join_all().await;
        assert_eq!(gate.crowd().waiting, 0, "seed {seed}");
        let mut all = Vec::new();
        for _ in 0..slots {
            let entered = timeout(SECOND * 600, gate.enter(0)).await;
            all.push(entered.unwrap_or_else(|_| panic!("seed {seed}: a slot is lost")));
        }
        assert!(gate.state().wakers.is_empty(), "seed {seed}");
    }
}
