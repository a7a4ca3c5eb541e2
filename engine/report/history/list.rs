//! Many runs, one a row.

use serde_json::{Value, json};

use super::{History, time};
use crate::{
    journal::Run,
    report::{NAME, clip, inert, table},
};

/// A run with what a list says of it.
#[derive(Debug)]
pub struct Listed {
    pub run: Run,
    /// As in the journal, or `interrupted`.
    pub status: String,
    /// For how long somebody worked on it, in milliseconds. `None` if its entries cannot be read.
    pub took_ms: Option<i64>,
    /// How many tasks have an output, and how many were planned.
    pub tasks: Option<(usize, usize)>,
}

impl Listed {
    /// `now_ms` is for a run that somebody works on; without entries nothing is known but that there is a run.
    pub fn new(run: Run, status: String, history: Option<&History>, now_ms: Option<i64>) -> Listed {
        Listed {
            run,
            status,
            took_ms: history.map(|it| it.took_ms(now_ms).0),
            tasks: history.map(History::done),
        }
    }

    pub fn data(&self) -> Value {
        let run = &self.run;
        json!({
            "run": run.id,
            "workflow": run.workflow,
            "status": self.status,
            "started_at": time::rfc_3339(run.started_at_ms),
            "started_at_ms": run.started_at_ms,
            "ended_at_ms": run.ended_at_ms,
            "took_ms": self.took_ms,
            "tasks": self.tasks.map(|it| it.1),
            "completed": self.tasks.map(|it| it.0),
        })
    }
}

/// Runs as a table.
pub fn list(runs: &[Listed]) -> String {
    let mut rows = vec![
        [
            "RUN",
            "WORKFLOW",
            "STATUS",
            "STARTED (UTC)",
            "TOOK",
            "TASKS",
        ]
        .map(str::to_owned),
    ];
    rows.extend(runs.iter().map(|it| {
        let unknown = || "?".to_owned();
        [
            clip(&it.run.id, NAME),
            clip(&it.run.workflow, NAME),
            inert(&it.status),
            time::utc(it.run.started_at_ms),
            it.took_ms.map_or_else(unknown, time::span),
            it.tasks
                .map_or_else(unknown, |(done, all)| format!("{done}/{all}")),
        ]
    }));
    table(&rows)
}
