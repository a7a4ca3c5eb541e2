//! What a task may own: a file, a folder, or what a glob matches.

use std::{borrow::Cow, fmt, sync::Arc};

use super::{
    file::{FilePath, PathFault, normalise},
    key::Key,
    pattern::{self, Pattern},
};

/// How many pairs of states [`overlaps`] looks at before it takes two globs to overlap.
const MAX_PAIRS: usize = 1 << 20;

/// A path that a task owns.
///
/// A glob is made of `*` and `?` (within a name), `[a-z]` and `[!a-z]`, `**` as a whole part (any number of folders,
/// and at the end all that is inside), and `{a,b}`. What is no well-formed glob is text, as in a shell; and a glob with
/// brackets or braces also covers the path that is written like it, as `app/[id]/page.tsx`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedPath(Kind);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    File(FilePath),
    /// Without a `/` at its end; empty for the root.
    Folder(Arc<str>),
    Glob(Arc<Glob>),
}

#[derive(Debug, PartialEq, Eq)]
struct Glob {
    text: String,
    /// Covers what any of them matches.
    patterns: Vec<Pattern>,
    /// The same without case.
    folded: Vec<Pattern>,
}

impl OwnedPath {
    /// Reads and normalises a path: `.\src\*.rs` is `src/*.rs`.
    ///
    /// # Errors
    /// The text is blank, too long, leaves the folder, has a part `.git`, control characters, or too many alternatives.
    pub fn parse(written: &str) -> Result<OwnedPath, PathFault> {
        let normal = normalise(written)?;
        let texts = pattern::alternatives(&normal.text).ok_or(PathFault::Alternatives)?;
        if texts.len() == 1 && Pattern::glob(&normal.text).is_exact() {
            return Ok(OwnedPath(match normal.is_folder {
                true => Kind::Folder(normal.text.into()),
                false => Kind::File(FilePath::parse(&normal.text)?),
            }));
        }
        let mut patterns = Vec::new();
        for text in &texts {
            // Braces may hide what is refused elsewhere.
            let one = normalise(text)?;
            let is_folder = one.is_folder || normal.is_folder;
            patterns.push(if is_folder {
                inside(&one.text)
            } else {
                Pattern::glob(&one.text)
            });
        }
        let text = match normal.is_folder {
            true => format!("{}/**", normal.text),
            false => normal.text,
        };
        if text.contains(['[', '{']) {
            patterns.push(Pattern::exact(&text));
        }
        let folded = patterns.iter().map(Pattern::folded).collect();
        Ok(OwnedPath(Kind::Glob(Arc::new(Glob {
            text,
            patterns,
            folded,
        }))))
    }

    /// Whether a file is this one, in this folder, or matched by this glob, in this case.
    pub fn covers(&self, path: &FilePath) -> bool {
        match &self.0 {
            Kind::File(file) => file == path,
            Kind::Folder(folder) if folder.is_empty() => true,
            Kind::Folder(folder) => {
                let inside = path.as_str().strip_prefix(&**folder);
                inside.is_some_and(|it| it.starts_with('/'))
            }
            Kind::Glob(glob) => {
                let path = Pattern::exact(path.as_str());
                glob.patterns.iter().any(|it| it.meets(&path))
            }
        }
    }

    /// The file, if it is exactly one.
    pub fn as_file(&self) -> Option<&FilePath> {
        match &self.0 {
            Kind::File(file) => Some(file),
            _ => None,
        }
    }

    /// Where all it covers is: the file itself, the folder, the folders before the first part of a glob that is not text.
    pub(super) fn key(&self) -> Key {
        match &self.0 {
            Kind::File(file) => Key::new(file.as_str()),
            Kind::Folder(folder) => Key::new(folder),
            Kind::Glob(glob) => {
                let text = glob.text.find(['*', '?', '[', '{']);
                let text = text.and_then(|at| glob.text[..at].rfind('/'));
                Key::new(text.map_or("", |at| &glob.text[..at]))
            }
        }
    }

    fn is_glob(&self) -> bool {
        matches!(self.0, Kind::Glob(_))
    }

    /// Patterns of what it covers, without case.
    fn folded(&self) -> Cow<'_, [Pattern]> {
        match &self.0 {
            Kind::File(file) => vec![Pattern::exact(file.as_str()).folded()].into(),
            Kind::Folder(folder) => vec![inside(folder).folded()].into(),
            Kind::Glob(glob) => Cow::Borrowed(&glob.folded),
        }
    }
}

impl From<&FilePath> for OwnedPath {
    fn from(file: &FilePath) -> OwnedPath {
        OwnedPath(Kind::File(file.clone()))
    }
}

impl fmt::Display for OwnedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::File(file) => write!(f, "{file}"),
            Kind::Folder(folder) if folder.is_empty() => f.write_str("./"),
            Kind::Folder(folder) => write!(f, "{folder}/"),
            Kind::Glob(glob) => f.write_str(&glob.text),
        }
    }
}

/// Whether two tasks that own these paths could get in each other's way, in whatever case they write them: there is a
/// file that both cover, or one needs a file where the other needs a folder.
///
/// Of two globs it asks whether there is a path that both match, exactly but for two things: globs whose comparison
/// would take too long are taken to overlap, and so are classes that differ only outside of ASCII.
pub fn overlaps(a: &OwnedPath, b: &OwnedPath) -> bool {
    overlap((a, &a.key()), (b, &b.key()))
}

/// The same of paths whose keys are known.
pub(super) fn overlap((a, a_key): (&OwnedPath, &Key), (b, b_key): (&OwnedPath, &Key)) -> bool {
    let (a_holds_b, b_holds_a) = (a_key.holds(b_key), b_key.holds(a_key));
    match (a.is_glob(), b.is_glob()) {
        _ if !a_holds_b && !b_holds_a => false,
        (false, false) => true,
        (false, true) if a_holds_b => true,
        (true, false) if b_holds_a => true,
        _ => can_match_one_path(&a.folded(), &b.folded()),
    }
}

fn can_match_one_path(a: &[Pattern], b: &[Pattern]) -> bool {
    let states = |patterns: &[Pattern]| patterns.iter().map(|it| it.len() + 1).sum::<usize>();
    states(a) * states(b) > MAX_PAIRS || a.iter().any(|a| b.iter().any(|b| a.meets(b)))
}

/// Matches all that is inside a folder.
fn inside(folder: &str) -> Pattern {
    match folder {
        "" => Pattern::glob("**"),
        _ => Pattern::glob(&format!("{folder}/**")),
    }
}
