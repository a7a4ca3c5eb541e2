//! The values that an expression compares, and what Python says of them.

use std::{borrow::Cow, cmp::Ordering, str::FromStr};

use serde_json::{Map, Value};

/// A number as it was written: integers and floats compare exactly with each other.
#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    /// Within what 65 bits hold, as JSON's integers and those of an expression are.
    Integer(i128),
    Float(f64),
}

/// A value, whether it stands in the expression or in a variable.
#[derive(Debug, Clone)]
pub(super) enum Operand<'a> {
    Null,
    Bool(bool),
    Number(Number),
    Text(&'a str),
    /// A list in a variable.
    Array(&'a [Value]),
    /// A list in the expression.
    List(Vec<Operand<'a>>),
    Tuple(Vec<Operand<'a>>),
    Mapping(&'a Map<String, Value>),
}

/// Those of a list or a tuple.
type Items<'s, 'a> = Cow<'s, [Operand<'a>]>;

impl Number {
    pub(super) fn negative(self) -> Number {
        match self {
            Number::Integer(it) => Number::Integer(-it),
            Number::Float(it) => Number::Float(-it),
        }
    }
}

impl FromStr for Number {
    type Err = &'static str;

    /// Reads a Python number without its sign.
    fn from_str(written: &str) -> Result<Number, &'static str> {
        const NOT_ONE: &str = "is not a number";
        let is_digit = |it: Option<&u8>| it.is_some_and(u8::is_ascii_digit);
        let bytes = written.as_bytes();
        let stands_alone = |at: usize| {
            is_digit(at.checked_sub(1).and_then(|it| bytes.get(it))) && is_digit(bytes.get(at + 1))
        };
        if !written.match_indices('_').all(|(at, _)| stands_alone(at)) {
            return Err(NOT_ONE);
        }
        let plain = written.replace('_', "");
        if !plain.bytes().all(|it| it.is_ascii_digit()) {
            return plain.parse().map(Number::Float).map_err(|_| NOT_ONE);
        }
        if plain.starts_with('0') && plain.bytes().any(|it| it != b'0') {
            return Err("starts with a `0`");
        }
        let integer = plain
            .parse::<u64>()
            .map_err(|_| "is larger than 64 bits hold")?;
        Ok(Number::Integer(i128::from(integer)))
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Number) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Number) -> Option<Ordering> {
        match (*self, *other) {
            (Number::Integer(a), Number::Integer(b)) => Some(a.cmp(&b)),
            (Number::Float(a), Number::Float(b)) => a.partial_cmp(&b),
            (Number::Integer(a), Number::Float(b)) => order(a, b),
            (Number::Float(a), Number::Integer(b)) => order(b, a).map(Ordering::reverse),
        }
    }
}

impl<'a> From<&'a Value> for Operand<'a> {
    fn from(value: &'a Value) -> Operand<'a> {
        match value {
            Value::Null => Operand::Null,
            Value::Bool(it) => Operand::Bool(*it),
            Value::Number(it) => Operand::Number(match it.as_i128() {
                Some(integer) => Number::Integer(integer),
                None => Number::Float(it.as_f64().unwrap_or(f64::NAN)),
            }),
            Value::String(it) => Operand::Text(it),
            Value::Array(it) => Operand::Array(it),
            Value::Object(it) => Operand::Mapping(it),
        }
    }
}

impl<'a> Operand<'a> {
    /// What it is, for a warning.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Operand::Null => "null",
            Operand::Bool(_) => "a boolean",
            Operand::Number(_) => "a number",
            Operand::Text(_) => "a text",
            Operand::Array(_) | Operand::List(_) => "a list",
            Operand::Tuple(_) => "a tuple",
            Operand::Mapping(_) => "a mapping",
        }
    }

    pub(super) fn is_truthy(&self) -> bool {
        match self {
            Operand::Null => false,
            Operand::Bool(it) => *it,
            Operand::Number(it) => *it != Number::Integer(0),
            Operand::Text(it) => !it.is_empty(),
            Operand::Array(it) => !it.is_empty(),
            Operand::List(it) | Operand::Tuple(it) => !it.is_empty(),
            Operand::Mapping(it) => !it.is_empty(),
        }
    }

    /// Characters of a text, items of a list, keys of a mapping. `None`: has no length.
    pub(super) fn length(&self) -> Option<usize> {
        match self {
            Operand::Null | Operand::Bool(_) | Operand::Number(_) => None,
            Operand::Text(it) => Some(it.chars().count()),
            Operand::Array(it) => Some(it.len()),
            Operand::List(it) | Operand::Tuple(it) => Some(it.len()),
            Operand::Mapping(it) => Some(it.len()),
        }
    }

    /// Python's `==`: `1`, `1.0` and `True` are equal, a list and a tuple are not.
    pub(super) fn equals(&self, other: &Operand<'_>) -> bool {
        match (self, other) {
            (Operand::Null, Operand::Null) => true,
            (Operand::Text(a), Operand::Text(b)) => a == b,
            (Operand::Mapping(a), Operand::Mapping(b)) => {
                let is_in_b =
                    |(key, value): (&String, &Value)| b.get(key).is_some_and(|it| same(value, it));
                a.len() == b.len() && a.iter().all(is_in_b)
            }
            _ => match (self.number(), other.number()) {
                (Some(a), Some(b)) => a == b,
                _ => self.items_with(other).is_some_and(|(a, b)| {
                    let mut pairs = a.iter().zip(b.iter());
                    a.len() == b.len() && pairs.all(|(a, b)| a.equals(b))
                }),
            },
        }
    }

    /// Python's `is`: exact for null and booleans. Of other values it asks whether they are equal and of one kind,
    /// which is as near as values without an identity come.
    pub(super) fn is(&self, other: &Operand<'_>) -> bool {
        self.kind() == other.kind() && self.equals(other)
    }

    /// Python's order of numbers, of texts, of lists and of tuples. `None`: they have none.
    pub(super) fn order(&self, other: &Operand<'_>) -> Option<Ordering> {
        if let (Operand::Text(a), Operand::Text(b)) = (self, other) {
            return Some(a.cmp(b));
        }
        if let (Some(a), Some(b)) = (self.number(), other.number()) {
            return a.partial_cmp(&b);
        }
        let (a, b) = self.items_with(other)?;
        let mut pairs = a.iter().zip(b.iter());
        match pairs.find(|(a, b)| !a.equals(b)) {
            Some((a, b)) => a.order(b),
            None => Some(a.len().cmp(&b.len())),
        }
    }

    /// Python's `in`, with `self` as the container. `None`: it cannot contain such a thing.
    pub(super) fn contains(&self, item: &Operand<'_>) -> Option<bool> {
        match (self, item) {
            (Operand::Text(whole), Operand::Text(part)) => Some(whole.contains(part)),
            (Operand::Mapping(mapping), Operand::Text(key)) => Some(mapping.contains_key(*key)),
            (Operand::Mapping(_), Operand::Array(_) | Operand::List(_) | Operand::Mapping(_)) => {
                None
            }
            (Operand::Mapping(_), _) => Some(false),
            _ => {
                let items = self.items()?;
                Some(items.iter().any(|it| it.equals(item)))
            }
        }
    }

    /// Booleans are numbers in Python.
    fn number(&self) -> Option<Number> {
        match self {
            Operand::Bool(it) => Some(Number::Integer(i128::from(*it))),
            Operand::Number(it) => Some(*it),
            _ => None,
        }
    }

    fn items(&self) -> Option<Items<'_, 'a>> {
        match self {
            Operand::Array(it) => Some(it.iter().map(Operand::from).collect()),
            Operand::List(it) | Operand::Tuple(it) => Some(Cow::Borrowed(it)),
            _ => None,
        }
    }

    /// The items of both, if both are lists or both are tuples.
    fn items_with<'s, 'b>(
        &'s self,
        other: &'s Operand<'b>,
    ) -> Option<(Items<'s, 'a>, Items<'s, 'b>)> {
        if self.kind() != other.kind() {
            return None;
        }
        self.items().zip(other.items())
    }
}

/// Values nest no deeper than JSON is read, which is 128.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    Operand::from(a).equals(&Operand::from(b))
}

/// How an integer of at most 65 bits lies to a float.
fn order(integer: i128, float: f64) -> Option<Ordering> {
    const BEYOND: f64 = 1e30;
    if !(-BEYOND..=BEYOND).contains(&float) {
        return 0.0_f64.partial_cmp(&float);
    }
    let whole = integer.cmp(&(float.trunc() as i128));
    Some(whole.then(0.0_f64.partial_cmp(&float.fract())?))
}
