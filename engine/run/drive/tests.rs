//! Plays the worlds of the scheduler's tests with the real thing, on tokio's paused clock.

use std::{collections::VecDeque, panic::resume_unwind, sync::Arc};

use expect_test::{Expect, expect};
use fastrand::Rng;
use proptest::prelude::*;
use tokio::{
    runtime::{Builder, Runtime},
    sync::{
        mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
        watch,
    },
    task::yield_now,
    time::{sleep, timeout},
};

use super::*;
use crate::{
    graph::tests::repeatable,
    schedule::{
        OnFailure,
        tests::{
            check_rules, ends,
            world::{Step, Try, World, any_world, draw, simulate},
        },
    },
};

mod budget;
mod panics;

/// Does what a world says, and checks that it is asked in the right order.
struct Play<'a> {
    world: &'a World,
    begun: Instant,
    steps: Vec<Step>,
    accepted: Vec<bool>,
    /// What an earlier session saw, and what this one sees.
    past: VecDeque<Recalled>,
    judged: Vec<Recalled>,
    /// How many attempts may still be made, if that has a limit; and those that were not made.
    left: Option<usize>,
    withheld: Vec<(TaskIx, u32)>,
    /// Held by every attempt under way.
    alive: Arc<()>,
    /// Whether the output of a task is there.
    committed: Vec<watch::Sender<bool>>,
    /// Tasks that can go ahead.
    said: UnboundedSender<TaskIx>,
    heard: UnboundedReceiver<TaskIx>,
}

/// Who can go ahead half way through an attempt.
struct Flow {
    takers: Vec<TaskIx>,
    said: UnboundedSender<TaskIx>,
}

impl Flow {
    async fn through(self, attempt: Try) {
        sleep(attempt.half()).await;
        for task in self.takers {
            let _ = self.said.send(task);
        }
        sleep(attempt.takes - attempt.half()).await;
    }
}

impl<'a> Play<'a> {
    fn new(world: &'a World) -> Play<'a> {
        let (said, heard) = unbounded_channel();
        Play {
            world,
            begun: Instant::now(),
            steps: Vec::new(),
            accepted: vec![false; world.graph.len()],
            past: VecDeque::new(),
            judged: Vec::new(),
            left: None,
            withheld: Vec::new(),
            alive: Arc::new(()),
            committed: world
                .graph
                .tasks()
                .map(|_| watch::Sender::default())
                .collect(),
            said,
            heard,
        }
    }

    fn flow(&self, task: TaskIx, attempt: u32) -> Flow {
        let takers = self.world.graph.streamed_by(task);
        Flow {
            takers: takers.filter(|_| attempt == 1).collect(),
            said: self.said.clone(),
        }
    }

    async fn run(&mut self, seed: u64) {
        let World { graph, policy, .. } = self.world;
        let limits = Limits {
            deadline: self.world.deadline,
            grace: Duration::ZERO,
            seed,
        };
        let cancel_at = self.world.cancel;
        let cancel = async move {
            match cancel_at {
                Some(at) => sleep(at).await,
                None => pending().await,
            }
        };
        drive(
            Batch {
                graph,
                policy,
                limits,
            },
            self,
            cancel,
        )
        .await;
    }
}

impl Work for Play<'_> {
    type Answer = Option<Retry>;

