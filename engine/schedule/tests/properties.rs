//! What holds in thousands of worlds.

use std::collections::BTreeMap;

use fastrand::Rng;
use proptest::prelude::*;

use super::{
    super::*,
    rules::check_rules,
    world::{Step, Try, World, any_world, simulate, simulate_and},
};
use crate::graph::tests::repeatable;

proptest! {
    #![proptest_config(repeatable(3000))]

    #[test]
    fn the_rules_hold_in_every_world(world in any_world(5)) {
        let steps = simulate(&world);
        check_rules(&world, &steps)?;
        prop_assert_eq!(&steps, &simulate(&world), "the same events lead to the same commands");
    }

    #[test]
    fn l2_07_what_comes_late_changes_nothing(world in any_world(5)) {
        let undisturbed = simulate(&world);
        let disturbed = simulate_and(&world, |scheduler| {
            for task in world.graph.tasks() {
                let state = scheduler.states[task.at()];
                let answers = [
                    Event::Accepted { task },
                    Event::Rejected { task, retry: Retry::Backoff },
                    Event::Rejected { task, retry: Retry::Never },
                ];
                // An answer is late unless an attempt is under way, and a wait is over late unless there is one.
                let is_under_way = matches!(state, State::Running { .. } | State::Ahead { .. });
                let answers = answers.iter().filter(|_| !is_under_way);
                let due = [Event::RetryDue { task }];
                let due = due.iter().filter(|_| !matches!(state, State::Delayed { .. }));
                for late in answers.chain(due) {
                    assert_eq!(scheduler.step(*late), [], "{late:?}");
                }
            }
        });
        prop_assert_eq!(undisturbed, disturbed);
    }

    #[test]
    fn slots_decide_when_and_not_what(mut world in any_world(5)) {
        world.policy.on_failure = OnFailure::Continue;
        (world.deadline, world.cancel) = (None, None);
        let mut ends = |concurrency| {
            world.policy.concurrency = concurrency;
            ends(&simulate(&world))
        };
        let one_by_one = ends(1);
        prop_assert_eq!(&one_by_one, &ends(2));
        prop_assert_eq!(&one_by_one, &ends(10));
    }
}

proptest! {
    #![proptest_config(repeatable(3000))]

    #[test]
    fn l2_34_streams_decide_when_and_not_what(mut world in any_world(5)) {
        world.policy.on_failure = OnFailure::Continue;
        (world.deadline, world.cancel) = (None, None);
        let streamed = ends(&simulate(&world));
        world.graph = world.graph.with_streams(Vec::new());
        prop_assert_eq!(streamed, ends(&simulate(&world)));
    }
}

/// How each task ended, but for which of several failed needs it was that cancelled it.
pub(crate) fn ends(steps: &[Step]) -> BTreeMap<TaskIx, &'static str> {
    let end = |it: &Step| match it.command {
        Command::Settle {
            task,
            end: End::Completed,
        } => Some((task, "completed")),
        Command::Settle {
            task,
            end: End::Failed,
        } => Some((task, "failed")),
        Command::Settle {
            task,
            end: End::Cancelled(_),
        } => Some((task, "cancelled")),
        _ => None,
    };
    steps.iter().filter_map(end).collect()
}

/// A plan of 400 tasks of 1 to 100 seconds, each of which needs up to three of those shortly before it, and of some
/// slots: in some plans the chain is what takes long, in some the work, and in some it is both.
fn any_plan(rng: &mut Rng) -> World {
    const N: usize = 400;
    let mut world = World::parse("slots 1");
    world.policy.concurrency = rng.u32(2..=16);
    let window = rng.usize(8..=80);
    let needs = |at: usize, rng: &mut Rng| {
        let near = at.saturating_sub(window)..at;
        let count = if near.is_empty() { 0 } else { rng.usize(0..=3) };
        (0..count)
            .map(|_| TaskIx::new(rng.usize(near.clone())))
            .collect()
    };
    let needs: Vec<Vec<TaskIx>> = (0..N).map(|at| needs(at, rng)).collect();
    world.graph = TaskGraph::new(&needs).expect("a task needs earlier ones");
    let takes = |_| Duration::from_secs(rng.u64(1..=100));
    let accepted = |takes| {
        vec![Try {
            takes,
            rejected: None,
        }]
    };
    world.scripts = (0..N).map(takes).map(accepted).collect();
    world
}

/// What is asserted of a batch in which nothing fails:
/// - It takes no less than its longest chain, nor than the work divided among the slots. No schedule does.
/// - `slots * taken <= work + (slots - 1) * chain` (Graham). It holds because no slot is empty while a task is ready:
///   whenever one is empty, all that the rest of the longest chain needs is done or under way.
/// - With a slot for each task it takes exactly as long as its longest chain.
/// - It takes at most 5 % more than the first bound. This is no theorem, as the scheduler does not know how long a
///   task will take: it holds in each of these 200 plans.
#[test]
fn a_batch_takes_hardly_longer_than_it_must() {
    let mut rng = Rng::with_seed(0);
    let mut bound_by_chain = 0;
    for plan in 0..200 {
        let mut world = any_plan(&mut rng);
        let seconds = |it: TaskIx| world.attempt(it, 1).takes.as_secs();
        let chain = world
            .graph
            .remaining(seconds)
            .into_iter()
            .max()
            .unwrap_or(0);
        let work: u64 = world.graph.tasks().map(seconds).sum();
        let slots = u64::from(world.policy.concurrency);
        let bound = chain.max(work.div_ceil(slots));
        bound_by_chain += u32::from(bound == chain);

        let takes = |it: &World| simulate(it).last().map_or(0, |it| it.at.as_secs());
        let taken = takes(&world);
        assert!(bound <= taken, "plan {plan}: {taken} s of {bound} s");
        assert!(
            slots * taken <= work + (slots - 1) * chain,
            "plan {plan}: {taken} s"
        );
        assert!(
            taken * 100 <= bound * 105,
            "plan {plan}: {taken} s of {bound} s"
        );

        world.policy.concurrency = 400;
        assert_eq!(takes(&world), chain, "plan {plan}");
    }
    assert!(
        (20..180).contains(&bound_by_chain),
        "{bound_by_chain} plans of one kind"
    );
}
