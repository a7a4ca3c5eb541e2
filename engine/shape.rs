//! What an answer has to look like: models become shapes, and values are held against them.
//!
//! **Invariant:** a [`Shape`] is closed and finite. Every name in it is resolved, no model contains itself, and its depth and size are bounded, so walking it ends whatever the answer is.
//! **Invariant:** a fitted value has all the fields of its model, in the model's order, and no others. Nothing in it was converted.

use std::{
    fmt,
    sync::{Arc, LazyLock},
};

use regex::Regex;
use serde_json::Value;

use crate::diagnostic::list;

mod built_in;
mod compile;
mod dag;
mod fault;
mod fit;
mod json_schema;
mod order;
mod path;
mod word;

pub use built_in::decomposition_plan;
pub use compile::{Shapes, compile};
pub use dag::dag;
pub use fault::{Fault, FaultKind};
pub use fit::{Fitted, Misfit};
pub use path::NoPath;

/// The shape of an answer: a model with everything it uses. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Shape {
    root: Arc<Model>,
}

impl Shape {
    /// The name of the model.
    pub fn name(&self) -> &str {
        &self.root.name
    }

    /// Takes from `value` what the model asks for, with defaults where fields are left out.
    ///
    /// # Errors
    /// Everything that is wrong with the value.
    pub fn fit(&self, value: &Value) -> Result<Fitted, Vec<Misfit>> {
        fit::fit(&Type::Model(Arc::clone(&self.root)), value)
    }

    /// The shape as a JSON Schema, draft 2020-12. Models and aliases stand under `$defs`.
    pub fn json_schema(&self) -> Value {
        json_schema::open(&self.root)
    }

    /// The shape in the strict form that OpenAI's structured outputs ask for: no references, every object closed, every property required.
    ///
    /// # Errors
    /// The place that has no strict form, as `Model.field`: it takes any mapping or any list.
    pub fn strict_schema(&self) -> Result<Value, String> {
        json_schema::strict(&self.root)
    }

    /// Whether a dotted path such as `DecompositionPlan.tasks` can lead to a value in an answer of this shape. What free-form mappings and lists hold is not known, so a path may go on in them.
    ///
    /// # Errors
    /// The first part that leads nowhere.
    pub fn has_path(&self, dotted: &str) -> Result<(), NoPath> {
        path::follow(&self.root, dotted)
    }
}

/// What a value may be.
#[derive(Debug, Clone)]
enum Type {
    Text,
    /// A text of this form.
    Pattern(&'static Pattern),
    Integer,
    Number,
    Boolean,
    Null,
    AnyMapping,
    AnyList,
    /// One of these values, exactly. Never empty, and none stands twice.
    Literal(Arc<[Value]>),
    List(Arc<Type>),
    /// One of these. Never empty.
    Union(Arc<[Type]>),
    Model(Arc<Model>),
    Alias(Arc<Alias>),
}

/// What a text has to look like.
#[derive(Debug)]
struct Pattern {
    regex: LazyLock<Regex>,
    /// For people, as in "a path".
    means: &'static str,
}

/// An object with named fields.
#[derive(Debug)]
struct Model {
    name: String,
    description: Option<String>,
    fields: Vec<Field>,
    extent: Extent,
}

#[derive(Debug)]
struct Field {
    name: String,
    description: Option<String>,
    of: Type,
    /// What an answer that leaves the field out means; without it the field is required.
    default: Option<Value>,
}

/// A literal or a union with a name.
#[derive(Debug)]
struct Alias {
    name: String,
    description: Option<String>,
    means: Type,
    extent: Extent,
}

/// How far a type reaches when everything it uses is written out in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    depth: usize,
    size: usize,
}

impl Extent {
    /// Of something made of parts.
    fn around(parts: impl Iterator<Item = Extent>) -> Extent {
        parts.fold(Extent { depth: 1, size: 1 }, |whole, part| Extent {
            depth: whole.depth.max(part.depth.saturating_add(1)),
            size: whole.size.saturating_add(part.size),
        })
    }
}

impl Type {
    fn optional(self) -> Type {
        Type::Union([self, Type::Null].into())
    }

    fn extent(&self) -> Extent {
        let one = |it| Extent::around(std::iter::once(it));
        match self {
            Type::List(items) => one(items.extent()),
            Type::Union(variants) => Extent::around(variants.iter().map(Type::extent)),
            Type::Model(model) => model.extent,
            Type::Alias(alias) => one(alias.extent),
            _ => Extent::around(std::iter::empty()),
        }
    }
}

/// What is expected, as in "expected a text".
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Text => f.write_str("a text"),
            Type::Pattern(pattern) => f.write_str(pattern.means),
            Type::Integer => f.write_str("an integer"),
            Type::Number => f.write_str("a number"),
            Type::Boolean => f.write_str("`true` or `false`"),
            Type::Null => f.write_str("null"),
            Type::AnyMapping => f.write_str("a mapping"),
            Type::AnyList | Type::List(_) => f.write_str("a list"),
            Type::Literal(values) => {
                let values: Vec<String> = values.iter().map(Value::to_string).collect();
                f.write_str(&list(&values))
            }
            Type::Union(variants) => {
                for (at, variant) in variants.iter().enumerate() {
                    let before = if at == 0 { "" } else { " or " };
                    write!(f, "{before}{variant}")?;
                }
                Ok(())
            }
            Type::Model(model) => write!(f, "a mapping (`{}`)", model.name),
            Type::Alias(alias) => alias.means.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
