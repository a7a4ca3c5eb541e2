use expect_test::expect;
use fastrand::Rng;

use super::*;

fn tokens(tokens: u64) -> Amount {
    Amount {
        tokens,
        ..Amount::default()
    }
}

fn money(amount: f64) -> Amount {
    Amount {
        tokens: 1,
        cost: Cost::new(amount),
        ..Amount::default()
    }
}

fn limit(tokens: u64) -> Limit {
    Limit {
        tokens: Some(tokens),
        ..Limit::default()
    }
}

fn cost(amount: f64) -> Limit {
    Limit {
        cost: Some(Cost::new(amount)),
        ..Limit::default()
    }
}

fn go(answer: Answer) -> Hold {
    match answer {
        Answer::Go(hold) => hold,
        other => panic!("it is not granted: {other:?}"),
    }
}

#[test]
fn what_does_not_fit_now_may_fit_later() {
    let mut ledger = Ledger::new(limit(100), tokens(20));
    let first = go(ledger.reserve(tokens(50)));
    assert_eq!(ledger.reserve(tokens(40)), Answer::Wait);
    ledger.settle(first, tokens(10));
    let second = go(ledger.reserve(tokens(40)));
    assert_eq!(ledger.reserve(tokens(71)), Answer::Never);
    assert_eq!(ledger.reserve(tokens(1)), Answer::Never, "it is reached");
    ledger.settle(second, tokens(40));
    let reached = ledger.reached().map(ToString::to_string);
    expect![
        "the budget of the run is reached: 30 of 100 tokens are used, and the next call may use 71"
    ]
    .assert_eq(&reached.unwrap_or_default());
}

#[test]
fn where_nothing_is_left_nothing_fits() {
    let mut ledger = Ledger::new(limit(100), tokens(100));
    assert_eq!(ledger.reserve(tokens(0)), Answer::Never);
    let mut ledger = Ledger::new(cost(0.5), money(0.5));
    assert_eq!(ledger.reserve(money(0.0)), Answer::Never);
    let reached = ledger.reached().map(ToString::to_string);
    expect!["the budget of the run is reached: 0.5 of 0.5 is spent"]
        .assert_eq(&reached.unwrap_or_default());
}

#[test]
fn what_may_be_had_for_nothing_is_there_to_the_end() {
    let cu = |amount: f64| Amount {
        cu: Cost::new(amount),
        ..Amount::default()
    };
    let limit = Limit {
        cu: Some(Cost::new(0.5)),
        ..Limit::default()
    };
    let mut ledger = Ledger::new(limit, cu(0.3));
    assert!(ledger.is_limited_in_cu() && !ledger.is_limited());
    let hold = go(ledger.reserve(cu(0.2)));
    assert_eq!(ledger.reserve(cu(0.1)), Answer::Wait);
    ledger.settle(hold, cu(0.2));
    let hold = go(ledger.reserve(cu(0.0)));
    ledger.settle(hold, cu(0.0));
    assert_eq!(ledger.reserve(cu(0.1)), Answer::Never);
    let reached = ledger.reached().map(ToString::to_string);
    expect![
        "the budget of the run is reached: 0.5 of 0.5 CU are spent, and the next task may cost 0.1"
    ]
    .assert_eq(&reached.unwrap_or_default());
    let warnings: Vec<String> = ledger.warnings().iter().map(ToString::to_string).collect();
    expect!["the budget of the run is reached: 0.5 of 0.5 CU are spent"]
        .assert_eq(&warnings.join("\n"));
}

#[test]
fn what_has_no_price_begins_as_long_as_anything_is_left() {
    let cu = |cu: Cost| Amount {
        cu,
        ..Amount::default()
    };
    let limit = Limit {
        cu: Some(Cost::new(1.0)),
        ..Limit::default()
    };
    let unpriced = || cu(Cost::LEAST);
    let mut ledger = Ledger::new(limit, Amount::default());
    let both = [
        go(ledger.reserve(unpriced())),
        go(ledger.reserve(unpriced())),
    ];
    let priced = go(ledger.reserve(cu(Cost::new(0.5))));
    ledger.settle(priced, cu(Cost::new(0.25)));
    for (hold, took) in both.into_iter().zip([0.5, 5.0]) {
        ledger.settle(hold, cu(Cost::new(took)));
    }
    assert_eq!(ledger.reserve(unpriced()), Answer::Never);
    let reached = ledger.reached().map(ToString::to_string);
    expect!["the budget of the run is reached: 5.75 of 1 CU are spent"]
        .assert_eq(&reached.unwrap_or_default());
}

#[test]
fn a_batch_spends_of_the_run_too() {
    let mut ledger = Ledger::new(limit(1_000), tokens(0));
    ledger.begin_batch("b", cost(2.0), money(1.5));
    let hold = go(ledger.reserve(money(0.4)));
    ledger.settle(hold, money(0.4));
    assert_eq!(ledger.reserve(money(0.2)), Answer::Never);
    let reached = ledger.reached().map(ToString::to_string);
    expect![
        "the budget of batch `b` is reached: 1.9 of 2 is spent, and the next call may cost 0.2"
    ]
    .assert_eq(&reached.unwrap_or_default());
    let warnings: Vec<String> = ledger.warnings().iter().map(ToString::to_string).collect();
    expect!["the budget of batch `b` is nearly reached: 1.9 of 2 is spent"]
        .assert_eq(&warnings.join("\n"));

    let mut ledger = Ledger::new(limit(100), tokens(0));
    ledger.begin_batch("a", limit(50), tokens(0));
    let hold = go(ledger.reserve(tokens(40)));
    ledger.end_batch();
    ledger.begin_batch("b", limit(50), tokens(0));
    // A call that outlived its batch is not the next one's.
    ledger.settle(hold, tokens(40));
    let hold = go(ledger.reserve(tokens(50)));
    ledger.settle(hold, tokens(50));
    assert_eq!(ledger.run.spent, tokens(90));
}

