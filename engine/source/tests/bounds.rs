use proptest::prelude::*;

use super::*;

#[test]
fn size_is_bounded_and_large_is_not_slow() {
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let bomb = (1..9).fold("a0: &a0 [x]\n".to_owned(), |text, it| {
        let items = format!("*a{}, ", it - 1).repeat(9);
        format!("{text}a{it}: &a{it} [{items}]\n")
    });
    let cut = |text: String| match text.char_indices().nth(100) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    };
    let lines = [
        ("nested to the limit", nested(MAX_DEPTH)),
        ("nested deeper", nested(MAX_DEPTH + 1)),
        ("nested 100000", nested(100_000)),
        ("open 100000", "[".repeat(100_000)),
        ("open maps", "{a: ".repeat(100_000)),
        (
            "block maps",
            (0..100)
                .map(|it| format!("{}a:\n", " ".repeat(it)))
                .collect(),
        ),
        ("block lists", format!("{}x", "- ".repeat(100_000))),
        ("bomb", bomb),
        ("a long line", format!("a: {}", "x".repeat(10 << 20))),
        ("a long key", format!("{}: 1", "x".repeat(10 << 20))),
        (
            "many keys",
            (0..20_000).map(|it| format!("k{it}: {it}\n")).collect(),
        ),
        ("many items", format!("[{}]", "1, ".repeat(50_000))),
        ("comments", "# x\n".repeat(2 << 20)),
        ("too long", "#".repeat(MAX_BYTES + 1)),
    ]
    .map(|(name, text)| {
        let found = cut(read(text.as_bytes()));
        format!("{name} {found}\n")
    });
    expect![[r#"
        nested to the limit -> [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]
        nested deeper -- MZ107 f:1:49 `[` too much for one file: more than 48 levels of values inside each other
        nested 100000 -- MZ107 f:1:256 `` too much for one file: more than 48 levels of values inside each other
        open 100000 -- MZ107 f:1:256 `` too much for one file: more than 48 levels of values inside each other
        open maps -- MZ107 f:1:1021 `` too much for one file: more than 48 levels of values inside each other
        block maps -- MZ107 f:49:49 `` too much for one file: more than 48 levels of values inside each other
        block lists -- MZ107 f:1:97 `` too much for one file: more than 48 levels of values inside each other
        bomb -- MZ107 f:1:11 `]` too much for one file: more than 100000 values behind anchors
        a long line -> {"a":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...
        a long key -- MZ103 f:1:10485761 `` mapping values are not allowed in this context
        many keys -> {"k0":0,"k1":1,"k2":2,"k3":3,"k4":4,"k5":5,"k6":6,"k7":7,"k8":8,"k9":9,"k10":10,"k11":11,"k12":12...
        many items -> [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,...
        comments -> {}
        too long -- MZ107 `f` is 33554433 bytes long
    "#]].assert_eq(&lines.concat());
}

/// Any text is a value or a fault, and a fault is drawn with its place.
fn check_text(text: &str) {
    let file = decode("f", text.as_bytes().to_vec()).expect("it is UTF-8");
    for parsed in [Source::parse(&file), Source::parse_json(&file)] {
        match parsed {
            Ok(source) => {
                let value = source.value();
                let first = value.as_object().and_then(|it| it.keys().next());
                let at = first.map_or_else(|| pointer("", 0), |it| pointer("", it));
                let _ = (
                    source.place(&at).line_column(),
                    source.key_place(&at).line_column(),
                );
            }
            Err(fault) => {
                let drawn = crate::diagnostic::draw(&[fault], crate::diagnostic::Style::Plain);
                assert!(drawn.contains("--> f:"), "{drawn}");
            }
        }
    }
}

/// The end of the line, which is not shown, is part of the place.
#[test]
fn a_place_at_the_end_of_a_line_is_drawn() {
    check_text("---\n---\n<<\r\r\n  ---\n");
}

proptest! {
    #[test]
    fn any_text_is_a_value_or_a_fault_in_its_place(
        text in r#"([\[\]{}"':,?&*!|>%@`#~ \t\n\r-]|a|b|: |- |<<|\*a|&a |\n  |---\n|\u{e4}|\u{1f600}|\u{feff}|.){0,40}"#,
    ) {
        check_text(&text);
    }
}
