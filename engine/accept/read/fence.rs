//! Fenced blocks, as Markdown has them.

use std::ops::Range;

/// What stands between the lines of each fence that is closed. An open one at the end is no block: it may be cut off.
///
/// A fence is at the start of a line, so it is never inside a JSON string, which has no line breaks.
pub(super) fn blocks(text: &str) -> Vec<Range<usize>> {
    let mut blocks = Vec::new();
    let mut open: Option<(Fence, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        match (&open, fence(line)) {
            (Some((opening, start)), Some((closing, ""))) if closing.closes(opening) => {
                blocks.push(*start..at);
                open = None;
            }
            (None, Some((opening, label))) if opening.may_have(label) => {
                open = Some((opening, end))
            }
            _ => (),
        }
        at = end;
    }
    blocks
}

/// A run of three or more of one mark.
struct Fence {
    mark: char,
    length: usize,
}

impl Fence {
    fn closes(&self, opening: &Fence) -> bool {
        self.mark == opening.mark && self.length >= opening.length
    }

    /// After backticks, a label with backticks would be code within a line.
    fn may_have(&self, label: &str) -> bool {
        self.mark == '~' || !label.contains('`')
    }
}

/// The fence at the start of a line, and the label after it.
fn fence(line: &str) -> Option<(Fence, &str)> {
    let marks = line.trim_start_matches(' ');
    let indent = line.len() - marks.len();
    let mark = marks.chars().next().filter(|it| matches!(it, '`' | '~'))?;
    let label = marks.trim_start_matches(mark);
    let length = marks.len() - label.len();
    (indent <= 3 && length >= 3).then(|| (Fence { mark, length }, label.trim()))
}
