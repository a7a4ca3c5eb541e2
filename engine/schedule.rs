//! Decides what happens next in one batch.
//!
//! **Invariant:** the scheduler is a pure state machine: events in, commands out. It has no clock, IO, randomness or
//! payload, so the same events always lead to the same commands.
//! **Invariant:** a task ends exactly once. What is said of it afterwards changes nothing.
//! **Invariant:** a waiting retry holds no slot.
//! **Invariant:** that a task goes ahead changes when others start, and never how anything ends.
//!
//! A step costs what it changes (and a logarithm for the choice among what is ready), never a look at every task.

mod ahead;

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    mem,
    time::Duration,
};

use crate::graph::{TaskGraph, TaskIx};

/// What the scheduler is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The batch begins. Sent once, and first.
    Begun,
    /// The attempt under way on `task` ended in an output that was accepted.
    Accepted { task: TaskIx },
    /// The attempt under way on `task` ended in anything else.
    Rejected { task: TaskIx, retry: Retry },
    /// The wait that [`Command::Delay`] asked for is over.
    RetryDue { task: TaskIx },
    /// The first of what `task` may take in as it comes is there ([`TaskGraph::stream`]).
    Flows { task: TaskIx },
    /// Somebody cancelled `task`.
    TaskCancelled { task: TaskIx },
    /// The time for the whole batch is up.
    DeadlinePassed,
    /// Nothing more may be spent.
    BudgetReached,
    /// Somebody wants the batch to stop.
    CancelRequested,
}

/// Whether another attempt can help, and when. Asked only while the policy has attempts left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// It would fail again for certain: the task has failed.
    Never,
    /// After the delay of the policy.
    Backoff,
    /// As [`Retry::Backoff`], but after no less than this.
    NotBefore(Duration),
}

/// What the scheduler asks for. Commands are to be performed in the order they are given in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Make an attempt, the first of which is number 1, and answer with `Accepted` or `Rejected`.
    Start { task: TaskIx, attempt: u32 },
    /// Make an attempt on `task` with what there is of its stream, and what is still to come; and answer as to `Start`,
    /// but with `Accepted` only after that of the stream. Accepted, it was the first attempt; else it was none.
    Ahead { task: TaskIx },
    /// Wait for the [`Backoff`] of so many failures, no less than `floor`, and answer with `RetryDue`.
    Delay {
        task: TaskIx,
        failures: u32,
        floor: Duration,
    },
    /// Drop the attempt or the wait that is under way for `task`. Nothing is to be answered; a late answer is harmless,
    /// but for one of going ahead, which has to be kept away: the task may be attempted again.
    Drop { task: TaskIx },
    /// Take note that `task` has ended.
    Settle { task: TaskIx, end: End },
}

/// How a task ended. Nothing moves a task out of its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// An attempt was accepted.
    Completed,
    /// The last attempt was rejected, or one that ruled out any other.
    Failed,
    /// It was not to be attempted, or not any longer.
    Cancelled(Cause),
}

/// Why a task was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It needs, directly or not, this task, which failed.
    NeedsFailed(TaskIx),
    /// The batch stops at its first failure, which was this task's.
    BatchStopped(TaskIx),
    /// Somebody cancelled it.
    Withdrawn,
    /// It needs, directly or not, this task, which somebody cancelled.
    NeedsWithdrawn(TaskIx),
    /// The time for the whole batch was up.
    Deadline,
    /// Nothing more may be spent.
    Budget,
    /// Somebody wanted the batch to stop.
    Requested,
}

/// The limits a batch runs under ("Workflow Task Batches, *Execution*").
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// How many attempts may be under way at once. A batch that may make none would never end, so 0 counts as 1.
    pub concurrency: u32,
    /// How many attempts a task gets after its first.
    pub retry_limit: u32,
    pub backoff: Backoff,
    pub on_failure: OnFailure,
}

