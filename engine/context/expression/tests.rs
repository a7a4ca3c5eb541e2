use std::collections::BTreeMap;

use proptest::{prelude::*, test_runner::RngSeed};
use serde_json::{Value, json};

use super::*;

mod texts;

type Variables = BTreeMap<String, Value>;

fn variables() -> Variables {
    let variables = json!({
        "yes": true,
        "no": false,
        "null": null,
        "zero": 0,
        "three": 3,
        "minus": -2,
        "half": 0.5,
        "large": 9007199254740993_u64,
        "most": u64::MAX,
        "text": "grün",
        "empty": "",
        "list": [1, "b", null],
        "nested": [[1, 2], [1, 3.0]],
        "none": [],
        "map": {"k": 1, "l": [true]},
        "same": {"l": [1], "k": 1.0},
    });
    serde_json::from_value(variables).expect("it is a mapping")
}

fn verdict(text: &str) -> Verdict {
    let variables = variables();
    let expression = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    expression.evaluate(|name| variables.get(name))
}

/// Every line is an expression that comes to the value before it, `1` or `0`, without a warning.
#[track_caller]
fn check(lines: &str) {
    for line in lines.lines().map(str::trim).filter(|it| !it.is_empty()) {
        let (value, text) = line.split_once(' ').expect("a value and an expression");
        let value = value == "1";
        let warnings = Vec::new();
        assert_eq!(verdict(text), Verdict { value, warnings }, "{text}");
    }
}

#[test]
fn truth() {
    check(
        "1 True
         0 None
         0 0
         0 -0.0
         1 0.5
         0 ''
         1 ' '
         0 []
         1 [0]
         0 ()
         1 (0,)
         0 (0)
         0 ${unset}
         0 ${empty}
         0 ${none}
         1 ${map}
         1 ${list}
         1 __ctx('yes')
         0 not ${yes}
         1 not not ${three}",
    );
}

#[test]
fn joined() {
    check(
        "1 True or False and False
         0 (True or False) and False
         1 not True or True
         1 not ${no} == True
         1 (${unset} or 'default') == 'default'
         1 (${three} and ${text}) == 'grün'
         1 ${yes} or ${unset} > 1
         0 ${no} and ${unset} > 1
         1 ${yes} and ${text} != 'x' and len(${list}) > 0",
    );
}

#[test]
fn equality() {
    check(
        "1 1 == True == 1.0
         1 0 == False
         0 None == False
         0 '1' == 1
         1 1 != '1'
         1 ${list} == [1, 'b', None]
         0 ${list} == (1, 'b', None)
         1 (1, 2) == (True, 2.0)
         1 [1] == [1,]
         0 [1] == [1, 2]
         1 ${map} == ${same}
         0 ${map} == ${nested}
         0 ${large} == 9007199254740992.0
         1 ${large} == 9_007_199_254_740_993
         1 ${unset} == None
         1 ${unset} == ${null}",
    );
}

#[test]
fn order() {
    check(
        "1 ${minus} < -1 <= ${zero} < ${half} < ${three} <= 3.0 < 1e400
         1 -1e400 < ${minus}
         0 0 < ${three} < 3
         1 ${large} > 9007199254740992.0
         1 ${most} < 18446744073709551616.0
         1 True > False
         1 True < 1.5
         1 'a' < 'b' < 'ä'
         1 'B' < 'a'
         1 'a' < 'ab'
         1 [1, 2] < [1, 3] < [2]
         1 [1] < [1, 0]
         1 ${nested} > [[1, 2], [1, 2]]
         1 (1, 'a') < (1, 'b')
         1 [None, 1] < [None, 2]",
    );
}

