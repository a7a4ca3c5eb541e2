//! An entry of a journal as a line for people.

use serde_json::Value;

use super::{Called, History, Ran, text, time, usage};
use crate::{
    journal::Row,
    report::{
        count, inert,
        lines::{self, held_up, indented, tokens},
    },
};

/// The line of an entry which the history has just taken in, if it is worth one.
pub fn line(history: &History, row: &Row) -> Option<String> {
    let entry = &row.entry;
    let data: Value = serde_json::from_str(&entry.data).unwrap_or_default();
    let word = |key: &str| inert(&text(&data[key]).unwrap_or_default());
    let task = history.task_of(entry);
    let task_id = inert(task.map_or("?", |it| &it.id));
    let batch = inert(entry.batch.as_deref().unwrap_or_default());
    let attempt = entry.attempt.unwrap_or_default();
    let why = || {
        format!(
            "attempt {attempt}: {}: {}",
            word("failure"),
            word("message")
        )
    };
    let used = tokens(usage(&data));
    let after = match attempt {
        0 | 1 => String::new(),
        n => format!(" after {n} attempts"),
    };
    let (label, said) = match &*entry.kind {
        "resumed" => ("resumed", "another session".to_owned()),
        "answered" => ("turn", format!("{}: {}{used}", data["turn"], word("agent"))),
        "tool" => {
            let ran = Ran::of(entry, &data);
            let error = (!ran.ok).then_some(&*ran.result);
            let went = lines::ran(&ran.agent, &ran.tool, error, ran.outcome.as_deref());
            ("tool", went + &indented(&ran.printed))
        }
        "called" => {
            let who = task.map_or_else(|| word("agent"), |it| inert(&it.id));
            let went = match data["ok"] == true {
                true => "",
                false => ": failed",
            };
            let printed = indented(&Called::of(entry, &data).printed);
            let tool = word("tool");
            ("called", format!("{tool} for {who}{went}{printed}"))
        }
        "held_up" => {
            let limit = text(&data["limit"]);
            let waiting = usize::try_from(data["waiting"].as_u64().unwrap_or_default());
            let waiting = waiting.unwrap_or_default();
            let ms = data["ms"].as_u64();
            (
                "paused",
                held_up(&word("provider"), limit.as_deref(), waiting, ms),
            )
        }
        "turn_rejected" => ("rejected", format!("{} {}{used}", word("agent"), why())),
        "plan_refused" => {
            let report = entry.body.as_deref().unwrap_or_default();
            let first = report.lines().find(|it| !it.trim().is_empty());
            (
                "refused",
                format!("{batch}: {}", inert(first.unwrap_or_default())),
            )
        }
        "batch_begun" => {
            let begun = history
                .batches()
                .filter(|it| Some(&it.id) == entry.batch.as_ref());
            let tasks = begun.last().map_or(0, |it| it.tasks.len());
            ("batch", format!("{batch}: {}", count(tasks, "task")))
        }
        "started" => {
            let agent = inert(task.map_or("", |it| &it.agent));
            let attempt = match attempt {
                0 | 1 => String::new(),
                n => format!(", attempt {n}"),
            };
            ("started", format!("{task_id} ({agent}{attempt})"))
        }
        "accepted" => ("completed", format!("{task_id}{after}{used}")),
        "rejected" => ("rejected", format!("{task_id} {}{used}", why())),
        "cut_short" => {
            let whose = task.map_or_else(|| word("agent"), |it| inert(&it.id));
            ("given up", format!("{whose}{used}"))
        }
        "delayed" => {
            let wait = data["until_ms"]
                .as_i64()
                .unwrap_or_default()
                .saturating_sub(entry.at_ms);
            let next = attempt.saturating_add(1);
            (
                "waiting",
                format!("{task_id}, attempt {next} in {}", time::span(wait)),
            )
        }
        "task_ended" if data["end"] == "failed" => ("failed", format!("{task_id}{after}")),
        "task_ended" => ("cancelled", format!("{task_id}: {}", word("because"))),
        "batch_ended" => {
            let n = |key: &str| data[key].as_u64().unwrap_or_default();
            let (completed, failed, cancelled) = (n("completed"), n("failed"), n("cancelled"));
            let said = format!("{completed} completed, {failed} failed, {cancelled} cancelled");
            ("batch", format!("{batch} {}: {said}", word("status")))
        }
        "run_ended" => {
            let reason = text(&data["reason"]).map(|it| format!(": {}", inert(&it)));
            (
                "run",
                format!("{}{}{used}", word("status"), reason.unwrap_or_default()),
            )
        }
        _ => return None,
    };
    Some(format!("{}  {label:<9} {said}", time::utc(entry.at_ms)))
}
