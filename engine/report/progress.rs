//! What is going on right now, redrawn at the foot of a terminal; what is worth keeping is printed above.
//!
//! **Invariant:** the drawing is a function of what was heard and of the clock, so it needs no terminal to be tested.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::{
    Clock, Listener, clip, count,
    lines::{self, Level},
};
use crate::event::{RunEvent, TaskEnd};

/// How many running tasks have a line of their own.
const ROWS: usize = 10;
/// How many characters of the bar there are.
const BAR: usize = 24;
/// How many characters there are for the names of a row, at least: in a narrower terminal only who was asked is left out.
const NAMES: usize = 24;
/// How often elapsed times are redrawn.
const TICK: Duration = Duration::from_millis(200);

/// Shows a run on a terminal.
pub struct Progress {
    level: Level,
    clock: Clock,
    screen: Arc<Mutex<Screen>>,
    curtain: Curtain,
}

/// Makes what is drawn on.
type Target = Arc<dyn Fn() -> ProgressDrawTarget + Send + Sync>;

/// Keeps the drawing off its target while somebody else writes there. What is to be kept is printed afterwards.
#[derive(Clone)]
pub struct Curtain {
    bar: ProgressBar,
    target: Target,
    /// Lines that came meanwhile, while it is closed.
    held: Arc<Mutex<Held>>,
}

type Held = Option<Vec<String>>;

/// A curtain that is closed, until this is dropped.
pub struct Closed<'a>(&'a Curtain);

impl Curtain {
    pub fn close(&self) -> Closed<'_> {
        *lock(&self.held) = Some(Vec::new());
        // What is drawn while it is closed is nothing.
        self.bar.suspend(|| ());
        self.bar.set_draw_target(ProgressDrawTarget::hidden());
        Closed(self)
    }

    fn print(&self, line: String) {
        if let Some(held) = &mut *lock(&self.held) {
            held.push(line);
            return;
        }
        // The lock has ended: the bar takes it when it draws.
        self.bar.println(line);
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        let Closed(curtain) = self;
        let held = lock(&curtain.held).take();
        curtain.bar.set_draw_target((curtain.target)());
        for line in held.unwrap_or_default() {
            curtain.bar.println(line);
        }
        curtain.bar.tick();
    }
}

/// What runs, and how far it got.
#[derive(Debug, Default)]
struct Screen {
    /// The oldest first.
    running: Vec<Row>,
    batch: Option<Tally>,
    /// How many calls wait for a provider, where any do.
    waiting: BTreeMap<Arc<str>, Queue>,
}

/// Calls that wait for a provider.
#[derive(Debug, Default)]
struct Queue {
    calls: usize,
    /// Until then none is made, as far as that was told.
    until: Duration,
}

/// An agent that was asked and has not answered.
#[derive(Debug)]
struct Row {
    /// The task; outside a batch, the turn.
    id: Arc<str>,
    /// Who was asked; for a plan that is made again, its batch.
    agent: Arc<str>,
    attempt: u32,
    since: Duration,
}

/// How far a batch got.
#[derive(Debug)]
struct Tally {
    batch: Arc<str>,
    tasks: usize,
    completed: usize,
    failed: usize,
    cancelled: usize,
    retried: usize,
}

impl Progress {
    /// Draws on the terminal behind standard error, five times a second.
    pub fn on_stderr(level: Level, clock: Clock) -> Progress {
        let target = Arc::new(ProgressDrawTarget::stderr);
        let width = || usize::from(Term::stderr().size().1);
        let progress = Progress::new(target, width, level, clock);
        progress.curtain.bar.enable_steady_tick(TICK);
        progress
    }

    /// Draws on a target of that width, whenever something is heard.
    pub fn new(
        target: Target,
        width: impl Fn() -> usize + Clone + Send + Sync + 'static,
        level: Level,
        clock: Clock,
    ) -> Progress {
        let screen = Arc::new(Mutex::new(Screen::default()));
        let (shown, now) = (Arc::clone(&screen), Arc::clone(&clock));
        let held = Arc::new(Mutex::new(Held::None));
        let is_closed = Arc::clone(&held);
        let draw = move |_: &ProgressState, out: &mut dyn Write| {
            if lock(&is_closed).is_some() {
                return;
            }
            let screen = lock(&shown);
            // There is nobody to tell that a line could not be drawn.
            let _ = out.write_str(&screen.draw(now(), width()));
        };
        let style = ProgressStyle::with_template("{screen}")
            .expect("the template is well-formed")
            .with_key("screen", draw);
        let bar = ProgressBar::with_draw_target(None, target()).with_style(style);
        Progress {
            level,
            clock,
            screen,
            curtain: Curtain { bar, target, held },
        }
    }

