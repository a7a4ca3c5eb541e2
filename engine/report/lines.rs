//! Plain lines, one for each thing that happened.

use std::{io::Write, time::Duration};

use super::{Clock, Listener, count, inert};
use crate::{
    agent::Usage,
    event::{RunEvent, TaskEnd},
    run::FailedTool,
};

/// The most lines of a plan's faults that are shown. The planner gets all of them.
const REPORT_LINES: usize = 80;

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// How the run ended, unless it ended well.
    Quiet,
    /// What was decided and how each task ended.
    Normal,
    /// That something began, as well.
    Verbose,
}

/// Writes lines as things happen.
pub struct Lines {
    level: Level,
    out: Box<dyn Write + Send>,
    clock: Clock,
}

impl Lines {
    pub fn new(level: Level, out: Box<dyn Write + Send>, clock: Clock) -> Lines {
        Lines { level, out, clock }
    }
}

impl Listener for Lines {
    fn hear(&mut self, event: &RunEvent) {
        if let Some(line) = line(event, (self.clock)(), self.level) {
            // A person who closed the terminal is no reason to stop.
            let _ = writeln!(self.out, "{line}");
        }
    }
}

/// The line that tells of an event so long after the beginning, if it is worth one at this level.
/// A refused plan has more lines than one: its faults follow, indented.
pub fn line(event: &RunEvent, elapsed: Duration, level: Level) -> Option<String> {
    let (least, label, text) = match event {
        // How many wait at every moment is nothing that is worth keeping.
        RunEvent::Waiting { .. } => None,
        RunEvent::RunStarted { .. }
        | RunEvent::TurnStarted { .. }
        | RunEvent::TurnRejected { .. }
        | RunEvent::TurnEnded { .. }
        | RunEvent::HeldUp { .. }
        | RunEvent::Warning { .. }
        | RunEvent::RunEnded { .. } => of_run(event),
        RunEvent::PlanRejected { .. }
        | RunEvent::PlanAccepted { .. }
        | RunEvent::BatchUnchanged { .. }
        | RunEvent::BatchStarted { .. }
        | RunEvent::BatchRecalled { .. }
        | RunEvent::BatchEnded { .. } => of_batch(event),
        RunEvent::TaskStarted { .. }
        | RunEvent::ToolCalled { .. }
        | RunEvent::ToolRan { .. }
        | RunEvent::AttemptRejected { .. }
        | RunEvent::TaskEnded { .. } => of_task(event),
    }?;
    let stamp = elapsed.as_secs_f64();
    (level >= least).then(|| format!("[{stamp:>5.1}s] {label:<9} {text}"))
}

