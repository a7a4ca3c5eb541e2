//! A reply becomes an output, or a rejection that says exactly why not.
//!
//! **Invariant:** whoever holds an [`Output`] knows that it is for this task, fits its model, stays inside its owned paths, and bears stamps no worker wrote.
//! **Invariant:** an answer is never repaired, completed or guessed.

use std::{fmt, sync::Arc, time::Duration};

use serde_json::{Map, Value, json};

use crate::{
    ownership::{self, FilePath, OwnedPath, Require},
    shape::Shape,
    usage::Usage,
};

mod failure;
pub mod files;
pub mod read;

pub use failure::{Failure, Whose};
pub use read::How;
use read::Reading;

/// An attempt that brought nothing that could be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    pub failure: Failure,
    /// For people, and for the next attempt.
    pub message: String,
    /// The answer that was rejected, if there was one.
    pub answer: Option<Arc<str>>,
    /// The least time before another attempt, as the other side asked.
    pub retry_after: Option<Duration>,
    /// What the attempt used all the same, as far as it is known where the rejection is made.
    pub usage: Usage,
    /// Which of several that could be asked it was, where that is the trouble.
    pub asked: Option<Asked>,
}

/// One of those who serve a capability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub provider: Arc<str>,
    /// Whether there are others, which have not failed the task.
    pub has_others: bool,
}

impl Asked {
    /// Notes that it failed, after all who did before.
    pub fn note(&self, failed: &mut Vec<Arc<str>>) {
        failed.retain(|it| *it != self.provider);
        failed.push(Arc::clone(&self.provider));
    }
}

impl Rejection {
    pub fn new(failure: Failure, message: impl Into<String>) -> Rejection {
        Rejection {
            failure,
            message: message.into(),
            answer: None,
            retry_after: None,
            usage: Usage::default(),
            asked: None,
        }
    }

    /// Whether another attempt could bring more. What one asks too much for, another may do for less.
    pub fn is_worth_a_retry(&self) -> bool {
        let is_dear = self.failure == Failure::BudgetExceeded;
        let has_others = self.asked.as_ref().is_some_and(|it| it.has_others);
        self.failure.is_worth_a_retry() || is_dear && has_others
    }

    /// Notes who failed, after all who did before.
    pub fn note(&self, failed: &mut Vec<Arc<str>>) {
        if let Some(asked) = &self.asked {
            asked.note(failed);
        }
    }

    /// There was no answer in the time for it.
    pub fn late(timeout: Duration) -> Rejection {
        let message = format!("no answer within {} seconds", timeout.as_secs_f64());
        Rejection::new(Failure::Timeout, message)
    }

    pub fn with_answer(mut self, answer: &str) -> Rejection {
        self.answer = Some(answer.into());
        self
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.failure, self.message)
    }
}

/// An answer that was accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    pub value: Value,
    /// The files the answer carries, each once.
    pub files: Vec<EmittedFile>,
    /// Keys of the answer that its model does not know, as JSON pointers. They are not in `value`.
    pub dropped: Vec<String>,
    /// How it was read, where it was read as JSON.
    pub read: Option<How>,
}

/// What the reply of an agent outside a batch says.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    pub value: Value,
    /// As in [`Output`].
    pub dropped: Vec<String>,
    pub read: Option<How>,
}

/// A file that an answer carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmittedFile {
    pub path: FilePath,
    pub content: String,
}

/// What an output of a task has to be.
#[derive(Debug, Clone)]
pub struct Terms {
    pub task_id: Arc<str>,
    pub agent: Arc<str>,
    /// The task's `kind`, where it has one: the output's must be the same.
    pub kind: Option<Arc<Value>>,
    pub owned: Arc<[OwnedPath]>,
    /// The owned paths as the planner wrote them, if it wrote any.
    pub owned_as_written: Option<Arc<Value>>,
    pub require: Require,
    pub max_file_bytes: usize,
}

impl Output {
    /// The files that the answer of an agent outside a batch carries.
    ///
    /// # Errors
    /// A path that cannot be a file of the run, or a file that is too large.
    pub fn files_of(answer: &Value, max_file_bytes: usize) -> Result<Vec<EmittedFile>, Rejection> {
        files::collect(answer, max_file_bytes)
    }
}

