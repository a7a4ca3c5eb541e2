//! What an author or a planner got wrong: a code, a place, the value found, the values allowed, and the cure.
//!
//! **Invariant:** a diagnostic is about something a person or a planner wrote, never about the world or a worker.
//! **Invariant:** the text drawn for a person is the text a planner is sent.

use std::{cmp::Ordering, fmt, ops::Range, sync::Arc};

mod code;
mod draw;

pub use code::Code;
pub use draw::{Style, draw, summary};

/// A text that somebody wrote: a file, or a planner's reply.
#[derive(Debug, PartialEq, Eq)]
pub struct File {
    /// How people name it: a path relative to the folder they are in, or `reply of PlanAgent`.
    pub name: String,
    pub text: String,
}

/// A range of bytes in a file. `span` lies on character boundaries of the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Place {
    pub file: Arc<File>,
    pub span: Range<usize>,
}

impl Place {
    /// The first byte of a file, for what is wrong with the file as a whole.
    pub fn start_of(file: &Arc<File>) -> Place {
        Place {
            file: Arc::clone(file),
            span: 0..0,
        }
    }

    /// Line and column of the first character, both from 1; columns count characters.
    pub fn line_column(&self) -> (usize, usize) {
        let before = &self.file.text[..self.span.start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let line = before.bytes().filter(|it| *it == b'\n').count() + 1;
        (line, before[line_start..].chars().count() + 1)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.line_column();
        write!(f, "{}:{line}:{column}", self.file.name)
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing starts.
    Error,
    /// It runs, but not quite as it reads.
    Warning,
}

/// One mistake, with all that helps to mend it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    pub code: Code,
    pub severity: Severity,
    /// Lower case, no full stop, with back-ticks around what was written.
    pub message: String,
    pub at: Option<Place>,
    /// Other places that belong to it, each with a word about it.
    pub related: Vec<(Place, String)>,
    /// What was written there, where the excerpt alone does not say.
    pub found: Option<String>,
    /// What could have been written.
    pub allowed: Vec<String>,
    /// The allowed value that is closest to the one found.
    pub suggestion: Option<String>,
    pub help: Option<String>,
}

impl Diagnostic {
    pub fn error(code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            severity: Severity::Error,
            message: one_line(message.into()),
            at: None,
            related: Vec::new(),
            found: None,
            allowed: Vec::new(),
            suggestion: None,
            help: None,
        }
    }

    pub fn warning(code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Warning,
            ..Diagnostic::error(code, message)
        }
    }

    pub fn at(mut self, place: Place) -> Diagnostic {
        self.at = Some(place);
        self
    }

    pub fn related(mut self, place: Place, note: impl Into<String>) -> Diagnostic {
        self.related.push((place, note.into()));
        self
    }

    pub fn found(mut self, found: impl Into<String>) -> Diagnostic {
        self.found = Some(found.into());
        self
    }

    /// Lists what is allowed; with a value found that is close to one of them, suggests it.
    pub fn allowed<S: Into<String>>(mut self, allowed: impl IntoIterator<Item = S>) -> Diagnostic {
        self.allowed = allowed.into_iter().map(Into::into).collect();
        if let Some(found) = &self.found {
            self.suggestion = closest(found, &self.allowed).map(str::to_owned);
        }
        self
    }

    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// By file, then by place in it; what has no place comes first.
    pub fn order(&self, other: &Diagnostic) -> Ordering {
        let key = |it: &Diagnostic| {
            let at = it.at.as_ref();
            at.map(|at| (at.file.name.clone(), at.span.start))
        };
        key(self)
            .cmp(&key(other))
            .then_with(|| self.code.as_str().cmp(other.code.as_str()))
    }
}

/// A text in which what a planner or a file wrote cannot begin a line, move a cursor, or hide.
fn one_line(text: String) -> String {
    if !text.contains(is_unseen) {
        return text;
    }
    let shown = |it: char| match it {
        it if is_unseen(it) => it.escape_unicode().collect::<String>(),
        it => it.to_string(),
    };
    text.chars().map(shown).collect()
}

/// Control characters, and those that have no width or turn the direction of a text.
fn is_unseen(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Sorts by place and takes out what was found twice.
pub fn sort(diagnostics: &mut Vec<Diagnostic>) {
    diagnostics.sort_by(Diagnostic::order);
    diagnostics.dedup();
}

/// Keeps the first `most`, and says how many more there are.
pub fn keep_first(diagnostics: &mut Vec<Diagnostic>, most: usize) {
    if let Some(next) = diagnostics.get(most) {
        let more = diagnostics.len() - most;
        let message = format!("and {more} more faults, after the first {most}");
        let last = Diagnostic::error(next.code, message);
        diagnostics.truncate(most);
        diagnostics.push(last);
    }
}

/// Whether two words differ in one letter at most, or in the order of two.
pub fn is_slip(one: &str, other: &str) -> bool {
    strsim::damerau_levenshtein(one, other) <= 1
}

/// The candidate that `found` was most likely meant to be, if one is near enough to say so.
pub fn closest<'a, S: AsRef<str>>(found: &str, candidates: &'a [S]) -> Option<&'a str> {
    let folded = found.to_lowercase();
    candidates
        .iter()
        .map(|it| it.as_ref())
        .filter(|it| *it != found)
        .map(|it| (strsim::jaro_winkler(&folded, &it.to_lowercase()), it))
        .filter(|(likeness, _)| *likeness > 0.83)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, it)| it)
}

/// `one` as it is, or "`a`, `b` or `c`", at most eight of them.
pub fn list<S: AsRef<str>>(items: &[S]) -> String {
    const SHOWN: usize = 8;
    let quoted: Vec<String> = items
        .iter()
        .take(SHOWN)
        .map(|it| format!("`{}`", it.as_ref()))
        .collect();
    match (quoted.as_slice(), items.len().saturating_sub(SHOWN)) {
        ([], _) => "nothing".to_owned(),
        ([one], 0) => one.clone(),
        ([most @ .., last], 0) => format!("{} or {last}", most.join(", ")),
        (shown, more) => format!("{} or {more} more", shown.join(", ")),
    }
}
