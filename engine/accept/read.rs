//! Reads the JSON value in a model's answer.
//!
//! **Invariant:** a value is read as it was written or not at all: nothing is repaired, closed, or taken out of a larger value.
//! **Invariant:** every text is read in time linear in its length.

use std::fmt;

use serde_json::Value;

mod fence;
mod json;

/// The value in an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    pub value: Value,
    pub how: How,
}

/// Where in the answer the value stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum How {
    /// The answer is JSON and nothing else.
    Strict,
    /// So is what comes after what the model thought.
    AfterThought,
    /// In a fenced block.
    Fenced,
    /// Amid other text: the first `{...}` or `[...]` that is JSON.
    Balanced,
}

impl How {
    /// What the journal and the results call it.
    pub fn as_str(self) -> &'static str {
        match self {
            How::Strict => "strict",
            How::AfterThought => "after_thought",
            How::Fenced => "fence",
            How::Balanced => "first_value",
        }
    }
}

/// Why an answer holds no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadError {
    pub kind: ReadErrorKind,
    /// Where reading failed, in bytes from the start of the answer.
    pub offset: usize,
    pub message: String,
    /// The answer around `offset`, on one line.
    pub excerpt: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadErrorKind {
    Empty,
    NotJson,
    /// A value begins and the answer ends before it does.
    CutOff,
    DuplicateKey,
    /// Several fenced blocks with different values.
    TwoBlocks,
}

impl ReadError {
    /// Whether the answer seems to lack its end, so that a longer one could be read.
    pub fn is_cut_off(&self) -> bool {
        self.kind == ReadErrorKind::CutOff
    }
}

impl std::error::Error for ReadError {}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.excerpt.as_str() {
            "" => f.write_str(&self.message),
            excerpt => write!(f, "{}, near `{excerpt}`", self.message),
        }
    }
}

/// What stands around what a model thinks before it answers.
const THOUGHT: [(&str, &str); 3] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("[THINK]", "[/THINK]"),
];

fn is_blank(it: char) -> bool {
    it.is_whitespace() || it == '\u{feff}'
}

/// Reads an answer that is to be JSON: as [`as_it_stands`], but what a model thought before is none of it.
///
/// # Errors
/// As there; or the thought never ends.
pub fn read(text: &str) -> Result<Reading, ReadError> {
    let mut from = 0;
    loop {
        let rest = text[from..].trim_start_matches(is_blank);
        let Some((open, close)) = THOUGHT.iter().find(|it| rest.starts_with(it.0)) else {
            break;
        };
        let start = text.len() - rest.len();
        let Some(end) = rest.find(close) else {
            let message = format!("cut off: the `{open}` at byte {start} never ends");
            return Err(error(ReadErrorKind::CutOff, text, text.len(), message));
        };
        from = start + end + close.len();
    }
    let reading = read_from(text, from)?;
    Ok(match reading.how {
        How::Strict if from > 0 => Reading {
            how: How::AfterThought,
            ..reading
        },
        _ => reading,
    })
}

/// Reads the value in a text: JSON as a whole; else the one fenced block that holds JSON; else the first `{...}` or `[...]` that is JSON.
///
/// # Errors
/// There is no such value, it is cut off, an object in it has a key twice, or there are fenced blocks with different values.
pub fn as_it_stands(text: &str) -> Result<Reading, ReadError> {
    read_from(text, 0)
}

fn read_from(text: &str, from: usize) -> Result<Reading, ReadError> {
    let body = text[from..].trim_matches(is_blank);
    let start = text.len() - text[from..].trim_start_matches(is_blank).len();
    if body.is_empty() {
        return Err(error(ReadErrorKind::Empty, body, 0, "empty answer"));
    }
    let failure = match json::whole(body) {
        Ok(value) => {
            return Ok(Reading {
                value,
                how: How::Strict,
            });
        }
        Err(failure) => failure,
    };
    if failure.kind != ReadErrorKind::NotJson {
        return Err(refusal(&failure, text, start));
    }
    if let Some(reading) = fenced(text, from)? {
        return Ok(reading);
    }
    balanced(text, from)?.ok_or_else(|| refusal(&failure, text, start))
}

/// The value of the fenced blocks that hold JSON, if it is one.
fn fenced(text: &str, from: usize) -> Result<Option<Reading>, ReadError> {
    let mut found: Option<(usize, Value)> = None;
    for block in fence::blocks(&text[from..]) {
        let start = from + block.start;
        let Ok(value) = json::whole(text[from..][block].trim()) else {
            continue;
        };
        match &found {
            None => found = Some((start, value)),
            Some((first, other)) if *other != value => {
                let (first, second) = (line_column(text, *first).0, line_column(text, start).0);
                let message =
                    format!("two blocks of JSON that differ, in lines {first} and {second}");
                return Err(error(ReadErrorKind::TwoBlocks, text, start, message));
            }
            Some(_) => (),
        }
    }
    let how = How::Fenced;
    Ok(found.map(|(_, value)| Reading { value, how }))
}

/// The first bracketed part that is JSON. What stands inside of a part that is not, is no answer.
fn balanced(text: &str, from: usize) -> Result<Option<Reading>, ReadError> {
    let mut first_failure = None;
    let mut at = from;
    while let Some(start) = json::next_bracket(text, at) {
        let failure = match json::prefix(&text[start..]) {
            Ok(value) => {
                let how = How::Balanced;
                return Ok(Some(Reading { value, how }));
            }
            Err(failure) => failure,
        };
        match json::end_of_brackets(text, start) {
            Some(end) if failure.kind == ReadErrorKind::NotJson => at = end,
            _ => return Err(refusal(&failure, text, start)),
        }
        first_failure.get_or_insert((failure, start));
    }
    match first_failure {
        Some((failure, start)) => Err(refusal(&failure, text, start)),
        None => Ok(None),
    }
}

/// Tells of a failure in `text[start..]` by its place in the whole text.
fn refusal(failure: &json::Failure, text: &str, start: usize) -> ReadError {
    let offset = start + failure.offset;
    let (line, column) = line_column(text, offset);
    let message = &failure.message;
    let message = match failure.kind {
        ReadErrorKind::CutOff => format!("cut off: the value starting at byte {start} never ends"),
        ReadErrorKind::DuplicateKey => format!("{message}, at line {line} column {column}"),
        _ => format!("not JSON: {message} at line {line} column {column}"),
    };
    error(failure.kind, text, offset, message)
}

fn error(kind: ReadErrorKind, text: &str, offset: usize, message: impl Into<String>) -> ReadError {
    let excerpt = excerpt(text, offset);
    ReadError {
        kind,
        offset,
        message: message.into(),
        excerpt,
    }
}

/// Line and column, both from 1; columns count characters.
fn line_column(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(offset)];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = before.bytes().filter(|it| *it == b'\n').count() + 1;
    (line, before[line_start..].chars().count() + 1)
}

/// Some characters on each side of a place.
fn excerpt(text: &str, offset: usize) -> String {
    const BEFORE: usize = 24;
    const AFTER: usize = 16;
    let offset = text.floor_char_boundary(offset);
    let (before, after) = text.split_at(offset);
    let start = before.char_indices().rev().take(BEFORE).last();
    let end = after.char_indices().nth(AFTER);
    let start = start.map_or(offset, |it| it.0);
    let end = end.map_or(text.len(), |it| offset + it.0);
    let is_gap = |it: char| it.is_whitespace() || it.is_control();
    let words = text[start..end].split(is_gap).filter(|it| !it.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
