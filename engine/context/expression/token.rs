//! The text of an expression becomes tokens, one at a time.

use std::ops::Range;

use super::{ExpressionError, operand::Number};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'t> {
    Variable(&'t str),
    Text(String),
    Number(Number),
    /// A word: a value, an operator, a function, or something that means nothing here.
    Name(&'t str),
    Symbol(&'static str),
    End,
}

/// Advice for whoever wants a part of a value.
pub(super) const WHOLE: &str =
    "a variable is read as a whole; declare one for the part that is needed";
/// Advice for whoever wants to calculate.
pub(super) const NO_ARITHMETIC: &str =
    "an expression compares values; it does not calculate with them";

/// What is written with signs; those that have no meaning here come with what to write instead.
/// Whatever starts like another comes before it.
const SYMBOLS: &[(&str, Option<&str>)] = &[
    ("===", Some("write `==`")),
    ("!==", Some("write `!=`")),
    ("==", None),
    ("!=", None),
    ("<=", None),
    (">=", None),
    ("<>", Some("write `!=`")),
    ("=>", Some("write `>=`")),
    ("=<", Some("write `<=`")),
    ("<", None),
    (">", None),
    ("=", Some("write `==` to compare")),
    ("&&", Some("write `and`")),
    ("||", Some("write `or`")),
    ("&", Some("write `and`")),
    ("|", Some("write `or`")),
    ("!", Some("write `not`")),
    (
        ";",
        Some("an expression is one condition; join two with `and` or `or`"),
    ),
    ("(", None),
    (")", None),
    ("[", None),
    ("]", None),
    (",", None),
    ("-", None),
    (".", Some(WHOLE)),
    ("+", Some(NO_ARITHMETIC)),
    ("*", Some(NO_ARITHMETIC)),
    ("/", Some(NO_ARITHMETIC)),
    ("%", Some(NO_ARITHMETIC)),
    (
        "{",
        Some("a variable is written `${name}`; there are no mappings here"),
    ),
];

/// Reads the token that starts at or after the byte `from`, and says where it stands.
pub(super) fn read(text: &str, from: usize) -> Result<(Token<'_>, Range<usize>), ExpressionError> {
    let rest = text[from..].trim_start();
    let start = text.len() - rest.len();
    let Some(first) = rest.chars().next() else {
        return Ok((Token::End, start..start));
    };
    let here = Cursor { text, start, rest };
    match first {
        '$' => here.variable(),
        '\'' | '"' => here.quoted(first),
        '0'..='9' => here.number(),
        '.' if rest[1..].starts_with(|it: char| it.is_ascii_digit()) => here.number(),
        _ if first.is_alphabetic() || first == '_' => {
            let length = run(rest, |it| it.is_alphanumeric() || it == '_');
            Ok((Token::Name(&rest[..length]), here.span(length)))
        }
        _ => here.symbol(first),
    }
}

/// Whether `${text}` is a variable.
pub(super) fn is_variable_name(text: &str) -> bool {
    let starts_well = text.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_');
    starts_well
        && text
            .chars()
            .all(|it| it.is_ascii_alphanumeric() || it == '_')
}

/// A place in the text where a token starts.
struct Cursor<'t> {
    text: &'t str,
    start: usize,
    /// What stands from `start` on.
    rest: &'t str,
}

type Read<'t> = Result<(Token<'t>, Range<usize>), ExpressionError>;

impl<'t> Cursor<'t> {
    fn span(&self, length: usize) -> Range<usize> {
        self.start..self.start + length
    }

