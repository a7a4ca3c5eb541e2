use expect_test::{Expect, expect};

use super::*;

mod bounds;

/// What a text says, or where and why it says nothing.
#[track_caller]
fn check(texts: &[&str], expect: Expect) {
    let lines = texts
        .iter()
        .map(|text| format!("{text:?} {}\n", read(text.as_bytes())));
    expect.assert_eq(&lines.collect::<String>());
}

fn read(bytes: &[u8]) -> String {
    let source = decode("f", bytes.to_vec()).and_then(|file| Source::parse(&file));
    match source {
        Ok(source) => format!("-> {}", source.value()),
        Err(fault) => told(&fault),
    }
}

fn told(fault: &Diagnostic) -> String {
    let mut text = format!("-- {} ", fault.code.as_str());
    if let Some(at) = &fault.at {
        text.push_str(&format!("{at} `{}` ", &at.file.text[at.span.clone()]));
    }
    text.push_str(&fault.message);
    for (at, note) in &fault.related {
        text.push_str(&format!("; {at} {note}"));
    }
    text
}

/// Where values, and their keys, stand: `pointer line:column text`.
#[track_caller]
fn check_places(text: &str, pointers: &[&str], expect: Expect) {
    let file = decode("f", text.as_bytes().to_vec()).expect("it is UTF-8");
    let source = Source::parse(&file).expect("it is YAML");
    let shown = |place: Place| format!("{place} {:?}", &file.text[place.span.clone()]);
    let lines = pointers.iter().map(|it| {
        let (key, value) = (shown(source.key_place(it)), shown(source.place(it)));
        format!("{it} {key} {value}\n")
    });
    expect.assert_eq(&lines.collect::<String>());
}

