//! Filters for work on texts, besides those of MiniJinja.
//!
//! **Invariant:** each is linear in its text, whatever the pattern.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use minijinja::{Environment, Error, ErrorKind, Value, value};
use regex::{Regex, RegexBuilder};

/// The largest compiled pattern, in bytes.
const MAX_REGEX: usize = 1 << 20;
/// How many compiled patterns are kept.
const MAX_KEPT: usize = 32;

/// Adds `regex_findall(pattern)`, `regex_replace(pattern, with)`, `regex_split(pattern)`, `chunk_text(size)` and `fromjson`.
pub(super) fn add_to(environment: &mut Environment<'_>) {
    let patterns = Arc::new(Patterns::default());
    let its = Arc::clone(&patterns);
    environment.add_filter("regex_findall", move |text: &str, pattern: &str| {
        let regex = its.get(pattern)?;
        let found = regex.find_iter(text).map(|it| it.as_str().to_owned());
        Ok::<Vec<String>, Error>(found.collect())
    });
    let its = Arc::clone(&patterns);
    environment.add_filter(
        "regex_replace",
        move |text: &str, pattern: &str, with: &str| {
            let regex = its.get(pattern)?;
            Ok::<String, Error>(regex.replace_all(text, with).into_owned())
        },
    );
    environment.add_filter("regex_split", move |text: &str, pattern: &str| {
        let regex = patterns.get(pattern)?;
        let parts = regex.split(text).map(str::to_owned);
        Ok::<Vec<String>, Error>(parts.collect())
    });
    environment.add_filter("chunk_text", chunk_text);
    environment.add_filter("fromjson", fromjson);
}

/// Patterns that were compiled: a loop asks for the same one again and again, and fuel does not count what that costs.
#[derive(Default)]
struct Patterns(Mutex<BTreeMap<String, Regex>>);

impl Patterns {
    fn get(&self, pattern: &str) -> Result<Regex, Error> {
        // A pattern is put there whole or not at all.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(regex) = kept.get(pattern) {
            return Ok(regex.clone());
        }
        let compiled = RegexBuilder::new(pattern).size_limit(MAX_REGEX).build();
        let regex = compiled.map_err(|error| {
            let message = format!("`{pattern}` is no pattern: {error}");
            Error::new(ErrorKind::InvalidOperation, message)
        })?;
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        kept.insert(pattern.to_owned(), regex.clone());
        Ok(regex)
    }
}

fn fromjson(text: &str) -> Result<Value, Error> {
    let value: Result<serde_json::Value, _> = serde_json::from_str(text);
    let value = value.map_err(|error| {
        let message = format!("not JSON: {error}");
        Error::new(ErrorKind::InvalidOperation, message)
    })?;
    Ok(Value::from(value::Serde(&value)))
}

/// Cuts a text into pieces of at most `size` characters: after a paragraph, a line, a sentence or a word in the piece's second half, where there is one.
fn chunk_text(text: &str, size: usize) -> Vec<String> {
    let size = size.max(1);
    let mut pieces = Vec::new();
    let mut rest = text.trim();
    while let Some((end, _)) = rest.char_indices().nth(size) {
        let head = &rest[..end];
        let half = head.char_indices().nth(size / 2).map_or(0, |(at, _)| at);
        let after = |it: &&str| head.rfind(*it).map(|at| at + it.len());
        let cuts = ["\n\n", "\n", ". ", " "];
        let mut cuts = cuts.iter().filter_map(after);
        let cut = cuts.find(|it| *it > half).unwrap_or(end);
        pieces.push(rest[..cut].trim_end().to_owned());
        rest = rest[cut..].trim_start();
    }
    if !rest.is_empty() {
        pieces.push(rest.to_owned());
    }
    pieces
}
