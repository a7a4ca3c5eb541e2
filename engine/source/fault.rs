//! Says in our words why a text is not YAML.

use std::{ops::Range, sync::Arc};

use serde_saphyr::{Error, budget::BudgetBreach};

use super::{MAX_ANCHORED, MAX_DEPTH, MAX_NODES, byte_of, bytes};
use crate::diagnostic::{Code, Diagnostic, File, Place};

/// What the reader found, at the place where it stopped.
pub(super) fn explain(file: &Arc<File>, error: &Error) -> Diagnostic {
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
    let words = first_line(&error.to_string());
    if let Some(tab) = tab_before(&at).filter(|_| words.contains("tab")) {
        return Diagnostic::error(Code::TabIndent, "a tab indents this line")
            .at(tab)
            .help("YAML indents with spaces: replace the tab");
    }
    let diagnostic = match error {
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.clone().unwrap_or_default();
            let first = first_key(&at, &key);
            return duplicate(file, &key, at.span, first);
        }
        Error::MultipleDocuments { .. } => {
            Diagnostic::error(Code::ManyDocuments, "a second YAML document begins here")
                .help("one file holds one document: take out `---` and what follows it")
        }
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => too_large(limit(error)),
        // The parser's own limit, which brackets reach before they become values.
        _ if words.starts_with("recursion limit") => too_large(DEPTH),
        Error::RecursiveReferencesRequireWeakTypes { .. } => syntax("an alias inside of what it stands for"),
        Error::NonFiniteFloat { value, .. } => {
            syntax(format!("`{value}` is not a finite number"))
        }
        Error::Unexpected {
            expected: "string scalar",
            ..
        } => syntax("a list or a mapping as a key; a key is a text"),
        // As in "unexpected character: `x'".
        _ => syntax(words.replace("'", "`")).help(
            "see whether this line, or the one above it, is indented like its neighbours; text with `: `, or that begins with a bracket or another mark, stands in quotes",
        ),
    };
    diagnostic.at(at)
}

/// A key that one mapping has two times, and where the first of them stands.
pub(super) fn duplicate(
    file: &Arc<File>,
    key: &str,
    span: Range<usize>,
    first: Option<Range<usize>>,
) -> Diagnostic {
    let place = |span| Place {
        file: Arc::clone(file),
        span,
    };
    let message = format!("the key `{key}` stands twice in one mapping");
    let diagnostic = Diagnostic::error(Code::DuplicateKey, message)
        .at(place(span))
        .help("keep one of them; the other would be lost without a word");
    match first {
        Some(first) => diagnostic.related(place(first), "it stands here first"),
        None => diagnostic,
    }
}

/// Why a text that should be JSON is none.
pub(super) fn not_json(file: &Arc<File>, error: &serde_json::Error) -> Diagnostic {
    // Its columns count bytes.
    let line = byte_of(&file.text, error.line(), 1);
    let at = line + error.column().saturating_sub(1);
    let at = file.text.floor_char_boundary(at);
    let place = Place {
        file: Arc::clone(file),
        span: at..at,
    };
    let message = format!("not JSON: {}", first_line(&error.to_string()));
    Diagnostic::error(Code::NotJson, message)
        .at(place)
        .help("JSON has double quotes, no comma after the last item, and no comments; a file named `.yaml` may be either")
}

const DEPTH: (usize, &str) = (MAX_DEPTH, "levels of values inside each other");

fn syntax(message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(Code::YamlSyntax, message)
}

fn too_large((limit, what): (usize, &str)) -> Diagnostic {
    let message = format!("too much for one file: more than {limit} {what}");
    let help = format!(
        "a file holds at most {MAX_NODES} values, nested {MAX_DEPTH} deep; what an alias stands for counts every time"
    );
    Diagnostic::error(Code::TooLarge, message).help(help)
}

/// The limit that was met, and what of.
fn limit(error: &Error) -> (usize, &'static str) {
    match error {
        Error::Budget {
            breach: BudgetBreach::Depth { .. },
            ..
        } => DEPTH,
        Error::Budget {
            breach: BudgetBreach::RecordedAnchorEvents { .. },
            ..
        } => (MAX_ANCHORED, "values behind anchors"),
        _ => (MAX_NODES, "values"),
    }
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

/// Where the key stands that `second` repeats: in the same column of a line above, or before it in the same braces.
fn first_key(second: &Place, key: &str) -> Option<Range<usize>> {
    let text = &second.file.text;
    let second_line = line_start(text, second.span.start);
    let column = second.span.start - second_line;
    let is_block = is_indent(&text[second_line..second.span.start]);
    let in_column = |at: usize| {
        let line = line_start(text, at);
        let quote = usize::from(text[..at].ends_with(['"', '\'']));
        at - quote - line == column && at < second_line && is_indent(&text[line..at - quote])
    };
    let before = &text[..second.span.start];
    let keys = before.rmatch_indices(key).map(|(at, _)| at);
    let keys: Vec<usize> = keys.filter(|at| is_key(&text[at + key.len()..])).collect();
    let first = keys.iter().copied().find(|at| is_block && in_column(*at));
    let first = first.or_else(|| {
        let open = open_brace(before)?;
        keys.into_iter().find(|at| {
            let before = text[open..*at].trim_end_matches(['"', '\'']).trim_end();
            open_brace(before) == Some(0) && before.ends_with(['{', ','])
        })
    })?;
    Some(first..first + key.len())
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |it| it + 1)
}

/// Whether a key can stand after this at the start of a line, which is no part of another text.
fn is_indent(text: &str) -> bool {
    text.trim_matches([' ', '-', '?']).is_empty()
}

/// Whether what comes before this is the whole of a key.
fn is_key(after: &str) -> bool {
    let after = after.strip_prefix(['"', '\'']).unwrap_or(after);
    after.trim_start_matches(' ').starts_with(':')
        || after.trim_start_matches(' ').starts_with('\n')
}

/// Where the innermost brace or bracket begins that is open at the end of a text.
fn open_brace(text: &str) -> Option<usize> {
    let mut closed = 0_usize;
    for (at, byte) in text.bytes().enumerate().rev() {
        match byte {
            b'}' | b']' => closed += 1,
            b'{' | b'[' if closed == 0 => return Some(at),
            b'{' | b'[' => closed -= 1,
            _ => (),
        }
    }
    None
}

fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let line = line.split(" at line ").next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}
