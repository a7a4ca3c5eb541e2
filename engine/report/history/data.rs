//! A history for programs.
//!
//! **Invariant:** every key is always there, `null` or empty where there is nothing to say.

use serde_json::{Value, json};

use super::{
    Attempt, Batch, Called, Came, History, Listed, Prompt, Ran, Rejection, Task, Turn, share, time,
};
use crate::journal::Row;

/// A run: what a list says of it, and its turns.
pub fn run(listed: &Listed, history: &History) -> Value {
    let mut value = listed.data();
    value["sessions"] = json!(history.sessions.count());
    value["reason"] = json!(history.reason);
    value["agents"] = share::data(history);
    value["turns"] = history.turns.iter().map(turn).collect();
    value
}

/// A task with all that is known of it.
pub fn task(turn: u32, batch: &Batch, task: &Task) -> Value {
    json!({
        "turn": turn,
        "batch": batch.id,
        "task_id": task.id,
        "agent": task.agent,
        "status": task.status(),
        "reason": task.reason(),
        "took_ms": task.took_ms(),
        "usage": task.usage(),
        "planned": task.planned,
        "attempts": task.attempts.iter().map(attempt).collect::<Vec<_>>(),
        "files": task.files(),
        "output": task.output().map(|it| json_or_text(it)),
    })
}

/// A turn with all that is known of it, its tasks as in a run.
pub fn whole_turn(it: &Turn) -> Value {
    let mut value = turn(it);
    value["prompts"] = it.prompts.iter().map(prompt).collect();
    value["model"] = json!(it.model);
    value["read"] = json!(it.read);
    value["calls"] = it.calls.iter().map(called).collect();
    value["answer"] = it.answer.as_deref().map_or(Value::Null, json_or_text);
    value
}

/// An entry of the journal with all it holds, and the id of the task that it is about.
pub fn event(history: &History, row: &Row) -> Value {
    let entry = &row.entry;
    json!({
        "seq": row.seq,
        "at": time::rfc_3339(entry.at_ms),
        "at_ms": entry.at_ms,
        "kind": entry.kind,
        "batch": entry.batch,
        "task": entry.task,
        "task_id": history.task_of(entry).map(|it| &it.id),
        "attempt": entry.attempt,
        "data": json_or_text(&entry.data),
        "body": entry.body,
    })
}

fn turn(it: &Turn) -> Value {
    json!({
        "turn": it.number,
        "agent": it.agent,
        "took_ms": it.took_ms,
        "usage": it.usage,
        "rejections": it.rejections.iter().map(rejection).collect::<Vec<_>>(),
        "refusals": it.refusals,
        "tools": it.ran.iter().map(ran).collect::<Vec<_>>(),
        "batches": it.batches.iter().map(batch).collect::<Vec<_>>(),
    })
}

fn batch(it: &Batch) -> Value {
    let tasks = it.tasks.iter().map(|task| {
        json!({
            "task_id": task.id,
            "agent": task.agent,
            "status": task.status(),
            "reason": task.reason(),
            "attempts": task.attempts_made(),
            "took_ms": task.took_ms(),
            "usage": task.usage(),
            "rejections": task.rejections().map(rejection).collect::<Vec<_>>(),
            "files": task.files(),
        })
    });
    json!({
        "batch": it.id,
        "status": it.status,
        "began_at_ms": it.began_at_ms,
        "ended_at_ms": it.ended_at_ms,
        "tasks": tasks.collect::<Vec<_>>(),
    })
}

fn rejection(it: &Rejection) -> Value {
    json!({ "attempt": it.attempt, "failure": it.failure, "message": it.message })
}

fn attempt(it: &Attempt) -> Value {
    let (came, rejection) = match &it.came {
        Came::UnderWay => ("running", None),
        Came::CutShort => ("cut_short", None),
        Came::Withheld => ("withheld", None),
        Came::Output(_) => ("accepted", None),
        Came::Rejection(rejection) => ("rejected", Some(rejection)),
    };
    json!({
        "attempt": it.number,
        "started_at_ms": it.started_at_ms,
        "ended_at_ms": it.ended_at_ms,
        "came": came,
        "failure": rejection.map(|it| &it.failure),
        "message": rejection.map(|it| &it.message),
        "answer": rejection.and_then(|it| it.answer.as_deref()),
        "prompt": prompt(&it.prompt),
        "calls": it.calls.iter().map(called).collect::<Vec<_>>(),
        "reused": it.reused,
        "model": it.model,
        "read": it.read,
        "usage": it.usage,
    })
}

fn called(it: &Called) -> Value {
    json!({
        "attempt": it.attempt,
        "tool": it.tool,
        "ok": it.ok,
        "ms": it.ms,
        "arguments": json_or_text(&it.arguments),
        "result": it.result,
        "printed": it.printed,
    })
}

fn ran(it: &Ran) -> Value {
    json!({
        "tool": it.tool,
        "agent": it.agent,
        "ok": it.ok,
        "ms": it.ms,
        "outcome": it.outcome,
        "result": json_or_text(&it.result),
        "printed": it.printed,
    })
}

fn prompt(it: &Prompt) -> Value {
    json!({ "system": it.system.as_deref(), "user": it.user.as_deref() })
}

fn json_or_text(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| json!(text))
}
