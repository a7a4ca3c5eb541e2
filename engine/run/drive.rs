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
    mem,
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

    /// As [`Work::attempt`], for [`Command::Ahead`]: it is judged as attempt 0.
    fn ahead(&mut self, task: TaskIx) -> impl Future<Output = Self::Answer> + Send + 'static;

    /// What an earlier session of the batch saw, one after the other and in its order; then nothing.
    fn recall(&mut self) -> Result<Option<Recalled>, Broken>;

    /// Waits for word from attempts under way, or of them, and takes it in. Gives what it means for the scheduler: a
    /// task flows, or somebody cancelled it, which is durable already. Nothing is lost if the wait is given up.
    fn listen(&mut self) -> impl Future<Output = Option<Event>> {
        pending()
    }

    /// Judges how an attempt ended.
    fn judge(&mut self, task: TaskIx, attempt: u32, answer: Ended<Self::Answer>) -> Verdict;

    /// Makes durable, and then visible, what was judged since the last time. What needs it is prepared after this.
    fn commit(&mut self) -> Result<(), Broken>;

    /// Sees each command before it has any effect, and with a [`Command::Delay`] the wait that was chosen for it.
    fn observe(&mut self, command: &Command, wait: Option<Duration>);

    /// Writes down what was observed since the last commit. Attempts that were prepared get under way after this.
    ///
    /// # Errors
    /// As [`Work::commit`].
    fn flush(&mut self) -> Result<(), Broken>;
}

/// The world failed. Nothing of what was judged may be acted on, and the batch is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

/// How an attempt of an earlier session ended, or a task that was cancelled in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recalled {
    pub task: TaskIx,
    pub attempt: u32,
    pub verdict: Verdict,
    /// What is left of the wait for the next attempt, if it is known.
    pub wait: Option<Duration>,
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
    /// Somebody cancelled the task. No answer is judged so: it is recalled.
    Cancelled,
    /// It was not made: nothing more may be spent.
    Withheld,
    /// Nothing yet, and nothing in this session: the task stays as it is. When nothing else can happen, the batch stops.
    Open,
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
    /// How long attempts under way may go on when the batch is told to stop.
    pub grace: Duration,
    /// What [`Jitter::Full`] draws from. Batches with the same seed and the same failures wait the same.
    pub seed: u64,
}

/// How many answers are judged at most before they are committed together.
const GROUP: usize = 1024;

/// Runs a batch to its end, or until `cancel` completes. No attempt is under way any more when it returns.
pub async fn drive<W: Work>(batch: Batch<'_>, work: &mut W, cancel: impl Future<Output = ()>) {
    let mut drive = Drive {
        scheduler: Scheduler::new(batch.graph, batch.policy),
        attempts: Attempts::new(batch.graph),
        agenda: Agenda::new(batch.limits.deadline),
        rng: Rng::with_seed(batch.limits.seed),
        backoff: batch.policy.backoff,
        is_stopping: false,
        is_spent: false,
        is_open: false,
        commands: Vec::new(),
    };
    let mut cancel = pin!(cancel);
    let mut events = vec![match drive.recall(work) {
        Ok(()) => Event::Begun,
        Err(Broken) => Event::CancelRequested,
    }];
    loop {
        for event in events.drain(..) {
            drive.step(event, work);
        }
        if drive.scheduler.is_finished() {
            break;
        }
        if drive.is_open && drive.attempts.is_empty() && !drive.agenda.has_retry() {
            events.push(Event::CancelRequested);
            continue;
        }
        // What is known is written down before anything is waited for, and that an attempt may be under way before it is.
        if work.flush().is_err() {
            events.push(Event::CancelRequested);
            continue;
        }
        drive.attempts.launch();
        // In this order, so that answers without end cannot hold up a stop.
        tokio::select! {
            biased;
            () = &mut cancel, if !drive.is_stopping => {
                drive.is_stopping = true;
                drive.agenda.add(batch.limits.grace, Due::Stop);
                if batch.limits.grace.is_zero() {
                    events.push(Event::CancelRequested);
                }
            }
            due = drive.agenda.next() => match due {
                Due::Stop => events.push(Event::CancelRequested),
                Due::Deadline => events.push(Event::DeadlinePassed),
                Due::Retry(task) => events.push(Event::RetryDue { task }),
            },
            heard = work.listen() => {
                events.extend(heard);
                if work.flush().is_err() {
                    events = vec![Event::CancelRequested];
                }
            }
            ended = drive.attempts.next() => {
                let mut ended = Some(ended);
                while let Some((Attempt { task, number }, answer)) = ended.take() {
                    let verdict = work.judge(task, number, answer);
                    match verdict {
                        Verdict::Accepted => events.push(Event::Accepted { task }),
                        Verdict::Rejected(retry) => events.push(Event::Rejected { task, retry }),
                        Verdict::Cancelled => events.push(Event::TaskCancelled { task }),
                        Verdict::Withheld => drive.is_spent = true,
                        Verdict::Open => drive.is_open = true,
                    }
                    // What is accepted after a rejection may be too late: the rejection is acted on first.
                    if verdict == Verdict::Accepted && events.len() < GROUP {
                        ended = drive.attempts.try_next();
                    }
                }
                if work.commit().is_err() {
                    events = vec![Event::CancelRequested];
                }
            }
        }
        if drive.attempts.is_empty() {
            if drive.is_stopping {
                events.push(Event::CancelRequested);
            } else if drive.is_spent {
                events.push(Event::BudgetReached);
            }
        }
    }
    drive.attempts.shutdown().await;
    // Where it fails, the work knows.
    let _ = work.flush();
}

