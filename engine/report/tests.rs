use expect_test::{Expect, expect};

use super::*;

#[test]
fn a_foreign_text_is_made_inert() {
    let check = |text: &str, expected: Expect| expected.assert_eq(&inert(text));
    check("plain, ünïcode 表", expect!["plain, ünïcode 表"]);
    check("a\nb\r\nc\td", expect!["a b  c d"]);
    check("\u{1b}[31mred\u{1b}[0m\u{7}", expect![" [31mred [0m "]);
    check("\u{9b}2J", expect![" 2J"]);
    check("a\u{202e}txt.exe\u{2066}b", expect!["a txt.exe b"]);
}

#[test]
fn a_long_text_is_cut() {
    assert_eq!(inert(&"ü".repeat(300)), "ü".repeat(300));
    let long = format!("{}{}", "a".repeat(400), "z".repeat(180));
    assert_eq!(inert(&long), "a".repeat(119) + "…" + &"z".repeat(180));
    assert_eq!(clip("abcdef", 4), "abc…");
    assert_eq!(clip("abcd", 4), "abcd");
    assert_eq!(clip("", 4), "");
}
