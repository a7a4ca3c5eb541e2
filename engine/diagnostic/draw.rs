//! Draws diagnostics with the line they are about, as `rustc` does.
//!
//! **Invariant:** the cost of drawing one does not grow with the size of its file, but for finding its line.

use std::ops::Range;

use annotate_snippets::{
    AnnotationKind, Element, Group, Level, Origin, Renderer, Snippet, renderer::DecorStyle,
};

use super::{Diagnostic, Place, Severity, list};

/// How much of a line is shown on either side of the place.
const SIDE: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// For files, planners and terminals that want no colour.
    Plain,
    Coloured,
}

/// Draws all of them, in the order given, with an empty line between.
pub fn draw(diagnostics: &[Diagnostic], style: Style) -> String {
    let renderer = match style {
        Style::Plain => Renderer::plain(),
        Style::Coloured => Renderer::styled(),
    };
    let renderer = renderer.decor_style(DecorStyle::Ascii);
    let mut text = String::new();
    for diagnostic in diagnostics {
        let shown = Shown::of(diagnostic);
        text.push_str(&renderer.render(&shown.groups(diagnostic)));
        text.push_str("\n\n");
    }
    text
}

/// `2 errors, 1 warning`.
pub fn summary(diagnostics: &[Diagnostic]) -> String {
    let count = |severity: Severity, word: &str| {
        let n = diagnostics.iter().filter(|it| it.severity == severity);
        match n.count() {
            0 => None,
            1 => Some(format!("1 {word}")),
            n => Some(format!("{n} {word}s")),
        }
    };
    let parts: Vec<String> = [
        count(Severity::Error, "error"),
        count(Severity::Warning, "warning"),
    ]
    .into_iter()
    .flatten()
    .collect();
    match parts.as_slice() {
        [] => "no errors".to_owned(),
        parts => parts.join(", "),
    }
}

/// The texts of one drawing; groups borrow from them.
struct Shown {
    title: String,
    at: Option<Excerpt>,
    related: Vec<(Excerpt, String)>,
    notes: Vec<String>,
    helps: Vec<String>,
}

impl Shown {
    fn of(diagnostic: &Diagnostic) -> Shown {
        let mut notes = Vec::new();
        let mut helps = Vec::new();
        if !diagnostic.allowed.is_empty() {
            notes.push(format!("expected {}", list(&diagnostic.allowed)));
        }
        if let Some(suggestion) = &diagnostic.suggestion {
            helps.push(format!("did you mean `{suggestion}`?"));
        }
        helps.extend(diagnostic.help.clone());
        let related = diagnostic.related.iter();
        Shown {
            title: printable(&diagnostic.message),
            at: diagnostic.at.as_ref().map(Excerpt::of),
            related: related
                .map(|(place, note)| (Excerpt::of(place), printable(note)))
                .collect(),
            notes: notes.iter().map(|it| printable(it)).collect(),
            helps: helps.iter().map(|it| printable(it)).collect(),
        }
    }

    fn groups<'a>(&'a self, diagnostic: &Diagnostic) -> Vec<Group<'a>> {
        let level = match diagnostic.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let title = level
            .primary_title(self.title.as_str())
            .id(diagnostic.code.as_str());
        let mut group = Group::with_title(title);
        if let Some(at) = &self.at {
            group = group.elements(at.elements(None));
        }
        for (at, note) in &self.related {
            group = group.elements(at.elements(Some(note)));
        }
        for note in &self.notes {
            group = group.element(Level::NOTE.message(note.as_str()));
        }
        for help in &self.helps {
            group = group.element(Level::HELP.message(help.as_str()));
        }
        vec![group]
    }
}

/// The line of a place, cut where it is long.
struct Excerpt {
    file: String,
    line: usize,
    column: usize,
    text: String,
    span: Range<usize>,
    is_cut: bool,
}

impl Excerpt {
    fn of(place: &Place) -> Excerpt {
        let text = &place.file.text;
        let start = place.span.start.min(text.len());
        let line_start = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let end = place.span.end.clamp(start, line_end);

        let from = text.floor_char_boundary(start.saturating_sub(SIDE).max(line_start));
        let to = text.floor_char_boundary((start + SIDE).min(line_end));
        let text = text[from..to].trim_end_matches('\r');
        // A place may reach over the end of the line, which is not shown.
        let shown = |at: usize| (at - from).min(text.len());
        let (line, column) = place.line_column();
        Excerpt {
            file: place.file.name.clone(),
            line,
            column,
            text: printable(text),
            span: shown(start)..shown(end),
            is_cut: from != line_start,
        }
    }

    fn elements<'a>(&'a self, note: Option<&'a str>) -> Vec<Element<'a>> {
        let origin = Origin::path(self.file.as_str())
            .line(self.line)
            .char_column(self.column);
        let kind = match note {
            None => AnnotationKind::Primary,
            Some(_) => AnnotationKind::Context,
        };
        let annotation = kind.span(self.span.clone()).label(note);
        let snippet = Snippet::source(self.text.as_str())
            .line_start(self.line)
            .annotation(annotation);
        match self.is_cut {
            // The drawing would count the column in what is left of the line.
            true => vec![origin.into(), snippet.into()],
            false => vec![snippet.path(self.file.as_str()).into()],
        }
    }
}

/// Control characters could move a terminal's cursor; each is shown as one space, so that byte spans stay true.
fn printable(text: &str) -> String {
    let shown = |it: char| match it {
        '\n' | '\t' => it,
        it if it.is_ascii_control() => ' ',
        it => it,
    };
    text.chars().map(shown).collect()
}