/// How long to wait before a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The span after the first failure. It doubles with each one more.
    pub initial: Duration,
    /// No span is longer.
    pub max: Duration,
    pub jitter: Jitter,
}

/// What a span of [`Backoff`] means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jitter {
    /// Any wait up to the span is as likely as any other, so that many who fail at once do not come back at once.
    Full,
    /// The span is the wait.
    None,
}

/// What a task's failure means for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// All that has not ended is cancelled: `fail_batch`.
    Stop,
    /// All that needs the failed task is cancelled, and the rest goes on: `continue_with_available` and
    /// `collect_errors`, which differ in what is published, not in what is run.
    Continue,
}

/// The state of one batch.
#[derive(Debug, Clone)]
pub struct Scheduler<'a> {
    graph: &'a TaskGraph,
    policy: &'a Policy,
    /// For each task, how many tasks the longest chain from it to the end has.
    remaining: Vec<u64>,
    states: Vec<State>,
    /// Invariant: the tasks in [`State::Ready`]. On top is the one with the longest chain to go, since the batch
    /// cannot end before that is done; of several, the one declared first.
    ready: BinaryHeap<(u64, Reverse<TaskIx>)>,
    /// The tasks that may go ahead, in the same order. Some may not any more.
    flowing: BinaryHeap<(u64, Reverse<TaskIx>)>,
    /// Invariant: how many tasks are in [`State::Running`] or [`State::Ahead`].
    running: u32,
    /// Invariant: how many tasks are not in [`State::Ended`].
    open: usize,
    /// Until then nothing is ready, and what earlier sessions saw can be recalled.
    has_begun: bool,
}

/// Where a task stands. Attempts are counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// So many of its needs are not completed. Whether its stream, which is one of them, has begun.
    Waiting {
        unmet: u32,
        flows: bool,
    },
    /// An attempt is under way while so many of its needs are not completed: its stream, or none any more.
    Ahead {
        unmet: u32,
    },
    /// It wants a slot for this attempt.
    Ready {
        attempt: u32,
    },
    /// This attempt is under way.
    Running {
        attempt: u32,
    },
    /// So many attempts failed, and the next one is not due.
    Delayed {
        failures: u32,
    },
    Ended,
}

impl Backoff {
    /// No wait at all.
    pub const NONE: Backoff = Backoff {
        initial: Duration::ZERO,
        max: Duration::ZERO,
        jitter: Jitter::None,
    };

    /// The span after so many failures, of which there is at least one: `initial * 2^(failures - 1)`, but no more
    /// than `max`.
    pub fn span(&self, failures: u32) -> Duration {
        // After 94 doublings even a nanosecond is more than a `Duration` holds.
        let doublings = failures.saturating_sub(1).min(94);
        (0..doublings)
            .fold(self.initial, |span, _| span.saturating_mul(2))
            .min(self.max)
    }
}

