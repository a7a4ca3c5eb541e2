//! A JSON value that is held as its text, and read only where somebody looks into it.

use std::{
    borrow::Cow,
    fmt,
    io::{BufReader, Read},
    sync::{Arc, OnceLock},
};

use serde::{Serialize, Serializer};
use serde_json::Value;

/// A JSON value. A copy costs nothing.
///
/// A tree takes some ten times the memory of its text, and most values are only ever handed on.
#[derive(Clone)]
pub struct Json(Arc<Held>);

/// A text that is not in memory.
pub trait Elsewhere: Send + Sync {
    /// In bytes.
    fn length(&self) -> usize;

    /// The text, or its first `limit` bytes, which need not end with a character.
    fn read(&self, limit: usize) -> Vec<u8>;
}

enum Held {
    /// Invariant: at least one of them is set, and they say the same.
    Here {
        text: OnceLock<Box<str>>,
        value: OnceLock<Box<Value>>,
    },
    Elsewhere(Box<dyn Elsewhere>),
    /// One text after the other.
    Joined(Vec<Json>),
}

impl Json {
    /// Holds the text alone.
    pub fn of_text(text: String) -> Json {
        debug_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok());
        Json::part(text)
    }

    /// Holds the text of a value alone.
    pub fn written(value: &Value) -> Json {
        Json::of_text(value.to_string())
    }

    /// Holds where the text is, which does not change any more.
    pub fn elsewhere(text: impl Elsewhere + 'static) -> Json {
        Json(Arc::new(Held::Elsewhere(Box::new(text))))
    }

    pub fn is_elsewhere(&self) -> bool {
        matches!(&*self.0, Held::Elsewhere(_))
    }

    fn part(text: String) -> Json {
        Json(Arc::new(Held::Here {
            text: OnceLock::from(text.into_boxed_str()),
            value: OnceLock::new(),
        }))
    }

    /// The text, compact.
    pub fn text(&self) -> Cow<'_, str> {
        match &*self.0 {
            Held::Here { text, value } => Cow::Borrowed(text.get_or_init(|| {
                let value = value.get().expect("one of both is set");
                value.to_string().into_boxed_str()
            })),
            Held::Elsewhere(text) => {
                let text = String::from_utf8(text.read(usize::MAX));
                Cow::Owned(text.expect("it was a text when it was put there"))
            }
            Held::Joined(_) => {
                let mut text = String::with_capacity(self.length());
                self.each_text(&mut |it| text.push_str(it));
                Cow::Owned(text)
            }
        }
    }

    /// The length of the text in bytes.
    pub fn length(&self) -> usize {
        match &*self.0 {
            Held::Here { .. } => self.text().len(),
            Held::Elsewhere(text) => text.length(),
            Held::Joined(parts) => parts.iter().map(Json::length).sum(),
        }
    }

    /// The text, or as many whole characters of its beginning as `limit` bytes hold.
    pub fn beginning(&self, limit: usize) -> Cow<'_, str> {
        match &*self.0 {
            Held::Here { .. } => match self.text() {
                Cow::Borrowed(text) => Cow::Borrowed(&text[..text.floor_char_boundary(limit)]),
                owned @ Cow::Owned(_) => owned,
            },
            Held::Elsewhere(text) => {
                let mut bytes = text.read(limit);
                let end = bytes.utf8_chunks().next().map_or(0, |it| it.valid().len());
                bytes.truncate(end);
                Cow::Owned(String::from_utf8(bytes).unwrap_or_default())
            }
            Held::Joined(parts) => {
                let mut beginning = String::new();
                for part in parts {
                    let more = part.beginning(limit - beginning.len());
                    beginning.push_str(&more);
                    if more.len() < part.length() {
                        break;
                    }
                }
                Cow::Owned(beginning)
            }
        }
    }

    /// The tree. Where the text is in memory, it is kept from now on.
    pub fn value(&self) -> Cow<'_, Value> {
        match &*self.0 {
            Held::Here { value, .. } => {
                Cow::Borrowed(value.get_or_init(|| Box::new(read(&self.text()))))
            }
            _ => Cow::Owned(read(&self.text())),
        }
    }

    /// The tree, for somebody who needs it once.
    pub fn to_value(&self) -> Value {
        match &*self.0 {
            Held::Here { value, .. } if value.get().is_some() => self.value().into_owned(),
            _ => read(&self.text()),
        }
    }

    fn each_text(&self, put: &mut impl FnMut(&str)) {
        let parts = self.parts().into_iter();
        parts.for_each(|it| put(&it.text()));
    }

    /// The parts of the text, each of them small or in one place.
    fn parts(&self) -> Vec<&Json> {
        match &*self.0 {
            Held::Joined(parts) => parts.iter().flat_map(Json::parts).collect(),
            _ => vec![self],
        }
    }
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).expect("it was written from a value")
}

/// Puts a value together of texts and values, of which no copy is made unless they are short.
#[derive(Default)]
pub struct Joiner {
    parts: Vec<Json>,
    text: String,
}

/// A value with a shorter text is copied: a part of its own takes more than that.
const SHORT: usize = 256;

impl Joiner {
    pub fn text(&mut self, text: &str) {
        self.text.push_str(text);
    }

    pub fn value(&mut self, value: Json) {
        if value.length() < SHORT {
            return value.each_text(&mut |it| self.text.push_str(it));
        }
        self.end_text();
        self.parts.push(value);
    }

    /// The value whose text that is.
    pub fn end(mut self) -> Json {
        if self.parts.is_empty() {
            return Json::of_text(self.text);
        }
        self.end_text();
        Json(Arc::new(Held::Joined(self.parts)))
    }

    fn end_text(&mut self) {
        let text = std::mem::take(&mut self.text);
        if !text.is_empty() {
            self.parts.push(Json::part(text));
        }
    }
}

/// Holds the tree alone.
impl From<Value> for Json {
    fn from(value: Value) -> Json {
        Json(Arc::new(Held::Here {
            text: OnceLock::new(),
            value: OnceLock::from(Box::new(value)),
        }))
    }
}

/// As the value, though no tree is made for it, and of its text no more than one part is in memory.
impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &*self.0 {
            Held::Here { value, .. } if value.get().is_some() => self.value().serialize(serializer),
            Held::Here { .. } => {
                let text = self.text();
                let mut text = serde_json::Deserializer::from_str(&text);
                serde_transcode::transcode(&mut text, serializer)
            }
            _ => {
                let parts = Parts {
                    parts: self.parts().into_iter(),
                    part: Cow::Borrowed(""),
                    at: 0,
                };
                let mut text = serde_json::Deserializer::from_reader(BufReader::new(parts));
                serde_transcode::transcode(&mut text, serializer)
            }
        }
    }
}

/// Reads one part after the other.
struct Parts<'a> {
    parts: std::vec::IntoIter<&'a Json>,
    part: Cow<'a, str>,
    /// How much of the part was read.
    at: usize,
}

impl Read for Parts<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        while self.at == self.part.len() {
            let Some(part) = self.parts.next() else {
                return Ok(0);
            };
            self.part = part.text();
            self.at = 0;
        }
        let n = (&self.part.as_bytes()[self.at..]).read(into)?;
        self.at += n;
        Ok(n)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut outcome = Ok(());
        self.each_text(&mut |it| outcome = outcome.and_then(|()| f.write_str(it)));
        outcome
    }
}
