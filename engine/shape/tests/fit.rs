use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

/// Holds payloads, one a line, against the first model.
#[track_caller]
fn check(models: &str, payloads: &str, expect: Expect) {
    let shape = shape(models);
    let mut actual = String::new();
    for payload in payloads.lines().map(str::trim).filter(|it| !it.is_empty()) {
        let value = serde_json::from_str(payload).expect("a payload is JSON");
        match shape.fit(&value) {
            Ok(Fitted { value, dropped }) if dropped.is_empty() => {
                actual += &format!("{payload} -> {value}\n");
            }
            Ok(Fitted { value, dropped }) => {
                actual += &format!("{payload} -> {value} without {}\n", dropped.join(" "));
            }
            Err(misfits) => {
                actual += &format!("{payload}\n");
                for misfit in misfits {
                    actual += &format!("  -- {misfit}\n");
                }
            }
        }
    }
    expect.assert_eq(&actual);
}

#[test]
fn scalars_are_not_converted() {
    let payloads = r#"
        {"f": "x"}
        {"f": "3"}
        {"f": 3}
        {"f": 3.0}
        {"f": 18446744073709551615}
        {"f": true}
        {"f": null}
        {"f": []}
        {}
    "#;
    check(
        r#"R: {"f": "str"}"#,
        payloads,
        expect![[r#"
        {"f": "x"} -> {"f":"x"}
        {"f": "3"} -> {"f":"3"}
        {"f": 3}
          -- `/f`: expected a text, found the number `3`
        {"f": 3.0}
          -- `/f`: expected a text, found the number `3.0`
        {"f": 18446744073709551615}
          -- `/f`: expected a text, found the number `18446744073709551615`
        {"f": true}
          -- `/f`: expected a text, found `true`
        {"f": null}
          -- `/f`: expected a text, found null
        {"f": []}
          -- `/f`: expected a text, found a list of 0
        {}
          -- `/f`: missing, expected a text
    "#]],
    );
    check(
        r#"R: {"f": "int"}"#,
        payloads,
        expect![[r#"
        {"f": "x"}
          -- `/f`: expected an integer, found the text `x`
        {"f": "3"}
          -- `/f`: expected an integer, found the text `3`
        {"f": 3} -> {"f":3}
        {"f": 3.0}
          -- `/f`: expected an integer, found the number `3.0`
        {"f": 18446744073709551615} -> {"f":18446744073709551615}
        {"f": true}
          -- `/f`: expected an integer, found `true`
        {"f": null}
          -- `/f`: expected an integer, found null
        {"f": []}
          -- `/f`: expected an integer, found a list of 0
        {}
          -- `/f`: missing, expected an integer
    "#]],
    );
    check(
        r#"R: {"f": "float"}"#,
        payloads,
        expect![[r#"
        {"f": "x"}
          -- `/f`: expected a number, found the text `x`
        {"f": "3"}
          -- `/f`: expected a number, found the text `3`
        {"f": 3} -> {"f":3}
        {"f": 3.0} -> {"f":3.0}
        {"f": 18446744073709551615} -> {"f":18446744073709551615}
        {"f": true}
          -- `/f`: expected a number, found `true`
        {"f": null}
          -- `/f`: expected a number, found null
        {"f": []}
          -- `/f`: expected a number, found a list of 0
        {}
          -- `/f`: missing, expected a number
    "#]],
    );
    check(
        r#"R: {"f": "bool"}"#,
        payloads,
        expect![[r#"
        {"f": "x"}
          -- `/f`: expected `true` or `false`, found the text `x`
        {"f": "3"}
          -- `/f`: expected `true` or `false`, found the text `3`
        {"f": 3}
          -- `/f`: expected `true` or `false`, found the number `3`
        {"f": 3.0}
          -- `/f`: expected `true` or `false`, found the number `3.0`
        {"f": 18446744073709551615}
          -- `/f`: expected `true` or `false`, found the number `18446744073709551615`
        {"f": true} -> {"f":true}
        {"f": null}
          -- `/f`: expected `true` or `false`, found null
        {"f": []}
          -- `/f`: expected `true` or `false`, found a list of 0
        {}
          -- `/f`: missing, expected `true` or `false`
    "#]],
    );
}

#[test]
fn one_type_may_have_several_names() {
    check(
        r#"R: {"a": "string", "b": "integer", "c": "Dict", "d": "List", "e": "optional_dict", "f": "Optional[str]"}"#,
        r#"
        {"a": "", "b": -1, "c": {"x": [1]}, "d": [1, "a"], "e": {"y": 2}, "f": "z"}
        {"a": "", "b": -1, "c": {}, "d": []}
        {"a": 1, "b": "1", "c": [], "d": {}, "e": [], "f": {}}
        "#,
        expect![[r#"
            {"a": "", "b": -1, "c": {"x": [1]}, "d": [1, "a"], "e": {"y": 2}, "f": "z"} -> {"a":"","b":-1,"c":{"x":[1]},"d":[1,"a"],"e":{"y":2},"f":"z"}
            {"a": "", "b": -1, "c": {}, "d": []} -> {"a":"","b":-1,"c":{},"d":[],"e":null,"f":null}
            {"a": 1, "b": "1", "c": [], "d": {}, "e": [], "f": {}}
              -- `/a`: expected a text, found the number `1`
              -- `/b`: expected an integer, found the text `1`
              -- `/c`: expected a mapping, found a list of 0
              -- `/d`: expected a list, found a mapping
              -- `/e`: expected a mapping or null, found a list of 0
              -- `/f`: expected a text or null, found a mapping
        "#]],
    );
}

#[test]
fn fields_are_in_the_models_order_and_unknown_ones_are_dropped() {
    check(
        r#"
        R: {"b": "str", "a": {"type": "list", "items": "I"}}
        I: {"x": {"type": "int", "default": 7}}
        "#,
        r#"
        {"zzz": 1, "a": [{"y": 1}, {"x": 2, "a/b": 3}], "b": "x"}
        {"a": [{"x": "2"}, 3, {}], "c": 1}
        [1]
        "#,
        expect![[r#"
            {"zzz": 1, "a": [{"y": 1}, {"x": 2, "a/b": 3}], "b": "x"} -> {"b":"x","a":[{"x":7},{"x":2}]} without /a/0/y /a/1/a~1b /zzz
            {"a": [{"x": "2"}, 3, {}], "c": 1}
              -- `/b`: missing, expected a text
              -- `/a/0/x`: expected an integer, found the text `2`
              -- `/a/1`: expected a mapping (`I`), found the number `3`
            [1]
              -- the answer: expected a mapping (`R`), found a list of 1
        "#]],
    );
}

#[test]
fn what_is_left_out_has_its_default() {
    check(
        r#"
        R: {"text": {"type": "str", "default": "d"}, "list": {"type": "list", "items": "str", "default": []}, "left_out": {"type": "str", "default": null}, "optional": "optional_str", "inline": {"type": "union", "variants": ["int", "null"]}, "fixed": {"type": "Optional[str]", "default": "f"}}
        "#,
        r#"
        {}
        {"text": null, "left_out": null, "optional": null, "inline": null, "fixed": null}
        "#,
        expect![[r#"
            {} -> {"text":"d","list":[],"left_out":null,"optional":null,"inline":null,"fixed":"f"}
            {"text": null, "left_out": null, "optional": null, "inline": null, "fixed": null}
              -- `/text`: expected a text, found null
              -- `/left_out`: expected a text, found null
        "#]],
    );
    check(
        r#"
        R: {"f": "U"}
        U: {"type": "union", "variants": ["str", "null"]}
        "#,
        r#"
        {"f": null}
        {}
        "#,
        expect![[r#"
            {"f": null} -> {"f":null}
            {}
              -- `/f`: missing, expected a text or null
        "#]],
    );
}

#[test]
fn lists_hold_one_type() {
    check(
        r#"R: {"f": {"type": "optional_list", "items": "str"}}"#,
        r#"
        {"f": ["a", ""]}
        {"f": []}
        {}
        {"f": null}
        {"f": [1, "a", null]}
        {"f": "a"}
        {"f": {"0": "a"}}
        "#,
        expect![[r#"
            {"f": ["a", ""]} -> {"f":["a",""]}
            {"f": []} -> {"f":[]}
            {} -> {"f":null}
            {"f": null} -> {"f":null}
            {"f": [1, "a", null]}
              -- `/f/0`: expected a text, found the number `1`
              -- `/f/2`: expected a text, found null
            {"f": "a"}
              -- `/f`: expected a list or null, found the text `a`
            {"f": {"0": "a"}}
              -- `/f`: expected a list or null, found a mapping
        "#]],
    );
    check(
        r#"R: {"f": "list[ Optional[list[int]] ]", "g": "optional_list"}"#,
        r#"
        {"f": [[1], null, []], "g": [1, "a"]}
        {"f": [["a"], 1]}
        "#,
        expect![[r#"
            {"f": [[1], null, []], "g": [1, "a"]} -> {"f":[[1],null,[]],"g":[1,"a"]}
            {"f": [["a"], 1]}
              -- `/f/0/0`: expected an integer, found the text `a`
              -- `/f/1`: expected a list or null, found the number `1`
        "#]],
    );
}

#[test]
fn literals_are_exact() {
    check(
        r#"R: {"f": {"type": "literal", "values": [1, "a", true, null, 2.5]}}"#,
        r#"
        {"f": 1}
        {"f": 1.0}
        {"f": "1"}
        {"f": true}
        {"f": null}
        {"f": 2.5}
        {"f": "A"}
        {}
        "#,
        expect![[r#"
            {"f": 1} -> {"f":1}
            {"f": 1.0}
              -- `/f`: expected `1`, `"a"`, `true`, `null` or `2.5`, found the number `1.0`
            {"f": "1"}
              -- `/f`: expected `1`, `"a"`, `true`, `null` or `2.5`, found the text `1`
            {"f": true} -> {"f":true}
            {"f": null} -> {"f":null}
            {"f": 2.5} -> {"f":2.5}
            {"f": "A"}
              -- `/f`: expected `1`, `"a"`, `true`, `null` or `2.5`, found the text `A`
            {}
              -- `/f`: missing, expected `1`, `"a"`, `true`, `null` or `2.5`
        "#]],
    );
    check(
        r#"
        R: {"f": "L", "g": {"type": "list", "items": "L", "default": ["a"]}}
        L: {"type": "literal", "values": ["a", "a"]}
        "#,
        r#"
        {"f": "a"}
        {"f": "b", "g": ["a", "b"]}
        "#,
        expect![[r#"
            {"f": "a"} -> {"f":"a","g":["a"]}
            {"f": "b", "g": ["a", "b"]}
              -- `/f`: expected `"a"`, found the text `b`
              -- `/g/1`: expected `"a"`, found the text `b`
        "#]],
    );
}

#[test]
fn a_union_takes_what_fits_and_drops_least() {
    check(
        r#"R: {"f": {"type": "union", "variants": ["str", "int", "list", "dict"]}}"#,
        r#"
        {"f": "3"}
        {"f": 3}
        {"f": [1]}
        {"f": {"a": 1}}
        {"f": 3.0}
        {"f": null}
        "#,
        expect![[r#"
            {"f": "3"} -> {"f":"3"}
            {"f": 3} -> {"f":3}
            {"f": [1]} -> {"f":[1]}
            {"f": {"a": 1}} -> {"f":{"a":1}}
            {"f": 3.0}
              -- `/f`: expected a text or an integer or a list or a mapping, found the number `3.0`
            {"f": null}
              -- `/f`: expected a text or an integer or a list or a mapping, found null
        "#]],
    );
    check(
        r#"
        R: {"f": {"type": "union", "variants": ["I", "J", "K"]}}
        I: {"a": "str"}
        J: {"b": "str"}
        K: {"a": "str", "c": "str"}
        "#,
        r#"
        {"f": {"a": "1"}}
        {"f": {"b": "1"}}
        {"f": {"a": "1", "b": "2"}}
        {"f": {"a": "1", "c": "2"}}
        {"f": {"c": "1"}}
        {"f": 1}
        "#,
        expect![[r#"
            {"f": {"a": "1"}} -> {"f":{"a":"1"}}
            {"f": {"b": "1"}} -> {"f":{"b":"1"}}
            {"f": {"a": "1", "b": "2"}} -> {"f":{"a":"1"}} without /f/b
            {"f": {"a": "1", "c": "2"}} -> {"f":{"a":"1","c":"2"}}
            {"f": {"c": "1"}}
              -- `/f`: expected `I`, `J` or `K`, found a mapping that fits none; the nearest is `K`
              -- `/f/a`: missing, expected a text
            {"f": 1}
              -- `/f`: expected a mapping (`I`) or a mapping (`J`) or a mapping (`K`), found the number `1`
        "#]],
    );
}

#[test]
fn the_misfits_of_a_union_are_those_of_what_was_meant() {
    check(
        r#"
        R: {"steps": {"type": "list", "items": "Step"}}
        Step: {"type": "union", "variants": ["Read", "Write", "null"]}
        Kind: {"type": "literal", "values": ["write"]}
        Read: {"kind": {"type": "literal", "values": ["read"]}, "path": "str"}
        Write: {"kind": "Kind", "path": "str", "text": "str", "mode": "int"}
        "#,
        r#"
        {"steps": [{"kind": "read", "path": "a"}, null]}
        {"steps": [{"kind": "write", "mode": "7"}, {"kind": "move", "path": "a"}, "read"]}
        "#,
        expect![[r#"
            {"steps": [{"kind": "read", "path": "a"}, null]} -> {"steps":[{"kind":"read","path":"a"},null]}
            {"steps": [{"kind": "write", "mode": "7"}, {"kind": "move", "path": "a"}, "read"]}
              -- `/steps/0`: expected `Read` or `Write`, found a mapping that fits none; the nearest is `Write`
              -- `/steps/0/path`: missing, expected a text
              -- `/steps/0/text`: missing, expected a text
              -- `/steps/0/mode`: expected an integer, found the text `7`
              -- `/steps/1`: expected `Read` or `Write`, found a mapping that fits none; the nearest is `Read`
              -- `/steps/1/kind`: expected `"read"`, found the text `move`
              -- `/steps/2`: expected a mapping (`Read`) or a mapping (`Write`) or null, found the text `read`
        "#]],
    );
    check(
        r#"
        R: {"f": {"type": "union", "variants": ["I", "null"]}}
        I: {"a": "str"}
        "#,
        r#"{"f": {"a": 1}}"#,
        expect![[r#"
            {"f": {"a": 1}}
              -- `/f/a`: expected a text, found the number `1`
        "#]],
    );
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2..2_i64).prop_map(Value::from),
        Just(json!(1.0)),
        "[ab]?".prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 32, 3, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from);
        let entries = prop::collection::vec(("[abcd]", inner), 0..4);
        let object = entries.prop_map(|it| it.into_iter().collect::<Map<_, _>>().into());
        prop_oneof![list, object.clone(), object]
    })
}

proptest! {
    #[test]
    fn a_fitted_value_fits_as_it_is(value in value()) {
        let shape = shape(
            r#"
            R: {"a": "U", "b": {"type": "list", "items": "U", "default": []}, "c": {"type": "float", "default": 1}}
            U: {"type": "union", "variants": ["I", "J", "list[U2]", "str", "null"]}
            U2: {"type": "union", "variants": ["I", "int", "optional_dict"]}
            I: {"b": "optional_list", "a": "int"}
            J: {"a": {"type": "literal", "values": ["a", true]}, "b": {"type": "bool", "default": false}}
            "#,
        );
        // Few values are objects with what is required, so each stands in for a field too.
        for value in [value.clone(), json!({ "a": value, "b": [value], "d": 1 })] {
            match shape.fit(&value) {
                Ok(Fitted { value: fitted, .. }) => {
                    let keys: Vec<&String> = fitted.as_object().expect("it is a model").keys().collect();
                    prop_assert_eq!(keys, ["a", "b", "c"]);
                    let again = shape.fit(&fitted).expect("it did fit");
                    prop_assert_eq!(again, Fitted { value: fitted, dropped: Vec::new() });
                }
                Err(misfits) => prop_assert!(!misfits.is_empty()),
            }
        }
    }
}