/// The level from which on it is said, what kind of thing it is, and the rest of the line.
type Said = Option<(Level, &'static str, String)>;

fn of_run(event: &RunEvent) -> Said {
    Some(match event {
        RunEvent::RunStarted { run, workflow } => {
            let text = format!("{} of {}", inert(run), inert(workflow));
            (Level::Normal, "run", text)
        }
        RunEvent::TurnStarted {
            turn,
            agent,
            recalled,
        } => {
            let recalled = if *recalled { ", as recorded" } else { "" };
            let text = format!("{turn}: {}{recalled}", inert(agent));
            (Level::Normal, "turn", text)
        }
        RunEvent::TurnRejected {
            agent,
            attempt,
            failure,
            message,
            retry_in_ms,
            ..
        } => {
            let (label, next) = retry(*attempt, *retry_in_ms);
            let why = format!("attempt {attempt}: {failure}: {}", inert(message));
            (
                Level::Normal,
                label,
                format!("{} {why}{next}", inert(agent)),
            )
        }
        RunEvent::TurnEnded {
            turn, agent, usage, ..
        } => {
            let text = format!("{turn}: {} is done{}", inert(agent), tokens(*usage));
            (Level::Verbose, "turn", text)
        }
        RunEvent::HeldUp {
            provider,
            limit,
            waiting,
            for_ms,
        } => (
            Level::Normal,
            "paused",
            held_up(provider, *limit, *waiting, *for_ms),
        ),
        RunEvent::Warning { message } => (Level::Normal, "warning", inert(message)),
        RunEvent::RunEnded {
            status,
            reason,
            turns,
            usage,
        } => {
            let reason = reason.as_deref().map(|it| format!(": {}", inert(it)));
            let turns = count(*turns as usize, "turn");
            let reason = reason.unwrap_or_default();
            let text = format!("{status}{reason} ({turns}{})", tokens(*usage));
            let least = match *status {
                "completed" => Level::Normal,
                _ => Level::Quiet,
            };
            (least, "run", text)
        }
        _ => return None,
    })
}

/// Why calls wait, and for how long.
pub(super) fn held_up(
    provider: &str,
    limit: Option<&str>,
    waiting: usize,
    for_ms: Option<u64>,
) -> String {
    let (provider, calls) = (inert(provider), count(waiting, "call"));
    let limit = limit.map(|it| format!(" (`{}`)", inert(it)));
    let limit = limit.unwrap_or_default();
    match for_ms {
        Some(ms) => {
            let seconds = ms as f64 / 1000.0;
            format!("{provider} is not asked for {seconds:.1}s{limit}, {calls} waiting")
        }
        None => format!("{provider} has no free slot{limit}, {calls} waiting"),
    }
}

fn of_batch(event: &RunEvent) -> Said {
    Some(match event {
        RunEvent::BatchRecalled {
            batch,
            completed,
            failed,
        } => {
            let failed = match failed {
                0 => String::new(),
                n => format!(", {n} failed"),
            };
            let text = format!("{}: {completed} completed before{failed}", inert(batch));
            (Level::Normal, "resumed", text)
        }
        RunEvent::PlanRejected {
            batch,
            faults,
            report,
            rounds_left,
        } => {
            let next = match rounds_left {
                0 => "nothing was started".to_owned(),
                n => format!(
                    "the planner is asked again, {} left",
                    count(*n as usize, "round")
                ),
            };
            let faults = count(*faults, "fault");
            let text = format!("{}: {faults}; {next}{}", inert(batch), indented(report));
            (Level::Normal, "refused", text)
        }
        RunEvent::PlanAccepted {
            batch,
            tasks,
            dependencies,
            critical_path,
        } => {
            let dependencies = match dependencies {
                1 => "1 dependency".to_owned(),
                n => format!("{n} dependencies"),
            };
            let text = format!(
                "{}: {}, {dependencies}, longest chain {critical_path}",
                inert(batch),
                count(*tasks, "task"),
            );
            (Level::Normal, "accepted", text)
        }
        RunEvent::BatchUnchanged { batch } => {
            let text = format!(
                "{}: the same tasks as before, the results stand",
                inert(batch)
            );
            (Level::Normal, "batch", text)
        }
        RunEvent::BatchStarted {
            batch,
            tasks,
            concurrency,
        } => {
            let tasks = count(*tasks, "task");
            let text = format!("{}: {tasks}, at most {concurrency} at once", inert(batch));
            (Level::Verbose, "batch", text)
        }
        RunEvent::BatchEnded {
            batch,
            status,
            completed,
            failed,
            cancelled,
        } => {
            let (how, cancelled_are) = match *status {
                "waiting" => ("waits for a person", "open"),
                "budget" => ("is stopped by its budget", "open"),
                "deadline" => ("is out of time", "open"),
                "cancelled" => ("is stopped", "open"),
                other => (other, "cancelled"),
            };
            let text = format!(
                "{} {how}: {completed} completed, {failed} failed, {cancelled} {cancelled_are}",
                inert(batch)
            );
            (Level::Normal, "batch", text)
        }
        _ => return None,
    })
}

fn of_task(event: &RunEvent) -> Said {
    Some(match event {
        RunEvent::TaskStarted {
            task,
            agent,
            attempt,
            ..
        } => {
            let attempt = match attempt {
                1 => String::new(),
                n => format!(", attempt {n}"),
            };
            let text = format!("{} ({}{attempt})", inert(task), inert(agent));
            (Level::Verbose, "started", text)
        }
        RunEvent::ToolCalled {
            task,
            agent,
            tool,
            ok,
            ms,
            printed,
            ..
        } => {
            let who = inert(task.as_ref().unwrap_or(agent));
            let went = if *ok { "" } else { ", failed" };
            let seconds = *ms as f64 / 1000.0;
            let text = format!("{} for {who}{went} ({seconds:.1}s)", inert(tool));
            (Level::Verbose, "called", text + &indented(printed))
        }
        RunEvent::ToolRan {
            agent,
            tool,
            ms,
            outcome,
            message,
            printed,
            ..
        } => {
            let least = match message {
                None => Level::Verbose,
                Some(_) => Level::Normal,
            };
            let went = ran(agent, tool, message.as_deref(), outcome.as_deref());
            let seconds = *ms as f64 / 1000.0;
            let text = format!("{went} ({seconds:.1}s){}", indented(printed));
            (least, "tool", text)
        }
        RunEvent::AttemptRejected {
            task,
            attempt,
            failure,
            message,
            retry_in_ms,
            ..
        } => {
            let (label, next) = retry(*attempt, *retry_in_ms);
            let why = format!("attempt {attempt}: {failure}: {}", inert(message));
            (Level::Normal, label, format!("{} {why}{next}", inert(task)))
        }
        RunEvent::TaskEnded {
            task,
            end,
            attempts,
            reused,
            files,
            ..
        } => {
            let (label, rest) = ended(end, *attempts, *files);
            let reused = reused.as_ref();
            let reused =
                reused.map_or_else(String::new, |run| format!(", as in run {}", inert(run)));
            (
                Level::Normal,
                label,
                format!("{}{rest}{reused}", inert(task)),
            )
        }
        _ => return None,
    })
}

/// How a call went that the run made by itself.
pub(super) fn ran(agent: &str, tool: &str, error: Option<&str>, outcome: Option<&str>) -> String {
    let whose = match agent {
        "" => String::new(),
        agent => format!(" of {}", inert(agent)),
    };
    let error = error.map(|it| format!(" failed: {}", inert(it)));
    let outcome = outcome.map(|it| format!(", outcome `{}`", inert(it)));
    let (error, outcome) = (error.unwrap_or_default(), outcome.unwrap_or_default());
    format!("{}{whose}{error}{outcome}", inert(tool))
}

/// A tool that failed, and what came of that, for the end of a run.
pub fn failed_tool(it: &FailedTool) -> String {
    let went = ran(&it.agent, &it.tool, Some(&it.message), Some(&it.outcome));
    format!("in turn {}, tool {went}", it.turn)
}

fn retry(attempt: u32, retry_in_ms: Option<u64>) -> (&'static str, String) {
    match retry_in_ms {
        Some(ms) => {
            let (next, seconds) = (attempt.saturating_add(1), ms as f64 / 1000.0);
            ("retried", format!("; attempt {next} in {seconds:.1}s"))
        }
        None => ("rejected", String::new()),
    }
}

fn ended(end: &TaskEnd, attempts: u32, files: usize) -> (&'static str, String) {
    let attempts = match attempts {
        0 | 1 => String::new(),
        n => format!(" after {n} attempts"),
    };
    match end {
        TaskEnd::Completed => {
            let files = match files {
                0 => String::new(),
                n => format!(", {}", count(n, "file")),
            };
            ("completed", format!("{attempts}{files}"))
        }
        TaskEnd::Failed { failure, message } => (
            "failed",
            format!("{attempts}: {failure}: {}", inert(message)),
        ),
        TaskEnd::Cancelled { because } => ("cancelled", format!(": {}", inert(because))),
    }
}

/// What is put before numbers that are an estimate, in part at least.
pub(super) fn about(usage: Usage) -> &'static str {
    mark(usage.estimated)
}

