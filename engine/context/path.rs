//! Dotted paths into JSON values, as in `source.path` and `writes` (Workflow Task Batches, *Contract*).
//!
//! `plan.tasks.-1` is the last item of the list at the key `tasks` of the mapping at the key `plan`. The parts are
//! trimmed, and blank ones skipped; no parts at all lead to the root.
//!
//! **Invariant:** a path leads to a value or says what stopped it; a null at its end is a value.

use std::{borrow::Cow, collections::HashMap, fmt, num::IntErrorKind};

use serde_json::{Value, value::RawValue};

/// How many keys an error remembers of the mapping that lacked one.
const KEYS_KEPT: usize = 64;
/// How many of them its text shows.
const KEYS_SHOWN: usize = 8;

/// Where a path stopped, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathError {
    /// The part of the path that led to a value, its parts joined by dots. Empty for the root.
    pub resolved: String,
    /// The part that led nowhere.
    pub part: String,
    pub reason: Stop,
}

/// Why one part of a path led nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// A mapping lacks the key. `keys` are those it has, in their order, and `more` counts those left out of the list.
    NoKey { keys: Vec<String>, more: usize },
    /// A list of `length` items has none at this index.
    NoItem { length: usize },
    /// A list of `length` items was asked for something other than an integer.
    NotAnIndex { length: usize },
    /// What stands here has no parts: `found` says what it is.
    NoParts { found: &'static str },
}

/// Follows `path` from `root`.
///
/// A root that is the text of a JSON mapping or list stands for what it says, since agents answer in texts. A text
/// further down stays a text.
///
/// # Errors
/// The first part that leads nowhere.
pub fn resolve<'a>(root: &'a Value, path: &str) -> Result<Cow<'a, Value>, PathError> {
    match parsed(root) {
        Some(parsed) => Ok(Cow::Owned(walk(&parsed, path)?.clone())),
        None => walk(root, path).map(Cow::Borrowed),
    }
}

/// Follows `path` from the root of a JSON text, key by key, making no tree of it. Nothing if that is not enough to
/// follow it: then [`resolve`] can, or says why not.
pub fn resolve_text<'a>(root: &'a str, path: &str) -> Option<&'a str> {
    let mut at = root;
    for part in path.split('.').map(str::trim).filter(|it| !it.is_empty()) {
        let mapping: HashMap<Cow<'_, str>, &RawValue> = serde_json::from_str(at).ok()?;
        at = mapping.get(part)?.get();
    }
    Some(at)
}

impl std::error::Error for PathError {}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.resolved.as_str() {
            "" => "the value".to_owned(),
            path => format!("`{path}`"),
        };
        let part = &self.part;
        match &self.reason {
            Stop::NoKey { keys, .. } if keys.is_empty() => {
                write!(f, "{place} has no key `{part}`; it is empty")
            }
            Stop::NoKey { keys, more } => {
                let shown: Vec<String> = keys
                    .iter()
                    .take(KEYS_SHOWN)
                    .map(|it| format!("`{it}`"))
                    .collect();
                let more = more + keys.len() - shown.len();
                write!(
                    f,
                    "{place} has no key `{part}`; it has {}",
                    shown.join(", ")
                )?;
                match more {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
            Stop::NoItem { length: 0 } => {
                write!(f, "{place} has no item `{part}`; it is an empty list")
            }
            Stop::NoItem { length: 1 } => {
                write!(f, "{place} has no item `{part}`; it is a list of one item")
            }
            Stop::NoItem { length } => write!(
                f,
                "{place} has no item `{part}`; it is a list of {length} items"
            ),
            Stop::NotAnIndex { length: 0 } => write!(
                f,
                "{place} is an empty list, and `{part}` is not an integer"
            ),
            Stop::NotAnIndex { length } => {
                let last = length - 1;
                write!(
                    f,
                    "{place} is a list, and `{part}` is not an integer from 0 to {last}"
                )
            }
            Stop::NoParts { found } => write!(f, "{place} is {found}, and has no `{part}`"),
        }
    }
}

fn parsed(root: &Value) -> Option<Value> {
    let parsed: Value = serde_json::from_str(root.as_str()?).ok()?;
    (parsed.is_object() || parsed.is_array()).then_some(parsed)
}

fn walk<'a>(root: &'a Value, path: &str) -> Result<&'a Value, PathError> {
    let mut here = root;
    let mut resolved: Vec<&str> = Vec::new();
    for part in path.split('.').map(str::trim).filter(|it| !it.is_empty()) {
        here = step(here, part).map_err(|reason| PathError {
            resolved: resolved.join("."),
            part: part.to_owned(),
            reason,
        })?;
        resolved.push(part);
    }
    Ok(here)
}

fn step<'a>(value: &'a Value, part: &str) -> Result<&'a Value, Stop> {
    match value {
        Value::Object(object) => object.get(part).ok_or_else(|| Stop::NoKey {
            keys: object.keys().take(KEYS_KEPT).cloned().collect(),
            more: object.len().saturating_sub(KEYS_KEPT),
        }),
        Value::Array(items) => {
            let length = items.len();
            let index = match part.parse::<i64>() {
                Ok(index) => index,
                // More digits than any list is long.
                Err(error) if overflows(error.kind()) => return Err(Stop::NoItem { length }),
                Err(_) => return Err(Stop::NotAnIndex { length }),
            };
            let distance = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
            let at = match index {
                0.. => Some(distance),
                _ => length.checked_sub(distance),
            };
            at.and_then(|it| items.get(it))
                .ok_or(Stop::NoItem { length })
        }
        Value::Null => Err(Stop::NoParts { found: "null" }),
        Value::Bool(_) => Err(Stop::NoParts { found: "a boolean" }),
        Value::Number(_) => Err(Stop::NoParts { found: "a number" }),
        Value::String(_) => Err(Stop::NoParts { found: "a text" }),
    }
}

fn overflows(kind: &IntErrorKind) -> bool {
    matches!(kind, IntErrorKind::PosOverflow | IntErrorKind::NegOverflow)
}

#[cfg(test)]
mod tests;
