//! The path of one file.

use std::{fmt, sync::Arc};

use super::pattern::MAX_ALTERNATIVES;

/// The longest path, in bytes.
const MAX_BYTES: usize = 1024;
/// The longest name of one file or folder, in bytes: what common file systems take.
const MAX_PART_BYTES: usize = 255;

/// The path of a file inside the run's artifact folder: names with `/` between them, trimmed, none of them blank, `.`, `..` or `.git`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilePath(Arc<str>);

/// Why a text is not a path that a task can own or write. Reads after the path, as in "`/etc`: it is absolute".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathFault {
    Blank,
    /// The path has so many bytes.
    TooLong(usize),
    /// A file or folder in the path has a name of so many bytes.
    NameTooLong(usize),
    Control(char),
    /// Starts with `/`, as a UNC path does too.
    Absolute,
    /// Starts with the letter of a drive, as `C:`.
    Drive,
    /// Has a part `..`.
    Parent,
    /// Has a part `.git`: programs run what stands there.
    Git,
    /// Names a folder where a file is needed.
    Folder,
    /// Its braces stand for too many paths.
    Alternatives,
}

impl FilePath {
    /// Reads and normalises a path: `.\a// b` is `a/b`.
    ///
    /// # Errors
    /// The text is blank, too long, leaves the folder, has a part `.git` or control characters, or names a folder.
    pub fn parse(written: &str) -> Result<FilePath, PathFault> {
        match normalise(written)? {
            Normal {
                is_folder: true, ..
            } => Err(PathFault::Folder),
            Normal { text, .. } => {
                let longest = text.split('/').map(str::len).max().unwrap_or_default();
                if longest > MAX_PART_BYTES {
                    return Err(PathFault::NameTooLong(longest));
                }
                Ok(FilePath(text.into()))
            }
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for FilePath {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PathFault {}

impl fmt::Display for PathFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathFault::Blank => f.write_str("it is blank"),
            PathFault::TooLong(bytes) => {
                write!(f, "it is {bytes} bytes long; {MAX_BYTES} are allowed")
            }
            PathFault::NameTooLong(bytes) => {
                write!(
                    f,
                    "it has a name of {bytes} bytes; {MAX_PART_BYTES} are allowed"
                )
            }
            PathFault::Control(char) => {
                write!(f, "it has the control character `{}`", char.escape_debug())
            }
            PathFault::Absolute => f.write_str("it is absolute"),
            PathFault::Drive => f.write_str("it starts with the letter of a drive"),
            PathFault::Parent => f.write_str("it has a part `..`"),
            PathFault::Git => f.write_str("it has a part `.git`, from where git runs programs"),
            PathFault::Folder => f.write_str("it names a folder, not a file"),
            PathFault::Alternatives => {
                write!(f, "its braces stand for more than {MAX_ALTERNATIVES} paths")
            }
        }
    }
}

/// A path without what does not matter in it.
pub(super) struct Normal {
    /// Parts with `/` between them; empty for the root.
    pub(super) text: String,
    /// Whether it can only be a folder: the root, or written with a `/` or `/.` at its end.
    pub(super) is_folder: bool,
}

pub(super) fn normalise(written: &str) -> Result<Normal, PathFault> {
    let text = written.trim();
    if text.is_empty() {
        return Err(PathFault::Blank);
    }
    if text.len() > MAX_BYTES {
        return Err(PathFault::TooLong(text.len()));
    }
    if let Some(char) = text.chars().find(|it| it.is_control()) {
        return Err(PathFault::Control(char));
    }
    let text = text.replace('\\', "/");
    if text.starts_with('/') {
        return Err(PathFault::Absolute);
    }
    let parts = text.split('/').map(str::trim);
    if parts.clone().any(|it| it == "..") {
        return Err(PathFault::Parent);
    }
    if parts.clone().any(|it| it.eq_ignore_ascii_case(".git")) {
        return Err(PathFault::Git);
    }
    let means_nothing = |it: &&str| matches!(*it, "" | ".");
    let is_folder = parts
        .clone()
        .next_back()
        .is_some_and(|it| means_nothing(&it));
    let parts: Vec<&str> = parts.filter(|it| !means_nothing(it)).collect();
    let text = parts.join("/");
    if matches!(text.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic()) {
        return Err(PathFault::Drive);
    }
    Ok(Normal { text, is_folder })
}
