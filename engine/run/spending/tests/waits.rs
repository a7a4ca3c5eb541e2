//! What is told of waits.

use super::*;

#[tokio::test(start_paused = true)]
async fn who_waits_is_told() {
    let mut spending = spending(Limit::default(), 0);
    let model = Arc::new(Model::new(0, |_, number| match number {
        0 => (SECOND, rejected(Failure::RateLimited, Usage::default())),
        _ => (SECOND * 9, reply(used(1, 1))),
    }));
    let mut calls = JoinSet::new();
    for _ in 0..12 {
        let (meter, model) = (spending.meter("A"), Arc::clone(&model));
        calls.spawn(async move { meter.ask(&*model, question(10)).await });
    }
    let mut told = Vec::new();
    loop {
        tokio::select! {
            ended = calls.join_next() => if ended.is_none() { break },
            () = spending.changed() => {
                for it in spending.news() {
                    let RunEvent::Waiting { waiting, paused_ms, .. } = it else { continue };
                    told.push((waiting, paused_ms.is_some()));
                }
            }
        }
    }
    // The refusal, after a moment; then one comes after the other.
    let refused = [(8, false), (8, true), (7, true)];
    let after = [7, 4, 3, 0].map(|waiting| (waiting, false));
    assert_eq!(told, [&refused[..], &after].concat());
}

/// What is told of waits while calls are made: the second, the limit, and for how many seconds.
async fn told(limits: &str, calls: usize, says: Script) -> Vec<(u64, &'static str, Option<u64>)> {
    let files = WORKFLOW.replace("max_concurrency: 4", limits);
    let (workflow, faults) = compile::compile(&bundle(&files));
    let workflow = workflow.unwrap_or_else(|| panic!("{faults:?}"));
    let free = (Limit::default(), Usage::default());
    let mut spending = Spending::new(&workflow, &Agents::new(), free, 0);
    let model = Arc::new(Model::new(0, says));
    let mut under_way = JoinSet::new();
    for _ in 0..calls {
        let (meter, model) = (spending.meter("A"), Arc::clone(&model));
        under_way.spawn(async move { meter.ask(&*model, question(100)).await });
    }
    let begun = Instant::now();
    let mut told = Vec::new();
    loop {
        tokio::select! {
            ended = under_way.join_next() => if ended.is_none() { break },
            () = spending.changed() => {
                for it in spending.news() {
                    let RunEvent::HeldUp { limit, for_ms, .. } = it else { continue };
                    let seconds = for_ms.map(|it| it.div_ceil(1000));
                    told.push((begun.elapsed().as_secs(), limit.unwrap_or("-"), seconds));
                }
            }
        }
    }
    told
}

#[tokio::test(start_paused = true)]
async fn a_long_wait_for_a_limit_is_told_once() {
    let quick: Script = |_, _| (SECOND, reply(used(90, 10)));
    // Two a minute: the third waits for the first, and the fifth for the third.
    let limit = "requests_per_minute";
    let waits = told("requests_per_minute: 2", 5, quick).await;
    assert_eq!(waits, [(0, limit, Some(60)), (60, limit, Some(60))]);
    let limit = "tokens_per_minute";
    let waits = told("tokens_per_minute: 200", 3, quick).await;
    assert_eq!(waits, [(0, limit, Some(60)), (60, limit, Some(60))]);
    // Each of the calls before it is long, and it waits all the time.
    let slow: Script = |_, _| (SECOND * 30, reply(used(90, 10)));
    let waits = told("max_concurrency: 1", 4, slow).await;
    assert_eq!(waits, [(10, "max_concurrency", None)]);
    let waits = told("max_concurrency: 1", 4, |_, _| {
        (SECOND * 9, reply(used(1, 1)))
    })
    .await;
    assert_eq!(waits, [], "nobody waits for long");
    assert_eq!(told("requests_per_minute: 5", 5, quick).await, []);
    // The first call is refused, and asks the others to wait.
    let asks_to_wait: Script = |_, number| match number {
        0 => {
            let refused = Rejection::new(Failure::RateLimited, "slow");
            let retry_after = Some(SECOND * 7);
            (
                SECOND,
                Err(Rejection {
                    retry_after,
                    ..refused
                }),
            )
        }
        _ => (SECOND, reply(used(1, 1))),
    };
    let waits = told("max_concurrency: 1", 3, asks_to_wait).await;
    let of_provider: Vec<_> = waits.iter().map(|it| (it.0, it.1)).collect();
    assert_eq!(of_provider, [(1, "-")], "once, as soon as it is known");
    let waits = told("max_concurrency: 1", 3, |_, number| match number {
        0 => (SECOND, rejected(Failure::RateLimited, Usage::default())),
        _ => (SECOND, reply(used(1, 1))),
    });
    assert_eq!(waits.await, [], "less than a second is nothing to tell");
}

#[tokio::test(start_paused = true)]
async fn each_pause_is_told() {
    // One call after the other is refused, and nobody ever sees the moment in between.
    let refused: Script = |_, _| {
        let rejection = Rejection::new(Failure::RateLimited, "slow");
        let retry_after = Some(SECOND * 7);
        let rejection = Rejection {
            retry_after,
            ..rejection
        };
        (Duration::ZERO, Err(rejection))
    };
    let waits = told("max_concurrency: 1", 4, refused).await;
    let of_provider: Vec<_> = waits.iter().map(|it| it.1).collect();
    assert_eq!(of_provider, ["-"; 3], "{waits:?}");
    assert!(waits.iter().all(|it| it.2 >= Some(7)), "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn who_comes_back_late_after_a_pause_is_told() {
    // The pause is short by chance, and then they come back one after the other.
    let begun = Instant::now();
    let mut spending = spending(Limit::default(), 0);
    let gate = Arc::clone(&spending.gates["p"]);
    for number in 0..7 {
        let inside = gate.enter(0).await;
        let floor = SECOND * 7 * u32::from(number == 0);
        inside.leave(None, crate::lane::How::Refused { floor });
    }
    let mut under_way = JoinSet::new();
    for _ in 0..3 {
        let gate = Arc::clone(&gate);
        under_way.spawn(async move {
            let inside = gate.enter(0).await;
            inside.leave(None, crate::lane::How::Answered);
        });
    }
    let (mut last, mut told_until) = (Instant::now(), Instant::now());
    loop {
        tokio::select! {
            ended = under_way.join_next() => {
                if ended.is_none() { break }
                let is_short = last.elapsed() <= SECOND * 2;
                assert!(is_short || told_until + SECOND >= Instant::now(), "{last:?} {told_until:?}");
                last = Instant::now();
            }
            () = spending.changed() => {
                for it in spending.news() {
                    let RunEvent::HeldUp { for_ms, .. } = it else { continue };
                    told_until = Instant::now() + Duration::from_millis(for_ms.unwrap_or_default());
                }
            }
        }
    }
    assert!(told_until > begun + SECOND * 10, "{told_until:?}");
}
