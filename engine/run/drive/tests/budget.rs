//! What happens when there is nothing left to spend.

use super::*;
use crate::schedule::{Cause, End};

/// A session in which only so many attempts can be paid for, and one after it that has enough.
fn check_spent(world: &World, enough_for: usize) -> Result<(), TestCaseError> {
    paused().block_on(async {
        let mut whole = Play::new(world);
        whole.run(0).await;
        let mut poor = Play::new(world);
        poor.left = Some(enough_for);
        poor.run(0).await;
        prop_assert_eq!(
            Arc::strong_count(&poor.alive),
            1,
            "nothing outlives a batch"
        );
        prop_assert!(poor.judged.len() <= enough_for);
        let is_spent = |it: &Step| {
            matches!(
                it.command,
                Command::Settle {
                    end: End::Cancelled(Cause::Budget),
                    ..
                }
            )
        };
        prop_assert_eq!(poor.steps.iter().any(is_spent), !poor.withheld.is_empty());
        if poor.withheld.is_empty() {
            prop_assert_eq!(ends(&poor.steps), ends(&whole.steps));
            return Ok(());
        }
        // What was under way came to its end: each attempt that was started was judged or withheld.
        let starts = poor.steps.iter();
        let starts = starts
            .filter(|it| matches!(it.command, Command::Start { .. }))
            .count();
        prop_assert_eq!(starts, poor.judged.len() + poor.withheld.len());
        let mut again = Play::new(world);
        again.past = poor.judged.iter().copied().collect();
        again.run(1).await;
        prop_assert_eq!(ends(&again.steps), ends(&whole.steps));
        let number = |it: &Recalled| (it.task, it.attempt);
        let mut made: Vec<_> = poor
            .judged
            .iter()
            .chain(&again.judged)
            .map(number)
            .collect();
        let mut once: Vec<_> = whole.judged.iter().map(number).collect();
        made.sort();
        once.sort();
        prop_assert_eq!(made, once, "nothing is bought twice");
        Ok(())
    })
}

proptest! {
    #![proptest_config(repeatable(2000))]

    #[test]
    fn a_batch_that_has_nothing_left_stops_and_goes_on(mut world in any_world(5), enough_for in 0..20_usize) {
        world.policy.on_failure = OnFailure::Continue;
        (world.deadline, world.cancel) = (None, None);
        // Where there is a budget, nothing goes ahead.
        world.graph = world.graph.with_streams(Vec::new());
        check_spent(&world, enough_for)?;
    }
}

#[test]
fn what_is_under_way_ends_and_nothing_starts() {
    let world = World::parse("slots 2, retries 2\na: 4\nb: 1\nc: 1\nd: 1 <- a");
    let steps = paused().block_on(async {
        let mut play = Play::new(&world);
        play.left = Some(2);
        play.run(0).await;
        play.steps
    });
    expect![[r#"
        a |####| completed
        b |#   | completed
        c | ###| budget
        d |    | budget
    "#]]
    .assert_eq(&draw(&world, &steps));
}

#[test]
fn somebody_can_stop_a_batch_that_waits_for_its_end() {
    let world = World::parse("slots 2, retries 2, cancel 3\na: 9\nb: 1\nc: 1");
    let steps = paused().block_on(async {
        let mut play = Play::new(&world);
        play.left = Some(2);
        play.run(0).await;
        play.steps
    });
    expect![[r#"
        a |###| cancelled
        b |#  | completed
        c | ##| cancelled
    "#]]
    .assert_eq(&draw(&world, &steps));
}
