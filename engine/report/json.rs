//! The same for programs.
//!
//! **Invariant:** every key is always there, `null` or empty where there is nothing to say.

use std::{
    collections::BTreeMap,
    io::{self, BufWriter, Write},
    sync::Arc,
};

use serde::Serialize;
use serde_json::{Value, json};

use super::{Clock, Listener};
use crate::{
    agent::Usage,
    context::{Context, Json},
    diagnostic::{Diagnostic, Place, Severity},
    event::RunEvent,
    run::{Ending, FailedTool},
};

/// How much of a long line is shown on either side of the place, in bytes.
const SIDE: usize = 100;

/// Writes events as JSON, one a line, each with the milliseconds since the run began.
pub struct Events {
    out: Box<dyn Write + Send>,
    clock: Clock,
    broken: Option<io::Error>,
}

#[derive(Serialize)]
struct Line<'a> {
    elapsed_ms: u64,
    #[serde(flatten)]
    event: &'a RunEvent,
}

impl Events {
    /// Every line is written at once and whole: `out` needs no buffer.
    pub fn new(out: Box<dyn Write + Send>, clock: Clock) -> Events {
        let broken = None;
        Events { out, clock, broken }
    }

    /// # Errors
    /// What kept an event from being written. Nothing was written after it.
    pub fn finish(mut self) -> io::Result<()> {
        match self.broken {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }

    fn write(&mut self, event: &RunEvent) -> io::Result<()> {
        let elapsed = (self.clock)().as_millis();
        let line = Line {
            elapsed_ms: u64::try_from(elapsed).unwrap_or(u64::MAX),
            event,
        };
        let mut line = serde_json::to_vec(&line)?;
        line.push(b'\n');
        self.out.write_all(&line)
    }
}

impl Listener for Events {
    fn hear(&mut self, event: &RunEvent) {
        if self.broken.is_none() {
            self.broken = self.write(event).err();
        }
    }
}

/// Diagnostics as a list of objects. Lines and columns are from 1 and columns count characters; `offset` and `length` count bytes; the end is the first place after what is meant.
pub fn diagnostics(diagnostics: &[Diagnostic]) -> Value {
    diagnostics.iter().map(diagnostic).collect()
}

/// How a run ended, with all it knows at its end.
#[derive(Serialize)]
pub struct Ended<'a> {
    run: &'a str,
    workflow: &'a str,
    status: &'static str,
    exit_code: u8,
    reason: Option<&'a str>,
    /// The command that shows more, where the run did not end well.
    more: Option<String>,
    /// The command that goes on, where the run can.
    to_go_on: Option<String>,
    turns: u32,
    batches: BTreeMap<&'a str, &'static str>,
    usage: &'a Usage,
    /// What each agent used, where it says.
    agents: &'a BTreeMap<Arc<str>, Usage>,
    artifacts: &'a str,
    files: &'a [String],
    answer: Option<&'a Json>,
    /// The tools that failed, and what came of that.
    failed_tools: &'a [FailedTool],
    faults: Value,
    /// It may be most of what there is in memory, so no copy is made.
    context: &'a Context,
}

impl<'a> Ended<'a> {
    pub fn of(run: &'a str, workflow: &'a str, artifacts: &'a str, ending: &'a Ending) -> Self {
        let batches = ending.batches.iter();
        Ended {
            run,
            workflow,
            status: ending.status.as_str(),
            exit_code: ending.status.exit_code(),
            reason: ending.reason.as_deref(),
            more: (ending.status.exit_code() != 0).then(|| format!("mozaiks-run show {run}")),
            to_go_on: (ending.status.can_go_on()).then(|| format!("mozaiks-run resume {run}")),
            turns: ending.turns,
            batches: batches.map(|(id, it)| (&**id, it.as_str())).collect(),
            usage: &ending.usage,
            agents: &ending.used_by,
            artifacts,
            files: &ending.files,
            answer: ending.answer.as_ref(),
            failed_tools: &ending.failed_tools,
            faults: diagnostics(&ending.faults),
            context: &ending.context,
        }
    }

    /// Writes it for people and programs, with a line's end.
    ///
    /// # Errors
    /// What kept it from being written.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        let mut out = BufWriter::new(out);
        serde_json::to_writer_pretty(&mut out, self)?;
        out.write_all(b"\n")?;
        out.flush()
    }
}

fn diagnostic(it: &Diagnostic) -> Value {
    let at = Where::of(it.at.as_ref());
    let severity = match it.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let related: Vec<Value> = it
        .related
        .iter()
        .map(|(place, note)| {
            let at = Where::of(Some(place));
            json!({ "file": at.file, "line": at.line, "column": at.column, "note": note })
        })
        .collect();
    json!({
        "code": it.code.as_str(),
        "title": it.code.title(),
        "severity": severity,
        "message": it.message,
        "file": at.file,
        "line": at.line,
        "column": at.column,
        "end_line": at.end_line,
        "end_column": at.end_column,
        "offset": at.offset,
        "length": at.length,
        "excerpt": it.at.as_ref().map(excerpt),
        "found": it.found,
        "allowed": it.allowed,
        "suggestion": it.suggestion,
        "help": it.help,
        "more": format!("mozaiks-run explain {}", it.code.as_str()),
        "related": related,
    })
}

/// A place in numbers; nothing at all for what has no place.
#[derive(Default)]
struct Where<'a> {
    file: Option<&'a str>,
    line: Option<usize>,
    column: Option<usize>,
    end_line: Option<usize>,
    end_column: Option<usize>,
    offset: Option<usize>,
    length: Option<usize>,
}

impl Where<'_> {
    fn of(place: Option<&Place>) -> Where<'_> {
        let Some(place) = place else {
            return Where::default();
        };
        let end = Place {
            file: Arc::clone(&place.file),
            span: place.span.end..place.span.end,
        };
        let (line, column) = place.line_column();
        let (end_line, end_column) = end.line_column();
        Where {
            file: Some(&place.file.name),
            line: Some(line),
            column: Some(column),
            end_line: Some(end_line),
            end_column: Some(end_column),
            offset: Some(place.span.start),
            length: Some(place.span.len()),
        }
    }
}

/// The line a place begins on, or what is around the place where that line is long.
fn excerpt(place: &Place) -> &str {
    let (text, at) = (&place.file.text, place.span.start);
    let start = text[..at].rfind('\n').map_or(0, |it| it + 1);
    let end = text[at..].find('\n').map_or(text.len(), |it| at + it);
    let from = text.ceil_char_boundary(start.max(at.saturating_sub(SIDE)));
    let to = text.floor_char_boundary(end.min(at.saturating_add(SIDE)));
    text[from..to].trim_end_matches('\r')
}

#[cfg(test)]
mod tests;
