use fastrand::Rng;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn lane(concurrency: Option<u32>, requests: Option<u64>, tokens: Option<u64>) -> Lane {
    Lane::new(Limits {
        concurrency,
        requests,
        tokens,
    })
}

fn enter(lane: &mut Lane, tokens: u64, now: Duration) -> Result<Pass, Option<Duration>> {
    let ticket = lane.queue();
    match lane.ask(ticket, tokens, now, 0.5) {
        Answer::Go(pass) => Ok(pass),
        Answer::Wait(until) => {
            lane.give_up(ticket);
            Err(until)
        }
    }
}

fn refuse(lane: &mut Lane, pass: Pass, floor: Duration, now: Duration) {
    lane.leave(pass, None, How::Refused { floor }, now, 0.5);
}

#[test]
fn slots_are_given_in_the_order_of_the_queue() {
    let mut lane = lane(Some(1), None, None);
    let now = Duration::ZERO;
    let pass = enter(&mut lane, 0, now).expect("it is free");
    let (first, second) = (lane.queue(), lane.queue());
    assert_eq!(lane.ask(first, 0, now, 0.5), Answer::Wait(None));
    lane.leave(pass, None, How::Answered, now, 0.5);
    assert_eq!(lane.ask(second, 0, now, 0.5), Answer::Wait(None));
    assert!(matches!(lane.ask(first, 0, now, 0.5), Answer::Go(_)));
    lane.give_up(second);
    assert_eq!((lane.waiting(), lane.first()), (0, None));
}

#[test]
fn a_rate_is_one_of_any_minute() {
    let mut lane = lane(None, Some(2), None);
    assert!(enter(&mut lane, 0, SECOND * 10).is_ok());
    assert!(enter(&mut lane, 0, SECOND * 50).is_ok());
    assert_eq!(enter(&mut lane, 0, SECOND * 55), Err(Some(SECOND * 70)));
    assert!(enter(&mut lane, 0, SECOND * 70).is_ok());
    assert_eq!(enter(&mut lane, 0, SECOND * 71), Err(Some(SECOND * 110)));
}

#[test]
fn tokens_count_as_estimated_until_they_are_known() {
    let mut lane = lane(None, None, Some(100));
    let now = Duration::ZERO;
    let pass = enter(&mut lane, 90, now).expect("it is free");
    assert_eq!(enter(&mut lane, 20, now), Err(Some(MINUTE)));
    lane.leave(pass, Some(70), How::Answered, now, 0.5);
    let pass = enter(&mut lane, 20, SECOND).expect("there is room");
    lane.leave(pass, Some(u64::MAX), How::Answered, SECOND, 0.5);
    assert_eq!(enter(&mut lane, 1, SECOND), Err(Some(MINUTE + SECOND)));
    // More than a minute's worth goes alone.
    assert!(enter(&mut lane, 500, MINUTE * 2).is_ok());
    assert_eq!(enter(&mut lane, 500, MINUTE * 2), Err(Some(MINUTE * 3)));
}

#[test]
fn a_refusal_holds_everybody_back() {
    let mut lane = lane(None, None, None);
    let begun = Duration::ZERO;
    let passes: Vec<Pass> = (0..3)
        .map(|_| enter(&mut lane, 0, begun).expect("it is free"))
        .collect();
    let mut passes = passes.into_iter();
    let mut next = || passes.next().expect("there are three");
    refuse(&mut lane, next(), SECOND * 4, SECOND);
    // Half of the first span of a second on top.
    assert_eq!(enter(&mut lane, 0, SECOND * 2), Err(Some(SECOND * 11 / 2)));
    let pause = lane.paused(SECOND * 2).expect("it was refused");
    assert_eq!((pause.number, pause.until), (1, SECOND * 11 / 2));
    // Others that were under way tell no more than how long, and an answer of that time is no sign.
    refuse(&mut lane, next(), SECOND * 5, SECOND * 2);
    lane.leave(next(), None, How::Answered, SECOND * 2, 0.5);
    assert_eq!(enter(&mut lane, 0, SECOND * 3), Err(Some(SECOND * 7)));
    // The second time in a row it is two seconds, half of them.
    let pass = enter(&mut lane, 0, SECOND * 7).expect("the pause is over");
    refuse(&mut lane, pass, Duration::ZERO, SECOND * 8);
    assert_eq!(enter(&mut lane, 0, SECOND * 8), Err(Some(SECOND * 9)));
    let pause = lane.paused(SECOND * 8).expect("it was refused again");
    assert_eq!((pause.number, pause.until), (2, SECOND * 9));
    // An answer after that ends it.
    let pass = enter(&mut lane, 0, SECOND * 10).expect("the pause is over");
    lane.leave(pass, None, How::Answered, SECOND * 20, 0.5);
    assert_eq!(lane.paused(SECOND * 20), None);
    let pass = enter(&mut lane, 0, SECOND * 20).expect("it is free");
    refuse(&mut lane, pass, Duration::ZERO, SECOND * 20);
    assert_eq!(enter(&mut lane, 0, SECOND * 20), Err(Some(SECOND * 41 / 2)));
}

