//! Fields, and words in fields, that are accepted but not acted on: never silence, one warning a kind of field.

use std::collections::BTreeMap;

use serde_json::Value;

use super::walk;
use crate::{
    diagnostic::{Code, Diagnostic},
    source::Source,
};

const MARK: &str = "x-not-acted-on";

/// A warning for each marked field that the value sets, and each marked word in a field, with the first place and the number of the others.
pub(super) fn warnings(schema: &Value, value: &Value, source: &Source) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    walk::visit(schema, value, &mut |schema, value, at| {
        let reason = schema.get(MARK).and_then(Value::as_str);
        let Some(reason) = reason.filter(|_| is_set(value)) else {
            return;
        };
        let key = at.rsplit('/').next().unwrap_or_default();
        let name = match schema.get("const") {
            None => key.to_owned(),
            // A word that a field may have: only this one is marked.
            Some(word) if word == value => format!("{key}: {}", word.as_str().unwrap_or_default()),
            Some(_) => return,
        };
        found.push((name, reason.to_owned(), at.to_owned()));
    });

    let mut fields: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for (name, reason, at) in found {
        fields.entry((name, reason)).or_default().push(at);
    }
    let warnings = fields.into_iter().map(|((name, reason), places)| {
        let more = match places.len() {
            1 => String::new(),
            n => format!(" ({n} places)"),
        };
        let message = format!("`{name}` is accepted but not acted on{more}: {reason}");
        let at = source.key_place(&places[0]);
        Diagnostic::warning(Code::NotActedOn, message).at(at)
    });
    warnings.collect()
}

/// Whether a value says anything: not null, not an empty list or mapping, not `false`.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
        _ => true,
    }
}
