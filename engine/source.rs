//! A YAML text: its value, and where in it a JSON pointer points.
//!
//! **Invariant:** reading is bounded. Size, depth, nodes and alias expansion have limits, so no text can hang or exhaust the program.
//!
//! YAML 1.2: `no`, `on` and `Yes` are strings, and so are the keys `null` and `1`. Duplicate keys, second documents and unknown tags are errors. JSON is read by the same reader.

use std::{collections::HashMap, fmt, ops::Range, sync::Arc};

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};
use serde_saphyr::{Location, Spanned};

use crate::diagnostic::{Code, Diagnostic, File, Place};

mod fault;

/// The largest file that is read, in bytes.
pub const MAX_BYTES: usize = 32 << 20;
/// The most values one file may hold, aliases expanded.
const MAX_NODES: usize = 4_000_000;
/// The most values that anchors may name.
const MAX_ANCHORED: usize = 100_000;
/// How deep values may nest. Reading takes up to 35 KB of stack a level, of the 2 MB that a thread has.
const MAX_DEPTH: usize = 48;

/// A file that is YAML.
#[derive(Debug)]
pub struct Source {
    pub file: Arc<File>,
    root: Node,
}

#[derive(Debug, Clone)]
struct Node {
    span: Range<usize>,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Scalar(Value),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug, Clone)]
struct Entry {
    key: String,
    key_span: Range<usize>,
    value: Node,
}

/// Makes a text of bytes, or says where they stop being UTF-8.
pub fn decode(name: &str, bytes: Vec<u8>) -> Result<Arc<File>, Diagnostic> {
    let too_large = bytes.len() > MAX_BYTES;
    if too_large {
        let message = format!("`{name}` is {} bytes long", bytes.len());
        let help = format!("a file may be {MAX_BYTES} bytes long");
        return Err(Diagnostic::error(Code::TooLarge, message).help(help));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Arc::new(File {
            name: name.to_owned(),
            text: text
                .strip_prefix('\u{feff}')
                .map(str::to_owned)
                .unwrap_or(text),
        })),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let valid = String::from_utf8_lossy(&error.as_bytes()[..at]).into_owned();
            let byte = error.as_bytes()[at];
            let file = Arc::new(File {
                name: name.to_owned(),
                text: valid,
            });
            let message = format!("not UTF-8: byte 0x{byte:02x} at byte offset {at}");
            let help = "save the file as UTF-8";
            let at = Place { file, span: at..at };
            Err(Diagnostic::error(Code::NotUtf8, message).at(at).help(help))
        }
    }
}

impl Source {
    /// Reads YAML or JSON. An error is the first thing that keeps the text from being YAML.
    pub fn parse(file: &Arc<File>) -> Result<Source, Diagnostic> {
        if is_blank(&file.text) {
            let root = Node {
                span: 0..0,
                kind: Kind::Map(Vec::new()),
            };
            let file = Arc::clone(file);
            return Ok(Source { file, root });
        }
        let options = serde_saphyr::options! {
            strict_booleans: true,
            reject_unsupported_tags: true,
            reject_tagged_field_names: true,
            null_as_string: true,
            leading_zero_numbers_as_strings: true,
            underscored_numbers_as_strings: true,
            with_snippet: false,
            budget: serde_saphyr::budget! {
                max_depth: MAX_DEPTH,
                max_nodes: MAX_NODES,
                max_events: 3 * MAX_NODES,
                max_recorded_anchor_events: MAX_ANCHORED,
                max_total_scalar_bytes: 2 * MAX_BYTES,
            },
        };
        let tree: Spanned<Tree> = serde_saphyr::from_str_with_options(&file.text, options)
            .map_err(|error| fault::explain(file, &error))?;
        let root = place(tree, file)?;
        let file = Arc::clone(file);
        Ok(Source { file, root })
    }

    /// Reads a text that says of itself that it is JSON, so that what a comma too many may mean is not left to YAML.
    pub fn parse_json(file: &Arc<File>) -> Result<Source, Diagnostic> {
        match serde_json::from_str::<de::IgnoredAny>(&file.text) {
            Ok(_) => Source::parse(file),
            Err(error) => Err(fault::not_json(file, &error)),
        }
    }

    pub fn value(&self) -> Value {
        self.root.value()
    }

    /// The value at a JSON pointer as a whole of its own, with its places in the same file.
    pub fn part(&self, pointer: &str) -> Option<Source> {
        let mut node = &self.root;
        for part in parts(pointer) {
            node = node.child(&part)?.1;
        }
        Some(Source {
            file: Arc::clone(&self.file),
            root: node.clone(),
        })
    }

    /// Where the value at a JSON pointer stands; where there is none, the nearest one around it.
    pub fn place(&self, pointer: &str) -> Place {
        let mut node = &self.root;
        for part in parts(pointer) {
            match node.child(&part) {
                Some((_, child)) => node = child,
                None => break,
            }
        }
        self.at(node.span.clone())
    }

