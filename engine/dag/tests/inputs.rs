//! Fields, and literals made of outputs.

use expect_test::expect;
use serde_json::{Value, json};

use super::{super::*, A, check};

/// A path and what it leads to, or why not.
#[test]
fn l2_21_a_field_is_data_then_members_and_indices() {
    let output = json!({"type": "json", "data": {
        "items": [{"name": "n", "foo-bar": 1, "naïve": 2, "0": 3}],
        "text": "t",
        "nothing": null,
    }});
    let mut lines = String::new();
    for text in [
        "data",
        "data.text",
        "data.items[0]",
        "data.items[0].name",
        "data.items[0].foo-bar",
        "data.items[0].naïve",
        "data.items[0].0",
        "data.nothing",
        "data.items[1]",
        "data.item",
        "data[0]",
        "data.text.x",
        "data.text[0]",
        "data.nothing.x",
        "data.items.name",
        "",
        "type",
        "datum",
        "$.data.foo",
        "data.",
        "data..foo",
        "data.items[-1]",
        "data.items[*]",
        "data.*",
        "data.items[0:1]",
        "data.items[ 0 ]",
        "data.items [0]",
        "data.items[0",
        "data.items[0]]name",
        "data.items[]",
        "data.items[00]",
        "data.items[99999999999999999999]",
        "data.items[0]name",
        " data",
        "data.a b",
        "data.items[?(@.x)]",
        "data['items']",
        "data.a]",
    ] {
        let came = match Field::parse(text) {
            Err(error) => format!("column {}: {}", error.column, error.message),
            Ok(field) => {
                assert_eq!(field.to_string(), text);
                match field.resolve(&output) {
                    Ok(value) => value.to_string(),
                    Err(nowhere) => format!("nowhere: {nowhere}"),
                }
            }
        };
        lines += &format!("{text:30} {came}\n");
    }
    expect![[r#"
        data                           {"items":[{"name":"n","foo-bar":1,"naïve":2,"0":3}],"text":"t","nothing":null}
        data.text                      "t"
        data.items[0]                  {"name":"n","foo-bar":1,"naïve":2,"0":3}
        data.items[0].name             "n"
        data.items[0].foo-bar          1
        data.items[0].naïve            2
        data.items[0].0                3
        data.nothing                   null
        data.items[1]                  nowhere: `data.items` has 1 items, and none at index 1
        data.item                      nowhere: `data` has no member `item`
        data[0]                        nowhere: `data` is a mapping, which has no index 0
        data.text.x                    nowhere: `data.text` is a text, which has no member `x`
        data.text[0]                   nowhere: `data.text` is a text, which has no index 0
        data.nothing.x                 nowhere: `data.nothing` is null, which has no member `x`
        data.items.name                nowhere: `data.items` is a list, which has no member `name`
                                       column 1: a field begins with `data`, which is what an output holds
        type                           column 1: a field begins with `data`, which is what an output holds
        datum                          column 1: a field begins with `data`, which is what an output holds
        $.data.foo                     column 1: a field begins with `data`, which is what an output holds
        data.                          column 6: the name of a member has to come here
        data..foo                      column 6: the name of a member has to come here
        data.items[-1]                 column 12: an index is a number from 0; there are no wildcards, slices or filters
        data.items[*]                  column 12: an index is a number from 0; there are no wildcards, slices or filters
        data.*                         column 6: there are no wildcards
        data.items[0:1]                column 13: `]` has to come here; there are no slices
        data.items[ 0 ]                column 12: an index is a number from 0; there are no wildcards, slices or filters
        data.items [0]                 column 11: a name has no white space
        data.items[0                   column 13: `]` has to come here; there are no slices
        data.items[0]]name             column 14: `.` or `[` has to come here
        data.items[]                   column 12: an index is a number from 0; there are no wildcards, slices or filters
        data.items[00]                 column 12: an index has no leading zeros, and is no larger than memory
        data.items[99999999999999999999] column 12: an index has no leading zeros, and is no larger than memory
        data.items[0]name              column 14: `.` or `[` has to come here
         data                          column 1: a field begins with `data`, which is what an output holds
        data.a b                       column 7: a name has no white space
        data.items[?(@.x)]             column 12: an index is a number from 0; there are no wildcards, slices or filters
        data['items']                  column 6: an index is a number from 0; there are no wildcards, slices or filters
        data.a]                        column 7: `.` or `[` has to come here
    "#]].assert_eq(&lines);
    check(
        &format!(
            "{A}\n- {{task_id: b, capability: text-split, input: {{source: {{from_task: a, field: 'data.x[*]'}}}}}}"
        ),
        "{from: a, to: b}",
        expect![[r#"
            MZ415 4:78 the field `data.x[*]` cannot be read: column 8: an index is a number from 0; there are no wildcards, slices or filters
        "#]],
    );
}

#[test]
fn l2_19_and_20_and_22_a_reference_becomes_a_literal() {
    let outputs: Vec<Json> = [
        json!({"type": "json", "data": {"t": "x", "n": [1]}}),
        json!({"type": "image/png", "data": "AA=="}),
    ]
    .map(Json::from)
    .into();
    let (a, b) = (TaskIx::new(0), TaskIx::new(1));
    let field = |text: &str| Some(Field::parse(text).expect("it is a path"));
    let check = |input: Input, wanted: Value| {
        let literal = input.resolve(|it| outputs[it.at()].clone(), 200);
        assert_eq!(literal.expect("it can be made").to_value(), wanted);
    };
    check(
        Input::Outputs(vec![b, a]),
        json!({"type": "json", "data": [outputs[1].value(), outputs[0].value()]}),
    );
    check(Input::Output { of: b, field: None }, outputs[1].to_value());
    // The payload as a whole keeps its type; a part is text, or JSON.
    check(
        Input::Output {
            of: b,
            field: field("data"),
        },
        outputs[1].to_value(),
    );
    check(
        Input::Output {
            of: a,
            field: field("data.t"),
        },
        json!({"type": "text", "data": "x"}),
    );
    check(
        Input::Output {
            of: a,
            field: field("data.n"),
        },
        json!({"type": "json", "data": [1]}),
    );
    let lost = Input::Output {
        of: a,
        field: field("data.n[1]"),
    };
    let lost = lost
        .resolve(|it| outputs[it.at()].clone(), 200)
        .expect_err("there is one item");
    expect!["`data.n[1]` leads nowhere: `data.n` has 1 items, and none at index 1"]
        .assert_eq(&lost.to_string());
    let large = Input::Outputs(vec![a, b, a, b, a]);
    let large = large
        .resolve(|it| outputs[it.at()].clone(), 200)
        .expect_err("it is long");
    expect!["the input would be 217 bytes; 200 are allowed"].assert_eq(&large.to_string());
}
