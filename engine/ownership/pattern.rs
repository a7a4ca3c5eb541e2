//! Globs without braces, and whether two of them can match one path.
//!
//! A pattern is a small automaton that reads a path character by character. Two patterns match a common path if both
//! automata can go to their ends on the same characters. [`Pattern::meets`] looks for such a way through the pairs of
//! their states. Each pair is visited once, so the work is at most the product of their lengths, which are bounded.
//! A path is a pattern that matches nothing else, so matching is the same question.

use super::key::fold;

/// For how many paths the braces of one glob may stand.
pub(super) const MAX_ALTERNATIVES: usize = 64;

/// What a path has to be made of, one piece after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Char(char),
    /// `?`
    One,
    /// `[a-z]`
    Class(Box<Class>),
    /// `*`
    Many,
    /// `**/`: any number of folders. The piece after it is always [`Piece::Inside`].
    Folders,
    /// The rest of the name of a folder, and its `/`, after which more folders may come.
    Inside,
}

/// A set of characters without `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Class {
    /// A bit for each ASCII character.
    ascii: u128,
    /// Whether the other characters are those outside of `ranges`.
    is_negated: bool,
    ranges: Vec<(char, char)>,
    /// Whether the case of characters was given up: then all others count if any does.
    is_folded: bool,
}

/// What a state can do next.
#[derive(Clone, Copy)]
enum Step<'p> {
    /// Go to a state, reading nothing.
    Skip(usize),
    /// Read a character of a set and go to a state.
    Read(Set<'p>, usize),
}

#[derive(Clone, Copy)]
enum Set<'p> {
    Char(char),
    NotSlash,
    Class(&'p Class),
}

impl Pattern {
    /// Reads a normalised path as a glob. What is no well-formed glob is text, as `[` without a `]`.
    pub(super) fn glob(path: &str) -> Pattern {
        let mut pieces = Vec::new();
        let mut parts = path.split('/').peekable();
        while let Some(part) = parts.next() {
            let is_last = parts.peek().is_none();
            match (part, is_last) {
                ("**", false) => pieces.extend([Piece::Folders, Piece::Inside]),
                ("**", true) => {
                    pieces.extend([Piece::Folders, Piece::Inside, Piece::One, Piece::Many])
                }
                _ => {
                    read_part(part, &mut pieces);
                    pieces.extend((!is_last).then_some(Piece::Char('/')));
                }
            }
        }
        Pattern { pieces }
    }

    /// Matches `path` and nothing else.
    pub(super) fn exact(path: &str) -> Pattern {
        let pieces = path.chars().map(Piece::Char).collect();
        Pattern { pieces }
    }

    /// Matches at least the same paths in any case.
    pub(super) fn folded(&self) -> Pattern {
        let fold = |piece: &Piece| match piece {
            Piece::Char(char) => Piece::Char(fold(*char)),
            Piece::Class(class) => Piece::Class(Box::new(class.folded())),
            other => other.clone(),
        };
        let pieces = self.pieces.iter().map(fold).collect();
        Pattern { pieces }
    }

    /// Whether it matches one path only.
    pub(super) fn is_exact(&self) -> bool {
        self.pieces.iter().all(|it| matches!(it, Piece::Char(_)))
    }

    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether there is a path that both match. Folded classes may find one that is none, and never miss one.
    pub(super) fn meets(&self, other: &Pattern) -> bool {
        if !may_meet(self.pieces.iter(), other.pieces.iter())
            || !may_meet(self.pieces.iter().rev(), other.pieces.iter().rev())
        {
            return false;
        }
        let ends = (self.len(), other.len());
        let width = other.len() + 1;
        let mut seen = vec![false; (self.len() + 1) * width];
        let mut todo = vec![(0, 0)];
        while let Some(pair) = todo.pop() {
            if pair == ends {
                return true;
            }
            let mut go = |next: (usize, usize)| {
                let seen = &mut seen[next.0 * width + next.1];
                if !std::mem::replace(seen, true) {
                    todo.push(next);
                }
            };
            let (ours, theirs) = (self.steps(pair.0), other.steps(pair.1));
            for step in ours.iter().flatten() {
                match *step {
                    Step::Skip(to) => go((to, pair.1)),
                    Step::Read(set, to) => {
                        for step in theirs.iter().flatten() {
                            if let Step::Read(other, other_to) = *step
                                && set.meets(other)
                            {
                                go((to, other_to));
                            }
                        }
                    }
                }
            }
            for step in theirs.iter().flatten() {
                if let Step::Skip(to) = *step {
                    go((pair.0, to));
                }
            }
        }
        false
    }

