//! Dotted paths into shapes, as in `source.path` and `writes`.

use std::{collections::HashSet, fmt, sync::Arc};

use super::{Model, Type};
use crate::diagnostic::list;

/// Where a path leaves a shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoPath {
    /// The part of the path that stays in the shape, its parts joined by dots. Empty for the root.
    pub resolved: String,
    /// The part that leads nowhere.
    pub part: String,
    /// What stands at `resolved`, as in "a text".
    pub found: String,
    /// The parts that would lead on from there.
    pub allowed: Vec<String>,
}

impl std::error::Error for NoPath {}

impl fmt::Display for NoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.resolved.as_str() {
            "" => f.write_str("the answer")?,
            resolved => write!(f, "`{resolved}`")?,
        }
        write!(f, " is {}, and has no `{}`", self.found, self.part)?;
        match self.allowed.as_slice() {
            [] => Ok(()),
            allowed => write!(f, "; it has {}", list(allowed)),
        }
    }
}

/// Follows `dotted` from `root`. Parts are trimmed and blank ones skipped, as in paths into values.
pub(super) fn follow(root: &Arc<Model>, dotted: &str) -> Result<(), NoPath> {
    let root = Type::Model(Arc::clone(root));
    let mut here = vec![&root];
    let mut resolved: Vec<&str> = Vec::new();
    for part in dotted.split('.').map(str::trim).filter(|it| !it.is_empty()) {
        let choices = alternatives(&here);
        if choices.iter().any(|it| is_free(it)) {
            return Ok(());
        }
        let next: Vec<&Type> = choices.iter().filter_map(|it| child(it, part)).collect();
        if next.is_empty() {
            let found: Vec<String> = choices.iter().map(ToString::to_string).collect();
            return Err(NoPath {
                resolved: resolved.join("."),
                part: part.to_owned(),
                found: found.join(" or "),
                allowed: choices.iter().flat_map(|it| keys(it)).collect(),
            });
        }
        here = next;
        resolved.push(part);
    }
    Ok(())
}

/// The types themselves, with the variants of unions in the place of unions, each once.
fn alternatives<'a>(types: &[&'a Type]) -> Vec<&'a Type> {
    let mut seen = HashSet::new();
    let mut open: Vec<&Type> = types.iter().rev().copied().collect();
    let mut flat = Vec::new();
    while let Some(of) = open.pop() {
        match of {
            Type::Union(variants) => open.extend(variants.iter().rev()),
            Type::Alias(alias) => open.push(&alias.means),
            Type::Model(model) if !seen.insert(Arc::as_ptr(model)) => (),
            other => flat.push(other),
        }
    }
    flat
}

fn is_free(of: &Type) -> bool {
    matches!(of, Type::AnyMapping | Type::AnyList)
}

fn child<'a>(of: &'a Type, part: &str) -> Option<&'a Type> {
    match of {
        Type::Model(model) => {
            let mut fields = model.fields.iter();
            fields.find(|it| it.name == part).map(|it| &it.of)
        }
        Type::List(items) => part.parse::<i64>().ok().map(|_| &**items),
        _ => None,
    }
}

fn keys(of: &Type) -> Vec<String> {
    match of {
        Type::Model(model) => model.fields.iter().map(|it| it.name.clone()).collect(),
        _ => Vec::new(),
    }
}
