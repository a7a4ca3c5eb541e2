//! How long a batch takes, against the least that any schedule could take.

use std::time::Duration;

use expect_test::expect;
use fastrand::Rng;

use super::world::{World, simulate};
use crate::graph::TaskIx;

/// A plan of as many tasks, in which each depends on up to two of the 40 before it and takes 1 to 20 seconds.
fn random(tasks: usize, slots: usize, rng: &mut Rng) -> World {
    let mut text = format!("slots {slots}");
    for task in 0..tasks {
        let mut needs: Vec<String> = (0..rng.usize(..3))
            .filter(|_| task > 0)
            .map(|_| rng.usize(task.saturating_sub(40)..task).to_string())
            .collect();
        needs.dedup();
        let takes = rng.usize(1..=20);
        text += &format!("\n{task}: {takes} <- {}", needs.join(" "));
    }
    World::parse(&text)
}

fn takes(world: &World, task: TaskIx) -> u64 {
    world.attempt(task, 1).takes.as_secs()
}

fn makespan(world: &World) -> u64 {
    let last = simulate(world).last().map(|it| it.at);
    last.unwrap_or(Duration::ZERO).as_secs()
}

/// The most costly chain.
fn chain(world: &World) -> u64 {
    let chains = world.graph.remaining(|it| takes(world, it));
    chains.into_iter().max().unwrap_or(0)
}

/// No schedule is shorter: tasks that have so much of a chain after them are all done so long before the end, and the
/// slots can do no more than share their work evenly.
fn least(world: &World) -> u64 {
    let slots = u64::from(world.policy.concurrency);
    let remaining = world.graph.remaining(|it| takes(world, it));
    let after: Vec<(u64, u64)> = world
        .graph
        .tasks()
        .map(|it| (remaining[it.at()] - takes(world, it), takes(world, it)))
        .collect();
    let bound = |chain: u64| {
        let work = after.iter().filter(|it| it.0 >= chain).map(|it| it.1);
        work.sum::<u64>().div_ceil(slots) + chain
    };
    let bounds = after.iter().map(|it| bound(it.0));
    bounds.max().unwrap_or(0).max(chain(world))
}

#[test]
fn with_a_slot_for_each_task_a_batch_takes_as_long_as_its_longest_chain() {
    let mut rng = Rng::with_seed(1);
    for _ in 0..200 {
        let world = random(200, 200, &mut rng);
        assert_eq!(makespan(&world), chain(&world));
    }
}

#[test]
fn with_few_slots_a_batch_takes_hardly_longer_than_it_must() {
    let mut rng = Rng::with_seed(2);
    let (mut all_least, mut all_took) = (0, 0);
    for plan in 0..200 {
        let world = random(200, 8, &mut rng);
        let (least, took) = (least(&world), makespan(&world));
        all_least += least;
        all_took += took;
        // Nobody knows how long a task takes before it is done, and the least may be less than is possible.
        assert!(
            took * 100 <= least * 110,
            "plan {plan} took {took}, at least {least}"
        );
    }
    assert!(
        all_took * 100 <= all_least * 105,
        "{all_took} for {all_least}"
    );
    expect!["1.028"].assert_eq(&format!("{:.3}", all_took as f64 / all_least as f64));
}