/// The reply as JSON, whatever its shape.
///
/// # Errors
/// It is empty, cut off, or not JSON.
pub fn json(text: &str) -> Result<Said, Rejection> {
    let reading = read(text).map_err(|rejection| rejection.with_answer(text))?;
    Ok(Said {
        value: reading.value,
        dropped: Vec::new(),
        read: Some(reading.how),
    })
}

/// Reads the reply of an agent outside a batch: a value that fits its model, or a text.
pub fn turn(text: &str, shape: Option<&Shape>) -> Result<Said, Rejection> {
    match shape {
        Some(shape) => fitted(text, shape),
        None => {
            let (value, read) = loose(text);
            Ok(Said {
                value,
                dropped: Vec::new(),
                read,
            })
        }
    }
}

/// Accepts the reply to a task, or says why not.
pub fn task(text: &str, shape: Option<&Shape>, terms: &Terms) -> Result<Output, Rejection> {
    judge(text, shape, terms).map_err(|rejection| rejection.with_answer(text))
}

fn judge(text: &str, shape: Option<&Shape>, terms: &Terms) -> Result<Output, Rejection> {
    let (value, dropped, raw, read) = match shape {
        Some(shape) => {
            let Reading { value: raw, how } = read(text)?;
            let fitted = fit(&raw, shape)?;
            (fitted.0, fitted.1, raw, Some(how))
        }
        None if is_blank(text) => return Err(Rejection::new(Failure::Empty, EMPTY)),
        None => {
            // What is no object stands as it was written.
            let (value, read) = match loose(text) {
                (value, read) if value.is_object() => (value, read),
                _ => (Value::from(text), None),
            };
            (value.clone(), Vec::new(), value, read)
        }
    };
    let mut object = match value {
        Value::Object(object) => object,
        Value::String(text) => Map::from_iter([("agent_message".to_owned(), Value::String(text))]),
        other => Map::from_iter([("agent_message".to_owned(), json!(other.to_string()))]),
    };
    let task_id = json!(&*terms.task_id);
    let identity = [("task_id", Some(&task_id)), ("kind", terms.kind.as_deref())];
    for (key, wanted) in identity {
        let Some(wanted) = wanted else { continue };
        // What the answer says counts, also where its model has no room for it.
        same(key, raw.get(key), wanted)?;
        same(key, files::unwrapped(&raw).get(key), wanted)?;
        object.insert(key.to_owned(), wanted.clone());
    }

    let files = files::collect(&raw, terms.max_file_bytes)?;
    let paths: Vec<FilePath> = files.iter().map(|it| it.path.clone()).collect();
    let violations = ownership::check_output(&paths, &terms.owned, terms.require);
    if !violations.is_empty() {
        let messages: Vec<String> = violations.iter().map(ToString::to_string).collect();
        let message = messages.join("; ");
        return Err(Rejection::new(Failure::OutsideOwnedPaths, message));
    }
    if !files.is_empty() {
        let code_files = files.iter();
        let code_files =
            code_files.map(|it| json!({"filename": it.path.as_str(), "content": it.content}));
        object.insert("code_files".to_owned(), code_files.collect());
    }
    object.insert("_task_id".to_owned(), json!(&*terms.task_id));
    object.insert("_worker_agent".to_owned(), json!(&*terms.agent));
    let owned = terms.owned_as_written.as_deref();
    object.insert(
        "_owned_paths".to_owned(),
        owned.cloned().unwrap_or(json!([])),
    );
    let value = Value::Object(object);
    Ok(Output {
        value,
        files,
        dropped,
        read,
    })
}

