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
fn a_text_that_is_to_be_read_acts_on_nothing() {
    let text = "a\u{1b}]0;x\u{7}\u{1b}[2Jb\r\u{9b}2J\u{7f}\n\tc \u{5e9}\u{200f} \u{1f469}\u{200d}\u{1f680}";
    let shown = "a ]0;x  [2Jb  2J \n\tc \u{5e9}\u{200f} \u{1f469}\u{200d}\u{1f680}";
    assert_eq!(still(text), shown);
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