impl<'a> Scheduler<'a> {
    /// The state before [`Event::Begun`].
    pub fn new(graph: &'a TaskGraph, policy: &'a Policy) -> Scheduler<'a> {
        Scheduler {
            graph,
            policy,
            remaining: graph.remaining(|_| 1),
            states: graph
                .tasks()
                .map(|it| State::Waiting {
                    unmet: unmet(graph, it),
                    flows: false,
                })
                .collect(),
            ready: BinaryHeap::new(),
            flowing: BinaryHeap::new(),
            running: 0,
            open: graph.len(),
            has_begun: false,
        }
    }

    /// Whether every task has ended. True of an empty graph before anything happens.
    pub fn is_finished(&self) -> bool {
        self.open == 0
    }

    /// Takes in, before [`Event::Begun`], how an attempt ended that an earlier session saw: [`Event::Accepted`] or
    /// [`Event::Rejected`]; or that it saw [`Event::TaskCancelled`]. Of a task that has ended it changes nothing. A [`Command::Delay`] is to be answered as ever.
    ///
    /// Only what came of attempts is recalled, not who held which slot when: slots decide when, never what.
    pub fn recall(&mut self, event: Event, attempt: u32, commands: &mut Vec<Command>) {
        debug_assert!(!self.has_begun, "{event:?} is recalled too late");
        let task = match event {
            Event::Accepted { task } | Event::Rejected { task, .. } => task,
            Event::TaskCancelled { task } => return self.withdraw(task, commands),
            _ => return,
        };
        if self.states[task.at()] == State::Ended {
            return;
        }
        self.states[task.at()] = State::Running { attempt };
        self.running += 1;
        match event {
            Event::Rejected { retry, .. } => self.reject(task, retry, commands),
            _ => self.complete(task, commands),
        }
    }

    /// Takes in one event, and says what to do about it.
    pub fn step(&mut self, event: Event) -> Vec<Command> {
        let mut commands = Vec::new();
        self.step_into(event, &mut commands);
        commands
    }

    /// Takes in one event, and adds what to do about it to `commands`.
    pub fn step_into(&mut self, event: Event, commands: &mut Vec<Command>) {
        match event {
            Event::Begun => self.begin(),
            Event::Accepted { task } => self.complete(task, commands),
            Event::Rejected { task, retry } => self.reject(task, retry, commands),
            Event::RetryDue { task } => self.retry(task),
            Event::Flows { task } => self.flow(task),
            Event::TaskCancelled { task } => self.withdraw(task, commands),
            Event::DeadlinePassed => self.cancel_open(Cause::Deadline, commands),
            Event::BudgetReached => self.cancel_open(Cause::Budget, commands),
            Event::CancelRequested => self.cancel_open(Cause::Requested, commands),
        }
        self.fill_slots(commands);
        debug_assert!(self.graph.len() > 64 || self.is_consistent(), "{self:?}");
    }

    fn begin(&mut self) {
        self.has_begun = true;
        for task in self.graph.tasks() {
            if let State::Waiting { unmet: 0, .. } = self.states[task.at()] {
                self.make_ready(task, 1);
            }
        }
    }

    fn complete(&mut self, task: TaskIx, commands: &mut Vec<Command>) {
        let (State::Running { .. } | State::Ahead { unmet: 0 }) = self.states[task.at()] else {
            return;
        };
        self.running -= 1;
        self.settle(task, End::Completed, commands);
        for &next in self.graph.feeds(task) {
            match &mut self.states[next.at()] {
                State::Waiting { unmet, flows } => {
                    *unmet -= 1;
                    *flows &= self.graph.stream(next) != Some(task);
                    match *unmet {
                        0 if self.has_begun => self.make_ready(next, 1),
                        _ => self.offer(next),
                    }
                }
                State::Ahead { unmet } => *unmet -= 1,
                _ => (),
            }
        }
    }

    fn reject(&mut self, task: TaskIx, retry: Retry, commands: &mut Vec<Command>) {
        let failures = match self.states[task.at()] {
            State::Running { attempt } => attempt,
            State::Ahead { unmet } => return self.step_back(task, unmet, commands),
            _ => return,
        };
        self.running -= 1;
        self.recede(task, commands);
        let floor = match retry {
            Retry::Backoff => Some(Duration::ZERO),
            Retry::NotBefore(floor) => Some(floor),
            Retry::Never => None,
        };
        match floor.filter(|_| failures <= self.policy.retry_limit) {
            Some(floor) => {
                self.states[task.at()] = State::Delayed { failures };
                commands.push(Command::Delay {
                    task,
                    failures,
                    floor,
                });
            }
            None => self.fail(task, commands),
        }
    }

    fn fail(&mut self, task: TaskIx, commands: &mut Vec<Command>) {
        self.settle(task, End::Failed, commands);
        match self.policy.on_failure {
            OnFailure::Stop => self.cancel_open(Cause::BatchStopped(task), commands),
            OnFailure::Continue => self.cancel_after(task, Cause::NeedsFailed(task), commands),
        }
    }

    fn retry(&mut self, task: TaskIx) {
        if let State::Delayed { failures } = self.states[task.at()] {
            self.make_ready(task, failures.saturating_add(1));
        }
    }

    /// Cancels a task, and all that needs it. No failure of anybody's, it leaves the rest of the batch alone.
    fn withdraw(&mut self, task: TaskIx, commands: &mut Vec<Command>) {
        match self.states[task.at()] {
            State::Ended => return,
            State::Running { .. } | State::Ahead { .. } => {
                self.running -= 1;
                commands.push(Command::Drop { task });
                self.recede(task, commands);
            }
            State::Delayed { .. } => commands.push(Command::Drop { task }),
            State::Ready { .. } => self.ready.retain(|(_, Reverse(it))| *it != task),
            State::Waiting { .. } => (),
        }
        self.settle(task, End::Cancelled(Cause::Withdrawn), commands);
        self.cancel_after(task, Cause::NeedsWithdrawn(task), commands);
    }

    /// Cancels all that needs a task, breadth first. None of it is under way, so there is nothing to drop.
    fn cancel_after(&mut self, gone: TaskIx, cause: Cause, commands: &mut Vec<Command>) {
        let mut doomed: VecDeque<TaskIx> = self.graph.feeds(gone).iter().copied().collect();
        while let Some(task) = doomed.pop_front() {
            if let State::Waiting { .. } = self.states[task.at()] {
                self.settle(task, End::Cancelled(cause), commands);
                doomed.extend(self.graph.feeds(task));
            }
        }
    }

    fn cancel_open(&mut self, cause: Cause, commands: &mut Vec<Command>) {
        self.ready.clear();
        self.flowing.clear();
        self.running = 0;
        for task in self.graph.tasks() {
            match self.states[task.at()] {
                State::Ended => continue,
                State::Running { .. } | State::Ahead { .. } | State::Delayed { .. } => {
                    commands.push(Command::Drop { task });
                }
                State::Waiting { .. } | State::Ready { .. } => (),
            }
            self.settle(task, End::Cancelled(cause), commands);
        }
    }

    fn fill_slots(&mut self, commands: &mut Vec<Command>) {
        while self.running < self.policy.concurrency.max(1)
            && let Some((_, Reverse(task))) = self.ready.pop()
            && let State::Ready { attempt } = self.states[task.at()]
        {
            self.states[task.at()] = State::Running { attempt };
            self.running += 1;
            commands.push(Command::Start { task, attempt });
        }
        self.go_ahead(commands);
    }

    fn make_ready(&mut self, task: TaskIx, attempt: u32) {
        self.states[task.at()] = State::Ready { attempt };
        self.ready.push((self.remaining[task.at()], Reverse(task)));
    }

    fn settle(&mut self, task: TaskIx, end: End, commands: &mut Vec<Command>) {
        let before = mem::replace(&mut self.states[task.at()], State::Ended);
        debug_assert_ne!(before, State::Ended, "{task:?} ends twice");
        self.open -= 1;
        commands.push(Command::Settle { task, end });
    }

    /// Whether the invariants of the fields hold. Looks at every task, so it is asked of small graphs only.
    fn is_consistent(&self) -> bool {
        let count = |is: fn(&State) -> bool| self.states.iter().filter(|it| is(it)).count();
        let is_ready = |it: &TaskIx| matches!(self.states[it.at()], State::Ready { .. });
        let mut ready: Vec<TaskIx> = self.ready.iter().map(|(_, Reverse(it))| *it).collect();
        ready.sort();
        self.graph.tasks().filter(is_ready).eq(ready)
            && count(|it| matches!(it, State::Running { .. } | State::Ahead { .. }))
                == self.running as usize
            && count(|it| *it != State::Ended) == self.open
    }
}

fn unmet(graph: &TaskGraph, task: TaskIx) -> u32 {
    u32::try_from(graph.needs(task).len()).expect("no task needs more tasks than there are")
}

#[cfg(test)]
pub(crate) mod tests;
