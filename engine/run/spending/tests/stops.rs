//! Answers that are stopped while they come.

use super::*;
use crate::agent::Came;

/// How many bytes of an answer come before it is stopped, of a million, a thousand at a time; and why.
async fn come(meter: &Arc<Meter>, came: fn(usize) -> Came) -> (usize, String, Usage) {
    struct Endless(fn(usize) -> Came);
    impl Agent for Endless {
        fn asks_leave(&self) -> bool {
            true
        }

        fn ask(&self, request: Request) -> Answer {
            let came = self.0;
            Box::pin(async move {
                let question = Question {
                    model: 0,
                    bytes: 270,
                };
                let call = request.leave.ask(question).await?;
                let so_far = call.so_far();
                let noted = (1..=1000).find_map(|it| so_far.note(came(it * 1000)).err());
                let rejection = Rejection::new(Failure::TooLong, noted.unwrap_or_default());
                let usage = call.ended(Err(&rejection));
                Err(Rejection { usage, ..rejection })
            })
        }
    }
    let answer = meter.ask(&Endless(came), question(10)).await;
    let rejection = answer.expect_err("it has no end");
    let mut numbers = rejection
        .message
        .split(' ')
        .filter_map(|it| it.parse().ok());
    let (bytes, usage) = (numbers.next().unwrap_or(0), rejection.usage);
    (
        bytes,
        rejection.message,
        Usage {
            cost: None,
            ..usage
        },
    )
}

fn of(meter: &str, limit: Limit) -> Arc<Meter> {
    let files = WORKFLOW.replace(", max_output_tokens: 100", meter);
    let (workflow, faults) = compile::compile(&bundle(&files));
    let workflow = workflow.unwrap_or_else(|| panic!("{faults:?}"));
    Spending::new(&workflow, &Agents::new(), (limit, Usage::default()), 0).meter("A")
}

fn all(bytes: usize) -> Came {
    Came {
        bytes: Some(bytes),
        ..Came::default()
    }
}

fn counted(input_tokens: u64, bytes: usize) -> Usage {
    Usage {
        estimated: true,
        ..used(input_tokens, (bytes as u64).div_ceil(3))
    }
}

const MILLION: usize = 1_000_000;

#[tokio::test]
async fn what_is_far_longer_than_it_may_be_is_stopped() {
    for (most, stopped) in [("100", 13_000), ("2000", 49_000)] {
        let meter = of(&format!(", max_output_tokens: {most}"), Limit::default());
        let (bytes, message, usage) = come(&meter, all).await;
        assert_eq!(bytes, stopped);
        assert_eq!(
            message,
            format!(
                "the answer was stopped after {stopped} bytes: it was to have {most} tokens at most"
            )
        );
        assert_eq!(usage, counted(90, stopped));
    }
    let (bytes, _, usage) = come(&of("", Limit::default()), all).await;
    assert_eq!(
        (bytes, usage),
        (0, counted(90, MILLION)),
        "nobody says how long"
    );
    let thoughts = |bytes| Came {
        thought: bytes,
        ..all(bytes)
    };
    let meter = of(", max_output_tokens: 100", Limit::default());
    let (bytes, _, usage) = come(&meter, thoughts).await;
    assert_eq!(
        (bytes, usage),
        (0, counted(90, MILLION)),
        "not all count them"
    );
}

#[tokio::test]
async fn what_a_budget_cannot_bear_is_stopped() {
    // What is left, and after how many bytes that is less than half of what was used.
    for (left, stopped) in [(1_000, 13_000), (10_000, 60_000)] {
        let (bytes, message, usage) = come(&of("", tokens(left)), all).await;
        assert_eq!(bytes, stopped);
        assert_eq!(
            message,
            format!(
                "the answer was stopped after {stopped} bytes: that is far more than what is left of the budget of the run"
            )
        );
        assert_eq!(usage, counted(90, stopped));
    }
    let (bytes, ..) = come(&of("", tokens(1_000_000)), all).await;
    assert_eq!(bytes, 0, "there is enough");
    // Ten for a million.
    let limit = Limit {
        cost: Some(Cost::new(0.1)),
        ..Limit::default()
    };
    let (bytes, ..) = come(&of("", limit), all).await;
    assert_eq!(bytes, 60_000);
    // What the endpoint says counts, and an estimate of what came after that.
    let said = |bytes: usize| Came {
        usage: used(100, 50),
        later: bytes.saturating_sub(300_000),
        ..all(bytes)
    };
    let (bytes, _, usage) = come(&of("", tokens(10_000)), said).await;
    let expected = Usage {
        input_tokens: 100,
        ..counted(0, 60_000 + 150)
    };
    assert_eq!((bytes, usage), (360_000, expected));
}