#[test]
fn membership_and_identity() {
    check(
        "1 'b' in ${list}
         1 1.0 in ${list}
         1 None in ${list}
         1 'c' not in ${list}
         1 'x' in ('x',)
         1 'ü' in ${text}
         1 '' in ${empty}
         1 'k' in ${map}
         1 'x' not in ${map}
         0 1 in ${map}
         1 [1, 2] in ${nested}
         0 3 in [1, 2] == False
         1 ${unset} is None
         1 ${three} is not None
         1 ${yes} is True
         1 1 == True is True
         1 ${no} is not True
         1 ${three} is ${three}
         0 ${three} is True
         0 ${zero} is False",
    );
}

#[test]
fn lengths_texts_and_numbers() {
    check(
        r#"1 len(${text}) == 4
           1 len(${list}) > 2
           1 len(${map}) == 2
           0 len('') or len([]) or len(())
           1 len((1, 2)) == 2
           1 "it's" == 'it\'s'
           1 '\x41\u00e4\U0001F600\101' == 'Aä😀A'
           1 '\t' == '	'
           1 '\d' == '\\d'
           1 '${' != '$ {a}' != '${1}'
           1 1_000 == 1e3 == 1000.
           1 .5 == 5e-1 == 0.5
           1 00 == 0
           1 - 1 == -1"#,
    );
    assert!(verdict("(1 <\n 2 \n)\n").value);
}

#[test]
fn nesting_is_bounded() {
    let nested =
        |open: &str, close: &str, depth| format!("{}1{}", open.repeat(depth), close.repeat(depth));
    for (open, close) in [("(", ")"), ("[", "]"), ("not ", ""), ("len(", ")")] {
        let deepest = parse(&nested(open, close, MAX_DEPTH)).expect(open);
        deepest.evaluate(|_| None);
        let error = parse(&nested(open, close, MAX_DEPTH + 1)).expect_err(open);
        assert_eq!(error.message, "nested more than 100 deep");
        assert!(parse(&nested(open, close, 100_000)).is_err());
    }
    assert!(
        verdict(&vec!["1"; 10_000].join(" == 1 and ")).value,
        "long is not deep"
    );
}

#[test]
fn lists_its_variables_with_their_places() {
    let text = "${a} and len(__ctx('b')) > ${a}";
    let expression = parse(text).expect(text);
    let places = expression
        .variables()
        .map(|(name, span)| (name, &text[span]));
    assert_eq!(
        places.collect::<Vec<_>>(),
        [("a", "${a}"), ("b", "'b'"), ("a", "${a}")]
    );
    assert_eq!(expression.to_string(), text);
}

/// Texts that are nearly expressions.
fn near_expressions() -> impl Strategy<Value = String> {
    let words = "${three} ${unset} ${list} ${map} ${text} 1 - 2.5 'a' ' \" \\ None True not and or is in == < >= ( ) [ ] , len( __ctx( ${ } é .";
    let word = prop::sample::select(words.split(' ').collect::<Vec<_>>());
    prop::collection::vec(word, 0..12).prop_map(|it| it.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parsing_and_evaluating_are_total(text in prop_oneof![any::<String>(), near_expressions()]) {
        match parse(&text) {
            Ok(_) => prop_assert_eq!(verdict(&text), verdict(&text)),
            Err(error) => prop_assert!(text.get(error.span).is_some()),
        }
    }

    #[test]
    fn numbers_are_ordered(a in any::<i64>(), b in prop_oneof![any::<f64>(), (-9i64..9).prop_map(|it| it as f64 / 2.0)]) {
        let variables = Variables::from([("a".to_owned(), json!(a)), ("b".to_owned(), json!(b))]);
        let holds = |text: &str| parse(text).expect(text).evaluate(|name| variables.get(name)).value;
        let (less, equal, greater) = (holds("${a} < ${b}"), holds("${a} == ${b}"), holds("${a} > ${b}"));
        prop_assert_eq!([less, equal, greater].iter().filter(|it| **it).count(), 1);
        prop_assert_eq!((less, greater), (holds("${b} > ${a}"), holds("${b} < ${a}")));
    }
}
