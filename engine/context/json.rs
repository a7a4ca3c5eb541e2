//! A JSON value that is held as its text, and read only where somebody looks into it.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use serde::{Serialize, Serializer};
use serde_json::Value;

/// A JSON value. A copy costs nothing.
///
/// A tree takes some ten times the memory of its text, and most values are only ever handed on.
#[derive(Clone)]
pub struct Json(Arc<Held>);

/// Invariant: at least one of them is set, and they say the same.
struct Held {
    text: OnceLock<Box<str>>,
    value: OnceLock<Box<Value>>,
}

impl Json {
    /// Holds the text alone.
    pub fn of_text(text: String) -> Json {
        debug_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok());
        Json(Arc::new(Held {
            text: OnceLock::from(text.into_boxed_str()),
            value: OnceLock::new(),
        }))
    }

    /// Holds the text of a value alone.
    pub fn written(value: &Value) -> Json {
        Json::of_text(value.to_string())
    }

    /// The text, compact.
    pub fn text(&self) -> &str {
        self.0.text.get_or_init(|| {
            let value = self.0.value.get().expect("one of both is set");
            value.to_string().into_boxed_str()
        })
    }

    /// The tree, which is kept from now on.
    pub fn value(&self) -> &Value {
        self.0.value.get_or_init(|| Box::new(self.read()))
    }

    /// The tree, for somebody who needs it once.
    pub fn to_value(&self) -> Value {
        match self.0.value.get() {
            Some(value) => Value::clone(value),
            None => self.read(),
        }
    }

    fn read(&self) -> Value {
        let text = self.0.text.get().expect("one of both is set");
        serde_json::from_str(text).expect("it was written from a value")
    }
}

/// Holds the tree alone.
impl From<Value> for Json {
    fn from(value: Value) -> Json {
        Json(Arc::new(Held {
            text: OnceLock::new(),
            value: OnceLock::from(Box::new(value)),
        }))
    }
}

/// As the value, though no tree is made for it.
impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.0.value.get(), self.0.text.get()) {
            (None, Some(text)) => {
                let mut text = serde_json::Deserializer::from_str(text);
                serde_transcode::transcode(&mut text, serializer)
            }
            _ => self.value().serialize(serializer),
        }
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}
