//! Paths as they are compared between tasks: without case, and in an order that suits folders.
//!
//! **Invariant:** in the order of keys, what is inside a folder comes right after the folder.

/// A path in lower case, with a separator that sorts before every character of a path. Empty for the root.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key(String);

const SEPARATOR: char = '\0';

impl Key {
    /// The key of a normalised path.
    pub(super) fn new(path: &str) -> Key {
        let chars = path.chars();
        Key(chars
            .map(|it| if it == '/' { SEPARATOR } else { fold(it) })
            .collect())
    }

    /// Whether `other` is the same path or inside this one.
    pub(super) fn holds(&self, other: &Key) -> bool {
        let rest = other.0.strip_prefix(&self.0);
        rest.is_some_and(|it| self.0.is_empty() || it.is_empty() || it.starts_with(SEPARATOR))
    }

    /// The folders that it is in, from the root down.
    pub(super) fn folders(&self) -> impl Iterator<Item = Key> {
        let root = (!self.0.is_empty()).then(|| Key(String::new()));
        let separators = self.0.match_indices(SEPARATOR);
        root.into_iter()
            .chain(separators.map(|(at, _)| Key(self.0[..at].to_owned())))
    }

    /// The least key of all that could be inside it.
    pub(super) fn first_inside(&self) -> Key {
        Key(format!("{}{SEPARATOR}", self.0))
    }
}

/// A character in lower case, where that is one character and ASCII only if the first is.
pub(super) fn fold(char: char) -> char {
    let mut lower = char.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(lower), None) if lower.is_ascii() == char.is_ascii() => lower,
        _ => char,
    }
}
