//! The JSON Schemas of the contract, and values held against them.
//!
//! **Invariant:** every mistake of a value is found in one pass, each at its own place.

use jsonschema::{
    JsonType, ValidationError, Validator,
    error::{TypeKind, ValidationErrorKind as Kind},
};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    diagnostic::{Code, Diagnostic},
    source::{Source, pointer},
};

mod files;
mod narrow;
mod unacted;
mod walk;

pub use files::{FileKind, WorkflowNames, text};

/// A draft 2020-12 schema, ready to hold values against.
pub struct Schema {
    json: Value,
    validator: Validator,
}

/// The draft 2020-12 schema of a type.
pub fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12();
    settings
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

impl Schema {
    pub fn new(json: Value) -> Schema {
        let validator = jsonschema::draft202012::new(&json);
        let validator = validator.expect("the contract's schemas are schemas");
        Schema { json, validator }
    }

    /// Reads a file as a `T`. Gives every mistake and every warning; a value only if there is no mistake.
    pub fn read<T: DeserializeOwned>(&self, source: &Source) -> (Option<T>, Vec<Diagnostic>) {
        let value = source.value();
        let mut diagnostics = Vec::new();
        for error in self.validator.iter_errors(&value) {
            self.explain(&error, source, &mut diagnostics);
        }
        keep_the_telling(&mut diagnostics);
        diagnostics.extend(self.fractions(&value, source));
        diagnostics.extend(unacted::warnings(&self.json, &value, source));
        if diagnostics.iter().any(Diagnostic::is_error) {
            return (None, diagnostics);
        }
        match serde_path_to_error::deserialize::<_, T>(&value) {
            Ok(typed) => (Some(typed), diagnostics),
            Err(error) => {
                let place = source.place(&json_pointer(error.path()));
                let message = error.inner().to_string();
                diagnostics.push(Diagnostic::error(Code::WrongType, message).at(place));
                (None, diagnostics)
            }
        }
    }

    fn explain(&self, error: &ValidationError<'_>, source: &Source, into: &mut Vec<Diagnostic>) {
        let at = error.instance_path().as_str();
        let diagnostic = match error.kind() {
            Kind::OneOfNotValid { context } | Kind::AnyOf { context } => {
                match unknown_tag(context, error.instance()) {
                    Some((key, allowed)) => {
                        let at = pointer(at, &key);
                        let found = show(&error.instance()[&key]);
                        not_allowed(found, allowed).at(source.place(&at))
                    }
                    None if constants(context).is_some() => {
                        let allowed = constants(context).unwrap_or_default();
                        let found = show(error.instance());
                        not_allowed(found, allowed).at(source.place(at))
                    }
                    None => {
                        for error in nearest_branch(context) {
                            self.explain(error, source, into);
                        }
                        return;
                    }
                }
            }
            Kind::AdditionalProperties { unexpected }
            | Kind::UnevaluatedProperties { unexpected } => {
                for key in unexpected {
                    let allowed = self.keys_beside(error);
                    let diagnostic =
                        Diagnostic::error(Code::UnknownKey, format!("unknown key `{key}`"));
                    let diagnostic = diagnostic.at(source.key_place(&pointer(at, key)));
                    into.push(diagnostic.found(key).allowed(allowed));
                }
                return;
            }
            Kind::Required { property } => {
                let key = property.as_str().unwrap_or_default();
                let message = format!("the key `{key}` is missing");
                Diagnostic::error(Code::MissingKey, message).at(source.key_place(at))
            }
            Kind::Type { kind } => wrong_type(kind, error.instance()).at(source.place(at)),
            Kind::Enum { options } => {
                let allowed = options.as_array().into_iter().flatten().map(show).collect();
                not_allowed(show(error.instance()), allowed).at(source.place(at))
            }
            Kind::Constant { expected_value } => {
                let allowed = vec![show(expected_value)];
                not_allowed(show(error.instance()), allowed).at(source.place(at))
            }
            Kind::Pattern { .. } => {
                let message = "a blank text where something has to be named";
                Diagnostic::error(Code::Blank, message).at(source.place(at))
            }
            other => bounds(other, error.instance()).at(source.place(at)),
        };
        into.push(diagnostic);
    }

