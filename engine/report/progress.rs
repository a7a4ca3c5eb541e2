//! What is going on right now, redrawn at the foot of a terminal; what is worth keeping is printed above.
//!
//! **Invariant:** the drawing is a function of what was heard and of the clock, so it needs no terminal to be tested.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

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
/// How often elapsed times are redrawn.
const TICK: Duration = Duration::from_millis(200);

/// Shows a run on a terminal.
pub struct Progress {
    level: Level,
    clock: Clock,
    screen: Arc<Mutex<Screen>>,
    bar: ProgressBar,
}

/// What runs, and how far it got.
#[derive(Debug, Default)]
struct Screen {
    /// The oldest first.
    running: Vec<Row>,
    batch: Option<Tally>,
    /// How many calls wait for a provider, where any do.
    waiting: BTreeMap<Arc<str>, usize>,
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
        let progress = Progress::new(ProgressDrawTarget::stderr(), level, clock);
        progress.bar.enable_steady_tick(TICK);
        progress
    }

    /// Draws on a target, whenever something is heard.
    pub fn new(target: ProgressDrawTarget, level: Level, clock: Clock) -> Progress {
        let screen = Arc::new(Mutex::new(Screen::default()));
        let (shown, now) = (Arc::clone(&screen), Arc::clone(&clock));
        let draw = move |_: &ProgressState, out: &mut dyn Write| {
            let screen = shown.lock().unwrap_or_else(PoisonError::into_inner);
            // There is nobody to tell that a line could not be drawn.
            let _ = out.write_str(&screen.draw(now()));
        };
        let style = ProgressStyle::with_template("{screen}")
            .expect("the template is well-formed")
            .with_key("screen", draw);
        let bar = ProgressBar::with_draw_target(None, target).with_style(style);
        Progress {
            level,
            clock,
            screen,
            bar,
        }
    }
}

impl Listener for Progress {
    fn hear(&mut self, event: &RunEvent) {
        let now = (self.clock)();
        // The lock ends before the bar draws, which takes it.
        self.screen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .hear(event, now);
        let is_seen_below = matches!(
            event,
            RunEvent::TaskEnded {
                end: TaskEnd::Completed,
                ..
            }
        );
        match lines::line(event, now, self.level) {
            Some(line) if !is_seen_below || self.level == Level::Verbose => self.bar.println(line),
            _ => (),
        }
        match event {
            RunEvent::RunEnded { .. } => self.bar.finish_and_clear(),
            _ => self.bar.tick(),
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
                self.waiting.insert(Arc::clone(provider), *waiting);
                self.waiting.retain(|_, it| *it > 0);
            }
            RunEvent::BatchEnded { .. } | RunEvent::RunEnded { .. } => *self = Screen::default(),
            RunEvent::RunStarted { .. }
            | RunEvent::TurnRejected { .. }
            | RunEvent::ToolCalled { .. }
            | RunEvent::BatchUnchanged { .. }
            | RunEvent::Warning { .. } => (),
        }
    }

    fn start(&mut self, id: Arc<str>, agent: &Arc<str>, attempt: u32, since: Duration) {
        self.running.push(Row {
            id,
            agent: Arc::clone(agent),
            attempt,
            since,
        });
    }

    /// A line for each of those that run longest, how many more there are, and the bar. No line at all when nothing runs.
    fn draw(&self, now: Duration) -> String {
        let shown = self.running.iter().take(ROWS);
        let cells: Vec<[String; 2]> = shown
            .clone()
            .map(|it| [clip(&it.id, 36), clip(&it.agent, 24)])
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
                format!("  {id:<id_width$}  {agent:<agent_width$}  {elapsed:>4}s{attempt}")
            })
            .collect();
        if let more @ 1.. = self.running.len().saturating_sub(ROWS) {
            lines.push(format!("  and {more} more"));
        }
        for (provider, waiting) in &self.waiting {
            let calls = count(*waiting, "call");
            lines.push(format!("  {calls} waiting for {}", clip(provider, 36)));
        }
        lines.extend(self.batch.as_ref().map(Tally::draw));
        lines.join("\n")
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

    fn draw(&self) -> String {
        let done = self.completed + self.failed + self.cancelled;
        let filled = (BAR * done.min(self.tasks)) / self.tasks.max(1);
        let (full, empty) = ("█".repeat(filled), "░".repeat(BAR - filled));
        let mut text = format!(
            "{} {full}{empty} {done}/{}",
            clip(&self.batch, 24),
            self.tasks
        );
        let notable = [
            (self.retried, "retried"),
            (self.failed, "failed"),
            (self.cancelled, "cancelled"),
        ];
        for (n, word) in notable.into_iter().filter(|(n, _)| *n > 0) {
            text.push_str(&format!(", {n} {word}"));
        }
        text
    }
}

#[cfg(test)]
mod tests;
