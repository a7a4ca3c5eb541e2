//! JSON without the two liberties of a plain parser: a key that stands twice is refused, and so is a value that goes on.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value, error::Category};

use super::ReadErrorKind;

/// Why a text is no JSON.
pub(super) struct Failure {
    pub(super) kind: ReadErrorKind,
    /// In bytes from the start of the text.
    pub(super) offset: usize,
    pub(super) message: String,
}

/// The text as one value.
pub(super) fn whole(text: &str) -> Result<Value, Failure> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Json::deserialize(&mut deserializer);
    let value = value.and_then(|it| deserializer.end().map(|()| it.0));
    value.map_err(|error| failure(&error, text))
}

/// The value that the text begins with.
pub(super) fn prefix(text: &str) -> Result<Value, Failure> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Json::deserialize(&mut deserializer);
    value.map(|it| it.0).map_err(|error| failure(&error, text))
}

/// The next bracket from `from` on with which an object or a list can begin; brackets in prose seldom do.
pub(super) fn next_bracket(text: &str, from: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let can_begin = |at: &usize| {
        let mut rest = bytes[at + 1..].iter();
        let next = rest.find(|it| !it.is_ascii_whitespace());
        match (bytes[*at], next) {
            (b'{', None | Some(b'"' | b'}')) => true,
            (b'[', None) => true,
            (b'[', Some(next)) => b"{[]\"-0123456789tfn".contains(next),
            _ => false,
        }
    };
    (from..bytes.len()).find(can_begin)
}

/// Where the brackets that open at `start` are closed again. Brackets in strings do not count.
pub(super) fn end_of_brackets(text: &str, start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut is_string = false;
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(start) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            b'{' | b'[' if !is_string => depth += 1,
            b'}' | b']' if !is_string => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => (),
        }
    }
    None
}

fn failure(error: &serde_json::Error, text: &str) -> Failure {
    let kind = match error.classify() {
        Category::Eof => ReadErrorKind::CutOff,
        // The only complaint about data is the one made below.
        Category::Data => ReadErrorKind::DuplicateKey,
        Category::Syntax | Category::Io => ReadErrorKind::NotJson,
    };
    let (line, column) = (error.line(), error.column());
    let place = format!(" at line {line} column {column}");
    let message = error.to_string();
    let message = message.strip_suffix(&place).unwrap_or(&message).to_owned();
    let mut lines = text.split_inclusive('\n');
    let before: usize = lines
        .by_ref()
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum();
    let offset = match kind {
        ReadErrorKind::CutOff => text.len(),
        _ => before + column.saturating_sub(1),
    };
    Failure {
        kind,
        offset: text.floor_char_boundary(offset),
        message,
    }
}

/// A value in which no object has a key twice. Depth is bounded by the deserializer.
struct Json(Value);

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(Builder).map(Json)
    }
}

struct Builder;

impl<'de> Visitor<'de> for Builder {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, it: bool) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_i64<E>(self, it: i64) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_u64<E>(self, it: u64) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_f64<E>(self, it: f64) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_str<E>(self, it: &str) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_string<E>(self, it: String) -> Result<Value, E> {
        Ok(it.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Json(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format!("the key `{key}` stands twice")));
            }
            let Json(value) = entries.next_value()?;
            object.insert(key, value);
        }
        Ok(object.into())
    }
}