    /// What keeps it off the terminal for a while.
    pub fn curtain(&self) -> Curtain {
        self.curtain.clone()
    }
}

/// Nothing that is locked here is ever half written.
fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listener for Progress {
    fn hear(&mut self, event: &RunEvent) {
        let now = (self.clock)();
        // The lock ends before the bar draws, which takes it.
        lock(&self.screen).hear(event, now);
        let is_seen_below = matches!(
            event,
            RunEvent::TaskEnded {
                end: TaskEnd::Completed,
                ..
            }
        );
        match lines::line(event, now, self.level) {
            Some(line) if !is_seen_below || self.level == Level::Verbose => {
                self.curtain.print(line)
            }
            _ => (),
        }
        match event {
            RunEvent::RunEnded { .. } => self.curtain.bar.finish_and_clear(),
            _ => self.curtain.bar.tick(),
        }
    }
}

impl Screen {
    fn hear(&mut self, event: &RunEvent, now: Duration) {
        match event {
            RunEvent::TurnStarted { turn, agent, .. } => {
                let id = format!("turn {turn}").into();
                self.start(id, agent, 1, now);
            }
            RunEvent::TurnRejected {
                agent,
                attempt,
                retry_in_ms: Some(_),
                ..
            } => {
                if let Some(row) = self.running.iter_mut().find(|it| it.agent == *agent) {
                    row.attempt = attempt.saturating_add(1);
                }
            }
            RunEvent::TurnEnded { .. } | RunEvent::PlanAccepted { .. } => self.running.clear(),
            RunEvent::PlanRejected {
                batch, rounds_left, ..
            } => {
                self.running.clear();
                if *rounds_left > 0 {
                    self.start("plan again".into(), batch, 1, now);
                }
            }
            RunEvent::BatchStarted { batch, tasks, .. } => {
                self.batch = Some(Tally::new(batch, *tasks));
            }
            RunEvent::BatchRecalled {
                completed, failed, ..
            } => {
                if let Some(tally) = &mut self.batch {
                    tally.completed = *completed;
                    tally.failed = *failed;
                }
            }
            RunEvent::TaskStarted {
                task,
                agent,
                attempt,
                ..
            } => self.start(Arc::clone(task), agent, *attempt, now),
            RunEvent::AttemptRejected {
                task, retry_in_ms, ..
            } => {
                self.running.retain(|it| it.id != *task);
                if let (Some(tally), Some(_)) = (&mut self.batch, retry_in_ms) {
                    tally.retried += 1;
                }
            }
            RunEvent::TaskEnded { task, end, .. } => {
                self.running.retain(|it| it.id != *task);
                if let Some(tally) = &mut self.batch {
                    tally.add(end);
                }
            }
            RunEvent::Waiting {
                provider, waiting, ..
            } => {
                self.waiting.entry(Arc::clone(provider)).or_default().calls = *waiting;
                self.waiting.retain(|_, it| it.calls > 0);
            }
            RunEvent::HeldUp {
                provider, for_ms, ..
            } => {
                if let Some(queue) = self.waiting.get_mut(provider) {
                    queue.until = now + Duration::from_millis(for_ms.unwrap_or_default());
                }
            }
            RunEvent::BatchEnded { .. } | RunEvent::RunEnded { .. } => *self = Screen::default(),
            RunEvent::RunStarted { .. }
            | RunEvent::TurnRejected { .. }
            | RunEvent::ToolCalled { .. }
            | RunEvent::ToolRan { .. }
            | RunEvent::BatchUnchanged { .. }
            | RunEvent::Warning { .. } => (),
        }
    }

