//! Batches drawn as timelines, and steps written out.

mod ahead;
mod makespan;
mod properties;
mod rules;
pub(crate) mod world;

use expect_test::{Expect, expect};

use self::world::{World, draw, simulate};
pub(crate) use self::{properties::ends, rules::check_rules};
use super::*;

#[track_caller]
fn check(text: &str, expect: Expect) {
    let world = World::parse(text);
    expect.assert_eq(&draw(&world, &simulate(&world)));
}

#[test]
fn a_task_starts_when_its_needs_are_met_not_when_its_wave_is() {
    check(
        "slots 2\nsplit: 2\nslow: 9 <- split\nquick: 1 <- split\nafter: 3 <- quick\njoin: 2 <- slow after",
        expect![[r#"
            split |##           | completed
            slow  |  #########  | completed
            quick |  #          | completed
            after |   ###       | completed
            join  |           ##| completed
        "#]],
    );
}

#[test]
fn the_longest_chain_goes_first_then_declaration_order() {
    check(
        "slots 1\nlone: 1\nlone too: 1\na: 1\nb: 1 <- a\nc: 1 <- b",
        expect![[r#"
            lone     |  #  | completed
            lone too |   # | completed
            a        |#    | completed
            b        | #   | completed
            c        |    #| completed
        "#]],
    );
    check(
        "slots 2\nx: 2\ny: 2\na: 2\nb: 2 <- a\nc: 2 <- b",
        expect![[r#"
            x |##    | completed
            y |  ##  | completed
            a |##    | completed
            b |  ##  | completed
            c |    ##| completed
        "#]],
    );
    // A retry queues as its task did.
    check(
        "slots 1, retries 1\na: 1x 1\nb: 1 <- a\nlone: 3\nlone too: 1",
        expect![[r#"
            a        |#...#  | completed
            b        |     # | completed
            lone     | ###   | completed
            lone too |      #| completed
        "#]],
    );
}

#[test]
fn slots_have_a_limit() {
    check(
        "slots 0\na: 1\nb: 1",
        expect![[r#"
        a |# | completed
        b | #| completed
    "#]],
    );
    check(
        "slots 3\na: 1\nb: 3\nc: 2\nd: 1\ne: 1",
        expect![[r#"
        a |#  | completed
        b |###| completed
        c |## | completed
        d | # | completed
        e |  #| completed
    "#]],
    );
}

#[test]
fn a_delay_doubles_up_to_its_limit_and_holds_no_slot() {
    check(
        "slots 1, retries 2\nflaky: 2x 2x 2\nother: 3\nthird: 1",
        expect![[r#"
            flaky |##...##..##| completed
            other |  ###      | completed
            third |       #   | completed
        "#]],
    );
    check(
        "slots 1, retries 5, longest 3\na: 1x",
        expect![[r#"
        a |#.#..#...#...#...#| failed
    "#]],
    );
}

#[test]
fn how_an_attempt_failed_says_when_the_next_one_is_or_that_there_is_none() {
    check(
        "retries 3, continue\nfutile: 1! 1\nfails later: 1x 1! 1",
        expect![[r#"
            futile      |#  | failed
            fails later |#.#| failed
        "#]],
    );
    check(
        "retries 3\nlate: 1x5 1\nsoon: 1x0 1\ntwice: 1x3 1x1 1",
        expect![[r#"
            late  |#.....# | completed
            soon  |#.#     | completed
            twice |#...#..#| completed
        "#]],
    );
}

#[test]
fn a_failure_cancels_what_needs_it_and_nothing_else() {
    check(
        "continue\na: 1x\nb: 1 <- a\nc: 1 <- b a\nd: 2\ne: 1 <- d\nf: 1 <- e c",
        expect![[r#"
            a |#  | failed
            b |   | needs a
            c |   | needs a
            d |## | completed
            e |  #| completed
            f |   | needs a
        "#]],
    );
    check(
        "continue, slots 1\na: 1x\nb: 2x\nc: 1 <- b a",
        expect![[r#"
            a |#  | failed
            b | ##| failed
            c |   | needs a
        "#]],
    );
}

#[test]
fn l2_23_what_a_failure_cancels_is_cancelled_breadth_first() {
    check_steps(
        "continue\na: 1\nb: 1 <- a\nc: 1 <- a\nd: 1 <- b\ne: 1 <- c",
        &[
            Event::Begun,
            Event::Rejected {
                task: TaskIx::new(0),
                retry: Retry::Never,
            },
        ],
        expect![[r#"
            Begun
                Start { task: (0), attempt: 1 }
            Rejected { task: (0), retry: Never }
                Settle { task: (0), end: Failed }
                Settle { task: (1), end: Cancelled(NeedsFailed((0))) }
                Settle { task: (2), end: Cancelled(NeedsFailed((0))) }
                Settle { task: (3), end: Cancelled(NeedsFailed((0))) }
                Settle { task: (4), end: Cancelled(NeedsFailed((0))) }
        "#]],
    );
}

#[test]
fn l2_23_a_task_is_cancelled_with_all_that_needs_it_and_the_rest_goes_on() {
    let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(TaskIx::new);
    let retry = Retry::Backoff;
    // Under way. It is no failure, which would stop the batch.
    check_steps(
        "stop, slots 1\na: 1\nb: 1 <- a\nc: 1 <- b\nd: 1 <- a\ne: 1",
        &[
            Event::Begun,
            Event::TaskCancelled { task: a },
            Event::TaskCancelled { task: a },
            Event::Accepted { task: a },
            Event::Accepted { task: e },
        ],
        expect![[r#"
            Begun
                Start { task: (0), attempt: 1 }
            TaskCancelled { task: (0) }
                Drop { task: (0) }
                Settle { task: (0), end: Cancelled(Withdrawn) }
                Settle { task: (1), end: Cancelled(NeedsWithdrawn((0))) }
                Settle { task: (3), end: Cancelled(NeedsWithdrawn((0))) }
                Settle { task: (2), end: Cancelled(NeedsWithdrawn((0))) }
                Start { task: (4), attempt: 1 }
            TaskCancelled { task: (0) }
            Accepted { task: (0) }
            Accepted { task: (4) }
                Settle { task: (4), end: Completed }
        "#]],
    );
    // Waiting for a slot, for what it needs, or for another attempt; and when it has ended.
    check_steps(
        "slots 2, retries 1\na: 1\nb: 1\nc: 1\nd: 1 <- c\ne: 1 <- d",
        &[
            Event::Begun,
            Event::TaskCancelled { task: b },
            Event::TaskCancelled { task: d },
            Event::Rejected { task: a, retry },
            Event::TaskCancelled { task: a },
            Event::RetryDue { task: a },
            Event::Accepted { task: c },
            Event::TaskCancelled { task: c },
        ],
        expect![[r#"
            Begun
                Start { task: (2), attempt: 1 }
                Start { task: (0), attempt: 1 }
            TaskCancelled { task: (1) }
                Settle { task: (1), end: Cancelled(Withdrawn) }
            TaskCancelled { task: (3) }
                Settle { task: (3), end: Cancelled(Withdrawn) }
                Settle { task: (4), end: Cancelled(NeedsWithdrawn((3))) }
            Rejected { task: (0), retry: Backoff }
                Delay { task: (0), failures: 1, floor: 0ns }
            TaskCancelled { task: (0) }
                Drop { task: (0) }
                Settle { task: (0), end: Cancelled(Withdrawn) }
            RetryDue { task: (0) }
            Accepted { task: (2) }
                Settle { task: (2), end: Completed }
            TaskCancelled { task: (2) }
        "#]],
    );
    let World { graph, policy, .. } = World::parse("slots 1\na: 1\nb: 1 <- a\nc: 1");
    let mut scheduler = Scheduler::new(&graph, &policy);
    let mut commands = Vec::new();
    scheduler.recall(Event::TaskCancelled { task: a }, 1, &mut commands);
    let gone = |cause| End::Cancelled(cause);
    let [first, second] = [
        (a, gone(Cause::Withdrawn)),
        (b, gone(Cause::NeedsWithdrawn(a))),
    ]
    .map(|(task, end)| Command::Settle { task, end });
    assert_eq!(commands, [first, second]);
    let start = Command::Start {
        task: c,
        attempt: 1,
    };
    assert_eq!(scheduler.step(Event::Begun), [start]);
}

#[test]
fn fail_batch_stops_everything() {
    check(
        "stop\na: 2x\nb: 1 <- a\nc: 5\nd: 1 <- c\ne: 1",
        expect![[r#"
            a |##| failed
            b |  | stopped by a
            c |##| stopped by a
            d |  | stopped by a
            e |# | completed
        "#]],
    );
    check(
        "stop, slots 2, retries 1\nwaits: 1x 1\na: 2!\nready: 1\nalso ready: 1",
        expect![[r#"
            waits      |#.| stopped by a
            a          |##| failed
            ready      | #| stopped by a
            also ready |  | stopped by a
        "#]],
    );
}

#[test]
fn a_deadline_and_a_cancellation_end_what_is_open() {
    check(
        "deadline 3\na: 1\nb: 5\nc: 1 <- b",
        expect![[r#"
        a |#  | completed
        b |###| deadline
        c |   | deadline
    "#]],
    );
    check(
        "cancel 3, continue, retries 9, wait 4, slots 2\na: 1x\nb: 1\nc: 5\nd: 1 <- b",
        expect![[r#"
            a |#..| cancelled
            b |#  | completed
            c | ##| cancelled
            d | # | completed
        "#]],
    );
    check(
        "cancel 1, deadline 1\na: 2",
        expect![[r#"
        a |#| cancelled
    "#]],
    );
    check(
        "cancel 0\na: 2",
        expect![[r#"
        a || cancelled
    "#]],
    );
    check(
        "cancel 9\na: 2",
        expect![[r#"
        a |##| completed
    "#]],
    );
}

#[test]
fn an_empty_batch_is_finished_at_once() {
    check("slots 2, cancel 1", expect![[""]]);
    let World { graph, policy, .. } = World::parse("slots 1");
    let mut scheduler = Scheduler::new(&graph, &policy);
    assert!(scheduler.is_finished());
    assert_eq!(scheduler.step(Event::Begun), []);
}

/// Says what each event led to.
#[track_caller]
fn check_steps(text: &str, events: &[Event], expect: Expect) {
    let World { graph, policy, .. } = World::parse(text);
    let mut scheduler = Scheduler::new(&graph, &policy);
    let mut steps = String::new();
    for event in events {
        steps += &format!("{event:?}\n");
        for command in scheduler.step(*event) {
            steps += &format!("    {command:?}\n");
        }
    }
    expect.assert_eq(&steps.replace("TaskIx", ""));
}

#[test]
fn commands_come_in_the_order_they_are_to_be_performed_in() {
    let [a, b, c] = [0, 1, 2].map(TaskIx::new);
    let retry = Retry::NotBefore(Duration::from_secs(7));
    check_steps(
        "slots 2, retries 1\na: 1\nb: 1\nc: 1 <- a",
        &[
            Event::Begun,
            Event::Accepted { task: a },
            Event::Accepted { task: a },
            Event::Rejected { task: b, retry },
            Event::Rejected { task: b, retry },
            Event::RetryDue { task: b },
            Event::RetryDue { task: b },
            Event::Rejected { task: b, retry },
            Event::Accepted { task: c },
            Event::CancelRequested,
        ],
        expect![[r#"
            Begun
                Start { task: (0), attempt: 1 }
                Start { task: (1), attempt: 1 }
            Accepted { task: (0) }
                Settle { task: (0), end: Completed }
                Start { task: (2), attempt: 1 }
            Accepted { task: (0) }
            Rejected { task: (1), retry: NotBefore(7s) }
                Delay { task: (1), failures: 1, floor: 7s }
            Rejected { task: (1), retry: NotBefore(7s) }
            RetryDue { task: (1) }
                Start { task: (1), attempt: 2 }
            RetryDue { task: (1) }
            Rejected { task: (1), retry: NotBefore(7s) }
                Settle { task: (1), end: Failed }
                Drop { task: (2) }
                Settle { task: (2), end: Cancelled(BatchStopped((1))) }
            Accepted { task: (2) }
            CancelRequested
        "#]],
    );
    check_steps(
        "slots 2, retries 1\na: 1\nb: 1\nc: 1\nd: 1",
        &[
            Event::Begun,
            Event::Rejected { task: a, retry },
            Event::DeadlinePassed,
            Event::RetryDue { task: a },
            Event::Accepted { task: b },
            Event::Rejected { task: c, retry },
        ],
        expect![[r#"
            Begun
                Start { task: (0), attempt: 1 }
                Start { task: (1), attempt: 1 }
            Rejected { task: (0), retry: NotBefore(7s) }
                Delay { task: (0), failures: 1, floor: 7s }
                Start { task: (2), attempt: 1 }
            DeadlinePassed
                Drop { task: (0) }
                Settle { task: (0), end: Cancelled(Deadline) }
                Drop { task: (1) }
                Settle { task: (1), end: Cancelled(Deadline) }
                Drop { task: (2) }
                Settle { task: (2), end: Cancelled(Deadline) }
                Settle { task: (3), end: Cancelled(Deadline) }
            RetryDue { task: (0) }
            Accepted { task: (1) }
            Rejected { task: (2), retry: NotBefore(7s) }
        "#]],
    );
}

#[test]
fn a_span_doubles_up_to_its_limit_without_overflow() {
    let check = |initial, max, expect: Expect| {
        let jitter = Jitter::Full;
        let backoff = Backoff {
            initial,
            max,
            jitter,
        };
        let failures = [0, 1, 2, 3, 7, 33, 65, u32::MAX];
        let spans = failures.map(|it| format!("{:.1?}", backoff.span(it)));
        expect.assert_eq(&spans.join(" "));
    };
    let second = Duration::from_secs(1);
    check(
        second,
        second * 60,
        expect!["1.0s 1.0s 2.0s 4.0s 60.0s 60.0s 60.0s 60.0s"],
    );
    check(
        second * 60,
        second,
        expect!["1.0s 1.0s 1.0s 1.0s 1.0s 1.0s 1.0s 1.0s"],
    );
    check(
        Duration::from_nanos(1),
        Duration::MAX,
        expect!["1.0ns 1.0ns 2.0ns 4.0ns 64.0ns 4.3s 18446744073.7s 18446744073709551616.0s"],
    );
    check(
        Duration::ZERO,
        Duration::MAX,
        expect!["0.0ns 0.0ns 0.0ns 0.0ns 0.0ns 0.0ns 0.0ns 0.0ns"],
    );
}
