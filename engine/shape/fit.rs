//! Holds a value against a shape. Strict: a text is no number, and a number no text; only an integer is also a number.

use std::fmt;

use serde_json::{Map, Value};

use super::{Field, Model, Type};
use crate::{diagnostic::list, schema::describe, source::pointer};

/// A value that fits.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    pub value: Value,
    /// JSON pointers into the value as given: the keys that no model asks for, and that were left out.
    pub dropped: Vec<String>,
}

/// One thing that keeps a value from fitting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// A JSON pointer into the value. For a missing field, where it would stand.
    pub pointer: String,
    /// What was expected and what was found.
    pub message: String,
    /// What stands there, in a few words.
    pub found: String,
    /// The values or variants that fit, if they can be listed.
    pub allowed: Vec<String>,
}

impl std::error::Error for Misfit {}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pointer.as_str() {
            "" => write!(f, "the answer: {}", self.message),
            pointer => write!(f, "`{pointer}`: {}", self.message),
        }
    }
}

pub(super) fn fit(of: &Type, value: &Value) -> Result<Fitted, Vec<Misfit>> {
    let attempt = Attempt::new(of, value, "");
    if !attempt.misfits.is_empty() {
        return Err(attempt.misfits);
    }
    let Attempt { value, dropped, .. } = attempt;
    Ok(Fitted { value, dropped })
}

/// A value held against one type. The `value` in it means something only if there are no misfits.
#[derive(Default)]
struct Attempt {
    value: Value,
    dropped: Vec<String>,
    misfits: Vec<Misfit>,
}

impl Attempt {
    /// Depth is bounded by that of the shape, and the number of steps by its size for each part of the value.
    fn new(of: &Type, value: &Value, at: &str) -> Attempt {
        let mut attempt = Attempt::default();
        match (of, value) {
            (Type::Alias(alias), _) => return Attempt::new(&alias.means, value, at),
            _ if !is_kind(of, value) => attempt.misfits.push(unexpected(of, value, at)),
            (Type::Union(variants), _) => return nearest(variants, value, at),
            (Type::Model(model), Value::Object(entries)) => attempt.fields(model, entries, at),
            (Type::List(items), Value::Array(values)) => attempt.items(items, values, at),
            _ => attempt.value = value.clone(),
        }
        attempt
    }

    fn fields(&mut self, model: &Model, entries: &Map<String, Value>, at: &str) {
        let mut fields = Map::new();
        for field in &model.fields {
            let at = pointer(at, &field.name);
            let value = match (entries.get(&field.name), &field.default) {
                (Some(value), _) => self.part(&field.of, value, &at),
                (None, Some(default)) => default.clone(),
                (None, None) => {
                    self.misfits.push(missing(field, at));
                    continue;
                }
            };
            fields.insert(field.name.clone(), value);
        }
        let unknown = entries.keys().filter(|key| !fields.contains_key(*key));
        self.dropped.extend(unknown.map(|key| pointer(at, key)));
        self.value = Value::Object(fields);
    }

    fn items(&mut self, items: &Type, values: &[Value], at: &str) {
        let values = values.iter().enumerate();
        let fitted = values.map(|(ix, value)| self.part(items, value, &pointer(at, ix)));
        self.value = fitted.collect();
    }

    fn part(&mut self, of: &Type, value: &Value, at: &str) -> Value {
        let part = Attempt::new(of, value, at);
        self.dropped.extend(part.dropped);
        self.misfits.extend(part.misfits);
        part.value
    }
}

/// The variant that fits, of several the one that drops the least; else the one that was most likely meant. One of them at least is of the value's kind.
fn nearest(variants: &[Type], value: &Value, at: &str) -> Attempt {
    let likely: Vec<&Type> = variants.iter().filter(|it| is_kind(it, value)).collect();
    let attempts = likely.iter().map(|it| (*it, Attempt::new(it, value, at)));
    let nearest = attempts.min_by_key(|(of, attempt)| {
        let misfits = attempt.misfits.len();
        let differing = match misfits {
            0 => 0,
            _ => differing(of, value),
        };
        (misfits > 0, differing, misfits, attempt.dropped.len())
    });
    let (of, mut attempt) = nearest.expect("the value is of the kind of a variant");
    if !attempt.misfits.is_empty() && likely.len() > 1 {
        let summary = no_variant(&likely, of, value, at);
        attempt.misfits.insert(0, summary);
    }
    attempt
}

/// How many fields that tell models apart, since they hold fixed values, have another value here.
fn differing(of: &Type, value: &Value) -> usize {
    let Type::Model(model) = of else { return 0 };
    let differs = |field: &&Field| match (&field.of, value.get(&field.name)) {
        (Type::Literal(values), Some(value)) => !values.contains(value),
        (Type::Alias(alias), Some(value)) => match &alias.means {
            Type::Literal(values) => !values.contains(value),
            _ => false,
        },
        _ => false,
    };
    model.fields.iter().filter(differs).count()
}

/// Whether the value is right on the outside, whatever is wrong further in.
fn is_kind(of: &Type, value: &Value) -> bool {
    match of {
        Type::Text => value.is_string(),
        Type::Pattern(it) => value.as_str().is_some_and(|text| it.regex.is_match(text)),
        Type::Integer => value.is_i64() || value.is_u64(),
        Type::Number => value.is_number(),
        Type::Boolean => value.is_boolean(),
        Type::Null => value.is_null(),
        Type::AnyMapping | Type::Model(_) => value.is_object(),
        Type::AnyList | Type::List(_) => value.is_array(),
        Type::Literal(values) => values.contains(value),
        Type::Union(variants) => variants.iter().any(|it| is_kind(it, value)),
        Type::Alias(alias) => is_kind(&alias.means, value),
    }
}

fn unexpected(of: &Type, value: &Value, at: &str) -> Misfit {
    let allowed = match of {
        Type::Literal(values) => values.iter().map(Value::to_string).collect(),
        Type::Union(variants) => variants.iter().map(Type::to_string).collect(),
        _ => Vec::new(),
    };
    let found = describe(value);
    Misfit {
        pointer: at.to_owned(),
        message: format!("expected {of}, found {found}"),
        found,
        allowed,
    }
}

fn missing(field: &Field, at: String) -> Misfit {
    Misfit {
        pointer: at,
        message: format!("missing, expected {}", field.of),
        found: "nothing".to_owned(),
        allowed: Vec::new(),
    }
}

fn no_variant(variants: &[&Type], nearest: &Type, value: &Value, at: &str) -> Misfit {
    let name = |of: &Type| match of {
        Type::Model(model) => model.name.clone(),
        other => other.to_string(),
    };
    let allowed: Vec<String> = variants.iter().map(|it| name(it)).collect();
    let found = describe(value);
    let (variants, nearest) = (list(&allowed), name(nearest));
    Misfit {
        pointer: at.to_owned(),
        message: format!(
            "expected {variants}, found {found} that fits none; the nearest is `{nearest}`"
        ),
        found,
        allowed,
    }
}
