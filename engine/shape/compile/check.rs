//! What can be wrong with a definition, and how it is said.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    contract::structured_outputs::{Definition, FIELD_TYPES, Field, StructuredOutputs},
    shape::{Extent, Fault, FaultKind, Misfit, word},
    source::pointer,
};

/// How deep a shape may nest. Bounds the stack that walking it takes.
const MAX_DEPTH: usize = 64;
/// How many parts a shape may have when everything is written out in its place. Bounds the time that walking it takes.
const MAX_SIZE: usize = 100_000;

/// A model's name stands in references in JSON Schemas, where other characters would have to be escaped.
pub(super) fn model_name(name: &str, at: &str) -> Option<Fault> {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    let why = if name.is_empty() || !name.chars().all(is_plain) {
        "only letters, digits, `_` and `-` can stand in it"
    } else if word::is_reserved(name) {
        "it is a type in every workflow"
    } else {
        return None;
    };
    let message = format!("`{name}` cannot name a model: {why}");
    Some(Fault::new(FaultKind::Name, at, message).found(name))
}

pub(super) fn field_name(name: &str, at: &str) -> Option<Fault> {
    let why = match name {
        "model_config" => "it is reserved",
        _ if name.starts_with('_') => "names with `_` in front are reserved",
        _ if name.trim().is_empty() => "it is blank",
        _ => return None,
    };
    let message = format!("`{name}` cannot name a field: {why}");
    Some(Fault::new(FaultKind::Name, at, message).found(name))
}

/// The keys that a field's type needs and that are missing, and those it has no use for.
pub(super) fn field_keys(field: &Field, at: &str) -> Vec<Fault> {
    let kind = field.kind.trim();
    let keys: [(&str, bool, &[&str]); 3] = [
        ("items", field.items.is_some(), &["list", "optional_list"]),
        ("values", field.values.is_some(), &["literal"]),
        ("variants", field.variants.is_some(), &["union"]),
    ];
    let faults = keys.into_iter().filter_map(|(key, is_given, owners)| {
        let is_owner = owners.contains(&kind);
        if is_given && !is_owner {
            let message = format!("`{key}` means nothing for the type `{kind}`");
            let help = format!("`{key}` belongs to the type `{}`", owners[0]);
            Some(Fault::new(FaultKind::Keys, &pointer(at, key), message).help(help))
        } else if !is_given && is_owner && kind != "optional_list" {
            let message = format!("the type `{kind}` needs the key `{key}`");
            let fault = Fault::new(FaultKind::Keys, at, message);
            Some(match kind {
                "list" => fault.help("write `List` for a list of anything"),
                _ => fault,
            })
        } else {
            None
        }
    });
    faults.collect()
}

/// The values of a literal.
pub(super) fn values(values: &[Value], at: &str) -> Vec<Fault> {
    if values.is_empty() {
        let message = "an empty list of values, which nothing would fit";
        return vec![Fault::new(FaultKind::Value, at, message)];
    }
    let values = values.iter().enumerate();
    let nested = values.filter(|(_, it)| it.is_array() || it.is_object());
    let faults = nested.map(|(ix, _)| {
        let message = "a list or a mapping as a value of a literal";
        let help = "write texts, numbers, `true`, `false` or null; describe the rest with a model";
        Fault::new(FaultKind::Value, &pointer(at, ix), message).help(help)
    });
    faults.collect()
}

/// The variants of a union, as far as they are wrong together.
pub(super) fn variants(variants: &[String], at: &str) -> Option<Fault> {
    let message = match variants {
        [] => "an empty list of variants, which nothing would fit",
        _ if variants.iter().all(|it| it.trim() == "null") => "a union of only `null` says nothing",
        _ => return None,
    };
    Some(Fault::new(FaultKind::Value, at, message))
}

/// What is wrong with a default, from what is wrong with it as a value.
pub(super) fn default(misfit: Misfit, at: &str) -> Fault {
    let at = format!("{at}{}", misfit.pointer);
    let message = format!("the default does not fit: {}", misfit.message);
    let fault = Fault::new(FaultKind::Value, &at, message);
    fault.found(misfit.found).allowed(misfit.allowed)
}

/// `depth` counts what stands around one word.
pub(super) fn nesting(depth: usize, at: &str) -> Option<Fault> {
    let message = format!("a type nested more than {MAX_DEPTH} deep");
    (depth > MAX_DEPTH).then(|| Fault::new(FaultKind::TooLarge, at, message))
}

pub(super) fn extent(extent: Extent, name: &str, at: &str) -> Option<Fault> {
    let message = if extent.depth > MAX_DEPTH {
        format!("`{name}` nests more than {MAX_DEPTH} deep")
    } else if extent.size > MAX_SIZE {
        format!("`{name}` has more than {MAX_SIZE} parts, with all that it uses")
    } else {
        return None;
    };
    Some(Fault::new(FaultKind::TooLarge, at, message))
}

/// A word that is no type where it stands. `names` are those of the models.
pub(super) fn unknown(word: &str, at: &str, names: &BTreeSet<&str>) -> Fault {
    let is_field = at.ends_with("/type");
    let stands_alone = |it: &&&str| is_field || !matches!(**it, "literal" | "union");
    let built_in = FIELD_TYPES.iter().filter(stands_alone);
    let null = at.contains("/variants/").then_some("null");
    let names = names.iter().filter(|it| !word::is_reserved(it));
    let allowed = built_in.chain(names).copied().chain(null);
    let fault = Fault::new(
        FaultKind::UnknownType,
        at,
        format!("`{word}` is not a type"),
    )
    .found(word)
    .allowed(allowed.map(str::to_owned).collect());
    match word::advice(word) {
        Some(advice) => fault.help(advice),
        None => fault,
    }
}

/// In `cycle` every model uses the next, and the last uses the first.
pub(super) fn contains_itself(cycle: &[&str]) -> Fault {
    let closed = cycle.iter().chain(&cycle[..1]).copied();
    let path = closed.collect::<Vec<_>>().join("` -> `");
    let message = format!("a model cannot contain itself: `{path}`");
    Fault::new(FaultKind::Cycle, &pointer("/models", cycle[0]), message)
        .help("let one of them hold names or ids instead, and put the objects in one list")
}

/// What keeps `agent` from answering with `model`, unless it is a fault in the model itself.
pub(super) fn answer(model: &str, agent: &str, outputs: &StructuredOutputs) -> Option<Fault> {
    let written = outputs.models.iter().find(|it| it.0 == model);
    let message = match written.map(|it| it.1) {
        Some(Definition::Model { .. }) => return None,
        Some(_) => format!("`{model}` is not an object, and an answer has to be one"),
        None => format!("there is no model `{model}`"),
    };
    let is_model = |it: &(&str, &Definition)| matches!(it.1, Definition::Model { .. });
    let models = outputs.models.iter().filter(is_model);
    let fault = Fault::new(
        FaultKind::UnknownType,
        &pointer("/registry", agent),
        message,
    )
    .found(model)
    .allowed(models.map(|it| it.0.to_owned()).collect());
    Some(match written {
        Some(_) => fault.help("name a model with a field of that type"),
        None => fault,
    })
}