    fn start(&mut self, id: Arc<str>, agent: &Arc<str>, attempt: u32, since: Duration) {
        // One that went ahead in vain starts again without having ended.
        self.running.retain(|it| it.id != id);
        self.running.push(Row {
            id,
            agent: Arc::clone(agent),
            attempt,
            since,
        });
    }

    /// A line for each of those that run longest, how many more there are, and the bar. No line at all when nothing runs.
    /// None is wider than the terminal.
    fn draw(&self, now: Duration, width: usize) -> String {
        let fitting = |line: String| console::truncate_str(&line, width, "…").into_owned();
        let lines = self.lines(now, width).into_iter().map(fitting);
        lines.collect::<Vec<_>>().join("\n")
    }

    fn lines(&self, now: Duration, terminal: usize) -> Vec<String> {
        let shown = self.running.iter().take(ROWS);
        // What is left beside the spaces and the time.
        let is_again = self.running.iter().any(|it| it.attempt > 1);
        let room = terminal.saturating_sub(if is_again { 23 } else { 11 });
        let (id, agent) = match room >= NAMES {
            true => (36.min(room * 3 / 5), 24.min(room * 2 / 5)),
            false => (room.max(8), 0),
        };
        let cells: Vec<[String; 2]> = shown
            .clone()
            .map(|it| {
                let agent = match agent {
                    0 => String::new(),
                    room => clip(&it.agent, room),
                };
                [clip(&it.id, id), agent]
            })
            .collect();
        let width = |at: usize| {
            let lengths = cells.iter().map(|it: &[String; 2]| it[at].chars().count());
            lengths.max().unwrap_or(0)
        };
        let (id_width, agent_width) = (width(0), width(1));
        let mut lines: Vec<String> = shown
            .zip(&cells)
            .map(|(row, [id, agent])| {
                let elapsed = now.saturating_sub(row.since).as_secs();
                let attempt = match row.attempt {
                    1 => String::new(),
                    n => format!("  attempt {n}"),
                };
                let agent = match agent_width {
                    0 => String::new(),
                    _ => format!("  {agent:<agent_width$}"),
                };
                format!("  {id:<id_width$}{agent}  {elapsed:>4}s{attempt}")
            })
            .collect();
        if let more @ 1.. = self.running.len().saturating_sub(ROWS) {
            lines.push(format!("  and {more} more"));
        }
        for (provider, queue) in &self.waiting {
            let calls = count(queue.calls, "call");
            let left = match queue.until.saturating_sub(now).as_secs() {
                0 => String::new(),
                seconds => format!(", {seconds}s more"),
            };
            let provider = clip(provider, 36);
            lines.push(format!("  {calls} waiting for {provider}{left}"));
        }
        lines.extend(self.batch.as_ref().map(|it| it.draw(terminal)));
        lines
    }
}

impl Tally {
    fn new(batch: &Arc<str>, tasks: usize) -> Tally {
        Tally {
            batch: Arc::clone(batch),
            tasks,
            completed: 0,
            failed: 0,
            cancelled: 0,
            retried: 0,
        }
    }

    fn add(&mut self, end: &TaskEnd) {
        match end {
            TaskEnd::Completed => self.completed += 1,
            TaskEnd::Failed { .. } => self.failed += 1,
            TaskEnd::Cancelled { .. } => self.cancelled += 1,
        }
    }

    fn draw(&self, terminal: usize) -> String {
        let done = self.completed + self.failed + self.cancelled;
        let mut text = format!("{done}/{}", self.tasks);
        let notable = [
            (self.retried, "retried"),
            (self.failed, "failed"),
            (self.cancelled, "cancelled"),
        ];
        for (n, word) in notable.into_iter().filter(|(n, _)| *n > 0) {
            text.push_str(&format!(", {n} {word}"));
        }
        let batch = clip(&self.batch, 24.min(terminal / 3));
        let others = batch.chars().count() + text.chars().count() + 2;
        let bar = BAR.min(terminal.saturating_sub(others));
        let filled = (bar * done.min(self.tasks)) / self.tasks.max(1);
        let (full, empty) = ("█".repeat(filled), "░".repeat(bar - filled));
        format!("{batch} {full}{empty} {text}")
    }
}

#[cfg(test)]
mod tests;
