//! A history for people.

use super::{
    Attempt, Batch, Called, Came, History, Listed, Prompt, Ran, Rejection, Task, Turn, share, time,
};
use crate::report::{
    NAME, clip, count, inert, join,
    lines::{self, tokens},
    table,
};

/// How many characters there are for the files of a task.
const FILES: usize = 60;

/// A run: its turns, and the tasks of its batches.
pub fn run(listed: &Listed, history: &History) -> String {
    let (id, workflow) = (inert(&listed.run.id), inert(&listed.run.workflow));
    let reason = history.reason.as_ref();
    let reason = reason.map_or_else(String::new, |it| format!(": {}", inert(it)));
    let status = inert(&listed.status);
    let started = time::utc(listed.run.started_at_ms);
    let took = listed.took_ms.map_or_else(|| "?".to_owned(), time::span);
    let sessions = match history.sessions.count() {
        0 | 1 => String::new(),
        n => format!(" in {n} sessions"),
    };
    let used = tokens(history.usage());
    let mut text = format!(
        "run {id} of {workflow}\nstatus   {status}{reason}\nstarted  {started} UTC, took {took}{sessions}{used}\n"
    );
    for it in &history.turns {
        text.push('\n');
        text.push_str(&turn(it));
    }
    text.push_str(&share::text(history));
    text
}

/// A task with all that is known of it.
pub fn task(turn: u32, batch: &Batch, task: &Task) -> String {
    let (id, agent) = (inert(&task.id), inert(&task.agent));
    let reason = task.reason();
    let reason = reason.map_or_else(String::new, |it| format!(": {}", inert(it)));
    let (status, used) = (task.status(), tokens(task.usage()));
    let took = task.took_ms();
    let took = took.map_or_else(String::new, |it| format!(", took {}", time::span(it)));
    let batch = inert(&batch.id);
    let mut text = format!(
        "task {id} of batch {batch} in turn {turn} ({agent})\nstatus   {status}{reason}{took}{used}\n\nplanned\n{}",
        whole(&format!("{:#}", task.planned))
    );
    for it in &task.attempts {
        text.push('\n');
        text.push_str(&attempt(it));
        text.push_str(&prompt(&it.prompt));
        it.calls.iter().for_each(|it| text.push_str(&called(it)));
    }
    if let Some(output) = task.output() {
        text.push_str("\noutput\n");
        text.push_str(&whole(&pretty(output)));
    }
    text
}

/// A turn with all that is known of it.
pub fn whole_turn(it: &Turn) -> String {
    let mut text = turn(it);
    for it in &it.prompts {
        text.push('\n');
        text.push_str(&prompt(it));
    }
    it.calls.iter().for_each(|it| text.push_str(&called(it)));
    if let Some(answer) = &it.answer {
        let came = came_by(&it.model, &it.read);
        text.push_str(&format!("\nanswer{came}\n"));
        text.push_str(&whole(&pretty(answer)));
    }
    it.ran.iter().for_each(|it| text.push_str(&ran(it)));
    text
}

/// A call, with what the model wrote and what it was told.
fn called(it: &Called) -> String {
    let went = if it.ok { "" } else { ", failed" };
    let took = time::span(i64::try_from(it.ms).unwrap_or(i64::MAX));
    let tool = inert(&it.tool);
    format!(
        "called {tool}{went}, took {took}\n{}{}{}",
        whole(&it.arguments),
        whole(&format!("-> {}", it.result)),
        printed(&it.printed)
    )
}

/// A call that the run made by itself.
fn ran(it: &Ran) -> String {
    let went = if it.ok { "" } else { " failed" };
    let outcome = it.outcome.as_deref();
    let outcome = outcome.map_or_else(String::new, |it| format!(", outcome `{}`", inert(it)));
    let took = time::span(i64::try_from(it.ms).unwrap_or(i64::MAX));
    format!(
        "\ntool {}{went}{outcome}, took {took}\n{}{}",
        inert(&it.tool),
        whole(&format!("-> {}", it.result)),
        printed(&it.printed)
    )
}

/// What a tool printed, where it did.
fn printed(text: &str) -> String {
    match text.trim() {
        "" => String::new(),
        text => {
            let lines = text
                .lines()
                .map(|it| format!("    {}", clip(it, usize::MAX)));
            let lines = lines.map(|it| it.trim_end().to_owned() + "\n");
            "  printed\n".to_owned() + &lines.collect::<String>()
        }
    }
}

/// What was told, where anything was.
fn prompt(it: &Prompt) -> String {
    let parts = [("system", &it.system), ("user", &it.user)];
    let parts = parts
        .iter()
        .filter_map(|(name, part)| Some(format!("{name}\n{}", whole(part.as_deref()?))));
    parts.collect()
}

