use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;

#[track_caller]
fn check(answers: &[&str], expect: Expect) {
    let lines = answers.iter().map(|answer| match read(answer) {
        Ok(Reading { value, how }) => format!("{answer:?} -> {how:?} {value}\n"),
        Err(error) => format!("{answer:?} -- {} {error}\n", error.offset),
    });
    expect.assert_eq(&lines.collect::<String>());
}

#[test]
fn reads_an_answer_that_is_json() {
    check(
        &[
            r#"{"b": 1, "a": [true, null, 2.0, -3]}"#,
            "\u{feff} \n[1]\r\n\u{a0}",
            "7",
            r#""```json\n1\n```""#,
            r#"{"code": "```json\n{}\n``` and } ]"}"#,
        ],
        expect![[r#"
            "{\"b\": 1, \"a\": [true, null, 2.0, -3]}" -> Strict {"b":1,"a":[true,null,2.0,-3]}
            "\u{feff} \n[1]\r\n\u{a0}" -> Strict [1]
            "7" -> Strict 7
            "\"```json\\n1\\n```\"" -> Strict "```json\n1\n```"
            "{\"code\": \"```json\\n{}\\n``` and } ]\"}" -> Strict {"code":"```json\n{}\n``` and } ]"}
        "#]],
    );
}

#[test]
fn reads_the_one_fenced_block() {
    check(
        &[
            "Here you are:\n```json\n{\"a\": 1}\n```\nDone [1].",
            "   ~~~~ JSON\r\n[1,\r\n2]\r\n~~~~~",
            "```\n{\"a\": \"```\"}\n```",
            "````\n{}\n```\n````\n```\n[1]\n```",
            "```sh\nls {}\n```\n```json\n7\n```",
            "```\n{\"a\": 1}\n```\n```\n{ \"a\" : 1 }\n```",
        ],
        expect![[r#"
            "Here you are:\n```json\n{\"a\": 1}\n```\nDone [1]." -> Fenced {"a":1}
            "   ~~~~ JSON\r\n[1,\r\n2]\r\n~~~~~" -> Fenced [1,2]
            "```\n{\"a\": \"```\"}\n```" -> Fenced {"a":"```"}
            "````\n{}\n```\n````\n```\n[1]\n```" -> Fenced [1]
            "```sh\nls {}\n```\n```json\n7\n```" -> Fenced 7
            "```\n{\"a\": 1}\n```\n```\n{ \"a\" : 1 }\n```" -> Fenced {"a":1}
        "#]],
    );
}

#[test]
fn what_a_model_thought_is_no_answer() {
    check(
        &[
            r#"<think>{"x":"wrong"}</think>{"x":"right"}"#,
            "\n<think>\n```json\n[0]\n```\n</think>\n\n```json\n[1]\n```",
            "<think>[0]</think>```\n[1]\n```",
            "<think>[0]</think> It is [1].",
            "<thinking>[0]</thinking><think></think>[1]",
            "[THINK][0][/THINK][1]",
            r#"<think></think>{"x":"</think>{}"}"#,
            r#"{"x":"<think>[0]</think>[1]"}"#,
            // Without the first tag nobody knows.
            "[0]</think>[1]",
            // No end, no answer, and places in the whole text.
            "<think>[0] or [1]",
            "<think>[0]</think> \n",
            "<think>[0]</think>\nI do not know",
            "<think>[0]</think>\n{\"a\": 1, \"a\": 2}",
            "<think>[0]</think>\n{\"a\": ",
        ],
        expect![[r#"
            "<think>{\"x\":\"wrong\"}</think>{\"x\":\"right\"}" -> AfterThought {"x":"right"}
            "\n<think>\n```json\n[0]\n```\n</think>\n\n```json\n[1]\n```" -> Fenced [1]
            "<think>[0]</think>```\n[1]\n```" -> Fenced [1]
            "<think>[0]</think> It is [1]." -> Balanced [1]
            "<thinking>[0]</thinking><think></think>[1]" -> AfterThought [1]
            "[THINK][0][/THINK][1]" -> AfterThought [1]
            "<think></think>{\"x\":\"</think>{}\"}" -> AfterThought {"x":"</think>{}"}
            "{\"x\":\"<think>[0]</think>[1]\"}" -> Strict {"x":"<think>[0]</think>[1]"}
            "[0]</think>[1]" -> Balanced [0]
            "<think>[0] or [1]" -- 17 cut off: the `<think>` at byte 0 never ends, near `<think>[0] or [1]`
            "<think>[0]</think> \n" -- 0 empty answer
            "<think>[0]</think>\nI do not know" -- 19 not JSON: expected value at line 2 column 1, near `<think>[0]</think> I do not know`
            "<think>[0]</think>\n{\"a\": 1, \"a\": 2}" -- 30 the key `a` stands twice, at line 2 column 12, near `>[0]</think> {"a": 1, "a": 2}`
            "<think>[0]</think>\n{\"a\": " -- 24 cut off: the value starting at byte 19 never ends, near `<think>[0]</think> {"a":`
        "#]],
    );
}

#[test]
fn refuses_two_different_blocks() {
    check(
        &["```\n{\"a\": 1}\n```\nor\n```json\n{\"a\": 1.0}\n```"],
        expect![[r#"
            "```\n{\"a\": 1}\n```\nor\n```json\n{\"a\": 1.0}\n```" -- 28 two blocks of JSON that differ, in lines 2 and 6, near `{"a": 1} ``` or ```json {"a": 1.0} ````
        "#]],
    );
}

#[test]
fn reads_the_first_brackets_that_are_json() {
    check(
        &[
            r#"Sure! {"a": "}"} and {"b": 2}"#,
            r#"In the set {x, y} and the list [ see above ]: [{"a": []}]."#,
            r#"{"a": oops, "b": [1]} rather {"a": 2}"#,
            "    ```\n    {\"a\": 1}\n    ```",
            "```json\n{\"a\": 1}",
            "`{\"a\": 1}`",
        ],
        expect![[r#"
            "Sure! {\"a\": \"}\"} and {\"b\": 2}" -> Balanced {"a":"}"}
            "In the set {x, y} and the list [ see above ]: [{\"a\": []}]." -> Balanced [{"a":[]}]
            "{\"a\": oops, \"b\": [1]} rather {\"a\": 2}" -> Balanced {"a":2}
            "    ```\n    {\"a\": 1}\n    ```" -> Balanced {"a":1}
            "```json\n{\"a\": 1}" -> Balanced {"a":1}
            "`{\"a\": 1}`" -> Balanced {"a":1}
        "#]],
    );
}

#[test]
fn says_why_there_is_no_value() {
    check(
        &[
            "",
            " \u{feff}\n",
            "I cannot do that.",
            "{'a': 1}",
            "{\"a\": 1,}",
            "[1, NaN]",
            "{\"a\": 1e999}",
            "Ünlike: {\"ä\": [1, x]}",
            "{\"a\": oops, \"b\": {\"c\": 1}}",
            "{\"a\": \"\\ud800\"}",
        ],
        expect![[r#"
            "" -- 0 empty answer
            " \u{feff}\n" -- 0 empty answer
            "I cannot do that." -- 0 not JSON: expected value at line 1 column 1, near `I cannot do that`
            "{'a': 1}" -- 1 not JSON: key must be a string at line 1 column 2, near `{'a': 1}`
            "{\"a\": 1,}" -- 8 not JSON: trailing comma at line 1 column 9, near `{"a": 1,}`
            "[1, NaN]" -- 4 not JSON: expected value at line 1 column 5, near `[1, NaN]`
            "{\"a\": 1e999}" -- 10 not JSON: number out of range at line 1 column 11, near `{"a": 1e999}`
            "Ünlike: {\"ä\": [1, x]}" -- 20 not JSON: expected value at line 1 column 19, near `Ünlike: {"ä": [1, x]}`
            "{\"a\": oops, \"b\": {\"c\": 1}}" -- 6 not JSON: expected value at line 1 column 7, near `{"a": oops, "b": {"c":`
            "{\"a\": \"\\ud800\"}" -- 13 not JSON: unexpected end of hex escape at line 1 column 14, near `{"a": "\ud800"}`
        "#]],
    );
}

#[test]
fn says_that_an_answer_is_cut_off() {
    check(
        &[
            r#"{"a": [1, 2], "b": [3"#,
            r#"Sure: {"a": {"b": 1}, "c": "so it"#,
            "```json\n{\"a\": [1],\n\"b\": \n",
            "[",
        ],
        expect![[r#"
            "{\"a\": [1, 2], \"b\": [3" -- 21 cut off: the value starting at byte 0 never ends, near `{"a": [1, 2], "b": [3`
            "Sure: {\"a\": {\"b\": 1}, \"c\": \"so it" -- 33 cut off: the value starting at byte 6 never ends, near `": {"b": 1}, "c": "so it`
            "```json\n{\"a\": [1],\n\"b\": \n" -- 25 cut off: the value starting at byte 8 never ends, near ```json {"a": [1], "b":`
            "[" -- 1 cut off: the value starting at byte 0 never ends, near `[`
        "#]],
    );
    assert!(read("[1, ").expect_err("it does not end").is_cut_off());
    assert!(!read("[1, }").expect_err("it is not JSON").is_cut_off());
}

#[test]
fn refuses_a_key_that_stands_twice() {
    check(
        &[
            r#"{"a": 1, "b": {"c": 1, "c": 2}}"#,
            "Sure:\n{\"a\": {\"x\": 1},\n \"a\": 2}",
            "{\"a\": 1, \"\\u0061\": 1}",
        ],
        expect![[r#"
            "{\"a\": 1, \"b\": {\"c\": 1, \"c\": 2}}" -- 25 the key `c` stands twice, at line 1 column 26, near `"a": 1, "b": {"c": 1, "c": 2}}`
            "Sure:\n{\"a\": {\"x\": 1},\n \"a\": 2}" -- 25 the key `a` stands twice, at line 3 column 4, near `ure: {"a": {"x": 1}, "a": 2}`
            "{\"a\": 1, \"\\u0061\": 1}" -- 16 the key `a` stands twice, at line 1 column 17, near `{"a": 1, "\u0061": 1}`
        "#]],
    );
}

#[test]
fn bounds_depth_and_time() {
    const MANY: usize = 1 << 18;
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(read(&nested(127)).is_ok());
    for text in [
        "[".repeat(MANY),
        nested(MANY),
        "{\"a\":".repeat(MANY),
        "[1 ".repeat(MANY),
        "[\"".repeat(MANY),
        "{\"a\"}".repeat(MANY),
        "[ \n".repeat(MANY),
        "```\n{\n".repeat(MANY),
        "{x".repeat(MANY),
    ] {
        let error = read(&text).expect_err("it is no JSON");
        assert!(error.offset <= text.len());
        assert!(error.to_string().len() < 400, "{error}");
    }
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // Eighths are written and read exactly.
        any::<i32>().prop_map(|it| Value::from(f64::from(it) / 8.0)),
        "[ -~\n`\u{e4}]{0,12}".prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 24, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from);
        let entry = ("[a-z`{\"\\[]{0,3}", inner);
        let object = prop::collection::vec(entry, 0..4)
            .prop_map(|it| it.into_iter().collect::<Map<_, _>>().into());
        prop_oneof![list, object]
    })
}

proptest! {
    #[test]
    fn gives_any_value_back(value in value(), prose in "[ -Z^_a-z\n]{0,30}", mark in "```|~~~~") {
        let read = |text: &str| read(text).map(|it| (it.value, it.how));
        let compact = value.to_string();
        prop_assert_eq!(read(&compact), Ok((value.clone(), How::Strict)));
        let thought = format!("<think>{prose}\n{mark}\n[]\n{mark}\n</think>{compact}");
        prop_assert_eq!(read(&thought), Ok((value.clone(), How::AfterThought)));
        let pretty = format!("{value:#}");
        let fenced = format!("x{prose}\n{mark}json\n{pretty}\n{mark}\n{prose}");
        prop_assert_eq!(read(&fenced), Ok((value.clone(), How::Fenced)));
        if value.is_object() || value.is_array() {
            let amid = format!("x{prose}{compact}{prose}");
            prop_assert_eq!(read(&amid), Ok((value, How::Balanced)));
        }
    }

    #[test]
    fn fails_on_a_place_in_any_text(text in r#"([\[\]{}":,1 \\\n`~\u{e4}\u{feff}]|"a"|```\n|</?think>|.){0,60}"#) {
        if let Err(error) = read(&text) {
            prop_assert!(text.is_char_boundary(error.offset));
        }
    }

    #[test]
    fn never_takes_a_part_for_the_whole(value in value(), cut in any::<prop::sample::Index>()) {
        let text = value.to_string();
        let cut = text.floor_char_boundary(cut.index(text.len()));
        prop_assume!(value.is_object() || value.is_array());
        let is_empty = cut == 0;
        let error = read(&text[..cut]).expect_err("its end is missing");
        prop_assert!(error.is_cut_off() || is_empty, "{error}");
    }
}
