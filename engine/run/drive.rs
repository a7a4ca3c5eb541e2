//! Performs one batch: turns the scheduler's commands into work, and how that ends into events.
//!
//! **Invariant:** the `select!` in [`drive`] is the only place where a batch waits. All that can happen to it is an
//! arm of it.
//! **Invariant:** nothing outlives a batch. Its attempts are in one [`JoinSet`], which is empty when `drive` returns.
//! **Invariant:** [`Work`] is called from `drive` alone, so what one call changed is there for the next.

use std::{
    any::Any,
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
    future::pending,
    pin::{Pin, pin},
    time::Duration,
};

use fastrand::Rng;
use tokio::{
    task::{AbortHandle, Id, JoinError, JoinSet},
    time::{Instant, Sleep, sleep_until},
};

use crate::{
    graph::{TaskGraph, TaskIx},
    schedule::{Backoff, Command, Event, Jitter, Policy, Retry, Scheduler},
};

/// What the tasks of a batch are, to somebody who knows only their order.
pub trait Work {
    /// What an attempt comes back with.
    type Answer: Send + 'static;

    /// Prepares an attempt, the first of which is number 1. All that takes time is in the future, which runs beside
    /// the others and is dropped at its next `await` if the batch stops. A timeout is its own business.
    fn attempt(
        &mut self,
        task: TaskIx,
        attempt: u32,
    ) -> impl Future<Output = Self::Answer> + Send + 'static;

    /// Judges how an attempt ended, and keeps what it accepts: what needs `task` is prepared after this.
    fn judge(&mut self, task: TaskIx, attempt: u32, answer: Ended<Self::Answer>) -> Verdict;

    /// Sees each command before it has any effect, and with a [`Command::Delay`] the wait that was chosen for it.
    fn observe(&mut self, command: &Command, wait: Option<Duration>);
}

/// How an attempt that was not dropped came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended<A> {
    Answered(A),
    /// With the message of the panic.
    Panicked(String),
}

/// What an attempt was worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Accepted,
    Rejected(Retry),
}

/// A batch as the driver knows it.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    pub graph: &'a TaskGraph,
    pub policy: &'a Policy,
    pub limits: Limits,
}

/// What is decided outside the scheduler, which has neither clock nor chance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long the whole batch may take.
    pub deadline: Option<Duration>,
    /// What [`Jitter::Full`] draws from. Batches with the same seed and the same failures wait the same.
    pub seed: u64,
}

/// Runs a batch to its end, or until `cancel` completes. No attempt is under way any more when it returns.
pub async fn drive<W: Work>(batch: Batch<'_>, work: &mut W, cancel: impl Future<Output = ()>) {
    let mut scheduler = Scheduler::new(batch.graph, batch.policy);
    let mut attempts = Attempts::new(batch.graph);
    let mut agenda = Agenda::new(batch.limits.deadline);
    let mut rng = Rng::with_seed(batch.limits.seed);
    let mut cancel = pin!(cancel);
    let mut commands = Vec::new();
    let mut event = Event::Begun;
    loop {
        scheduler.step_into(event, &mut commands);
        for command in commands.drain(..) {
            let wait = choose_wait(&command, &batch.policy.backoff, &mut rng);
            work.observe(&command, wait);
            match command {
                Command::Start {
                    task,
                    attempt: number,
                } => attempts.start(Attempt { task, number }, work.attempt(task, number)),
                Command::Delay { task, .. } => {
                    agenda.add(wait.unwrap_or_default(), Due::Retry(task));
                }
                Command::Drop { task } => attempts.abort(task),
                Command::Settle { .. } => (),
            }
        }
        if scheduler.is_finished() {
            break;
        }
        // In this order, so that answers without end cannot hold up a stop. A stop ends the batch, so that neither
        // `cancel` nor the deadline is waited for again.
        event = tokio::select! {
            biased;
            () = &mut cancel => Event::CancelRequested,
            due = agenda.next() => match due {
                Due::Deadline => Event::DeadlinePassed,
                Due::Retry(task) => Event::RetryDue { task },
            },
            (Attempt { task, number }, answer) = attempts.next() => {
                match work.judge(task, number, answer) {
                    Verdict::Accepted => Event::Accepted { task },
                    Verdict::Rejected(retry) => Event::Rejected { task, retry },
                }
            }
        };
    }
    attempts.shutdown().await;
}

/// For a [`Command::Delay`], how long to wait.
fn choose_wait(command: &Command, backoff: &Backoff, rng: &mut Rng) -> Option<Duration> {
    let Command::Delay {
        failures, floor, ..
    } = *command
    else {
        return None;
    };
    let span = backoff.span(failures);
    Some(match backoff.jitter {
        Jitter::None => span.max(floor),
        Jitter::Full => {
            let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
            floor.saturating_add(Duration::from_nanos(rng.u64(..=nanos)))
        }
    })
}

