//! Fields, and words in fields, that are accepted but not acted on: never silence, one warning a kind of field.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    diagnostic::{Code, Diagnostic},
    source::{Source, pointer},
};

const MARK: &str = "x-not-acted-on";

/// A warning for each marked field that the value sets, and each marked word in a field, with the first place and the number of the others.
pub(super) fn warnings(schema: &Value, value: &Value, source: &Source) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let walk = Walk { root: schema };
    walk.visit(schema, value, String::new(), &mut found);

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

struct Walk<'a> {
    root: &'a Value,
}

impl<'a> Walk<'a> {
    /// Depth is bounded by that of the value, which `source` bounds.
    fn visit(
        &self,
        schema: &'a Value,
        value: &Value,
        at: String,
        into: &mut Vec<(String, String, String)>,
    ) {
        for schema in self.parts(schema, value) {
            match value {
                Value::Object(entries) => {
                    for (key, value) in entries {
                        let at = pointer(&at, key);
                        if let Some(property) = schema.pointer(&pointer("/properties", key)) {
                            let mark = property.get(MARK).and_then(Value::as_str);
                            if let Some(reason) = mark.filter(|_| is_set(value)) {
                                into.push((key.clone(), reason.to_owned(), at.clone()));
                            }
                            if let Some((word, reason)) = self.marked_word(property, value) {
                                into.push((format!("{key}: {word}"), reason, at.clone()));
                            }
                            self.visit(property, value, at, into);
                        } else if let Some(any) = any_property(schema) {
                            self.visit(any, value, at, into);
                        }
                    }
                }
                Value::Array(items) => {
                    let Some(schema) = schema.get("items") else {
                        continue;
                    };
                    for (ix, item) in items.iter().enumerate() {
                        self.visit(schema, item, pointer(&at, ix), into);
                    }
                }
                _ => (),
            }
        }
    }

    /// The value, if it is one of the words a field may have, and this word is marked.
    fn marked_word(&self, property: &'a Value, value: &Value) -> Option<(String, String)> {
        let word = value.as_str()?;
        let branches = self.parts(property, value);
        let mut marked = branches.iter().filter(|it| it.get("const") == Some(value));
        let reason = marked.find_map(|it| it.get(MARK)?.as_str())?;
        Some((word.to_owned(), reason.to_owned()))
    }

    /// The schema itself, what it refers to, and those of its branches that the value's constants fit.
    fn parts(&self, schema: &'a Value, value: &Value) -> Vec<&'a Value> {
        let mut parts = Vec::new();
        let mut open = vec![schema];
        while let Some(schema) = open.pop() {
            let reference = schema.get("$ref").and_then(Value::as_str);
            open.extend(reference.and_then(|it| self.root.pointer(it.strip_prefix('#')?)));
            for keyword in ["oneOf", "anyOf", "allOf"] {
                let branches = schema.get(keyword).and_then(Value::as_array);
                open.extend(branches.into_iter().flatten().filter(|it| fits(it, value)));
            }
            parts.push(schema);
        }
        parts
    }
}

/// The schema of properties that are not named: a map's values.
fn any_property(schema: &Value) -> Option<&Value> {
    let by_pattern = schema.get("patternProperties").and_then(Value::as_object);
    let by_pattern = by_pattern.and_then(|it| it.values().next());
    by_pattern.or_else(|| schema.get("additionalProperties"))
}

/// Whether no constant of a branch speaks against the value.
fn fits(branch: &Value, value: &Value) -> bool {
    let properties = branch.get("properties").and_then(Value::as_object);
    properties.into_iter().flatten().all(|(key, property)| {
        let constant = property.get("const");
        constant.is_none_or(|it| value.get(key) == Some(it))
    })
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
