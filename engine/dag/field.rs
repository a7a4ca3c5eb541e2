//! The path of a `field`: `data`, members and indices (Task Decomposition Format, *Input References*).
//!
//! **Invariant:** a [`Field`] was read from its first to its last character; what the grammar has no words for is refused, with its column.

use std::fmt;

use serde_json::Value;

/// A path into an output. It begins with `data`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The steps after `data`.
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Member(String),
    Index(usize),
}

/// Why a text is no path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// The character that reading stopped at, from 1.
    pub column: usize,
    pub message: String,
}

/// Where a path stopped in an output, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nowhere(String);

impl Field {
    /// # Errors
    /// The first character that cannot be part of a path.
    pub fn parse(text: &str) -> Result<Field, FieldError> {
        let mut reader = Reader { text, at: 0 };
        if reader.name() != "data" {
            let message = "a field begins with `data`, which is what an output holds";
            return Err(FieldError::new(1, message));
        }
        let mut steps = Vec::new();
        while let Some(next) = reader.peek() {
            reader.at += next.len_utf8();
            steps.push(match next {
                '.' => reader.member()?,
                '[' => reader.index()?,
                other => {
                    reader.at -= other.len_utf8();
                    return Err(reader.fault("`.` or `[` has to come here"));
                }
            });
        }
        Ok(Field { steps })
    }

    /// The steps after `data`, joined by dots. No name has one.
    pub fn in_payload(&self) -> String {
        let steps = self.steps.iter().map(|it| match it {
            Step::Member(name) => name.clone(),
            Step::Index(at) => at.to_string(),
        });
        steps.collect::<Vec<_>>().join(".")
    }

    /// Whether it is `data` alone: the whole payload.
    pub fn is_whole(&self) -> bool {
        self.steps.is_empty()
    }

    /// The value it leads to in an output (`type` and `data`).
    ///
    /// # Errors
    /// The first step that leads nowhere.
    pub fn resolve<'a>(&self, output: &'a Value) -> Result<&'a Value, Nowhere> {
        let mut value = output
            .get("data")
            .ok_or_else(|| Nowhere("the output has no `data`".to_owned()))?;
        for (ix, step) in self.steps.iter().enumerate() {
            let next = match step {
                Step::Member(name) => value.get(name.as_str()),
                Step::Index(at) => value.as_array().and_then(|it| it.get(*at)),
            };
            let prefix = Field {
                steps: self.steps[..ix].to_vec(),
            };
            value = next.ok_or_else(|| nowhere(&prefix, step, value))?;
        }
        Ok(value)
    }
}

fn nowhere(prefix: &Field, step: &Step, value: &Value) -> Nowhere {
    let what = match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    };
    Nowhere(match (step, value) {
        (Step::Member(name), Value::Object(_)) => format!("`{prefix}` has no member `{name}`"),
        (Step::Index(at), Value::Array(items)) => {
            let length = items.len();
            format!("`{prefix}` has {length} items, and none at index {at}")
        }
        (Step::Member(name), _) => format!("`{prefix}` is {what}, which has no member `{name}`"),
        (Step::Index(at), _) => format!("`{prefix}` is {what}, which has no index {at}"),
    })
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    /// All up to the next `.`, `[` or `]`.
    fn name(&mut self) -> &str {
        let rest = &self.text[self.at..];
        let length = rest.find(['.', '[', ']']).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn member(&mut self) -> Result<Step, FieldError> {
        let start = self.at;
        let name = self.name().to_owned();
        let message = match name.as_str() {
            "" => "the name of a member has to come here".to_owned(),
            "*" => "there are no wildcards".to_owned(),
            name => match name.find(|it: char| it.is_whitespace() || it.is_control()) {
                Some(at) => {
                    self.at = start + at;
                    return Err(self.fault("a name has no white space"));
                }
                None => return Ok(Step::Member(name.to_owned())),
            },
        };
        self.at = start;
        Err(self.fault(message))
    }

    fn index(&mut self) -> Result<Step, FieldError> {
        let start = self.at;
        let digits = self.text[start..].bytes().take_while(u8::is_ascii_digit);
        self.at += digits.count();
        let digits = &self.text[start..self.at];
        if digits.is_empty() {
            return Err(self
                .fault("an index is a number from 0; there are no wildcards, slices or filters"));
        }
        if self.peek() != Some(']') {
            return Err(self.fault("`]` has to come here; there are no slices"));
        }
        let index = match digits {
            it if it.len() > 1 && it.starts_with('0') => None,
            it => it.parse().ok(),
        };
        let Some(index) = index else {
            self.at = start;
            return Err(self.fault("an index has no leading zeros, and is no larger than memory"));
        };
        self.at += 1;
        Ok(Step::Index(index))
    }

    fn fault(&self, message: impl Into<String>) -> FieldError {
        FieldError::new(self.text[..self.at].chars().count() + 1, message)
    }
}

impl FieldError {
    fn new(column: usize, message: impl Into<String>) -> FieldError {
        let message = message.into();
        FieldError { column, message }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("data")?;
        self.steps.iter().try_for_each(|it| match it {
            Step::Member(name) => write!(f, ".{name}"),
            Step::Index(at) => write!(f, "[{at}]"),
        })
    }
}

impl fmt::Display for Nowhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Nowhere {}