#[test]
fn words_are_text_unless_yaml_1_2_says_otherwise() {
    check(
        &[
            "[true, false, True, TRUE, null, Null, ~, ]",
            "[yes, no, on, off, Yes, NO, On, y, n, tRue]",
            "on: 1\nno: 2\nnull: 3\ntrue: 4\n5: 6\n1.10: 7\n~: 8",
            "[1, -1, +1, 0, 1.5, -0.5, 1e3, .5, 1., 0o17, 0x1F, 18446744073709551615]",
            "[007, 1_000, 1:30, 12:30:45, 1.2.3, 2024-01-01, 0b11, 1.10, '1.10', \"2\"]",
            "[.inf]",
            "[.nan]",
            "[1e999]",
            "[18446744073709551616]",
            "[-9223372036854775809]",
            "[123456789012345678901234567890]",
            "[!!str 1, !!int '7', !!bool true, !!null '', !!float 1]",
            "['', \"\", '''', \"\\u00e9\\t\\x41\\0\", \"\\ud83d\\ude00\", \"\\/\"]",
        ],
        expect![[r#"
            "[true, false, True, TRUE, null, Null, ~, ]" -> [true,false,true,true,null,null,null]
            "[yes, no, on, off, Yes, NO, On, y, n, tRue]" -> ["yes","no","on","off","Yes","NO","On","y","n","tRue"]
            "on: 1\nno: 2\nnull: 3\ntrue: 4\n5: 6\n1.10: 7\n~: 8" -> {"on":1,"no":2,"null":3,"true":4,"5":6,"1.10":7,"~":8}
            "[1, -1, +1, 0, 1.5, -0.5, 1e3, .5, 1., 0o17, 0x1F, 18446744073709551615]" -> [1,-1,1,0,1.5,-0.5,1000.0,0.5,1.0,15,31,18446744073709551615]
            "[007, 1_000, 1:30, 12:30:45, 1.2.3, 2024-01-01, 0b11, 1.10, '1.10', \"2\"]" -> ["007","1_000","1:30","12:30:45","1.2.3","2024-01-01",3,1.1,"1.10","2"]
            "[.inf]" -- MZ103 f:1:2 `.inf` `.inf` is not a finite number
            "[.nan]" -- MZ103 f:1:2 `.nan` `.nan` is not a finite number
            "[1e999]" -- MZ103 f:1:2 `1e999` `1e999` is not a finite number
            "[18446744073709551616]" -> [1.8446744073709552e+19]
            "[-9223372036854775809]" -> [-9.223372036854776e+18]
            "[123456789012345678901234567890]" -> [1.2345678901234568e+29]
            "[!!str 1, !!int '7', !!bool true, !!null '', !!float 1]" -> ["1",7,true,null,1.0]
            "['', \"\", '''', \"\\u00e9\\t\\x41\\0\", \"\\ud83d\\ude00\", \"\\/\"]" -> ["","","'","é\tA\u0000","😀","/"]
        "#]],
    );
}

#[test]
fn texts_of_several_lines() {
    check(
        &[
            "a: |\n  one\n   two\n\n  three\nb: >-\n  one\n  two\n\n  three\nc: |+\n  x\n\n",
            "a: one\n  two\nb: 'one\n\n  two'",
            "a: |\n  # no comment\n  ${x} {{ y }}\n  key: value\n",
            "a: x # comment\nb: x#none\nc: http://x:80/#a\nd: \"# none\"",
        ],
        expect![[r##"
            "a: |\n  one\n   two\n\n  three\nb: >-\n  one\n  two\n\n  three\nc: |+\n  x\n\n" -> {"a":"one\n two\n\nthree\n","b":"one two\nthree","c":"x\n\n"}
            "a: one\n  two\nb: 'one\n\n  two'" -> {"a":"one two","b":"one\ntwo"}
            "a: |\n  # no comment\n  ${x} {{ y }}\n  key: value\n" -> {"a":"# no comment\n${x} {{ y }}\nkey: value\n"}
            "a: x # comment\nb: x#none\nc: http://x:80/#a\nd: \"# none\"" -> {"a":"x","b":"x#none","c":"http://x:80/#a","d":"# none"}
        "##]],
    );
}

#[test]
fn nothing_is_an_empty_mapping_and_only_that() {
    check(
        &[
            "",
            " \n\t\n",
            "# a\n  # b",
            "---\n",
            "---\n...\n",
            "null",
            "~",
            "[]",
            "{}",
            "a",
            "%YAML 1.2\n---\na: 1",
            "--- a",
            "a: 1\n...\n",
            "\u{feff}",
            "\u{feff}a: 1",
        ],
        expect![[r##"
            "" -> {}
            " \n\t\n" -> {}
            "# a\n  # b" -> {}
            "---\n" -> null
            "---\n...\n" -> null
            "null" -> null
            "~" -> null
            "[]" -> []
            "{}" -> {}
            "a" -> "a"
            "%YAML 1.2\n---\na: 1" -> {"a":1}
            "--- a" -> "a"
            "a: 1\n...\n" -> {"a":1}
            "\u{feff}" -> {}
            "\u{feff}a: 1" -> {"a":1}
        "##]],
    );
}

#[test]
fn a_key_stands_once() {
    check(
        &[
            "a: 1\nb: 2\na: 3",
            "concurrency: 1\nconcurrency_max: 2\nconcurrency: 3",
            "a: 1\n\"a\": 2",
            "'a': 1\na : 2",
            "- x: 1\n  y:\n    x: 3\n  x: 2\n- x: 4",
            "m: {a: 1, b: 2, a: 3}",
            "{a: 1, ba: 2, \"a\": 3}",
            "ü: 1\nü: 2",
            "1: a\n1: b",
            "a: {x: 1}\nb:\n  x: 2\n  x: 3",
            "a: 1\r\na: 2\r\n",
            "{\"a\": 1,\n \"a\": 2}",
            "? a\n: 1\n? a\n: 2",
            "{a: 1, m: {a: 2}, a: 3}",
            "{a: [{a: 2}], b: \"a: \", a: 3}",
            "null: 1\n~: 2\n\"null\": 3",
            "1: a\n'1': b\n2: c",
            "a: 1\nA: 2",
        ],
        expect![[r#"
            "a: 1\nb: 2\na: 3" -- MZ104 f:3:1 `a` the key `a` stands twice in one mapping; f:1:1 it stands here first
            "concurrency: 1\nconcurrency_max: 2\nconcurrency: 3" -- MZ104 f:3:1 `concurrency` the key `concurrency` stands twice in one mapping; f:1:1 it stands here first
            "a: 1\n\"a\": 2" -- MZ104 f:2:1 `"a"` the key `a` stands twice in one mapping; f:1:1 it stands here first
            "'a': 1\na : 2" -- MZ104 f:2:1 `a` the key `a` stands twice in one mapping; f:1:2 it stands here first
            "- x: 1\n  y:\n    x: 3\n  x: 2\n- x: 4" -- MZ104 f:4:3 `x` the key `x` stands twice in one mapping; f:1:3 it stands here first
            "m: {a: 1, b: 2, a: 3}" -- MZ104 f:1:17 `a` the key `a` stands twice in one mapping; f:1:5 it stands here first
            "{a: 1, ba: 2, \"a\": 3}" -- MZ104 f:1:15 `"a"` the key `a` stands twice in one mapping; f:1:2 it stands here first
            "ü: 1\nü: 2" -- MZ104 f:2:1 `ü` the key `ü` stands twice in one mapping; f:1:1 it stands here first
            "1: a\n1: b" -- MZ104 f:2:1 `1` the key `1` stands twice in one mapping; f:1:1 it stands here first
            "a: {x: 1}\nb:\n  x: 2\n  x: 3" -- MZ104 f:4:3 `x` the key `x` stands twice in one mapping; f:3:3 it stands here first
            "a: 1\r\na: 2\r\n" -- MZ104 f:2:1 `a` the key `a` stands twice in one mapping; f:1:1 it stands here first
            "{\"a\": 1,\n \"a\": 2}" -- MZ104 f:2:2 `"a"` the key `a` stands twice in one mapping; f:1:3 it stands here first
            "? a\n: 1\n? a\n: 2" -- MZ104 f:3:3 `a` the key `a` stands twice in one mapping; f:1:3 it stands here first
            "{a: 1, m: {a: 2}, a: 3}" -- MZ104 f:1:19 `a` the key `a` stands twice in one mapping; f:1:2 it stands here first
            "{a: [{a: 2}], b: \"a: \", a: 3}" -- MZ104 f:1:25 `a` the key `a` stands twice in one mapping; f:1:2 it stands here first
            "null: 1\n~: 2\n\"null\": 3" -- MZ104 f:3:1 `"null"` the key `null` stands twice in one mapping; f:1:1 it stands here first
            "1: a\n'1': b\n2: c" -- MZ104 f:2:1 `'1'` the key `1` stands twice in one mapping; f:1:1 it stands here first
            "a: 1\nA: 2" -> {"a":1,"A":2}
        "#]],
    );
}

#[test]
fn what_is_not_yaml_is_told_where() {
    check(
        &[
            "a: [1, 2",
            "a: {b: 1",
            "a: 'x",
            "a: \"x",
            "a: \"\\q\"",
            "a: 1\n b: 2",
            "a:\n    b: 1\n  c: 2",
            "- a\nb: 1",
            "a: b: c",
            "a: @x",
            "a: `x`",
            "a: %x",
            "a: *nobody",
            "a: &x",
            "a: ]",
            "[1, 2]]",
            "a: !weird 1",
            "a: !!binary aGk=",
            "!!map {a: 1}",
            "[a]: 1",
            "{a: 1}: 2",
            "{\"a\"\n: 1}",
            "? [x]\n: 1",
            "a: 1\n---\nb: 2",
            "---\na: 1\n---\n",
            "a: |1x\n  b",
            "é: [ü, \u{1f600}, ]]",
        ],
        expect![[r#"
            "a: [1, 2" -- MZ103 f:1:4 `` unclosed bracket `[`
            "a: {b: 1" -- MZ103 f:1:4 `` unclosed bracket `{`
            "a: 'x" -- MZ103 f:1:4 `` unclosed quote
            "a: \"x" -- MZ103 f:1:4 `` unclosed quote
            "a: \"\\q\"" -- MZ103 f:1:4 `` while parsing a quoted scalar, found unknown escape character
            "a: 1\n b: 2" -- MZ103 f:2:3 `` mapping values are not allowed in this context
            "a:\n    b: 1\n  c: 2" -- MZ103 f:3:3 `` while parsing a block mapping, did not find expected key
            "- a\nb: 1" -- MZ103 f:2:1 `` while parsing a block collection, did not find expected `-` indicator
            "a: b: c" -- MZ103 f:1:5 `` mapping values are not allowed in this context
            "a: @x" -- MZ103 f:1:4 `` unexpected character: `@`
            "a: `x`" -- MZ103 f:1:4 `` unexpected character: ```
            "a: %x" -- MZ103 f:1:4 `` unexpected character: `%`
            "a: *nobody" -- MZ103 f:1:4 `` alias references unknown anchor
            "a: &x" -> {"a":null}
            "a: ]" -- MZ103 f:1:4 `` misplaced bracket
            "[1, 2]]" -- MZ103 f:1:7 `` misplaced bracket
            "a: !weird 1" -- MZ103 f:1:11 `1` unsupported tag `!weird`
            "a: !!binary aGk=" -> {"a":"hi"}
            "!!map {a: 1}" -> {"a":1}
            "[a]: 1" -- MZ103 f:1:1 `[` a list or a mapping as a key; a key is a text
            "{a: 1}: 2" -- MZ103 f:1:1 `{` a list or a mapping as a key; a key is a text
            "{\"a\"\n: 1}" -> {"a":1}
            "? [x]\n: 1" -- MZ103 f:1:3 `[` a list or a mapping as a key; a key is a text
            "a: 1\n---\nb: 2" -- MZ106 f:3:1 `` a second YAML document begins here
            "---\na: 1\n---\n" -- MZ106 f:3:4 `` a second YAML document begins here
            "a: |1x\n  b" -- MZ103 f:1:4 `` while scanning a block scalar, did not find expected comment or line break
            "é: [ü, 😀, ]]" -- MZ103 f:1:12 `` misplaced bracket
        "#]],
    );
}

#[test]
fn tabs_do_not_indent() {
    check(
        &[
            "a:\n\tb: 1",
            "a:\n  - x\n\t- y",
            "\ta: 1",
            "a:\n  \tb: 1",
            "a:\t1\nb: x\ty",
            "a: 1\t# comment\n",
            "{\n\t\"a\": 1,\n\t\"b\": [\n\t\t2\n\t]\n}",
            "a: |\n  x\n  \ty\n",
            "a: table\n b: 2\nc:\n\td: 1",
            "a:\n b: 1\n\tc: 2",
        ],
        expect![[r#"
            "a:\n\tb: 1" -- MZ105 f:2:1 `	` a tab indents this line
            "a:\n  - x\n\t- y" -- MZ105 f:3:1 `	` a tab indents this line
            "\ta: 1" -> {"a":1}
            "a:\n  \tb: 1" -> {"a":{"b":1}}
            "a:\t1\nb: x\ty" -> {"a":1,"b":"x\ty"}
            "a: 1\t# comment\n" -> {"a":1}
            "{\n\t\"a\": 1,\n\t\"b\": [\n\t\t2\n\t]\n}" -> {"a":1,"b":[2]}
            "a: |\n  x\n  \ty\n" -> {"a":"x\n\ty\n"}
            "a: table\n b: 2\nc:\n\td: 1" -- MZ103 f:2:3 `` mapping values are not allowed in this context
            "a:\n b: 1\n\tc: 2" -- MZ105 f:3:1 `	` a tab indents this line
        "#]],
    );
}

#[test]
fn what_stands_behind_an_alias_counts_as_often_as_it_is_used() {
    check(
        &[
            "a: &x {k: 1}\nb: *x\nc: [*x, *x]",
            "a: &x 1\nb: &x 2\nc: *x",
            "a: &a [*a]",
            "base: &b {x: 1, y: 2}\nm: {<<: *b, y: 3}",
            "m: {<<: {x: 1}, x: 2}",
            "a: &a {x: 1}\nb: &b {x: 2, y: 3}\nm: {<<: [*a, *b]}",
            "a: &a {x: 1}\nb: &b {<<: *a, y: 2}\nm: {<<: *b, z: 3}",
            "m: {<<: 1}",
            "m: {<<: [1]}",
            "m: {<<: {x: 1}, <<: {y: 1}}",
            "m: {'<<': 1}",
        ],
        expect![[r#"
            "a: &x {k: 1}\nb: *x\nc: [*x, *x]" -> {"a":{"k":1},"b":{"k":1},"c":[{"k":1},{"k":1}]}
            "a: &x 1\nb: &x 2\nc: *x" -> {"a":1,"b":2,"c":2}
            "a: &a [*a]" -- MZ103 f:1:8 `*a` an alias inside of what it stands for
            "base: &b {x: 1, y: 2}\nm: {<<: *b, y: 3}" -> {"base":{"x":1,"y":2},"m":{"y":3,"x":1}}
            "m: {<<: {x: 1}, x: 2}" -> {"m":{"x":2}}
            "a: &a {x: 1}\nb: &b {x: 2, y: 3}\nm: {<<: [*a, *b]}" -> {"a":{"x":1},"b":{"x":2,"y":3},"m":{"x":1,"y":3}}
            "a: &a {x: 1}\nb: &b {<<: *a, y: 2}\nm: {<<: *b, z: 3}" -> {"a":{"x":1},"b":{"y":2,"x":1},"m":{"z":3,"y":2,"x":1}}
            "m: {<<: 1}" -- MZ103 f:1:9 `1` YAML merge value must be mapping or sequence of mappings
            "m: {<<: [1]}" -- MZ103 f:1:10 `1` YAML merge value must be mapping or sequence of mappings
            "m: {<<: {x: 1}, <<: {y: 1}}" -> {"m":{"x":1,"y":1}}
            "m: {'<<': 1}" -> {"m":{"<<":1}}
        "#]],
    );
}

#[test]
fn a_file_is_utf_8_and_printable() {
    let check = |texts: &[&[u8]], expect: Expect| {
        let lines = texts
            .iter()
            .map(|it| format!("{} {}\n", it.escape_ascii(), read(it)));
        expect.assert_eq(&lines.collect::<String>());
    };
    check(
        &[
            b"a: \xff",
            b"\xef\xbb\xbfa: \xc3",
            b"\xff\xfea\0:\0",
            b"a: \xed\xa0\x80",
            b"a: x\0y",
            b"a: \"x\0y\"",
            b"\0",
            b"a: \x1b[31m",
            b"a: \"\x07\"",
            b"# \x01\na: 1",
            b"a: x\ry: 1",
            b"a: 1\r\nb: |\r\n  x\r\n  y\r\n",
        ],
        expect![[r#"
            a: \xff -- MZ102 f:1:4 `` not UTF-8: byte 0xff at byte offset 3
            \xef\xbb\xbfa: \xc3 -- MZ102 f:1:5 `` not UTF-8: byte 0xc3 at byte offset 6
            \xff\xfea\x00:\x00 -- MZ102 f:1:1 `` not UTF-8: byte 0xff at byte offset 0
            a: \xed\xa0\x80 -- MZ102 f:1:4 `` not UTF-8: byte 0xed at byte offset 3
            a: x\x00y -- MZ103 f:1:5 `` unexpected character: `\u{0}`
            a: \"x\x00y\" -- MZ103 f:1:6 `` unexpected character: `\u{0}`
            \x00 -- MZ103 f:1:1 `` unexpected character: `\u{0}`
            a: \x1b[31m -- MZ103 f:1:4 `` unexpected character: `\u{1b}`
            a: \"\x07\" -- MZ103 f:1:5 `` unexpected character: `\u{7}`
            # \x01\na: 1 -- MZ103 f:1:3 `` unexpected character: `\u{1}`
            a: x\ry: 1 -> {"a":"x","y":1}
            a: 1\r\nb: |\r\n  x\r\n  y\r\n -> {"a":1,"b":"x\ny\n"}
        "#]],
    );
}

#[test]
fn places_count_characters_and_bytes() {
    check_places(
        "größe: ümlaut # ä\nb: [\u{1f600}, x]\r\nc:\n  ключ: |\n    text\n  d: {e: 'f'}\n",
        &[
            "",
            "/größe",
            "/b",
            "/b/0",
            "/b/1",
            "/b/2",
            "/c",
            "/c/ключ",
            "/c/d/e",
            "/c/nobody/x",
        ],
        expect![[r#"
             f:1:1 "" f:1:1 ""
            /größe f:1:1 "größe" f:1:8 "ümlaut"
            /b f:2:1 "b" f:2:4 "["
            /b/0 f:2:5 "😀" f:2:5 "😀"
            /b/1 f:2:8 "x" f:2:8 "x"
            /b/2 f:2:1 "b" f:2:4 "["
            /c f:3:1 "c" f:4:3 ""
            /c/ключ f:4:3 "ключ" f:5:5 "text"
            /c/d/e f:6:7 "e" f:6:10 "'f'"
            /c/nobody/x f:3:1 "c" f:4:3 ""
        "#]],
    );
    check_places(
        "\u{feff}a~b: 1\nc/d: {'': x}\n",
        &["/a~0b", "/c~1d", "/c~1d/", "/x", "no pointer"],
        expect![[r#"
            /a~0b f:1:1 "a~b" f:1:6 "1"
            /c~1d f:2:1 "c/d" f:2:6 "{"
            /c~1d/ f:2:7 "''" f:2:11 "x"
            /x f:1:1 "" f:1:1 ""
            no pointer f:1:1 "" f:1:1 ""
        "#]],
    );
    check_places(
        "a: &x {k: 1}\nb: *x\nc: {<<: *x}\nd: \ne:\n",
        &["/b", "/b/k", "/c/k", "/d", "/e"],
        expect![[r#"
            /b f:2:1 "b" f:2:4 "*x"
            /b/k f:2:4 "*x" f:2:4 "*x"
            /c/k f:3:9 "*x" f:3:9 "*x"
            /d f:4:1 "d" f:4:2 ""
            /e f:5:1 "e" f:5:2 ""
        "#]],
    );
}

#[test]
fn a_text_that_is_named_json_is_json() {
    let json = |text: &&str| {
        let file = decode("f", text.as_bytes().to_vec()).expect("it is UTF-8");
        let found = match Source::parse_json(&file) {
            Ok(source) => format!("-> {}", source.value()),
            Err(fault) => told(&fault),
        };
        format!("{text:?} {found}\n")
    };
    let texts = [
        "{\"a\": [1, 2.5, null, true, \"\\u00e9\\ud83d\\ude00\\/\"]}",
        "\u{feff}[]",
        "{\n\t\"yes\"\n\t:\n\t\"no\"\n}",
        "[007]",
        "{\"a\": 1,}",
        "{a: 1}",
        "{'a': 1}",
        "[1] # one",
        "a: 1",
        "",
        "{\"a\": 1} {}",
        "{\"a\": 1, \"a\": 2}",
        "{\n \"ä\": [1\n",
        "{\"äö\": x}",
    ];
    expect![[r#"
        "{\"a\": [1, 2.5, null, true, \"\\u00e9\\ud83d\\ude00\\/\"]}" -> {"a":[1,2.5,null,true,"é😀/"]}
        "\u{feff}[]" -> []
        "{\n\t\"yes\"\n\t:\n\t\"no\"\n}" -> {"yes":"no"}
        "[007]" -- MZ108 f:1:3 `` not JSON: invalid number
        "{\"a\": 1,}" -- MZ108 f:1:9 `` not JSON: key must be a string
        "{a: 1}" -- MZ108 f:1:2 `` not JSON: key must be a string
        "{'a': 1}" -- MZ108 f:1:2 `` not JSON: key must be a string
        "[1] # one" -- MZ108 f:1:5 `` not JSON: trailing characters
        "a: 1" -- MZ108 f:1:1 `` not JSON: expected value
        "" -- MZ108 f:1:1 `` not JSON: EOF while parsing a value
        "{\"a\": 1} {}" -- MZ108 f:1:10 `` not JSON: trailing characters
        "{\"a\": 1, \"a\": 2}" -- MZ104 f:1:10 `"a"` the key `a` stands twice in one mapping; f:1:3 it stands here first
        "{\n \"ä\": [1\n" -- MZ108 f:3:1 `` not JSON: EOF while parsing a list
        "{\"äö\": x}" -- MZ108 f:1:8 `` not JSON: expected value
    "#]].assert_eq(&texts.iter().map(json).collect::<String>());
}