/// The parts of a batch under way.
struct Drive<'a, A> {
    scheduler: Scheduler<'a>,
    attempts: Attempts<A>,
    agenda: Agenda,
    rng: Rng,
    backoff: Backoff,
    /// Somebody told it to stop. Nothing is started any more.
    is_stopping: bool,
    /// Nothing more may be spent. What is under way comes to its end, and nothing is started any more.
    is_spent: bool,
    /// A task stays as it is in this session.
    is_open: bool,
    commands: Vec<Command>,
}

impl<A: Send + 'static> Drive<'_, A> {
    /// Brings the scheduler to where an earlier session left it.
    fn recall(&mut self, work: &mut impl Work<Answer = A>) -> Result<(), Broken> {
        while let Some(recalled) = work.recall()? {
            let task = recalled.task;
            let event = match recalled.verdict {
                Verdict::Accepted => Event::Accepted { task },
                Verdict::Rejected(retry) => Event::Rejected { task, retry },
                Verdict::Cancelled => Event::TaskCancelled { task },
                Verdict::Withheld | Verdict::Open => continue,
            };
            let mut commands = mem::take(&mut self.commands);
            self.scheduler
                .recall(event, recalled.attempt, &mut commands);
            self.perform(&mut commands, recalled.wait, work);
            self.commands = commands;
        }
        Ok(())
    }

    fn step(&mut self, event: Event, work: &mut impl Work<Answer = A>) {
        let mut commands = mem::take(&mut self.commands);
        self.scheduler.step_into(event, &mut commands);
        self.perform(&mut commands, None, work);
        self.commands = commands;
    }

    /// Performs commands, with a wait that was chosen before.
    fn perform(
        &mut self,
        commands: &mut Vec<Command>,
        chosen: Option<Duration>,
        work: &mut impl Work<Answer = A>,
    ) {
        for command in commands.drain(..) {
            let is_closed = self.is_stopping || self.is_spent;
            if is_closed && matches!(command, Command::Start { .. } | Command::Ahead { .. }) {
                continue;
            }
            let wait = chosen
                .filter(|_| matches!(command, Command::Delay { .. }))
                .or_else(|| choose_wait(&command, &self.backoff, &mut self.rng));
            work.observe(&command, wait);
            match command {
                Command::Start {
                    task,
                    attempt: number,
                } => {
                    let attempt = Attempt { task, number };
                    self.attempts.start(attempt, work.attempt(task, number));
                }
                Command::Ahead { task } => {
                    let attempt = Attempt { task, number: 0 };
                    self.attempts.start(attempt, work.ahead(task));
                }
                Command::Delay { task, .. } => {
                    self.agenda.add(wait.unwrap_or_default(), Due::Retry(task));
                }
                Command::Drop { task } => self.attempts.abort(task),
                Command::Settle { .. } => (),
            }
        }
    }
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
    /// From 1; 0 for one that goes ahead.
    number: u32,
}

/// An attempt's work, which is not under way yet.
type Prepared<A> = Pin<Box<dyn Future<Output = A> + Send>>;

/// The attempts under way.
///
/// They are launched together: a start for each answer would wake a thread for each, which costs far more than all
/// else that is done for a task.
struct Attempts<A> {
    set: JoinSet<A>,
    /// What is launched before anything is waited for.
    prepared: Vec<(Attempt, Prepared<A>)>,
    /// Whose answer is waited for. An answer of any other comes late.
    awaited: HashMap<Id, Attempt>,
    /// For each task, what aborts the attempt under way on it.
    handles: Vec<Option<AbortHandle>>,
}

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

    /// Whether no attempt is under way.
    fn is_empty(&self) -> bool {
        self.awaited.is_empty() && self.prepared.is_empty()
    }

    /// Waits for the next attempt to end that was not aborted. Nothing is lost if the wait is given up.
    async fn next(&mut self) -> (Attempt, Ended<A>) {
        loop {
            if let Some(ended) = self.try_next() {
                return ended;
            }
            let joined = match self.set.join_next_with_id().await {
                Some(joined) => joined,
                None => pending().await,
            };
            if let Some(ended) = self.take(joined) {
                return ended;
            }
        }
    }

    /// An attempt that has ended already and was not aborted, if there is one.
    fn try_next(&mut self) -> Option<(Attempt, Ended<A>)> {
        while let Some(joined) = self.set.try_join_next_with_id() {
            let ended = self.take(joined);
            if ended.is_some() {
                return ended;
            }
        }
        None
    }

    fn take(&mut self, joined: Result<(Id, A), JoinError>) -> Option<(Attempt, Ended<A>)> {
        let (id, answer) = match joined {
            Ok((id, answer)) => (id, Ended::Answered(answer)),
            Err(error) => (error.id(), Ended::Panicked(describe(error))),
        };
        let attempt = self.awaited.remove(&id)?;
        self.handles[attempt.task.at()] = None;
        Some((attempt, answer))
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
    Stop,
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

    fn has_retry(&self) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|Reverse((_, due))| matches!(due, Due::Retry(_)))
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