/// What providers took, where that is known.
pub(super) fn cu(usage: Usage) -> Option<String> {
    let amount = usage.cu?.amount();
    Some(format!("{}{amount} CU", mark(usage.cu_estimated)))
}

fn mark(is_estimated: bool) -> &'static str {
    match is_estimated {
        true => "~",
        false => "",
    }
}

/// What was used, where anything is known of it.
pub(super) fn tokens(usage: Usage) -> String {
    let Usage {
        input_tokens,
        output_tokens,
        cached_input_tokens,
        cost,
        ..
    } = usage;
    let about = about(usage);
    let mut text = match (input_tokens, output_tokens) {
        (0, 0) => String::new(),
        _ => format!(", {about}{input_tokens} tokens in, {about}{output_tokens} out"),
    };
    if cached_input_tokens > 0 {
        text.push_str(&format!(", {cached_input_tokens} cached"));
    }
    if let Some(cost) = cost {
        text.push_str(&format!(", cost {about}{}", cost.amount()));
    }
    if let Some(cu) = cu(usage) {
        text.push_str(&format!(", {cu}"));
    }
    text
}

/// A drawn report below its line, each of its lines inert, without the empty ones.
pub(super) fn indented(report: &str) -> String {
    let mut text = String::new();
    let mut lines = report.lines().filter(|it| !it.trim().is_empty());
    for line in lines.by_ref().take(REPORT_LINES) {
        text.push_str(format!("\n    {}", inert(line)).trim_end());
    }
    match lines.count() {
        0 => text,
        more => format!("{text}\n    ... and {}", count(more, "more line")),
    }
}

#[cfg(test)]
mod tests;
