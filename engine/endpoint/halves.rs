//! Halves of characters: a server that counts in UTF-16, as one written in JavaScript does, may cut a character in two.
//!
//! JSON can say half a character, as `\ud83d`, and no text of ours can hold one. Two that follow each other are joined,
//! also if they come apart; one that stays alone becomes U+FFFD.

use std::borrow::Cow;

use serde_json::Value;

/// Where halves of characters are until it is known whether the other half follows: in a private area, which nobody
/// looks into unless there are some.
const AREA: u32 = 0x10_f000;
const FIRST: u32 = 0xd800;
const SECOND: u32 = 0xdc00;
const END: u32 = 0xe000;

/// Reads JSON that comes in pieces.
#[derive(Debug, Clone, Copy, Default)]
pub struct Halves {
    are_there: bool,
}

impl Halves {
    /// Reads one piece. Its texts are to be put together with [`Halves::push`], and to be given out with [`Halves::end`].
    ///
    /// # Errors
    /// It is no JSON.
    pub fn parse(&mut self, json: &[u8]) -> serde_json::Result<Value> {
        let kept = replaced(json, |half| char::from_u32(AREA + half - FIRST));
        self.are_there |= matches!(kept, Cow::Owned(_));
        serde_json::from_slice(&kept)
    }

    /// Puts a piece at the end of a text.
    pub fn push(self, text: &mut String, piece: &str) {
        let last = text.chars().next_back().and_then(half);
        let next = piece.chars().next().and_then(half);
        if let (true, Some(first @ ..SECOND), Some(second @ SECOND..)) =
            (self.are_there, last, next)
        {
            let joined = 0x1_0000 + ((first - FIRST) << 10) + (second - SECOND);
            text.pop();
            text.extend(char::from_u32(joined));
            let rest = piece.chars().next().map_or(0, char::len_utf8);
            text.push_str(&piece[rest..]);
        } else {
            text.push_str(piece);
        }
    }

    /// The text, or JSON, without halves that stayed alone.
    pub fn end(self, text: String) -> String {
        match self.are_there {
            true => text.replace(|it| half(it).is_some(), "\u{fffd}"),
            false => text,
        }
    }
}

/// JSON that came as a whole, without halves that stand alone.
pub fn whole(json: &[u8]) -> Cow<'_, [u8]> {
    replaced(json, |_| Some(char::REPLACEMENT_CHARACTER))
}

/// The half that a private character stands for.
fn half(it: char) -> Option<u32> {
    let half = u32::from(it).checked_sub(AREA)? + FIRST;
    (half < END).then_some(half)
}

/// The JSON with something else in place of each half that stands alone.
fn replaced(json: &[u8], with: impl Fn(u32) -> Option<char>) -> Cow<'_, [u8]> {
    let mut done = Vec::new();
    let (mut copied, mut at) = (0, 0);
    while let Some(next) = json[at..].iter().position(|it| *it == b'\\') {
        at += next;
        let length = match (escaped(&json[at..]), json.get(at + 6..).and_then(escaped)) {
            (Some(FIRST..SECOND), Some(SECOND..END)) => 12,
            (Some(half @ FIRST..END), _) => {
                done.extend_from_slice(&json[copied..at]);
                let with = with(half).unwrap_or(char::REPLACEMENT_CHARACTER);
                done.extend_from_slice(with.encode_utf8(&mut [0; 4]).as_bytes());
                copied = at + 6;
                6
            }
            // What follows a backslash is no beginning of another escape.
            _ => 2,
        };
        at = (at + length).min(json.len());
    }
    match copied {
        0 => Cow::Borrowed(json),
        _ => {
            done.extend_from_slice(&json[copied..]);
            Cow::Owned(done)
        }
    }
}

/// The number in an escape such as `\ud83d`, if one stands here.
fn escaped(json: &[u8]) -> Option<u32> {
    let hex = json.strip_prefix(b"\\u")?.get(..4)?;
    let mut digits = hex.iter().map(|it| char::from(*it).to_digit(16));
    digits.try_fold(0, |sum, digit| Some(sum * 16 + digit?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(pieces: &[&str]) -> String {
        let mut halves = Halves::default();
        let mut text = String::new();
        for piece in pieces {
            let value = halves.parse(format!("\"{piece}\"").as_bytes());
            let value = value.expect("it is JSON");
            halves.push(&mut text, value.as_str().expect("it is a text"));
        }
        halves.end(text)
    }

    #[test]
    fn halves_are_joined_or_replaced() {
        let cases: [(&[&str], &str); 12] = [
            (&["a", "b"], "ab"),
            (&[r"\ud83d\ude00"], "😀"),
            (&[r"\ud83d", r"\ude00"], "😀"),
            (&[r"a\uD83D", r"\uDE00b", r"\ud83d", r"\ude01"], "a😀b😁"),
            (&[r"\ud83d", "", r"\ude00"], "😀"),
            (&[r"\ud83d", "x", r"\ude00"], "\u{fffd}x\u{fffd}"),
            (&[r"\ud83d", r"\ud83d", r"\ude00"], "\u{fffd}😀"),
            (&[r"\ude00\ud83d"], "\u{fffd}\u{fffd}"),
            (&[r"\ud83dx\ude00"], "\u{fffd}x\u{fffd}"),
            (&[r"\\ud83d", r"\\ude00"], r"\ud83d\ude00"),
            (&[r"\\\ud83d", r"\ude00\\"], "\\😀\\"),
            (&["\u{10f03d}", "\u{10f400}"], "\u{10f03d}\u{10f400}"),
        ];
        for (pieces, expected) in cases {
            assert_eq!(joined(pieces), expected, "{pieces:?}");
        }
    }

    #[test]
    fn what_came_as_a_whole_is_left_as_it_is_or_mended() {
        for json in [
            "",
            r#"{"a": "\u00e9 \ud83d\ude00 \\ud83d"}"#,
            "\\",
            "\\u",
            "\\ud8",
        ] {
            assert!(matches!(whole(json.as_bytes()), Cow::Borrowed(_)), "{json}");
        }
        let mended = whole(br#"{"a\udfff": "\ud83d\u0061\"\ud800"}"#);
        let expected = "{\"a\u{fffd}\": \"\u{fffd}\\u0061\\\"\u{fffd}\"}";
        assert_eq!(String::from_utf8_lossy(&mended), expected);
        assert!(serde_json::from_slice::<Value>(&mended).is_ok());
    }
}
