//! What warnings and errors say.

use expect_test::{Expect, expect};

use super::*;

/// Draws the warnings of every line, all of which come to `value`.
#[track_caller]
fn check_warnings(lines: &str, expect: Expect) {
    let mut drawn = String::new();
    for line in lines.lines().map(str::trim) {
        let (value, text) = line.split_once(' ').expect("a value and an expression");
        let verdict = verdict(text);
        assert_eq!(verdict.value, value == "1", "{text}");
        assert!(!verdict.warnings.is_empty(), "{text}");
        drawn.extend(verdict.warnings.iter().map(|it| format!("{it}\n")));
    }
    expect.assert_eq(&drawn);
}

/// Draws what is wrong with every line, under the line.
#[track_caller]
fn check_errors(lines: &str, expect: Expect) {
    let mut drawn = String::new();
    for text in lines.lines().map(str::trim_start) {
        let error = parse(text).expect_err(text);
        let before = text[..error.span.start].chars().count();
        let carets = "^".repeat(text[error.span.clone()].chars().count().max(1));
        drawn += &format!("{text}\n{}{carets} {error}", " ".repeat(before));
        drawn.extend(error.help.map(|it| format!("; {it}")));
        drawn.push('\n');
    }
    expect.assert_eq(&drawn);
}

#[test]
fn comparisons_without_sense_are_false() {
    check_warnings(
        "0 ${unset} > 1
         0 ${null} <= None
         1 not (None > 1)
         1 None > 1 or 2 > 1
         1 ${three} > 'x' or ${three} < [] or True
         0 1 < ${unset} < 5
         0 1 in ${three}
         0 1 not in ${three}
         0 1 in ${text}
         0 [1] in ${map}
         0 ${map} < ${map}
         0 [1, 'a'] < [1, 2]
         0 (1,) < [2]
         0 ('a' or ${x}) > 1",
        expect![[r#"
            `${unset} > 1` counts as false: `${unset}` (not set) and `1` (a number) have no order
            `${null} <= None` counts as false: `${null}` (null) and `None` (null) have no order
            `None > 1` counts as false: `None` (null) and `1` (a number) have no order
            `None > 1` counts as false: `None` (null) and `1` (a number) have no order
            `${three} > 'x'` counts as false: `${three}` (a number) and `'x'` (a text) have no order
            `${three} < []` counts as false: `${three}` (a number) and `[]` (a list) have no order
            `1 < ${unset}` counts as false: `1` (a number) and `${unset}` (not set) have no order
            `1 in ${three}` counts as false: `1` (a number) cannot be in `${three}` (a number)
            `1 not in ${three}` counts as false: `1` (a number) cannot be in `${three}` (a number)
            `1 in ${text}` counts as false: `1` (a number) cannot be in `${text}` (a text)
            `[1] in ${map}` counts as false: `[1]` (a list) cannot be in `${map}` (a mapping)
            `${map} < ${map}` counts as false: `${map}` (a mapping) and `${map}` (a mapping) have no order
            `[1, 'a'] < [1, 2]` counts as false: `[1, 'a']` (a list) and `[1, 2]` (a list) have no order
            `(1,) < [2]` counts as false: `(1,)` (a tuple) and `[2]` (a list) have no order
            `('a' or ${x}) > 1` counts as false: `('a' or ${x})` (a text) and `1` (a number) have no order
        "#]],
    );
}

#[test]
fn lengths_without_sense_are_false() {
    check_warnings(
        "0 len(${unset})
         1 not len(${three})
         1 (len(${unset}) or 5) == 5
         0 0 == len(${null})
         0 [len(${unset})] == [0]
         0 len((1)) == 1
         0 1 < 2 < len(None)
         0 len(len(${unset})) == 0",
        expect![[r#"
            `len(${unset})` counts as false: `${unset}` (not set) has no length
            `len(${three})` counts as false: `${three}` (a number) has no length
            `len(${unset})` counts as false: `${unset}` (not set) has no length
            `0 == len(${null})` counts as false: `${null}` (null) has no length
            `[len(${unset})] == [0]` counts as false: `${unset}` (not set) has no length
            `len((1)) == 1` counts as false: `(1)` (a number) has no length
            `2 < len(None)` counts as false: `None` (null) has no length
            `len(len(${unset})) == 0` counts as false: `${unset}` (not set) has no length
        "#]],
    );
}

#[test]
fn words_and_signs_of_other_languages() {
    check_errors(
        "${a} == true
         ${a} is null
         ${a} AND ${b}
         NOT ${a}
         a == 1
         später
         ${a}; ${b}
         ${a} & ${a}
         ${a} && ${b}
         ${a} = 1
         ${a} === 1
         ${a} => 1
         1 <> 2
         !${a}
         ${a} # why
         ${a} + 1
         ${n} - 1 > 0
         -${n}
         --1
         2 ** 3
         ${a} if ${b} else False
         {'a': 1}
         ${d}['k'] == 1
         ${d}.k == 1
         max(1, 2) > 1
         ${a}(1)",
        expect![[r#"
            ${a} == true
                    ^^^^ `true` is not a value; write `True`
            ${a} is null
                    ^^^^ `null` is not a value; write `None`
            ${a} AND ${b}
                 ^^^ expected an operator or the end, found `AND`; write `and`
            NOT ${a}
            ^^^ `NOT` is not a value; write `not`
            a == 1
            ^ `a` is not a value; write `${a}` for the variable, `'a'` for the text
            später
            ^^^^^^ `später` is not a value; write `'später'` for the text
            ${a}; ${b}
                ^ `;` has no meaning here; an expression is one condition; join two with `and` or `or`
            ${a} & ${a}
                 ^ `&` has no meaning here; write `and`
            ${a} && ${b}
                 ^^ `&&` has no meaning here; write `and`
            ${a} = 1
                 ^ `=` has no meaning here; write `==` to compare
            ${a} === 1
                 ^^^ `===` has no meaning here; write `==`
            ${a} => 1
                 ^^ `=>` has no meaning here; write `>=`
            1 <> 2
              ^^ `<>` has no meaning here; write `!=`
            !${a}
            ^ `!` has no meaning here; write `not`
            ${a} # why
                 ^ `#` has no meaning here
            ${a} + 1
                 ^ `+` has no meaning here; an expression compares values; it does not calculate with them
            ${n} - 1 > 0
                 ^ expected an operator or the end, found `-`; an expression compares values; it does not calculate with them
            -${n}
             ^^^^ expected a number after `-`, found `${n}`; an expression compares values; it does not calculate with them
            --1
             ^ expected a number after `-`, found `-`; an expression compares values; it does not calculate with them
            2 ** 3
              ^ `*` has no meaning here; an expression compares values; it does not calculate with them
            ${a} if ${b} else False
                 ^^ expected an operator or the end, found `if`; write the condition alone; each transition has its own
            {'a': 1}
            ^ `{` has no meaning here; a variable is written `${name}`; there are no mappings here
            ${d}['k'] == 1
                ^ expected an operator or the end, found `[`; a variable is read as a whole; declare one for the part that is needed
            ${d}.k == 1
                ^ `.` has no meaning here; a variable is read as a whole; declare one for the part that is needed
            max(1, 2) > 1
            ^^^ `max` cannot be called; the only function is `len`
            ${a}(1)
                ^ expected an operator or the end, found `(`; the only function is `len`
        "#]],
    );
}

#[test]
fn what_is_not_a_variable() {
    check_errors(
        "${d.k}
         ${d['k']}
         ${1a}
         ${}
         ${ a }
         ${a
         $a
         $
         ${ä}
         '${a}' == 'x'
         \"is ${a}\"
         __ctx(a)
         __ctx('a b')",
        expect![[r#"
            ${d.k}
            ^^^^^^ `${d.k}` is not a variable; a variable is read as a whole; declare one for the part that is needed
            ${d['k']}
            ^^^^^^^^^ `${d['k']}` is not a variable; a variable is read as a whole; declare one for the part that is needed
            ${1a}
            ^^^^^ `${1a}` is not a variable; a name is made of letters from `a` to `z`, digits and `_`, and starts with no digit
            ${}
            ^^^ `${}` is not a variable; a name is made of letters from `a` to `z`, digits and `_`, and starts with no digit
            ${ a }
            ^^^^^^ `${ a }` is not a variable; write `${a}`
            ${a
            ^^ `${` has no `}`
            $a
            ^^ `$a` is not a variable; write `${a}`
            $
            ^ `$` is not a variable; a variable is written `${name}`
            ${ä}
            ^^^^ `${ä}` is not a variable; a name is made of letters from `a` to `z`, digits and `_`, and starts with no digit
            '${a}' == 'x'
            ^^^^^^ the text `'${a}'` holds a variable; write `${a}` without quotes; it is not put into texts
            "is ${a}"
            ^^^^^^^^^ the text `"is ${a}"` holds a variable; write `${a}` without quotes; it is not put into texts
            __ctx(a)
                  ^ expected the name of a variable in quotes, found `a`
            __ctx('a b')
                  ^^^^^ expected the name of a variable in quotes, found `'a b'`
        "#]],
    );
}

#[test]
fn what_is_not_complete() {
    check_errors(
        "${a} ==
         == 1
         ${a}${b}
         ${a} 'x'
         ${a} not 1
         ${a} == not ${b}
         len ${a}
         len(${a}
         len(${a}, 1)
         len()
         (1, 2
         [1 2]
         [,]
         1, 2
         1)
         1 ~ 2
         1 is 1
         ${a} is not 'x'",
        expect![[r#"
            ${a} ==
                   ^ expected a value, found the end
            == 1
            ^^ expected a value, found `==`
            ${a}${b}
                ^^^^ expected an operator or the end, found `${b}`
            ${a} 'x'
                 ^^^ expected an operator or the end, found `'x'`
            ${a} not 1
                     ^ expected `in` after `not`, found `1`
            ${a} == not ${b}
                    ^^^ expected a value, found `not`; put `not` and what it denies in parentheses
            len ${a}
                ^^^^ expected `(`, found `${a}`
            len(${a}
                    ^ expected `)`, found the end
            len(${a}, 1)
                    ^ expected an operator or `)`, found `,`; a list is written in `[ ]`, a tuple in `( )`
            len()
                ^ expected a value, found `)`
            (1, 2
                 ^ expected `)`, found the end
            [1 2]
               ^ expected an operator or `]`, found `2`
            [,]
             ^ expected a value, found `,`
            1, 2
             ^ expected an operator or the end, found `,`; a list is written in `[ ]`, a tuple in `( )`
            1)
             ^ expected an operator or the end, found `)`
            1 ~ 2
              ^ `~` has no meaning here
            1 is 1
            ^ `is` compares with `None`, `True` or `False` only; write `==`
            ${a} is not 'x'
                        ^^^ `is` compares with `None`, `True` or `False` only; write `!=`
        "#]],
    );
}

#[test]
fn what_is_not_a_text_or_number() {
    check_errors(
        r"'a
          '\xg1'
          '\ud800'
          '\N{DASH}'
          '\
          007
          1_
          1__0
          1a
          1.2.3
          1e
          0x10
          99999999999999999999",
        expect![[r#"
            'a
            ^^ a text without its closing `'`
            '\xg1'
             ^^ `\x` does not name a character
            '\ud800'
             ^^ `\u` does not name a character
            '\N{DASH}'
             ^^ `\N` does not name a character
            '\
            ^^ a text without its closing `'`
            007
            ^^^ `007` starts with a `0`
            1_
            ^^ `1_` is not a number
            1__0
            ^^^^ `1__0` is not a number
            1a
            ^^ `1a` is not a number
            1.2.3
            ^^^^^ `1.2.3` is not a number
            1e
            ^^ `1e` is not a number
            0x10
            ^^^^ `0x10` is not a number
            99999999999999999999
            ^^^^^^^^^^^^^^^^^^^^ `99999999999999999999` is larger than 64 bits hold
        "#]],
    );
}

#[test]
fn nothing_and_an_open_line() {
    for text in ["", " \n"] {
        let error = parse(text).expect_err("there is nothing");
        assert_eq!(
            (error.span, error.message.as_str()),
            (0..text.len(), "an empty expression")
        );
    }
    let error = parse("1 \u{0}").expect_err("a control character");
    assert_eq!(error.message, r"`\0` has no meaning here");
    assert_eq!(
        parse("'a\nb'").expect_err("a text ends on its line").span,
        0..2
    );
}
