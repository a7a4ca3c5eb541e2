//! What holds in every batch, whoever plays it.

use proptest::prelude::*;

use super::{
    super::*,
    world::{Step, World},
};

/// What is known of a task from the commands given so far.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Seen {
    Untouched,
    Running,
    Ahead,
    /// Until then.
    Delayed(Duration),
    Dropped,
    Ended(End),
}

/// What is known of a batch from the commands given so far.
struct Watch<'a> {
    world: &'a World,
    seen: Vec<Seen>,
    attempts: Vec<u32>,
    remaining: Vec<u64>,
    stopped: bool,
}

/// Follows a batch from its first command to its last, and checks each.
pub(crate) fn check_rules(world: &World, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut watch = Watch {
        world,
        seen: vec![Seen::Untouched; world.graph.len()],
        attempts: vec![0; world.graph.len()],
        remaining: world.graph.remaining(|_| 1),
        stopped: false,
    };
    for (ix, step) in steps.iter().enumerate() {
        let next = steps.get(ix + 1);
        prop_assert!(next.is_none_or(|it| step.at <= it.at), "time goes on");
        match step.command {
            Command::Start { task, attempt } => watch.start(step.at, task, attempt)?,
            Command::Ahead { task } => watch.go_ahead(task)?,
            Command::Delay {
                task,
                failures,
                floor,
            } => {
                let wait = step.wait.expect("a delay has a wait");
                watch.delay(task, failures, floor, wait)?;
                watch.seen[task.at()] = Seen::Delayed(step.at + wait);
            }
            Command::Drop { task } => {
                let seen = watch.seen[task.at()];
                watch.seen[task.at()] = match seen {
                    Seen::Running | Seen::Delayed(_) => Seen::Dropped,
                    // As if no attempt had been made.
                    Seen::Ahead => Seen::Untouched,
                    _ => return Err(TestCaseError::fail(format!("{seen:?} is dropped"))),
                };
            }
            Command::Settle { task, end } => watch.settle(step.at, task, end)?,
        }
        let is_running = |it: &&Seen| matches!(it, Seen::Running | Seen::Ahead);
        let running = watch.seen.iter().filter(is_running).count();
        let slots = world.policy.concurrency as usize;
        prop_assert!(running <= slots, "slots have a limit");
        if next.is_none_or(|it| it.at > step.at) {
            prop_assert!(
                running == slots || !watch.fresh().any(|_| true),
                "no slot is empty in vain"
            );
        }
    }
    for (task, seen) in world.graph.tasks().zip(&watch.seen) {
        let Seen::Ended(end) = seen else {
            return Err(TestCaseError::fail(format!("{task:?} does not end")));
        };
        watch.check_end(task, *end)?;
    }
    Ok(())
}