    /// Where the key of the value at a JSON pointer stands. For an item of a list, the item.
    pub fn key_place(&self, pointer: &str) -> Place {
        let mut node = &self.root;
        let mut span = node.span.clone();
        for part in parts(pointer) {
            match node.child(&part) {
                Some((key, child)) => (span, node) = (key, child),
                None => break,
            }
        }
        self.at(span)
    }

    fn at(&self, span: Range<usize>) -> Place {
        let file = Arc::clone(&self.file);
        Place { file, span }
    }
}

impl Node {
    fn value(&self) -> Value {
        match &self.kind {
            Kind::Scalar(value) => value.clone(),
            Kind::List(items) => items.iter().map(Node::value).collect(),
            Kind::Map(entries) => {
                let pairs = entries.iter().map(|it| (it.key.clone(), it.value.value()));
                Value::Object(pairs.collect::<Map<_, _>>())
            }
        }
    }

    fn child(&self, part: &str) -> Option<(Range<usize>, &Node)> {
        match &self.kind {
            Kind::Scalar(_) => None,
            Kind::List(items) => {
                let item = items.get(part.parse::<usize>().ok()?)?;
                Some((item.span.clone(), item))
            }
            Kind::Map(entries) => {
                let entry = entries.iter().find(|it| it.key == part)?;
                Some((entry.key_span.clone(), &entry.value))
            }
        }
    }
}

/// The parts of a JSON pointer (RFC 6901), unescaped.
fn parts(pointer: &str) -> impl Iterator<Item = String> {
    let parts = pointer.split('/').skip(1);
    parts.map(|it| it.replace("~1", "/").replace("~0", "~"))
}

/// One more part at the end of a JSON pointer.
pub fn pointer(parent: &str, part: impl fmt::Display) -> String {
    let part = part.to_string().replace('~', "~0").replace('/', "~1");
    format!("{parent}/{part}")
}

fn is_blank(text: &str) -> bool {
    let is_empty = |it: &str| it.trim().is_empty() || it.trim_start().starts_with('#');
    text.lines().all(is_empty)
}

/// A value as the reader hands it over, with a location at every level.
enum Tree {
    Scalar(Value),
    List(Vec<Spanned<Tree>>),
    Map(Vec<(Spanned<String>, Spanned<Tree>)>),
}

/// Gives every value its bytes. Keys that differ only in how they are written are one.
fn place(tree: Spanned<Tree>, file: &Arc<File>) -> Result<Node, Diagnostic> {
    let span = bytes(&tree.referenced, &file.text);
    let kind = match tree.value {
        Tree::Scalar(value) => Kind::Scalar(value),
        Tree::List(items) => {
            let items = items.into_iter().map(|it| place(it, file));
            Kind::List(items.collect::<Result<_, _>>()?)
        }
        Tree::Map(entries) => {
            let mut seen: HashMap<String, Range<usize>> = HashMap::with_capacity(entries.len());
            let entries = entries.into_iter().map(|(key, value)| {
                let key_span = bytes(&key.referenced, &file.text);
                if let Some(first) = seen.insert(key.value.clone(), key_span.clone()) {
                    return Err(fault::duplicate(file, &key.value, key_span, Some(first)));
                }
                Ok(Entry {
                    key_span,
                    key: key.value,
                    value: place(value, file)?,
                })
            });
            Kind::Map(entries.collect::<Result<_, _>>()?)
        }
    };
    Ok(Node { span, kind })
}

fn bytes(location: &Location, text: &str) -> Range<usize> {
    let span = location.span();
    let floor = |at: usize| {
        let at = at.min(text.len());
        (0..=at)
            .rev()
            .find(|it| text.is_char_boundary(*it))
            .unwrap_or(0)
    };
    let start = match span.byte_offset() {
        Some(offset) => floor(offset as usize),
        // What breaks the syntax is told by line and column alone.
        None => byte_of(text, location.line() as usize, location.column() as usize),
    };
    let length = span.byte_len().map_or(0, |it| it as usize);
    let end = floor(start.saturating_add(length)).max(start);
    let blank = text[start..end].trim_end();
    start..start + blank.len()
}

/// The byte at a line and column, both from 1; the end of the line if it is shorter.
fn byte_of(text: &str, line: usize, column: usize) -> usize {
    let mut lines = text.split_inclusive('\n');
    let above = lines.by_ref().take(line.saturating_sub(1));
    let before: usize = above.map(str::len).sum();
    let line = lines.next().unwrap_or_default().trim_end();
    let in_line = line.char_indices().nth(column.saturating_sub(1));
    before + in_line.map_or(line.len(), |it| it.0)
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        Tree::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Tree, E> {
        match serde_json::Number::from_f64(value) {
            Some(number) => Ok(Tree::Scalar(Value::Number(number))),
            None => Err(E::custom(format!("`{value}` is not a finite number"))),
        }
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = access.next_key()? {
            entries.push((key, access.next_value()?));
        }
        Ok(Tree::Map(entries))
    }
}

#[cfg(test)]
mod tests;
