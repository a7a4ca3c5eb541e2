//! A YAML text: its value, and where in it a JSON pointer points.
//!
//! **Invariant:** reading is bounded. Size, depth, nodes and alias expansion have limits, so no text can hang or exhaust the program.
//!
//! YAML 1.2: `no`, `on` and `Yes` are strings. Duplicate keys, second documents and unknown tags are errors. JSON is read by the same reader.

use std::{fmt, ops::Range, sync::Arc};

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};
use serde_saphyr::{Location, Spanned};

use crate::diagnostic::{Code, Diagnostic, File, Place};

/// The largest file that is read, in bytes.
pub const MAX_BYTES: usize = 16 << 20;
/// The most values one file may hold, aliases expanded.
const MAX_NODES: usize = 1_000_000;
/// How deep values may nest.
const MAX_DEPTH: usize = 64;

/// A file that is YAML.
#[derive(Debug)]
pub struct Source {
    pub file: Arc<File>,
    root: Node,
}

#[derive(Debug)]
struct Node {
    span: Range<usize>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Scalar(Value),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug)]
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
            leading_zero_numbers_as_strings: true,
            underscored_numbers_as_strings: true,
            with_snippet: false,
            budget: serde_saphyr::budget! {
                max_depth: MAX_DEPTH,
                max_nodes: MAX_NODES,
                max_events: 3 * MAX_NODES,
                max_total_scalar_bytes: 2 * MAX_BYTES,
            },
        };
        let tree: Spanned<Tree> = serde_saphyr::from_str_with_options(&file.text, options)
            .map_err(|error| explain(file, &error))?;
        let root = place(tree, &file.text);
        let file = Arc::clone(file);
        Ok(Source { file, root })
    }

    pub fn value(&self) -> Value {
        self.root.value()
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

/// Gives every value its bytes.
fn place(tree: Spanned<Tree>, text: &str) -> Node {
    let span = bytes(&tree.referenced, text);
    let kind = match tree.value {
        Tree::Scalar(value) => Kind::Scalar(value),
        Tree::List(items) => Kind::List(items.into_iter().map(|it| place(it, text)).collect()),
        Tree::Map(entries) => {
            let entries = entries.into_iter().map(|(key, value)| Entry {
                key_span: bytes(&key.referenced, text),
                key: key.value,
                value: place(value, text),
            });
            Kind::Map(entries.collect())
        }
    };
    Node { span, kind }
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
    let start = floor(span.byte_offset().map_or(0, |it| it as usize));
    let length = span.byte_len().map_or(0, |it| it as usize);
    let end = floor(start.saturating_add(length)).max(start);
    let blank = text[start..end].trim_end();
    start..start + blank.len()
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

/// Says in our words what the reader found.
fn explain(file: &Arc<File>, error: &serde_saphyr::Error) -> Diagnostic {
    use serde_saphyr::Error;
    let mut error = error.without_snippet();
    // What goes wrong behind an alias is told at the alias, with the cause inside.
    while let Error::AliasError { error: inner, .. } = error {
        error = inner.without_snippet();
    }
    let span = error
        .location()
        .map(|it| bytes(&it, &file.text))
        .unwrap_or(0..0);
    let at = Place {
        file: Arc::clone(file),
        span,
    };
    if let Some(tab) = tab_before(&at).filter(|_| error.to_string().contains("tab")) {
        return Diagnostic::error(Code::TabIndent, "a tab indents this line")
            .at(tab)
            .help("YAML indents with spaces: replace the tab");
    }
    let diagnostic = match error {
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.clone().unwrap_or_default();
            let message = format!("the key `{key}` stands twice in one mapping");
            let first = first_key(&file.text, &at, &key);
            let diagnostic = Diagnostic::error(Code::DuplicateKey, message)
                .help("keep one of them; the other would be lost without a word");
            match first {
                Some(first) => diagnostic.related(first, "it stands here first"),
                None => diagnostic,
            }
        }
        Error::MultipleDocuments { .. } => {
            Diagnostic::error(Code::ManyDocuments, "a second YAML document begins here")
                .help("one file holds one document: take out `---` and what follows it")
        }
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            let message = format!("too much for one file: {error}");
            let help = format!(
                "a file holds at most {MAX_NODES} values, nested {MAX_DEPTH} deep, aliases expanded"
            );
            Diagnostic::error(Code::TooLarge, message).help(help)
        }
        _ => Diagnostic::error(Code::YamlSyntax, first_line(&error.to_string()))
            .help("see whether this line, or the one above it, is indented like its neighbours"),
    };
    diagnostic.at(at)
}

/// The first tab that indents a line, from the line of a place on.
fn tab_before(place: &Place) -> Option<Place> {
    let text = &place.file.text;
    let mut start = text[..place.span.start].rfind('\n').map_or(0, |it| it + 1);
    for line in text[start..].split_inclusive('\n') {
        let indent = line.len() - line.trim_start().len();
        if let Some(at) = line[..indent].find('\t') {
            let file = Arc::clone(&place.file);
            let at = start + at;
            return Some(Place {
                file,
                span: at..at + 1,
            });
        }
        start += line.len();
    }
    None
}

/// The line above `second` that has the same key at the same depth.
fn first_key(text: &str, second: &Place, key: &str) -> Option<Place> {
    let line_start = text[..second.span.start].rfind('\n').map_or(0, |it| it + 1);
    let indent = second.span.start - line_start;
    let mut end = line_start.checked_sub(1)?;
    loop {
        let start = text[..end].rfind('\n').map_or(0, |it| it + 1);
        let line = &text[start..end];
        let found = line
            .get(indent..)
            .filter(|it| it.trim_start_matches(['"', '\'']).starts_with(key));
        let before_is_blank = line
            .get(..indent)
            .is_some_and(|it| it.trim_matches([' ', '-']).is_empty());
        if found.is_some() && before_is_blank {
            let span = start + indent..start + indent + key.len();
            let file = Arc::clone(&second.file);
            return Some(Place { file, span });
        }
        end = start.checked_sub(1)?;
    }
}

fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let line = line.split(" at line ").next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}