#[derive(Debug, Clone, Copy)]
struct Attempt {
    task: TaskIx,
    number: u32,
}

/// An attempt's work, which is not under way yet.
type Prepared<A> = Pin<Box<dyn Future<Output = A> + Send>>;

/// The attempts under way.
///
/// They are launched in bursts: a start for each answer would wake a thread for each, which costs far more than all
/// else that is done for a task.
struct Attempts<A> {
    set: JoinSet<A>,
    /// What is launched before anything is waited for, and before there are more than [`BURST`].
    prepared: Vec<(Attempt, Prepared<A>)>,
    /// Whose answer is waited for. An answer of any other comes late.
    awaited: HashMap<Id, Attempt>,
    /// For each task, what aborts the attempt under way on it.
    handles: Vec<Option<AbortHandle>>,
}

/// How many attempts are launched at once, and so how many answers may be judged before any of them is.
const BURST: usize = 32;

impl<A: Send + 'static> Attempts<A> {
    fn new(graph: &TaskGraph) -> Attempts<A> {
        Attempts {
            set: JoinSet::new(),
            prepared: Vec::new(),
            awaited: HashMap::new(),
            handles: vec![None; graph.len()],
        }
    }

    fn start(&mut self, attempt: Attempt, work: impl Future<Output = A> + Send + 'static) {
        self.prepared.push((attempt, Box::pin(work)));
        if self.prepared.len() >= BURST {
            self.launch();
        }
    }

    fn launch(&mut self) {
        for (attempt, work) in self.prepared.drain(..) {
            let handle = self.set.spawn(work);
            self.awaited.insert(handle.id(), attempt);
            self.handles[attempt.task.at()] = Some(handle);
        }
    }

    fn abort(&mut self, task: TaskIx) {
        self.launch();
        if let Some(handle) = self.handles[task.at()].take() {
            self.awaited.remove(&handle.id());
            handle.abort();
        }
    }

    /// Waits for the next attempt to end that was not aborted. Nothing is lost if the wait is given up.
    async fn next(&mut self) -> (Attempt, Ended<A>) {
        loop {
            let mut joined = self.set.try_join_next_with_id();
            if joined.is_none() {
                self.launch();
                joined = self.set.join_next_with_id().await;
            }
            let (id, answer) = match joined {
                Some(Ok((id, answer))) => (id, Ended::Answered(answer)),
                Some(Err(error)) => (error.id(), Ended::Panicked(describe(error))),
                None => pending().await,
            };
            if let Some(attempt) = self.awaited.remove(&id) {
                self.handles[attempt.task.at()] = None;
                return (attempt, answer);
            }
        }
    }

    /// Aborts what is left, and waits until all of it is gone.
    async fn shutdown(mut self) {
        self.set.shutdown().await;
    }
}

/// What a panic said.
fn describe(error: JoinError) -> String {
    let payload: Box<dyn Any + Send> = match error.try_into_panic() {
        Ok(payload) => payload,
        Err(aborted) => return aborted.to_string(),
    };
    match payload.downcast::<String>() {
        Ok(message) => *message,
        Err(payload) => match payload.downcast::<&'static str>() {
            Ok(message) => (*message).to_owned(),
            Err(_) => "a panic without a message".to_owned(),
        },
    }
}

/// What an agenda says is to happen. Of two things at the same time, the first of these comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Deadline,
    Retry(TaskIx),
}

/// What is to happen when. One timer serves all of it; what was dropped stays, and comes late.
struct Agenda {
    entries: BinaryHeap<Reverse<(Instant, Due)>>,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Agenda {
    fn new(deadline: Option<Duration>) -> Agenda {
        let mut agenda = Agenda {
            entries: BinaryHeap::new(),
            alarm: None,
        };
        if let Some(deadline) = deadline {
            agenda.add(deadline, Due::Deadline);
        }
        agenda
    }

    fn add(&mut self, wait: Duration, due: Due) {
        /// Some thirty years: as good as never, and no clock overflows.
        const NEVER: Duration = Duration::from_secs(1 << 30);
        let at = Instant::now() + wait.min(NEVER);
        self.entries.push(Reverse((at, due)));
    }

    /// Waits for the next entry to be due. Nothing is lost if the wait is given up.
    async fn next(&mut self) -> Due {
        let Some(&Reverse((at, due))) = self.entries.peek() else {
            return pending().await;
        };
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if alarm.deadline() != at {
            alarm.as_mut().reset(at);
        }
        alarm.await;
        self.entries.pop();
        due
    }
}

#[cfg(test)]
mod tests;
