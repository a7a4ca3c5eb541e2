use expect_test::{Expect, expect};

use super::*;

fn faults(outputs: &StructuredOutputs) -> String {
    let (_, faults) = compile(outputs);
    let lines = faults.iter().map(|it| {
        let mut line = format!("{}: {}", it.pointer, it.message);
        if let Some(suggestion) = it.suggestion() {
            line += &format!("; did you mean `{suggestion}`?");
        }
        if let Some(help) = &it.help {
            line += &format!("; help: {help}");
        }
        line + "\n"
    });
    lines.collect()
}

#[track_caller]
fn check(models: &str, expect: Expect) {
    expect.assert_eq(&faults(&outputs(models)));
}

#[test]
fn words_of_other_languages_are_no_types() {
    check(
        r#"R: {"a": "boolean", "b": "number", "c": "object", "d": "array", "e": "any", "f": "date", "g": "null", "h": "dict[str, int]"}"#,
        expect![[r#"
            /models/R/fields/a/type: `boolean` is not a type; did you mean `bool`?; help: write `bool`
            /models/R/fields/b/type: `number` is not a type; help: write `float`, or `int` for whole numbers
            /models/R/fields/c/type: `object` is not a type; help: write `dict`, or name a model
            /models/R/fields/d/type: `array` is not a type; help: write `list` and say in `items` what it holds
            /models/R/fields/e/type: `any` is not a type; help: say what it can be: a `union`, `dict` for any mapping, or `List` for any list
            /models/R/fields/f/type: `date` is not a type; help: write `str`, and say in `description` how it is written
            /models/R/fields/g/type: `null` is not a type; help: write `"null"` among the `variants` of a union; elsewhere `optional_str` and `Optional[...]` allow null
            /models/R/fields/h/type: `dict[str, int]` is not a type; did you mean `Dict`?
        "#]],
    );
}

#[test]
fn an_unknown_type_is_compared_with_all_there_are() {
    check(
        r#"
        R: {"a": "Findng", "b": {"type": "list", "items": "Str"}, "c": "list[nope]", "d": {"type": "union", "variants": ["int", "Null"]}, "e": {"type": "list", "items": "literal"}}
        U: {"type": "union", "variants": ["finding"]}
        Finding: {"a": "str"}
        "#,
        expect![[r#"
            /models/R/fields/a/type: `Findng` is not a type; did you mean `Finding`?
            /models/R/fields/b/items: `Str` is not a type; did you mean `str`?
            /models/R/fields/c/type: `nope` is not a type
            /models/R/fields/d/variants/1: `Null` is not a type; did you mean `null`?; help: write `"null"` among the `variants` of a union; elsewhere `optional_str` and `Optional[...]` allow null
            /models/R/fields/e/items: `literal` is not a type; help: give it a name under `models`, and write that name here
            /models/U/variants/0: `finding` is not a type; did you mean `Finding`?
        "#]],
    );
    let (_, faults) = compile(&outputs(r#"R: {"a": {"type": "list", "items": "x"}}"#));
    expect!["str string int integer float bool dict Dict list List optional_str optional_dict optional_list R"].assert_eq(&faults[0].allowed.join(" "));
}

#[test]
fn a_type_needs_its_keys_and_no_others() {
    check(
        r#"
        R: {"a": "list", "b": "literal", "c": "union", "d": {"type": "str", "items": "str", "values": [1]}, "e": {"type": "list", "items": "str", "variants": ["str"]}}
        "#,
        expect![[r#"
            /models/R/fields/a: the type `list` needs the key `items`; help: write `List` for a list of anything
            /models/R/fields/b: the type `literal` needs the key `values`
            /models/R/fields/c: the type `union` needs the key `variants`
            /models/R/fields/d/items: `items` means nothing for the type `str`; help: `items` belongs to the type `list`
            /models/R/fields/d/values: `values` means nothing for the type `str`; help: `values` belongs to the type `literal`
            /models/R/fields/e/variants: `variants` means nothing for the type `list`; help: `variants` belongs to the type `union`
        "#]],
    );
}

#[test]
fn literals_and_unions_say_something() {
    check(
        r#"
        R: {"a": {"type": "literal", "values": []}, "b": {"type": "union", "variants": []}, "c": {"type": "union", "variants": ["null"]}}
        L: {"type": "literal", "values": ["a", [1], {}]}
        U: {"type": "union", "variants": ["null", "null"]}
        "#,
        expect![[r#"
            /models/R/fields/a/values: an empty list of values, which nothing would fit
            /models/R/fields/b/variants: an empty list of variants, which nothing would fit
            /models/R/fields/c/variants: a union of only `null` says nothing
            /models/L/values/1: a list or a mapping as a value of a literal; help: write texts, numbers, `true`, `false` or null; describe the rest with a model
            /models/L/values/2: a list or a mapping as a value of a literal; help: write texts, numbers, `true`, `false` or null; describe the rest with a model
            /models/U/variants: a union of only `null` says nothing
        "#]],
    );
}

#[test]
fn some_names_are_reserved() {
    check(
        r#"
        R: {"_x": "str", "model_config": "str", " ": "int", "x_": "str"}
        str: {"a": "int"}
        A/B: {"a": "int"}
        "#,
        expect![[r#"
            /models/R/fields/_x: `_x` cannot name a field: names with `_` in front are reserved
            /models/R/fields/model_config: `model_config` cannot name a field: it is reserved
            /models/R/fields/ : ` ` cannot name a field: it is blank
            /models/str: `str` cannot name a model: it is a type in every workflow
            /models/A~1B: `A/B` cannot name a model: only letters, digits, `_` and `-` can stand in it
        "#]],
    );
}

#[test]
fn a_model_does_not_contain_itself() {
    check(
        r#"R: {"f": {"type": "optional_list", "items": "R"}}"#,
        expect![[r#"
            /models/R: a model cannot contain itself: `R` -> `R`; help: let one of them hold names or ids instead, and put the objects in one list
        "#]],
    );
    check(
        r#"
        Root: {"a": "A", "typo": "strr"}
        A: {"b": "Optional[U]", "typo": "flaot"}
        U: {"type": "union", "variants": ["B", "str"]}
        B: {"a": "list[A]", "self": "B"}
        Fine: {"a": "str"}
        "#,
        expect![[r#"
            /models/A: a model cannot contain itself: `A` -> `U` -> `B` -> `A`; help: let one of them hold names or ids instead, and put the objects in one list
            /models/A/fields/typo/type: `flaot` is not a type; did you mean `float`?
            /models/Root/fields/typo/type: `strr` is not a type; did you mean `str`?
        "#]],
    );
}

#[test]
fn a_default_fits_its_type() {
    check(
        r#"
        R: {"a": {"type": "int", "default": "3"}, "b": {"type": "I", "default": {"x": ["a", 1]}}, "c": {"type": "literal", "values": ["on", "off"], "default": "of"}, "d": {"type": "float", "default": 1}}
        I: {"x": "list[str]"}
        "#,
        expect![[r#"
            /models/R/fields/a/default: the default does not fit: expected an integer, found the text `3`
            /models/R/fields/b/default/x/1: the default does not fit: expected a text, found the number `1`
            /models/R/fields/c/default: the default does not fit: expected `"on"` or `"off"`, found the text `of`
        "#]],
    );
}

#[test]
fn an_agent_answers_with_a_model() {
    let outputs: StructuredOutputs = serde_json::from_value(json!({
        "registry": { "A": "Reveiw", "B": "L", "C": null, "D": "Broken", "E": "Review" },
        "models": {
            "L": { "type": "literal", "values": ["a"] },
            "Broken": { "type": "model", "fields": { "f": { "type": "any" } } },
            "Review": { "type": "model", "fields": { "f": { "type": "L" } } },
        },
    }))
    .expect("it is well-formed");
    expect![[r#"
        /models/Broken/fields/f/type: `any` is not a type; help: say what it can be: a `union`, `dict` for any mapping, or `List` for any list
        /registry/A: there is no model `Reveiw`; did you mean `Review`?
        /registry/B: `L` is not an object, and an answer has to be one; help: name a model with a field of that type
    "#]].assert_eq(&faults(&outputs));
    let (shapes, _) = compile(&outputs);
    let agents = ["A", "B", "C", "D", "E", "F"];
    let answers = agents.map(|it| shapes.of_agent(it).map(Shape::name));
    assert_eq!(answers, [None, None, None, None, Some("Review"), None]);
}

#[test]
fn depth_and_size_are_bounded() {
    let chain = |length: usize| {
        let models = (0..length).map(|it| format!("M{it}: {{\"f\": \"M{}\"}}\n", it + 1));
        models.collect::<String>() + &format!("M{length}: {{\"f\": \"str\"}}")
    };
    check(&chain(62), expect![[r#""#]]);
    check(
        &chain(66),
        expect![[r#"
        /models/M3: `M3` nests more than 64 deep
    "#]],
    );
    check(
        &format!(
            r#"R: {{"f": "{}str{}"}}"#,
            "list[".repeat(100_000),
            "]".repeat(100_000)
        ),
        expect![[r#"
            /models/R/fields/f/type: a type nested more than 64 deep
        "#]],
    );
    let doubling =
        (0..20).map(|it| format!("M{it}: {{\"a\": \"M{0}\", \"b\": \"M{0}\"}}\n", it + 1));
    check(
        &(doubling.collect::<String>() + r#"M20: {"a": "str", "b": "str"}"#),
        expect![[r#"
            /models/M5: `M5` has more than 100000 parts, with all that it uses
        "#]],
    );
}
