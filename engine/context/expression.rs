//! Conditions over the variables of a run, as in `context_expression` of a transition.
//!
//! The language is the part of Python's expressions that a condition needs, and means what it means there:
//!
//! ```text
//! condition   and  or  not          the value of one of their sides, as in `${name} or 'nobody'`
//! comparison  == != < <= > >=       chained: `0 < ${n} < 5`
//!             in  not in            an item of a list, a key of a mapping, a part of a text
//!             is  is not            with `None`, `True`, `False`
//! value       ${name}               a variable; one that is not set is null
//!             __ctx('name')         the same
//!             len(x)                of a text, a list or a mapping
//!             True False None  -1  2.5  'text'  "text"  [1, 2]  (1, 2)  (condition)
//! ```
//!
//! A comparison that makes no sense, as `None > 1`, is false and leaves a warning; so evaluation always ends with a value.
//!
//! **Invariant:** an [`Expression`] nests at most [`MAX_DEPTH`] deep, so walking it needs little stack.

use std::{fmt, ops::Range};

use serde_json::Value;

mod evaluate;
mod operand;
mod parse;
mod token;

use parse::Term;

/// How deep parentheses, lists, calls and `not` may nest.
pub const MAX_DEPTH: usize = 100;

/// A condition that was understood.
#[derive(Debug, Clone)]
pub struct Expression {
    text: String,
    root: Term,
    /// Names and places of variables, in the order of the text; a name that stands twice is here twice.
    variables: Vec<(String, Range<usize>)>,
}

/// Why a text is not an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionError {
    /// The bytes of the text that are wrong, on character boundaries. Empty at the end of the text.
    pub span: Range<usize>,
    pub message: String,
    pub help: Option<String>,
}

/// What an expression came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub value: bool,
    /// One text for every comparison that made no sense, in the order they were met.
    pub warnings: Vec<String>,
}

/// Reads an expression.
///
/// # Errors
/// The first thing in the text that has no place there.
pub fn parse(text: &str) -> Result<Expression, ExpressionError> {
    let (root, variables) = parse::parse(text)?;
    Ok(Expression {
        text: text.to_owned(),
        root,
        variables,
    })
}

/// Whether two variables are equal, as `==` has it: `1`, `1.0` and `true` are.
pub fn equals(a: &Value, b: &Value) -> bool {
    operand::same(a, b)
}

impl Expression {
    /// The variables it reads and where their names stand, in the order of the text. A name may come more than once.
    pub fn variables(&self) -> impl Iterator<Item = (&str, Range<usize>)> {
        let variables = self.variables.iter();
        variables.map(|(name, span)| (name.as_str(), span.clone()))
    }

    /// Whether the condition holds, where `lookup` knows the variables that are set.
    ///
    /// Sides are looked at from left to right, and only as far as needed.
    pub fn evaluate<'a>(&'a self, lookup: impl Fn(&str) -> Option<&'a Value>) -> Verdict {
        evaluate::evaluate(self, lookup)
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for ExpressionError {}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl ExpressionError {
    fn new(span: Range<usize>, message: impl Into<String>) -> ExpressionError {
        ExpressionError {
            span,
            message: message.into(),
            help: None,
        }
    }

    fn help(mut self, help: impl Into<String>) -> ExpressionError {
        self.help = Some(help.into());
        self
    }
}

#[cfg(test)]
mod tests;
