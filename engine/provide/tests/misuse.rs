//! Inputs in chunks that are wrong, too early, too many, somebody else's, or never end.

use super::*;

#[tokio::test(start_paused = true)]
async fn chunks_that_are_wrong_fail_their_task_and_leave_nothing() {
    let limits = Limits {
        open_bytes: 16_000,
        message_bytes: 1000,
        ..Limits::default()
    };
    let serving = Serving::new(limits);
    let text = |seq: usize, data: &str, is_last| {
        chunks::params("", seq, json!({ "type": "text", "data": data }), is_last)
    };
    let long = "x".repeat(600);
    let mut odd = text(0, "x", true);
    odd["chunk"] = json!("x");
    let many = (0..120).map(|seq| text(seq, "", false));
    let cases: [(&str, &str, Vec<Value>, &str); 9] = [
        (
            "gap",
            "echo",
            vec![text(1, "x", true)],
            "-32602 chunk 1 came in place of chunk 0",
        ),
        (
            "twice",
            "echo",
            vec![text(0, "x", false), text(0, "x", false)],
            "-32602 chunk 0 came in place of chunk 1",
        ),
        (
            "after",
            "sleep",
            vec![text(0, "x", true), text(1, "x", true)],
            "-32602 a chunk came after the last",
        ),
        (
            "none",
            "echo",
            vec![odd],
            "-32602 a chunk has no `type` and `data`",
        ),
        (
            "long",
            "echo",
            vec![text(0, &long, false), text(1, &long, true)],
            "-32602 it comes in more than 100000 chunks, or more than 1000 bytes",
        ),
        (
            "much",
            "echo",
            many.collect(),
            "-33099 too much is under way",
        ),
        (
            "endless",
            "echo",
            vec![text(0, "x", false)],
            "-33003 its input came to no end in time",
        ),
        (
            "nothing",
            "echo",
            vec![],
            "-33003 its input came to no end in time",
        ),
        (
            "cancelled",
            "echo",
            vec![text(0, "x", false), Value::Null],
            "-33004 it was cancelled",
        ),
    ];
    for early in [false, true] {
        let asked = serving.asked();
        for (ix, (name, capability, messages, expected)) in cases.iter().enumerate() {
            if early && ["after", "cancelled"].contains(name) {
                continue;
            }
            let mut buyer = serving.buyer(1);
            let task = format!("{name} {early}");
            let mut more = in_chunks();
            more["capability"] = json!(capability);
            if *name == "nothing" {
                more["timeout_ms"] = json!(5000);
            }
            let again = more.clone();
            if !early {
                buyer.ask(1, &task, more.clone()).await;
            }
            for params in messages {
                match params {
                    Value::Null => buyer.cancel(&task).await,
                    params => {
                        let mut params = params.clone();
                        params["task_id"] = json!(task);
                        buyer.put(params).await;
                        settled().await;
                    }
                }
            }
            if early {
                buyer.ask(1, &task, more).await;
            }
            assert_eq!(buyer.outcome(1).await, *expected, "{ix} {task}");
            // Who asks again hears it again.
            buyer.ask(2, &task, again).await;
            assert_eq!(buyer.outcome(2).await, *expected, "{ix} {task}");
        }
        // Nobody was asked but the one whose input was whole at first.
        assert_eq!(serving.asked() - asked, usize::from(!early));
        // There is as much room as there was.
        let mut buyer = serving.buyer(1);
        let large = json!({ "type": "text", "data": "x".repeat(9600) });
        let task = format!("large {early}");
        buyer.ask(1, &task, json!({ "input": large })).await;
        assert_eq!(buyer.outcome(1).await.len(), 9600);
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_puts_anything_into_the_input_of_somebody_elses_task() {
    let serving = Serving::new(Limits::default());
    let [mut buyer, mut thief] = [1, 2].map(|it| serving.buyer(it));
    thief.chunk("t", 0, "early and false", true).await;
    settled().await;
    buyer.chunk("t", 0, "right", false).await;
    buyer.ask(1, "t", in_chunks()).await;
    settled().await;
    thief.chunk("t", 1, "late and false", true).await;
    // Who asks for the same is told what comes of it, and no more.
    thief.ask(1, "t", in_chunks()).await;
    thief.chunk("t", 0, "once more", true).await;
    settled().await;
    buyer.chunk("t", 1, " and mine", true).await;
    assert_eq!(buyer.outcome(1).await, "right and mine");
    assert_eq!(thief.outcome(1).await, "right and mine");
    assert_eq!(serving.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_comes_before_its_task_is_little_and_not_kept_for_long() {
    let serving = Serving::new(Limits::default());
    let mut buyer = serving.buyer(1);
    buyer.chunk("t", 0, "in ", false).await;
    sleep(Duration::from_secs(9)).await;
    buyer.ask(1, "t", in_chunks()).await;
    buyer.chunk("t", 1, "time", true).await;
    assert_eq!(buyer.outcome(1).await, "in time");
    buyer.chunk("u", 0, "long ago", false).await;
    sleep(Duration::from_secs(11)).await;
    buyer.ask(2, "u", in_chunks()).await;
    buyer.chunk("u", 1, "x", true).await;
    let expected = "-32602 chunk 1 came in place of chunk 0";
    assert_eq!(buyer.outcome(2).await, expected);
    // One that was cancelled first.
    buyer.chunk("v", 0, "x", false).await;
    buyer.cancel("v").await;
    buyer.ask(3, "v", in_chunks()).await;
    buyer.chunk("v", 0, "another", true).await;
    assert_eq!(buyer.outcome(3).await, "another");
    // A crowd of them, of which some are kept, and none of anybody else's is lost for it.
    for number in 0..1000 {
        buyer.chunk(&format!("crowd {number}"), 0, "x", true).await;
    }
    let mut other = serving.buyer(2);
    other.chunk("w", 0, "mine", true).await;
    other.ask(1, "w", in_chunks()).await;
    assert_eq!(other.outcome(1).await, "mine");
    for (id, task, expected) in [
        (4, "crowd 0", "x"),
        (5, "crowd 223", "x"),
        (6, "crowd 224", "-33003 its input came to no end in time"),
    ] {
        buyer.ask(id, task, in_chunks()).await;
        assert_eq!(buyer.outcome(id).await, expected, "{task}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_has_not_begun_is_gone_with_those_who_wait_for_it() {
    let serving = Serving::new(Limits::default());
    let first = serving.buyer(1);
    first.ask(1, "t", in_chunks()).await;
    first.chunk("t", 0, "lost", false).await;
    settled().await;
    drop(first);
    settled().await;
    // What it sent is gone as well.
    let second = serving.buyer(1);
    second.ask(1, "t", in_chunks()).await;
    second.chunk("t", 0, "here ", false).await;
    settled().await;
    // Whoever asks for it again sends it again, and it has to be the same.
    let mut third = serving.buyer(1);
    third.ask(1, "t", in_chunks()).await;
    settled().await;
    drop(second);
    settled().await;
    third.chunk("t", 0, "here ", false).await;
    third.chunk("t", 1, "again", true).await;
    assert_eq!(third.outcome(1).await, "here again");
    assert_eq!(serving.asked(), 1);
    third.ask(2, "u", in_chunks()).await;
    third.chunk("u", 0, "one", false).await;
    third.ask(3, "u", in_chunks()).await;
    third.chunk("u", 0, "two", true).await;
    let expected = "-32602 chunk 0 was another one before";
    assert_eq!(third.outcome(2).await, expected);
    assert_eq!(third.outcome(3).await, expected);
    // One that has begun goes on.
    let mut more = in_chunks();
    more["capability"] = json!("sleep");
    third.ask(4, "v", more.clone()).await;
    third.chunk("v", 0, "x", true).await;
    settled().await;
    drop(third);
    let mut fourth = serving.buyer(1);
    fourth.ask(1, "v", more).await;
    settled().await;
    fourth.cancel("v").await;
    assert_eq!(fourth.outcome(1).await, "-33004 it was cancelled");
    assert_eq!(serving.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn tasks_that_wait_for_their_inputs_are_not_for_nothing() {
    let limits = Limits {
        open_bytes: 1 << 20,
        ..Limits::default()
    };
    let serving = Serving::new(limits);
    let mut buyers = [1, 1].map(|it| serving.buyer(it));
    let mut refused = 0;
    for (buyer, name) in buyers.iter_mut().zip(["a", "b"]) {
        for number in 0..200 {
            let task = format!("{name}{number}");
            buyer.ask(number, &task, in_chunks()).await;
            settled().await;
            while let Ok(text) = buyer.link.incoming.try_recv() {
                let text = text.expect("it is a message");
                refused += usize::from(text.contains("too much is under way"));
            }
        }
    }
    // A share of the room is as much as some two hundred of them take.
    assert!((150..250).contains(&refused), "{refused}");
    let mut other = serving.buyer(2);
    other.ask(1, "mine", in_chunks()).await;
    other.chunk("mine", 0, "mine", true).await;
    assert_eq!(other.outcome(1).await, "mine");
}

#[tokio::test(start_paused = true)]
async fn what_nobody_waits_for_any_more_is_not_carried_out() {
    let limits = Limits {
        running: 1,
        ..Limits::default()
    };
    let serving = Serving::new(limits);
    let [mut buyer, mut other] = [1, 2].map(|it| serving.buyer(it));
    let input = json!({ "type": "text", "data": "hi" });
    let sleep = |timeout_ms: u32| json!({ "capability": "sleep", "timeout_ms": timeout_ms, "input": input });
    let begun = tokio::time::Instant::now();
    buyer.ask(1, "long", sleep(1000)).await;
    settled().await;
    // It waits for the other one, and its buyer for half a second.
    let short = json!({ "timeout_ms": 500, "input": input });
    buyer.ask(2, "short", short).await;
    let over = "-33003 nobody waits for it any more";
    assert_eq!(buyer.outcome(2).await, over);
    assert_eq!(begun.elapsed().as_millis() / 100, 5);
    // Who asks for the long one meanwhile has the time that they ask for.
    other.ask(1, "long", sleep(1000)).await;
    assert_eq!(buyer.outcome(1).await, over);
    assert_eq!(other.outcome(1).await, over);
    assert_eq!(begun.elapsed().as_millis() / 100, 15);
    assert_eq!(serving.asked(), 1, "the short one was never carried out");
    // There is a slot again.
    drop((buyer, other));
    let mut third = serving.buyer(1);
    third
        .ask(
            1,
            "next",
            json!({ "input": { "type": "text", "data": "hi" } }),
        )
        .await;
    assert_eq!(third.outcome(1).await, "hi");
}