    /// What the automaton can do before the piece at `at`.
    fn steps(&self, at: usize) -> [Option<Step<'_>>; 2] {
        let Some(piece) = self.pieces.get(at) else {
            return [None, None];
        };
        match piece {
            Piece::Char(char) => [Some(Step::Read(Set::Char(*char), at + 1)), None],
            Piece::One => [Some(Step::Read(Set::NotSlash, at + 1)), None],
            Piece::Class(class) => [Some(Step::Read(Set::Class(class), at + 1)), None],
            Piece::Many => [
                Some(Step::Skip(at + 1)),
                Some(Step::Read(Set::NotSlash, at)),
            ],
            Piece::Folders => [
                Some(Step::Skip(at + 2)),
                Some(Step::Read(Set::NotSlash, at + 1)),
            ],
            Piece::Inside => [
                Some(Step::Read(Set::NotSlash, at)),
                Some(Step::Read(Set::Char('/'), at - 1)),
            ],
        }
    }
}

impl Set<'_> {
    fn meets(self, other: Set<'_>) -> bool {
        match (self, other) {
            (Set::Char(a), Set::Char(b)) => a == b,
            (Set::Char(char), Set::NotSlash) | (Set::NotSlash, Set::Char(char)) => char != '/',
            (Set::Char(char), Set::Class(class)) | (Set::Class(class), Set::Char(char)) => {
                class.has(char)
            }
            (Set::Class(a), Set::Class(b)) => a.meets(b),
            (Set::NotSlash, _) | (_, Set::NotSlash) => true,
        }
    }
}

impl Class {
    fn new(ranges: Vec<(char, char)>) -> Class {
        let is_in = |char: &char| {
            let mut ranges = ranges.iter();
            *char != '/' && ranges.any(|(from, to)| (from..=to).contains(&char))
        };
        let ascii = ('\0'..='\x7f').filter(is_in);
        Class {
            ascii: ascii.fold(0, |bits, it| bits | bit(it)),
            is_negated: false,
            ranges: ranges
                .into_iter()
                .filter(|(_, to)| !to.is_ascii())
                .collect(),
            is_folded: false,
        }
    }

    /// All characters that are not in it.
    fn negated(self) -> Class {
        Class {
            ascii: !self.ascii & !bit('/'),
            is_negated: true,
            ..self
        }
    }

    fn has(&self, char: char) -> bool {
        if char.is_ascii() {
            return self.ascii & bit(char) != 0;
        }
        let is_in = self
            .ranges
            .iter()
            .any(|(from, to)| (from..=to).contains(&&char));
        is_in != self.is_negated || self.is_folded && self.has_others()
    }

    /// Whether any character that is not ASCII may be in it.
    fn has_others(&self) -> bool {
        self.is_negated || !self.ranges.is_empty()
    }

    fn meets(&self, other: &Class) -> bool {
        self.ascii & other.ascii != 0 || self.has_others() && other.has_others()
    }

    fn folded(&self) -> Class {
        let letters = ('A'..='Z').filter(|it| self.has(*it));
        let lower = letters.fold(0, |bits, it| bits | bit(it.to_ascii_lowercase()));
        Class {
            ascii: self.ascii | lower,
            is_folded: true,
            ..self.clone()
        }
    }
}