    fn variable(self) -> Read<'t> {
        let Some(inside) = self.rest.strip_prefix("${") else {
            let length = 1 + run(&self.rest[1..], |it| it.is_alphanumeric() || it == '_');
            let error = ExpressionError::new(
                self.span(length),
                format!("`{}` is not a variable", &self.rest[..length]),
            );
            let name = &self.rest[1..length];
            return Err(error.help(match is_variable_name(name) {
                true => format!("write `${{{name}}}`"),
                false => "a variable is written `${name}`".to_owned(),
            }));
        };
        let Some(length) = inside.find('}') else {
            return Err(ExpressionError::new(self.span(2), "`${` has no `}`"));
        };
        let name = &inside[..length];
        let span = self.span("${}".len() + length);
        if is_variable_name(name) {
            return Ok((Token::Variable(name), span));
        }
        let message = format!("`{}` is not a variable", &self.text[span.clone()]);
        let error = ExpressionError::new(span, message);
        Err(match name.trim() {
            trimmed if is_variable_name(trimmed) => error.help(format!("write `${{{trimmed}}}`")),
            trimmed if trimmed.contains(['.', '[']) => error.help(WHOLE),
            _ => error.help("a name is made of letters from `a` to `z`, digits and `_`, and starts with no digit"),
        })
    }

    fn number(self) -> Read<'t> {
        let mut length = run(self.rest, |it| {
            it.is_alphanumeric() || it == '.' || it == '_'
        });
        let has_sign = self.rest[..length].ends_with(['e', 'E'])
            && self.rest[length..].starts_with(['+', '-']);
        if has_sign {
            length += 1;
            length += run(&self.rest[length..], |it| it.is_alphanumeric() || it == '_');
        }
        let written = &self.rest[..length];
        let span = self.span(length);
        match written.parse::<Number>() {
            Ok(number) => Ok((Token::Number(number), span)),
            Err(reason) => Err(ExpressionError::new(span, format!("`{written}` {reason}"))),
        }
    }

    fn symbol(self, first: char) -> Read<'t> {
        let known = SYMBOLS
            .iter()
            .find(|(symbol, _)| self.rest.starts_with(symbol));
        match known {
            Some((symbol, None)) => Ok((Token::Symbol(symbol), self.span(symbol.len()))),
            Some((symbol, Some(help))) => {
                let error = ExpressionError::new(
                    self.span(symbol.len()),
                    format!("`{symbol}` has no meaning here"),
                );
                Err(error.help(*help))
            }
            None => {
                let span = self.span(first.len_utf8());
                let shown = first.escape_debug();
                Err(ExpressionError::new(
                    span,
                    format!("`{shown}` has no meaning here"),
                ))
            }
        }
    }

    /// A text in quotes, with Python's escapes.
    fn quoted(self, quote: char) -> Read<'t> {
        let mut value = String::new();
        let mut chars = self.rest[1..].chars();
        loop {
            let before = chars.as_str();
            match chars.next() {
                Some(end) if end == quote => break,
                Some('\\') => match unescape(chars.as_str()) {
                    Some((text, length)) => {
                        value.extend(text);
                        chars = chars.as_str()[length..].chars();
                    }
                    None => {
                        let at = self.text.len() - before.len();
                        let length = before.chars().take(2).map(char::len_utf8).sum::<usize>();
                        let message = format!("`{}` does not name a character", &before[..length]);
                        return Err(ExpressionError::new(at..at + length, message));
                    }
                },
                Some('\n') | None => {
                    let line = self.rest.lines().next().unwrap_or_default();
                    let error = ExpressionError::new(
                        self.span(line.len()),
                        format!("a text without its closing `{quote}`"),
                    );
                    return Err(error);
                }
                Some(other) => value.push(other),
            }
        }
        let length = self.rest.len() - chars.as_str().len();
        let written = &self.rest[..length];
        if let Some(variable) = variable_in(written) {
            let error = ExpressionError::new(
                self.span(length),
                format!("the text `{written}` holds a variable"),
            );
            return Err(error.help(format!(
                "write `{variable}` without quotes; it is not put into texts"
            )));
        }
        Ok((Token::Text(value), self.span(length)))
    }
}

/// How many bytes of `text` come before the first character that is not `wanted`.
fn run(text: &str, wanted: impl Fn(char) -> bool) -> usize {
    text.find(|it| !wanted(it)).unwrap_or(text.len())
}

/// The first `${name}` in a text.
fn variable_in(text: &str) -> Option<&str> {
    text.match_indices("${").find_map(|(at, _)| {
        let length = text[at..].find('}')? + 1;
        let name = &text[at + 2..at + length - 1];
        is_variable_name(name).then_some(&text[at..at + length])
    })
}

/// What a backslash before `rest` stands for, and how many bytes of `rest` belong to it. `None`: for no character.
fn unescape(rest: &str) -> Option<(Vec<char>, usize)> {
    let Some(first) = rest.chars().next() else {
        // The text ends here, which is the caller's to say.
        return Some((vec!['\\'], 0));
    };
    let simple = |it| Some((vec![it], 1));
    match first {
        '\n' => Some((Vec::new(), 1)),
        '\\' | '\'' | '"' => simple(first),
        'n' => simple('\n'),
        'r' => simple('\r'),
        't' => simple('\t'),
        'a' => simple('\u{7}'),
        'b' => simple('\u{8}'),
        'f' => simple('\u{c}'),
        'v' => simple('\u{b}'),
        'x' => hexadecimal(rest, 2),
        'u' => hexadecimal(rest, 4),
        'U' => hexadecimal(rest, 8),
        'N' => None,
        '0'..='7' => {
            let digits = run(rest, |it| matches!(it, '0'..='7')).min(3);
            let code = u32::from_str_radix(&rest[..digits], 8).ok()?;
            Some((vec![char::from_u32(code)?], digits))
        }
        // Python keeps the backslash where it has no meaning.
        other => Some((vec!['\\', other], other.len_utf8())),
    }
}

fn hexadecimal(rest: &str, digits: usize) -> Option<(Vec<char>, usize)> {
    let written = rest.get(1..1 + digits)?;
    let is_hexadecimal = written.bytes().all(|it| it.is_ascii_hexdigit());
    let code = u32::from_str_radix(written, 16)
        .ok()
        .filter(|_| is_hexadecimal)?;
    Some((vec![char::from_u32(code)?], 1 + digits))
}