    /// Numbers such as `4.0`, which JSON Schema takes for an integer and our types do not.
    fn fractions(&self, value: &Value, source: &Source) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        walk::visit(&self.json, value, &mut |schema, value, at| {
            if wants_integer(schema)
                && value.as_f64().is_some_and(|it| it.fract() == 0.0)
                && value.is_f64()
            {
                let message = format!("expected an integer, found the number `{value}`");
                let place = source.place(at);
                found.push(Diagnostic::error(Code::WrongType, message).at(place));
            }
        });
        found
    }

    /// The keys that an object could have where an unknown one was met.
    fn keys_beside(&self, error: &ValidationError<'_>) -> Vec<String> {
        let keyword = error.schema_path().as_str();
        let parent = keyword.rfind('/').map_or("", |it| &keyword[..it]);
        let properties = self
            .json
            .pointer(parent)
            .and_then(|it| it.get("properties"));
        let properties = properties.and_then(Value::as_object);
        properties
            .into_iter()
            .flat_map(|it| it.keys().cloned())
            .collect()
    }
}

/// Where a word of another type stands for one of a few words, one fault is enough: the one that tells more.
fn keep_the_telling(faults: &mut Vec<Diagnostic>) {
    let of = |code: Code, faults: &[Diagnostic]| -> Vec<Diagnostic> {
        let faults = faults.iter().filter(|it| it.code == code);
        faults.cloned().collect()
    };
    for word in of(Code::NotAllowed, faults) {
        let is_quoted = word.found.iter().any(|it| word.allowed.contains(it));
        let less = if is_quoted {
            Code::NotAllowed
        } else {
            Code::WrongType
        };
        if of(Code::WrongType, faults)
            .iter()
            .any(|it| it.at == word.at)
        {
            faults.retain(|it| it.code != less || it.at != word.at);
        }
    }
}

fn wants_integer(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::String(it)) => it == "integer",
        Some(Value::Array(all)) => {
            let has = |name: &str| all.iter().any(|it| it == name);
            has("integer") && !has("number")
        }
        _ => false,
    }
}

fn json_pointer(path: &serde_path_to_error::Path) -> String {
    use serde_path_to_error::Segment;
    let mut at = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => at = pointer(&at, index),
            Segment::Map { key } => at = pointer(&at, key),
            Segment::Enum { .. } | Segment::Unknown => (),
        }
    }
    at
}

/// The key that tells the branches apart, and its values, if the instance has none of them.
fn unknown_tag(
    branches: &[Vec<ValidationError<'static>>],
    instance: &Value,
) -> Option<(String, Vec<String>)> {
    let mut tag = None;
    let mut allowed = Vec::new();
    for branch in branches {
        let wrong_constant = branch.iter().find_map(|it| match it.kind() {
            Kind::Constant { expected_value } => {
                Some((it.instance_path().as_str(), expected_value))
            }
            _ => None,
        });
        let (at, expected) = wrong_constant?;
        tag = Some(at.rsplit('/').next().unwrap_or_default().to_owned());
        allowed.push(show(expected));
    }
    tag.filter(|it| instance.get(it).is_some())
        .map(|it| (it, allowed))
}

/// The words allowed, where every branch is one word, or several.
fn constants(branches: &[Vec<ValidationError<'static>>]) -> Option<Vec<String>> {
    let mut allowed = Vec::new();
    for branch in branches {
        match branch.as_slice() {
            [only] if only.instance_path().as_str() == branch_root(branches) => match only.kind() {
                Kind::Constant { expected_value } => allowed.push(show(expected_value)),
                Kind::Enum { options } => {
                    allowed.extend(options.as_array().into_iter().flatten().map(show));
                }
                _ => return None,
            },
            _ => return None,
        }
    }
    Some(allowed)
}

/// Where the value lies that the branches are about: the shortest path any of them speaks of.
fn branch_root<'a>(branches: &'a [Vec<ValidationError<'static>>]) -> &'a str {
    let paths = branches
        .iter()
        .flatten()
        .map(|it| it.instance_path().as_str());
    paths.min_by_key(|it| it.len()).unwrap_or_default()
}

/// The branch that was most likely meant: its constant fits, then its type, then the fewest mistakes.
fn nearest_branch<'a>(
    branches: &'a [Vec<ValidationError<'static>>],
) -> impl Iterator<Item = &'a ValidationError<'static>> {
    let root = branch_root(branches);
    let distance = |branch: &&Vec<ValidationError<'static>>| {
        let count =
            |wanted: fn(&Kind) -> bool| branch.iter().filter(|it| wanted(it.kind())).count();
        let constants = count(|it| matches!(it, Kind::Constant { .. }));
        let types = branch.iter().filter(|it| {
            matches!(it.kind(), Kind::Type { .. }) && it.instance_path().as_str() == root
        });
        (constants, types.count(), branch.len())
    };
    branches.iter().min_by_key(distance).into_iter().flatten()
}