/// The texts that a text with braces stands for: `{a,b}/c` for `a/c` and `b/c`. Braces may nest. Those without a comma
/// stand for themselves, and so do those between the brackets of a class. `None`: for more than [`MAX_ALTERNATIVES`].
pub(super) fn alternatives(text: &str) -> Option<Vec<String>> {
    let mut done = Vec::new();
    // Each with the number of bytes at its start that have no braces to expand.
    let mut todo = vec![(text.to_owned(), 0)];
    while let Some((text, from)) = todo.pop() {
        let Some(group) = first_group(&text, from) else {
            done.push(text);
            continue;
        };
        let (start, end) = (group[0], group[group.len() - 1]);
        // Last in, first out: the first alternative is to come first.
        for pair in group.windows(2).rev() {
            let chosen = &text[pair[0] + 1..pair[1]];
            let expanded = format!("{}{chosen}{}", &text[..start], &text[end + 1..]);
            todo.push((expanded, start));
        }
        if done.len() + todo.len() > MAX_ALTERNATIVES {
            return None;
        }
    }
    Some(done)
}

/// Where the first group of braces with commas has its opening brace, its commas and its closing brace, in this order.
fn first_group(text: &str, from: usize) -> Option<Vec<usize>> {
    let bytes = text.as_bytes();
    let mut starts = (from..bytes.len()).filter(|at| bytes[*at] == b'{' && !in_class(bytes, *at));
    starts.find_map(|start| group_at(bytes, start).filter(|it| it.len() > 2))
}

fn group_at(bytes: &[u8], start: usize) -> Option<Vec<usize>> {
    let mut depth = 0;
    let mut group = vec![start];
    for at in start..bytes.len() {
        match bytes[at] {
            b'{' if !in_class(bytes, at) => depth += 1,
            b'}' if !in_class(bytes, at) => depth -= 1,
            b',' if depth == 1 => group.push(at),
            _ => (),
        }
        if depth == 0 {
            group.push(at);
            return Some(group);
        }
    }
    None
}

/// Whether a brace is the whole of a class, as in `[{]`: the way to write one that is text.
fn in_class(bytes: &[u8], at: usize) -> bool {
    at > 0 && bytes[at - 1] == b'[' && bytes.get(at + 1) == Some(&b']')
}

/// Whether what both start with leaves it open that they meet.
fn may_meet<'p>(
    ours: impl Iterator<Item = &'p Piece>,
    theirs: impl Iterator<Item = &'p Piece>,
) -> bool {
    for pair in ours.zip(theirs) {
        match pair {
            (Piece::Char(a), Piece::Char(b)) if a != b => return false,
            (Piece::Char(_), Piece::Char(_)) => (),
            _ => return true,
        }
    }
    true
}

fn read_part(part: &str, pieces: &mut Vec<Piece>) {
    let mut chars = part.chars();
    while let Some(char) = chars.next() {
        pieces.push(match char {
            '?' => Piece::One,
            '*' => Piece::Many,
            '[' => match read_class(chars.as_str()) {
                Some((class, rest)) => {
                    chars = rest.chars();
                    Piece::Class(Box::new(class))
                }
                None => Piece::Char('['),
            },
            _ => Piece::Char(char),
        });
    }
}

/// Reads a class up to its `]`, and what comes after. `!` or `^` first negates it; a `]` first is one of its characters.
fn read_class(text: &str) -> Option<(Class, &str)> {
    let inside = text.strip_prefix(['!', '^']);
    let is_negated = inside.is_some();
    let inside = inside.unwrap_or(text);
    let first = inside.chars().next()?.len_utf8();
    let end = first + inside[first..].find(']')?;

    let mut ranges = Vec::new();
    let mut chars = inside[..end].chars();
    while let Some(from) = chars.next() {
        let mut ahead = chars.clone();
        match (ahead.next(), ahead.next()) {
            (Some('-'), Some(to)) if from <= to => {
                ranges.push((from, to));
                chars = ahead;
            }
            (Some('-'), Some(_)) => return None,
            _ => ranges.push((from, from)),
        }
    }
    let class = match is_negated {
        true => Class::new(ranges).negated(),
        false => Class::new(ranges),
    };
    Some((class, &inside[end + 1..]))
}

fn bit(ascii: char) -> u128 {
    1 << u32::from(ascii)
}