/// Accepts the reply to a task of a DAG: the data of an output, whose type the task says. A model may say more of JSON.
///
/// # Errors
/// It is empty, or no JSON where JSON is wanted, or does not fit its model.
pub fn data(text: &str, shape: Option<&Shape>, output_type: &str) -> Result<Output, Rejection> {
    let text_alone = |text: String| Said {
        value: Value::String(text),
        dropped: Vec::new(),
        read: None,
    };
    let said = match (output_type, shape) {
        ("json", Some(shape)) => fitted(text, shape)?,
        ("json", None) => json(text)?,
        _ if is_blank(text) => return Err(Rejection::new(Failure::Empty, EMPTY)),
        // What a program prints is JSON, also where it is a text.
        _ => match serde_json::from_str(text) {
            Ok(Value::String(text)) => text_alone(text),
            _ => text_alone(text.to_owned()),
        },
    };
    Ok(Output {
        value: json!({ "type": output_type, "data": said.value }),
        files: Vec::new(),
        dropped: said.dropped,
        read: said.read,
    })
}

/// Accepts an output that has its type already, as a provider's that was held to the task.
///
/// # Errors
/// It has no `type` or no `data`.
pub fn output(text: &str) -> Result<Output, Rejection> {
    let Said { value, read, .. } = json(text)?;
    if !value["type"].is_string() || value.get("data").is_none() {
        let message = "an output has a `type` and `data`";
        return Err(Rejection::new(Failure::WrongShape, message).with_answer(text));
    }
    Ok(Output {
        value,
        files: Vec::new(),
        dropped: Vec::new(),
        read,
    })
}

/// A stated identity must be the task's; a blank or missing one is none.
fn same(key: &str, stated: Option<&Value>, wanted: &Value) -> Result<(), Rejection> {
    let is_same = match (stated, wanted) {
        (None | Some(Value::Null), _) => true,
        (Some(Value::String(it)), _) if it.trim().is_empty() => true,
        (Some(Value::String(it)), Value::String(wanted)) => it.trim() == wanted.trim(),
        (Some(it), wanted) => it == wanted,
    };
    match stated {
        Some(found) if !is_same => {
            let message = format!("the answer says `{key}` is {found}, but the task's is {wanted}");
            Err(Rejection::new(Failure::WrongTask, message))
        }
        _ => Ok(()),
    }
}

/// JSON where the text is JSON, else the text.
fn loose(text: &str) -> (Value, Option<How>) {
    match read::as_it_stands(text) {
        // A value in the middle of prose may be part of the prose.
        Ok(Reading {
            value,
            how: how @ (How::Strict | How::Fenced),
        }) if value.is_object() || value.is_array() => (value, Some(how)),
        _ => (Value::String(text.to_owned()), None),
    }
}

const EMPTY: &str = "the answer is empty";

fn is_blank(text: &str) -> bool {
    let is_blank = |it: char| it.is_whitespace() || it == '\u{feff}';
    text.chars().all(is_blank)
}

fn read(text: &str) -> Result<Reading, Rejection> {
    if is_blank(text) {
        return Err(Rejection::new(Failure::Empty, EMPTY));
    }
    match read::read(text) {
        Ok(reading) => Ok(reading),
        Err(error) if error.is_cut_off() => {
            Err(Rejection::new(Failure::Truncated, error.to_string()))
        }
        // It was thought about, and nothing said.
        Err(error) if error.kind == read::ReadErrorKind::Empty => {
            Err(Rejection::new(Failure::Empty, EMPTY))
        }
        Err(error) => Err(Rejection::new(Failure::NotJson, error.to_string())),
    }
}

fn fit(value: &Value, shape: &Shape) -> Result<(Value, Vec<String>), Rejection> {
    match shape.fit(value) {
        Ok(fitted) => Ok((fitted.value, fitted.dropped)),
        Err(misfits) => {
            let shown = misfits.iter().take(20).map(ToString::to_string);
            let message = shown.collect::<Vec<_>>().join("; ");
            Err(Rejection::new(Failure::WrongShape, message))
        }
    }
}

fn fitted(text: &str, shape: &Shape) -> Result<Said, Rejection> {
    let fitted = read(text).and_then(|reading| {
        let (value, dropped) = fit(&reading.value, shape)?;
        let read = Some(reading.how);
        Ok(Said {
            value,
            dropped,
            read,
        })
    });
    fitted.map_err(|rejection| rejection.with_answer(text))
}

#[cfg(test)]
mod tests;