fn not_allowed(found: String, allowed: Vec<String>) -> Diagnostic {
    let message = format!("`{found}` is not allowed here");
    Diagnostic::error(Code::NotAllowed, message)
        .found(found)
        .allowed(allowed)
}

fn wrong_type(kind: &TypeKind, found: &Value) -> Diagnostic {
    let expected: Vec<JsonType> = match kind {
        TypeKind::Single(one) => vec![*one],
        TypeKind::Multiple(several) => several.iter().collect(),
    };
    let names: Vec<&str> = expected.iter().map(|it| type_name(*it)).collect();
    let message = format!("expected {}, found {}", names.join(" or "), describe(found));
    let diagnostic = Diagnostic::error(Code::WrongType, message);
    let help = match found {
        Value::String(text) => string_help(text, &expected),
        Value::Null => Some("give it a value, or take out the key"),
        Value::Number(_) | Value::Bool(_) if expected.contains(&JsonType::String) => {
            Some("put it in quotes")
        }
        Value::Object(_) if expected.contains(&JsonType::Array) => {
            Some("begin each item of a list with `- `")
        }
        _ => None,
    };
    match help {
        Some(help) => diagnostic.help(help),
        None => diagnostic,
    }
}

fn string_help(text: &str, expected: &[JsonType]) -> Option<&'static str> {
    let number = text
        .trim()
        .trim_start_matches(['-', '.'])
        .parse::<f64>()
        .ok();
    let wants = |it| expected.contains(&it);
    let number = number.filter(|_| wants(JsonType::Integer) || wants(JsonType::Number));
    if number.is_some_and(f64::is_finite) {
        Some("take off the quotes: a number has none")
    } else if number.is_some() {
        Some("write a number: `NaN` and infinities are none here")
    } else if wants(JsonType::Boolean) {
        Some("write `true` or `false`, without quotes; YAML 1.2 has no other words for them")
    } else if wants(JsonType::Array) {
        Some("a list has one item a line, each with `- ` before it, or stands in `[ ]`")
    } else {
        None
    }
}

fn bounds(kind: &Kind, found: &Value) -> Diagnostic {
    let found = show(found);
    let message = match kind {
        Kind::Minimum { limit } => format!("`{found}` is below the least allowed, {limit}"),
        Kind::Maximum { limit } => format!("`{found}` is above the most allowed, {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("`{found}` is not above {limit}"),
        Kind::MinItems { limit: 1 } => "an empty list where at least one item is needed".to_owned(),
        Kind::MinItems { limit } => format!("fewer than the {limit} items needed"),
        Kind::MinLength { limit } => format!("shorter than the {limit} characters needed"),
        other => format!("`{found}` does not satisfy `{}`", other.keyword()),
    };
    Diagnostic::error(Code::OutOfBounds, message)
}

fn type_name(it: JsonType) -> &'static str {
    match it {
        JsonType::Array => "a list",
        JsonType::Boolean => "`true` or `false`",
        JsonType::Integer => "an integer",
        JsonType::Null => "null",
        JsonType::Number => "a number",
        JsonType::Object => "a mapping",
        JsonType::String => "a text",
    }
}

/// A value in a few words.
pub fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(it) => format!("`{it}`"),
        Value::Number(it) => format!("the number `{it}`"),
        Value::String(_) => format!("the text `{}`", show(value)),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "a mapping".to_owned(),
    }
}

/// A value as it would be written, on one line, cut where it is long.
fn show(value: &Value) -> String {
    const SHOWN: usize = 60;
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let mut shown = String::new();
    for (ix, char) in text.chars().enumerate() {
        match char {
            _ if ix == SHOWN => return shown + "…",
            char if char.is_control() => shown.extend(char.escape_debug()),
            char => shown.push(char),
        }
    }
    shown
}

#[cfg(test)]
mod tests;
