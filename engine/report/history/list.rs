//! Many runs, one a row.

use serde_json::{Value, json};

use super::{
    History,
    share::{cost, tokens},
    time, usage,
};
use crate::{
    agent::Usage,
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
    /// All that was used.
    pub usage: Option<Usage>,
}

/// What a list says of a run beyond what its row in the journal does.
#[derive(Debug, Clone, Copy)]
pub struct Summary {
    took_ms: i64,
    /// How many tasks have an output, and how many were planned.
    tasks: (usize, usize),
    usage: Usage,
}

impl Summary {
    /// What is said where a run ends. Versions before this one said less.
    pub fn of_end(data: &str) -> Option<Summary> {
        let data: Value = serde_json::from_str(data).ok()?;
        let count = |key: &str| usize::try_from(data[key].as_u64()?).ok();
        Some(Summary {
            took_ms: data["took_ms"].as_i64()?,
            tasks: (count("completed")?, count("tasks")?),
            usage: usage(&data),
        })
    }

    /// What follows from all entries of a run; `now_ms` is for one that somebody works on.
    pub fn of_history(history: &History, now_ms: Option<i64>) -> Summary {
        Summary {
            took_ms: history.sessions.worked_ms(now_ms),
            tasks: history.done(),
            usage: history.usage(),
        }
    }
}

impl Listed {
    /// Without a summary nothing is known but that there is a run.
    pub fn new(run: Run, status: String, summary: Option<Summary>) -> Listed {
        Listed {
            run,
            status,
            took_ms: summary.map(|it| it.took_ms),
            tasks: summary.map(|it| it.tasks),
            usage: summary.map(|it| it.usage),
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
            "usage": self.usage,
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
            "TOKENS",
            "COST",
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
            it.usage.map_or_else(unknown, tokens),
            it.usage.map_or_else(unknown, cost),
        ]
    }));
    table(&rows)
}