#[test]
fn those_who_waited_do_not_come_back_together() {
    let mut lane = lane(None, None, None);
    let pass = enter(&mut lane, 0, Duration::ZERO).expect("it is free");
    let tickets: Vec<Ticket> = (0..9).map(|_| lane.queue()).collect();
    refuse(&mut lane, pass, SECOND, Duration::ZERO);
    let mut now = Duration::ZERO;
    let mut times = Vec::new();
    for ticket in tickets {
        while let Answer::Wait(until) = lane.ask(ticket, 0, now, 0.5) {
            now = until.expect("only time keeps it back");
        }
        times.push(now.as_millis());
    }
    assert_eq!(
        times,
        [1500, 1625, 1750, 1875, 2000, 2125, 2250, 2375, 2500]
    );
}

#[test]
fn no_wait_is_too_long_to_count() {
    let mut lane = lane(Some(4), Some(10), Some(1_000));
    let passes = [u64::MAX, u64::MAX].map(|it| enter(&mut lane, it, SECOND));
    let [Ok(first), Err(_)] = passes else {
        panic!("there is room for one: {passes:?}");
    };
    refuse(&mut lane, first, Duration::MAX, SECOND);
    assert_eq!(enter(&mut lane, 0, SECOND), Err(Some(Duration::MAX)));
}

/// Many callers with any limits: order, slots and rates are kept, and nobody is forgotten.
#[test]
fn limits_are_kept_whatever_comes() {
    for seed in 0..500 {
        let mut rng = Rng::with_seed(seed);
        let limits = Limits {
            concurrency: rng.bool().then(|| rng.u32(1..5)),
            requests: rng.bool().then(|| rng.u64(1..10)),
            tokens: rng.bool().then(|| rng.u64(10..300)),
        };
        let mut lane = Lane::new(limits);
        let mut now = Duration::ZERO;
        let mut running: Vec<(Pass, u64)> = Vec::new();
        let mut entered: Vec<(Ticket, Duration, u64)> = Vec::new();
        let mut waiting: VecDeque<(Ticket, u64)> =
            (0..40).map(|_| (lane.queue(), rng.u64(0..100))).collect();
        let mut steps = 0;
        while !waiting.is_empty() || !running.is_empty() {
            steps += 1;
            assert!(steps < 10_000, "seed {seed}: it does not end");
            let first = waiting.front().copied();
            let answer = first.map(|(it, tokens)| lane.ask(it, tokens, now, rng.f64()));
            match (answer, first) {
                (Some(Answer::Go(pass)), Some((ticket, tokens))) => {
                    waiting.pop_front();
                    running.push((pass, tokens));
                    entered.push((ticket, now, tokens));
                    if let Some(most) = limits.concurrency {
                        assert!(running.len() <= most as usize, "seed {seed}");
                    }
                    let last = entered.iter().filter(|it| it.1 + MINUTE > now);
                    let (n, sum) = last.fold((0, 0), |(n, sum), it| (n + 1, sum + it.2));
                    assert!(limits.requests.is_none_or(|it| n <= it), "seed {seed}");
                    assert!(
                        limits.tokens.is_none_or(|it| n == 1 || sum <= it),
                        "seed {seed}"
                    );
                    continue;
                }
                (Some(Answer::Wait(Some(until))), _) if running.is_empty() || rng.bool() => {
                    assert!(until > now, "seed {seed}: it is told to wait for the past");
                    now = until;
                    continue;
                }
                _ => (),
            }
            if running.is_empty() {
                continue;
            }
            let (pass, tokens) = running.swap_remove(rng.usize(..running.len()));
            let how = match rng.u8(..4) {
                0 => How::Refused {
                    floor: SECOND * rng.u32(..5),
                },
                1 => How::Otherwise,
                _ => How::Answered,
            };
            lane.leave(pass, Some(tokens), how, now, rng.f64());
        }
        assert!(
            entered.is_sorted_by_key(|it| it.0),
            "seed {seed}: the order"
        );
        assert_eq!((entered.len(), lane.running), (40, 0), "seed {seed}");
    }
}
