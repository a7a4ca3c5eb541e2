//! Plain lines, one for each thing that happened.

use std::time::Duration;

use super::inert;
use crate::event::{RunEvent, TaskEnd};

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Quiet,
    Normal,
    Verbose,
}

/// The line that tells of an event so long after the beginning, if it is worth one at this level.
pub fn line(event: &RunEvent, elapsed: Duration, level: Level) -> Option<String> {
    let verbose = |it: String| (level == Level::Verbose).then_some(it);
    let text = match event {
        _ if level == Level::Quiet => None,
        RunEvent::RunStarted { run, workflow } => Some(format!("run {run} of {workflow}")),
        RunEvent::TurnStarted { turn, agent } => Some(format!("turn {turn}   {}", inert(agent))),
        RunEvent::TurnRejected {
            agent,
            attempt,
            failure,
            message,
            retry_in_ms,
            ..
        } => {
            let what = format!(
                "{} attempt {attempt}: {failure}: {}",
                inert(agent),
                inert(message)
            );
            Some(again("rejected", &what, *retry_in_ms))
        }
        RunEvent::TurnEnded { turn, agent, .. } => {
            verbose(format!("turn {turn}   {} is done", inert(agent)))
        }
        RunEvent::PlanRejected {
            batch,
            faults,
            report,
            rounds_left,
        } => {
            let next = match rounds_left {
                0 => "nothing was started".to_owned(),
                n => format!("the planner is asked again ({n} more)"),
            };
            let report: Vec<String> = report
                .lines()
                .map(|it| format!("         {}", inert(it)))
                .collect();
            Some(format!(
                "plan refused  {}: {faults} faults; {next}\n{}",
                inert(batch),
                report.join("\n")
            ))
        }
        RunEvent::PlanAccepted {
            batch,
            tasks,
            dependencies,
            critical_path,
        } => Some(format!(
            "plan accepted {}: {tasks} tasks, {dependencies} dependencies, longest chain {critical_path}",
            inert(batch)
        )),
        RunEvent::BatchUnchanged { batch } => Some(format!(
            "batch {} has the same tasks as before: its results stand",
            inert(batch)
        )),
        RunEvent::BatchStarted {
            batch,
            tasks,
            concurrency,
        } => verbose(format!(
            "batch {} starts: {tasks} tasks, at most {concurrency} at once",
            inert(batch)
        )),
        RunEvent::TaskStarted {
            task,
            agent,
            attempt,
            ..
        } => verbose(format!(
            "started   {} ({}, attempt {attempt})",
            inert(task),
            inert(agent)
        )),
        RunEvent::AttemptRejected {
            task,
            attempt,
            failure,
            message,
            retry_in_ms,
            ..
        } => {
            let what = format!(
                "{} attempt {attempt}: {failure}: {}",
                inert(task),
                inert(message)
            );
            Some(again("rejected", &what, *retry_in_ms))
        }
        RunEvent::TaskEnded {
            task,
            end,
            attempts,
            files,
            ..
        } => Some(ended(&inert(task), end, *attempts, *files)),
        RunEvent::BatchEnded {
            batch,
            status,
            completed,
            failed,
            cancelled,
        } => Some(format!(
            "batch {} {status}: {completed} completed, {failed} failed, {cancelled} cancelled",
            inert(batch)
        )),
        RunEvent::Warning { message } => Some(format!("warning   {}", inert(message))),
        RunEvent::RunEnded { status, .. } => verbose(format!("run {status}")),
    };
    text.map(|it| format!("[{:>6.1}s] {it}", elapsed.as_secs_f64()))
}

fn again(word: &str, what: &str, retry_in_ms: Option<u64>) -> String {
    match retry_in_ms {
        Some(ms) => format!("{word}  {what}; again in {:.1}s", ms as f64 / 1000.0),
        None => format!("{word}  {what}"),
    }
}

fn ended(task: &str, end: &TaskEnd, attempts: u32, files: usize) -> String {
    let attempts = match attempts {
        0 | 1 => String::new(),
        n => format!(" after {n} attempts"),
    };
    let files = match files {
        0 => String::new(),
        1 => ", 1 file".to_owned(),
        n => format!(", {n} files"),
    };
    match end {
        TaskEnd::Completed => format!("completed {task}{attempts}{files}"),
        TaskEnd::Failed { failure, message } => {
            format!("failed    {task}{attempts}: {failure}: {}", inert(message))
        }
        TaskEnd::Cancelled { because } => format!("cancelled {task}: {}", inert(because)),
    }
}