fn turn(turn: &Turn) -> String {
    let agent = turn.agent.as_deref();
    let agent = agent.map_or_else(|| "a plan that was given".to_owned(), inert);
    let mut text = format!("turn {}: {agent}{}\n", turn.number, tokens(turn.usage));
    for it in &turn.rejections {
        text.push_str(&format!("  rejected  {}\n", rejection(it)));
    }
    for report in &turn.refusals {
        let faults = report.lines().filter(|it| it.starts_with("error"));
        for line in faults {
            text.push_str(&format!("  refused   {}\n", inert(line)));
        }
    }
    for it in turn.ran.iter().filter(|it| !it.ok) {
        let went = lines::ran("", &it.tool, Some(&it.result), it.outcome.as_deref());
        text.push_str(&format!("  tool      {went}\n"));
    }
    turn.batches.iter().for_each(|it| text.push_str(&batch(it)));
    text
}

fn batch(batch: &Batch) -> String {
    let done = batch
        .tasks
        .iter()
        .filter(|it| it.output().is_some())
        .count();
    let status = inert(batch.status.as_deref().unwrap_or("not at its end"));
    let tasks = count(batch.tasks.len(), "task");
    let mut text = format!(
        "  batch {}: {status}, {done} of {tasks} completed\n",
        inert(&batch.id)
    );
    let head = [
        "TASK", "AGENT", "STATUS", "ATTEMPTS", "TOOK", "TOKENS", "COST", "FILES",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(batch.tasks.iter().map(|it| {
        [
            clip(&it.id, NAME),
            clip(&it.agent, NAME),
            it.status().to_owned(),
            it.attempts_made().to_string(),
            it.took_ms().map_or_else(|| "-".to_owned(), time::span),
            share::tokens(it.usage()),
            share::cost(it.usage()),
            join(&it.files(), ", ", FILES),
        ]
    }));
    let table = table(&rows);
    table
        .lines()
        .for_each(|it| text.push_str(&format!("    {it}\n")));
    for task in &batch.tasks {
        let id = clip(&task.id, NAME);
        for it in task.rejections() {
            text.push_str(&format!("    rejected  {id} {}\n", rejection(it)));
        }
        if let (Some(reason), "cancelled") = (task.reason(), task.status()) {
            text.push_str(&format!("    cancelled {id}: {}\n", inert(reason)));
        }
    }
    text
}

fn attempt(it: &Attempt) -> String {
    let took = it.took_ms();
    let took = took.map_or_else(String::new, |it| format!(", took {}", time::span(it)));
    let started = time::utc(it.started_at_ms);
    let used = tokens(it.usage);
    let head = format!("attempt {}  {started} UTC{took}{used}: ", it.number);
    match &it.came {
        Came::UnderWay => format!("{head}under way\n"),
        Came::CutShort => format!("{head}cut short\n"),
        Came::Withheld => format!("{head}not made\n"),
        Came::Output(_) => match &it.reused {
            Some(run) => format!("{head}taken from run {}\n", inert(run)),
            None => format!("{head}accepted{}\n", came_by(&it.model, &it.read)),
        },
        Came::Rejection(rejection) => {
            let why = format!(
                "{head}{}: {}\n",
                inert(&rejection.failure),
                inert(&rejection.message)
            );
            let answer = rejection.answer.as_deref();
            why + &answer.map_or_else(String::new, |it| whole(&pretty(it)))
        }
    }
}

/// The model of an answer, and how it was read if not as it stood.
fn came_by(model: &Option<String>, read: &Option<String>) -> String {
    let model = model.as_deref().map(|it| format!(", by {}", inert(it)));
    let read = match read.as_deref() {
        Some("fence") => ", read from a fenced block",
        Some("after_thought") => ", read after what the model thought",
        Some("first_value") => ", read from amid other text",
        _ => "",
    };
    model.unwrap_or_default() + read
}

fn rejection(it: &Rejection) -> String {
    let (failure, message) = (inert(&it.failure), inert(&it.message));
    format!("attempt {}: {failure}: {message}", it.attempt)
}

/// JSON with a line for each of its parts, and any other text as it is.
fn pretty(text: &str) -> String {
    let value: Result<serde_json::Value, _> = serde_json::from_str(text);
    value.map_or_else(|_| text.to_owned(), |it| format!("{it:#}"))
}

/// Every line of a text, indented and inert, however long it is.
fn whole(text: &str) -> String {
    let lines = text.lines().map(|it| format!("  {}", clip(it, usize::MAX)));
    lines.map(|it| it.trim_end().to_owned() + "\n").collect()
}