    fn attempt(
        &mut self,
        task: TaskIx,
        attempt: u32,
    ) -> impl Future<Output = Self::Answer> + Send + 'static {
        let observed = self.steps.last().map(|it| it.command);
        assert_eq!(
            observed,
            Some(Command::Start { task, attempt }),
            "it is observed first"
        );
        let needs = self.world.graph.needs(task);
        assert!(
            needs.iter().all(|it| self.accepted[it.at()]),
            "what it needs is judged first"
        );
        let mut script = self.world.attempt(task, attempt);
        let flow = self.flow(task, attempt);
        match &mut self.left {
            Some(0) => {
                self.withheld.push((task, attempt));
                (script.takes, script.rejected) = (Duration::ZERO, None);
            }
            Some(left) => *left -= 1,
            None => (),
        }
        let alive = Arc::clone(&self.alive);
        async move {
            let _alive = alive;
            flow.through(script).await;
            if panics(task, script.rejected) {
                // As `panic!` does, but without a word on stderr.
                resume_unwind(Box::new(format!("attempt {attempt}")));
            }
            script.rejected
        }
    }

    fn ahead(&mut self, task: TaskIx) -> impl Future<Output = Self::Answer> + Send + 'static {
        let observed = self.steps.last().map(|it| it.command);
        assert_eq!(observed, Some(Command::Ahead { task }));
        let of = self.world.graph.stream(task).expect("it has a stream");
        let mut committed = self.committed[of.at()].subscribe();
        let (script, flow) = (self.world.attempt(task, 1), self.flow(task, 1));
        let alive = Arc::clone(&self.alive);
        async move {
            let _alive = alive;
            flow.through(script).await;
            if script.rejected.is_none() {
                let committed = committed.wait_for(|it| *it).await;
                committed.expect("a batch outlives its attempts");
            }
            script.rejected
        }
    }

    async fn listen(&mut self) -> Option<Event> {
        let task = self.heard.recv().await.expect("its sender is kept");
        Some(Event::Flows { task })
    }

    fn recall(&mut self) -> Result<Option<Recalled>, Broken> {
        let recalled = self.past.pop_front();
        if let Some(recalled) = recalled {
            self.accepted[recalled.task.at()] = recalled.verdict == Verdict::Accepted;
        }
        Ok(recalled)
    }

    fn commit(&mut self) -> Result<(), Broken> {
        for (committed, accepted) in self.committed.iter().zip(&self.accepted) {
            committed.send_if_modified(|it| mem::replace(it, *accepted) != *accepted);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Broken> {
        Ok(())
    }

    fn judge(&mut self, task: TaskIx, attempt: u32, answer: Ended<Self::Answer>) -> Verdict {
        if attempt == 0 && answer != Ended::Answered(None) {
            return Verdict::Rejected(Retry::Never);
        }
        let attempt = attempt.max(1);
        if self.withheld.contains(&(task, attempt)) {
            return Verdict::Withheld;
        }
        let script = self.world.attempt(task, attempt);
        let verdict = match answer {
            Ended::Panicked(message) => {
                assert!(panics(task, script.rejected));
                assert_eq!(message, format!("attempt {attempt}"));
                Verdict::Rejected(Retry::Backoff)
            }
            Ended::Answered(rejected) => {
                assert_eq!(rejected, script.rejected, "the answer is of this attempt");
                self.accepted[task.at()] = rejected.is_none();
                rejected.map_or(Verdict::Accepted, Verdict::Rejected)
            }
        };
        let wait = None;
        self.judged.push(Recalled {
            task,
            attempt,
            verdict,
            wait,
        });
        verdict
    }

    fn observe(&mut self, command: &Command, wait: Option<Duration>) {
        let (at, command) = (self.begun.elapsed(), *command);
        self.steps.push(Step { at, command, wait });
        assert!(self.steps.len() < 100_000, "the batch does not end");
    }
}

/// Every second task panics rather than answer that it is to be tried again.
fn panics(task: TaskIx, rejected: Option<Retry>) -> bool {
    task.at() % 2 == 1 && rejected == Some(Retry::Backoff)
}

fn paused() -> Runtime {
    let mut builder = Builder::new_current_thread();
    let builder = builder.enable_time().start_paused(true);
    builder.build().expect("a runtime can be built")
}

/// Runs a batch to its end, after which none of its attempts may be left.
fn play(world: &World, seed: u64) -> Vec<Step> {
    // Longer than any of these worlds. On a paused clock, what hangs is there at once.
    const YEARS: Duration = Duration::from_secs(1 << 27);
    paused().block_on(async {
        let mut play = Play::new(world);
        let ended = timeout(YEARS, play.run(seed)).await;
        assert!(
            ended.is_ok(),
            "nothing is under way, and yet the batch has not ended"
        );
        assert_eq!(
            Arc::strong_count(&play.alive),
            1,
            "nothing outlives a batch"
        );
        play.steps
    })
}

#[test]
fn a_batch_is_driven_as_it_is_drawn() {
    let world = World::parse(
        "slots 2, retries 2, continue, deadline 12\na: 2x 2\nb: 1x 3\nc: 2 <- a\nd: 1!\ne: 1 <- d\nf: 9 <- b",
    );
    expect![[r#"
        a |##.##       | completed
        b |#.###       | completed
        c |     ##     | completed
        d | #          | failed
        e |            | needs d
        f |     #######| deadline
    "#]]
    .assert_eq(&draw(&world, &play(&world, 0)));
    let world = World::parse("slots 2, retries 1, cancel 4\na: 1x9 1\nb: 3\nc: 3\nd: 1 <- a");
    expect![[r#"
        a |#...| cancelled
        b |### | completed
        c | ###| cancelled
        d |    | cancelled
    "#]]
    .assert_eq(&draw(&world, &play(&world, 0)));
}

proptest! {
    #![proptest_config(repeatable(2000))]

    #[test]
    fn the_rules_hold_in_every_world(mut world in any_world(5), seed in any::<u64>()) {
        if seed % 2 == 0 {
            world.policy.backoff.jitter = Jitter::Full;
        }
        let steps = play(&world, seed);
        check_rules(&world, &steps)?;
        prop_assert_eq!(steps, play(&world, seed), "a seed decides all that is left to chance");
    }

    /// In a world where no two things happen in the same millisecond.
    #[test]
    fn what_is_driven_is_what_is_simulated(mut world in any_world(1 << 28)) {
        // Of several that go ahead with one output, it is open which is done first.
        let mut taken = Vec::new();
        let streams = world.graph.tasks().map(|it| {
            let of = world.graph.stream(it).filter(|it| !taken.contains(it));
            taken.extend(of);
            of
        });
        world.graph = world.graph.clone().with_streams(streams.collect());
        prop_assert_eq!(play(&world, 0), simulate(&world));
    }

    #[test]
    fn the_driver_decides_when_and_not_what(mut world in any_world(5), seed in any::<u64>()) {
        world.policy.on_failure = OnFailure::Continue;
        world.policy.backoff.jitter = Jitter::Full;
        (world.deadline, world.cancel) = (None, None);
        prop_assert_eq!(ends(&play(&world, seed)), ends(&simulate(&world)));
    }
}

/// The first session of a batch is cut off after some of its attempts; the second is told of them.
fn check_cut(world: &World, after: usize) -> Result<(), TestCaseError> {
    paused().block_on(async {
        let mut whole = Play::new(world);
        whole.run(0).await;
        let seen = &whole.judged[..after.min(whole.judged.len())];
        let mut again = Play::new(world);
        again.past = seen.iter().copied().collect();
        again.run(1).await;
        prop_assert_eq!(ends(&again.steps), ends(&whole.steps));
        let number = |it: &Recalled| (it.task, it.attempt);
        let mut made: Vec<_> = seen.iter().chain(&again.judged).map(number).collect();
        let mut once: Vec<_> = whole.judged.iter().map(number).collect();
        made.sort();
        once.sort();
        prop_assert_eq!(made, once, "every attempt is made in one of the two");
        Ok(())
    })
}

proptest! {
    #![proptest_config(repeatable(2000))]

    #[test]
    fn a_batch_that_was_cut_off_goes_on(mut world in any_world(5), after in 0..40_usize) {
        world.policy.on_failure = OnFailure::Continue;
        (world.deadline, world.cancel) = (None, None);
        check_cut(&world, after)?;
    }
}

#[test]
fn jitter_spreads_waits_over_the_whole_span_above_the_floor() {
    let mut rng = Rng::with_seed(0);
    let mut check = |jitter, floor: u64, expect: Expect| {
        let initial = Duration::from_secs(10);
        let max = initial;
        let backoff = Backoff {
            initial,
            max,
            jitter,
        };
        let (task, floor) = (TaskIx::new(0), Duration::from_secs(floor));
        let delay = Command::Delay {
            task,
            failures: 1,
            floor,
        };
        let mut wait = |_| choose_wait(&delay, &backoff, &mut rng).expect("a delay has a wait");
        let mut waits: Vec<u64> = (0..1000).map(|it| wait(it).as_secs()).collect();
        waits.sort();
        waits.dedup();
        expect.assert_eq(&format!("{waits:?}"));
    };
    check(Jitter::None, 0, expect!["[10]"]);
    check(Jitter::None, 30, expect!["[30]"]);
    check(Jitter::Full, 0, expect!["[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"]);
    check(
        Jitter::Full,
        30,
        expect!["[30, 31, 32, 33, 34, 35, 36, 37, 38, 39]"],
    );
}

#[test]
fn a_batch_that_is_given_up_takes_its_attempts_with_it() {
    let world = World::parse("slots 2\na: 9\nb: 9\nc: 9");
    paused().block_on(async {
        let mut play = Play::new(&world);
        let given_up = timeout(Duration::from_secs(1), play.run(0)).await;
        assert!(given_up.is_err());
        yield_now().await;
        assert_eq!(Arc::strong_count(&play.alive), 1);
    });
}

#[test]
fn a_time_too_long_for_a_clock_is_as_good_as_never() {
    let mut world = World::parse("retries 1, cancel 5, stop\na: 1x1 1\nb: 1");
    world.deadline = Some(Duration::MAX);
    world.policy.backoff.initial = Duration::MAX;
    world.policy.backoff.max = Duration::MAX;
    expect![[r#"
        a |#....| cancelled
        b |#    | completed
    "#]]
    .assert_eq(&draw(&world, &play(&world, 0)));
}

#[test]
fn an_answer_that_was_there_before_its_attempt_was_dropped_is_not_heard() {
    let World { graph, .. } = World::parse("slots 2\na: 1\nb: 1");
    let [a, b] = [0, 1].map(TaskIx::new);
    paused().block_on(async {
        let mut attempts = Attempts::new(&graph);
        attempts.start(Attempt { task: a, number: 1 }, async { "early" });
        attempts.launch();
        yield_now().await;
        attempts.abort(a);
        attempts.start(Attempt { task: b, number: 2 }, async { "late" });
        attempts.launch();
        let (Attempt { task, number }, answer) = attempts.next().await;
        assert_eq!((task, number, answer), (b, 2, Ended::Answered("late")));
        let silence = timeout(Duration::from_secs(1), attempts.next()).await;
        assert!(silence.is_err(), "nobody else has anything to say");
    });
}

#[test]
fn the_rules_hold_on_many_threads() -> Result<(), TestCaseError> {
    let mut text = "slots 3, retries 2, wait 0, continue".to_owned();
    for at in 0..200 {
        let script = ["0", "0x 0", "0!", "0"][at % 4];
        let needs = if at < 20 {
            String::new()
        } else {
            (at - 20).to_string()
        };
        text += &format!("\n{at}: {script} <- {needs}");
    }
    let world = World::parse(&text);
    let mut builder = Builder::new_multi_thread();
    let runtime = builder
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("a runtime can be built");
    let mut play = Play::new(&world);
    runtime.block_on(play.run(0));
    assert_eq!(Arc::strong_count(&play.alive), 1);
    assert_eq!(ends(&play.steps), ends(&simulate(&world)));
    // On a clock that is not paused, commands that belong together differ in time.
    for step in &mut play.steps {
        step.at = Duration::ZERO;
    }
    check_rules(&world, &play.steps)
}
