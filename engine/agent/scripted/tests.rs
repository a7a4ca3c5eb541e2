use std::{path::Path, time::Duration};

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::{Request, env::Env, testing};

fn ask(task: &str, attempt: u32) -> Request {
    let mut request = testing::question();
    request.task_id = Some(task).filter(|it| !it.is_empty()).map(Into::into);
    request.attempt = attempt;
    request
}

/// Asks for each of `questions`, `task attempt` or `attempt`, and says what came.
async fn check(replies: Value, questions: &[(&str, u32)], expected: Expect) {
    let runtime = json!({ "kind": "scripted", "replies": replies });
    let agent = testing::agent(runtime, Path::new("."), &Env::Process).unwrap();
    let mut lines = String::new();
    for (task, attempt) in questions {
        let answer = agent.ask(ask(task, *attempt)).await;
        lines.push_str(&format!("{task}{attempt} {}\n", testing::show(&answer)));
    }
    expected.assert_eq(&lines);
}

#[tokio::test]
async fn order() {
    let replies =
        json!(["x", "y", { "text": "own 1", "task_id": "a" }, { "text": "own 2", "task_id": "a" }]);
    let outside = [("", 1), ("", 1), ("", 1)];
    check(
        replies.clone(),
        &outside,
        expect![[r#"
        1 x
        1 y
        1 y
    "#]],
    )
    .await;
    let inside = [("b", 1), ("c", 1), ("b", 2), ("b", 1), ("b", 9)];
    check(
        replies.clone(),
        &inside,
        expect![[r#"
        b1 x
        c1 x
        b2 y
        b1 x
        b9 y
    "#]],
    )
    .await;
    let own = [("a", 1), ("b", 1), ("a", 1), ("a", 3)];
    check(
        replies,
        &own,
        expect![[r#"
        a1 own 1
        b1 x
        a1 own 2
        a3 own 2
    "#]],
    )
    .await;
    let only_own = json!([{ "text": "own", "task_id": "a" }]);
    check(
        only_own,
        &[("a", 1), ("b", 1), ("", 1)],
        expect![[r#"
            a1 own
            b1 not_found: no reply of `Worker` is written down for task `b`, where it is asked `hello`; add `{"task_id":"b","text":"..."}` to its replies, at its definition
            1 not_found: no reply of `Worker` is written down for outside a batch, where it is asked `hello`; add `{"text":"..."}` to its replies, at its definition
        "#]],
    )
    .await;
}

#[tokio::test]
async fn forms() {
    let one = |reply: Value| json!([reply]);
    check(
        one(json!({ "json": { "b": 1, "a": [true] } })),
        &[("", 1)],
        expect![[r#"
            1 {"b":1,"a":[true]}
        "#]],
    )
    .await;
    check(
        one(json!({})),
        &[("", 1)],
        expect![[r#"
        1 
    "#]],
    )
    .await;
    check(
        one(json!({ "text": "aé", "cut_at": 2 })),
        &[("", 1)],
        expect![[r#"
            1 a
        "#]],
    )
    .await;
    check(
        one(json!({ "text": "aé", "cut_at": 9 })),
        &[("", 1)],
        expect![[r#"
            1 aé
        "#]],
    )
    .await;
    check(
        one(json!({ "fail": "rate_limited" })),
        &[("", 1)],
        expect![[r#"
            1 rate_limited: the script says so
        "#]],
    )
    .await;
    check(
        one(json!({ "fail": "program_failed" })),
        &[("", 1)],
        expect![[r#"
            1 program_failed: the script says so
        "#]],
    )
    .await;
    check(
        one(json!("x".repeat((1 << 20) + 1))),
        &[("", 1)],
        expect![[r#"
            1 too_long: the answer is 1048577 bytes long; 1048576 are allowed
        "#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn delay() {
    let runtime =
        json!({ "kind": "scripted", "replies": [{ "text": "late", "delay_seconds": 90 }] });
    let agent = testing::agent(runtime, Path::new("."), &Env::Process).unwrap();
    let start = Instant::now();
    agent.ask(testing::question()).await.unwrap();
    let took = start.elapsed();
    assert!((90..91).contains(&took.as_secs()), "{took:?}");
    let cut_short = tokio::time::timeout(Duration::from_secs(1), agent.ask(testing::question()));
    cut_short.await.unwrap_err();
}

#[tokio::test]
async fn panics() {
    let runtime = json!({ "kind": "scripted", "replies": [{ "fail": "panic" }, "after"] });
    let agent = testing::agent(runtime, Path::new("."), &Env::Process).unwrap();
    let joined = tokio::spawn(agent.ask(testing::question())).await;
    assert!(joined.unwrap_err().is_panic());
    let answer = agent.ask(testing::question()).await;
    assert_eq!(testing::show(&answer), "after");
}