#[test]
fn one_warning_near_the_end() {
    let mut ledger = Ledger::new(limit(100), tokens(0));
    let hold = go(ledger.reserve(tokens(90)));
    ledger.settle(hold, tokens(79));
    assert_eq!(ledger.warnings(), []);
    for _ in 0..3 {
        let hold = go(ledger.reserve(tokens(1)));
        ledger.settle(hold, tokens(1));
    }
    let warnings: Vec<String> = ledger.warnings().iter().map(ToString::to_string).collect();
    expect!["the budget of the run is nearly reached: 80 of 100 tokens are used"]
        .assert_eq(&warnings.join("\n"));
    assert_eq!(ledger.warnings(), []);
}

/// What is told once so much was used: below the limit, at it, and above.
#[test]
fn how_near_the_end_is_has_a_word_for_each_side_of_it() {
    let in_cu = |cu: f64| Limit {
        cu: Some(Cost::new(cu)),
        ..Limit::default()
    };
    let cu = |cu: f64| Amount {
        cu: Cost::new(cu),
        ..Amount::default()
    };
    type Of = fn(f64) -> Amount;
    let kinds: [(Limit, Of); 3] = [
        (limit(100), |it| tokens(it as u64)),
        (cost(100.0), money),
        (in_cu(100.0), cu),
    ];
    let mut told = String::new();
    for (limit, amount) in kinds {
        for used in [79.0, 80.0, 99.0, 100.0, 101.0] {
            let mut ledger = Ledger::new(limit, Amount::default());
            let call = go(ledger.reserve(Amount::default()));
            ledger.settle(call, amount(used));
            for it in ledger.warnings() {
                told.push_str(&format!("{it}\n"));
            }
            assert_eq!(ledger.warnings(), [], "it is told once");
        }
    }
    expect![[r#"
        the budget of the run is nearly reached: 80 of 100 tokens are used
        the budget of the run is nearly reached: 99 of 100 tokens are used
        the budget of the run is reached: 100 of 100 tokens are used
        the budget of the run is exceeded: 101 of 100 tokens are used
        the budget of the run is nearly reached: 80 of 100 is spent
        the budget of the run is nearly reached: 99 of 100 is spent
        the budget of the run is reached: 100 of 100 is spent
        the budget of the run is exceeded: 101 of 100 is spent
        the budget of the run is nearly reached: 80 of 100 CU are spent
        the budget of the run is nearly reached: 99 of 100 CU are spent
        the budget of the run is reached: 100 of 100 CU are spent
        the budget of the run is exceeded: 101 of 100 CU are spent
    "#]]
    .assert_eq(&told);
}

/// Workers side by side, whose calls end in any order and use more or less than was estimated.
#[test]
fn no_more_is_spent_than_the_limit_and_what_was_estimated_too_low() {
    for seed in 0..2_000 {
        let mut rng = Rng::with_seed(seed);
        let most = rng.u64(1..2_000);
        let workers = rng.usize(1..=16);
        let is_exact = rng.bool();
        let mut ledger = Ledger::new(limit(most), tokens(0));
        let mut under_way: Vec<(Hold, u64, u64)> = Vec::new();
        let (mut spent, mut above) = (0, 0);
        let mut at_the_end = None;
        loop {
            let estimate = rng.u64(0..100);
            let wants = under_way.len() < workers && rng.u8(..4) > 0;
            if wants && at_the_end.is_none() {
                match ledger.reserve(tokens(estimate)) {
                    Answer::Go(hold) => {
                        let used = match is_exact {
                            true => rng.u64(0..=estimate),
                            false => rng.u64(0..200),
                        };
                        under_way.push((hold, estimate, used));
                        continue;
                    }
                    Answer::Wait => {
                        assert!(!under_way.is_empty(), "seed {seed}: it waits for nobody")
                    }
                    Answer::Never => at_the_end = Some(spent),
                }
            }
            let Some(at) = under_way.len().checked_sub(1).map(|it| rng.usize(0..=it)) else {
                if at_the_end.is_some() {
                    break;
                }
                continue;
            };
            let (hold, estimate, used) = under_way.swap_remove(at);
            ledger.settle(hold, tokens(used));
            spent += used;
            above += used.saturating_sub(estimate);
        }
        assert_eq!(ledger.run.spent.tokens, spent);
        assert_eq!(ledger.run.reserved, tokens(0), "seed {seed}");
        assert!(spent <= most + above, "seed {seed}: {spent} of {most}");
        let reached = at_the_end.unwrap_or_default();
        assert!(
            reached + 100 > most,
            "seed {seed}: reached at {reached} of {most}"
        );
    }
}