impl Watch<'_> {
    /// What could start its first attempt.
    fn fresh(&self) -> impl Iterator<Item = TaskIx> {
        let is_fresh =
            |it: &TaskIx| self.seen[it.at()] == Seen::Untouched && self.needs_are_met(*it);
        self.world.graph.tasks().filter(is_fresh)
    }

    fn needs_are_met(&self, task: TaskIx) -> bool {
        let needs = self.world.graph.needs(task);
        needs
            .iter()
            .all(|it| self.seen[it.at()] == Seen::Ended(End::Completed))
    }

    fn start(&mut self, at: Duration, task: TaskIx, attempt: u32) -> Result<(), TestCaseError> {
        prop_assert!(
            self.needs_are_met(task),
            "a task starts when all it needs is completed"
        );
        prop_assert!(!self.stopped, "nothing starts after a stop");
        match self.seen[task.at()] {
            Seen::Untouched => (),
            Seen::Delayed(until) => prop_assert!(at >= until, "a retry waits until it is due"),
            seen => prop_assert!(false, "{:?} starts", seen),
        }
        let urgency = |it: TaskIx| (self.remaining[it.at()], Reverse(it));
        let first = self.fresh().all(|it| urgency(it) <= urgency(task));
        prop_assert!(
            first,
            "the longest chain goes first, then declaration order"
        );
        self.attempts[task.at()] += 1;
        prop_assert_eq!(attempt, self.attempts[task.at()], "attempts count from one");
        prop_assert!(
            attempt <= self.world.policy.retry_limit + 1,
            "retries have a limit"
        );
        self.seen[task.at()] = Seen::Running;
        Ok(())
    }

    fn go_ahead(&mut self, task: TaskIx) -> Result<(), TestCaseError> {
        let graph = &self.world.graph;
        for need in graph.needs(task) {
            let seen = self.seen[need.at()];
            let is_met = match graph.stream(task) == Some(*need) {
                true => matches!(seen, Seen::Running | Seen::Ahead),
                false => seen == Seen::Ended(End::Completed),
            };
            prop_assert!(is_met, "{task:?} goes ahead while {need:?} is {seen:?}");
        }
        prop_assert!(graph.stream(task).is_some() && !self.stopped);
        prop_assert_eq!(self.seen[task.at()], Seen::Untouched);
        prop_assert!(self.fresh().next().is_none(), "what may start goes first");
        self.seen[task.at()] = Seen::Ahead;
        Ok(())
    }

    fn delay(
        &self,
        task: TaskIx,
        failures: u32,
        floor: Duration,
        wait: Duration,
    ) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.seen[task.at()], Seen::Running);
        prop_assert_eq!(
            failures,
            self.attempts[task.at()],
            "each attempt so far failed"
        );
        let asked = match self.world.attempt(task, failures).rejected {
            Some(Retry::Backoff) => Some(Duration::ZERO),
            Some(Retry::NotBefore(floor)) => Some(floor),
            Some(Retry::Never) | None => None,
        };
        prop_assert_eq!(Some(floor), asked);
        let backoff = self.world.policy.backoff;
        let span = backoff.span(failures);
        match backoff.jitter {
            Jitter::None => prop_assert_eq!(wait, span.max(floor)),
            Jitter::Full => prop_assert!(floor <= wait && wait <= floor + span),
        }
        Ok(())
    }

    fn settle(&mut self, at: Duration, task: TaskIx, end: End) -> Result<(), TestCaseError> {
        let allowed = match (self.seen[task.at()], end) {
            (Seen::Running, End::Completed | End::Failed) => true,
            (Seen::Ahead, End::Completed) => self.needs_are_met(task),
            (Seen::Untouched, End::Cancelled(_)) => true,
            (_, End::Cancelled(Cause::NeedsFailed(_))) => false,
            (Seen::Dropped, End::Cancelled(_)) => true,
            // Its wait is over, and it is waiting for a slot.
            (Seen::Delayed(until), End::Cancelled(_)) => until <= at,
            _ => false,
        };
        prop_assert!(allowed, "{:?} ends as {:?}", self.seen[task.at()], end);
        if self.seen[task.at()] == Seen::Ahead {
            self.attempts[task.at()] = 1;
        }
        self.seen[task.at()] = Seen::Ended(end);
        self.stopped |= match end {
            End::Completed | End::Cancelled(Cause::NeedsFailed(_)) => false,
            End::Failed => self.world.policy.on_failure == OnFailure::Stop,
            End::Cancelled(_) => true,
        };
        Ok(())
    }

    /// Checks an end against the ends of all others.
    fn check_end(&self, task: TaskIx, end: End) -> Result<(), TestCaseError> {
        let World { graph, policy, .. } = self.world;
        let attempts = self.attempts[task.at()];
        let failed = |it: TaskIx| self.seen[it.at()] == Seen::Ended(End::Failed);
        let outcome = || self.world.attempt(task, attempts).rejected;
        match end {
            End::Completed => prop_assert_eq!(outcome(), None),
            End::Failed if attempts > policy.retry_limit => prop_assert_ne!(outcome(), None),
            End::Failed => prop_assert_eq!(outcome(), Some(Retry::Never)),
            End::Cancelled(Cause::NeedsFailed(of)) => {
                prop_assert!(failed(of) && policy.on_failure == OnFailure::Continue);
                prop_assert!(attempts == 0, "what needs a failed task never starts");
                let because = |it: &TaskIx| {
                    let end = End::Cancelled(Cause::NeedsFailed(of));
                    *it == of || self.seen[it.at()] == Seen::Ended(end)
                };
                prop_assert!(graph.needs(task).iter().any(because));
            }
            End::Cancelled(Cause::BatchStopped(of)) => {
                prop_assert!(failed(of) && policy.on_failure == OnFailure::Stop);
            }
            // No world has one: the driver tells of it.
            End::Cancelled(Cause::Budget | Cause::Withdrawn | Cause::NeedsWithdrawn(_)) => {
                prop_assert!(false);
            }
            End::Cancelled(Cause::Deadline) => prop_assert!(self.world.deadline.is_some()),
            End::Cancelled(Cause::Requested) => prop_assert!(self.world.cancel.is_some()),
        }
        Ok(())
    }
}
