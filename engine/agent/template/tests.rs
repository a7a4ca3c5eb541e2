use std::path::Path;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::super::{Request, env::Env, testing};

async fn render(runtime: Value, request: Request) -> String {
    match testing::agent(runtime, Path::new("."), &Env::Process) {
        Ok(agent) => testing::show(&agent.ask(request).await),
        Err(error) => format!("{error:?}"),
    }
}

async fn check(template: &str, expected: Expect) {
    let runtime = json!({ "kind": "template", "output": "text", "template": template });
    expected.assert_eq(&render(runtime, testing::question()).await);
}

async fn check_json(template: &str, expected: Expect) {
    let runtime = json!({ "kind": "template", "template": template });
    expected.assert_eq(&render(runtime, testing::task()).await);
}

#[tokio::test]
async fn texts() {
    check(
        "Hi {{ input }}, {{ names | join(' and ') }}",
        expect!["Hi hello, Ada and Ben"],
    )
    .await;
    check(
        "{{ '<b>' }}{{ names | tojson }}",
        expect![[r#"<b>["Ada", "Ben"]"#]],
    )
    .await;
    check(
        "{{ nope is defined }}{{ nope | default('-') }}",
        expect!["False-"],
    )
    .await;
}

#[tokio::test]
async fn all_variables() {
    let items =
        "{% for name, value in variables() | items %}{{ name }}={{ value | tojson }};{% endfor %}";
    check(items, expect![[r#"input="hello";names=["Ada", "Ben"];"#]]).await;
    check(
        "{{ variables().nope is defined }} {{ variables()['input'] }}",
        expect!["False hello"],
    )
    .await;
}

#[tokio::test]
async fn filters() {
    check(
        r#"{{ "a1b22" | regex_findall("[0-9]+") | tojson }}"#,
        expect![[r#"["1", "22"]"#]],
    )
    .await;
    check(
        r#"{{ "a1b22" | regex_replace("([0-9]+)", "<$1>") }}"#,
        expect!["a<1>b<22>"],
    )
    .await;
    check(
        r#"{{ "a, b;c" | regex_split("[,;] *") | tojson }}"#,
        expect![[r#"["a", "b", "c"]"#]],
    )
    .await;
    check(
        r#"{{ "a" | regex_split("(") }}"#,
        expect![[r#"
        template_failed: line 1: invalid operation: `(` is no pattern: regex parse error:
            (
            ^
        error: unclosed group"#]],
    )
    .await;
    check(
        r#"{{ "a" | regex_findall("(?:a{1000}){1000}") }}"#,
        expect!["template_failed: line 1: invalid operation: `(?:a{1000}){1000}` is no pattern: Compiled regex exceeds size limit of 1048576 bytes."],
    )
    .await;
    check(
        r#"{{ ('{"a": [1, 2]}' | fromjson).a | sum }}"#,
        expect!["3"],
    )
    .await;
    check("{{ '{' | fromjson }}", expect!["template_failed: line 1: invalid operation: not JSON: EOF while parsing an object at line 1 column 1"]).await;
    check("{{ 2.345 | round(1) }}", expect!["2.3"]).await;
}

#[tokio::test]
async fn chunks() {
    check(
        "{{ 'one two three four' | chunk_text(9) | tojson }}",
        expect![[r#"["one two", "three", "four"]"#]],
    )
    .await;
    check(
        r"{{ 'ab cd\n\nef gh ij' | chunk_text(10) | tojson }}",
        expect![[r#"["ab cd", "ef gh ij"]"#]],
    )
    .await;
    check(
        "{{ 'ééééé' | chunk_text(2) | tojson }}",
        expect![[r#"["éé", "éé", "é"]"#]],
    )
    .await;
    check(
        "{{ 'abc' | chunk_text(0) | tojson }}",
        expect![[r#"["a", "b", "c"]"#]],
    )
    .await;
    check("{{ '  ' | chunk_text(4) | tojson }}", expect!["[]"]).await;
    check(
        "{{ 'abc' | chunk_text(-1) | tojson }}",
        expect!["template_failed: line 1: invalid operation: cannot convert number to usize"],
    )
    .await;
}

#[tokio::test]
async fn json_in_a_batch() {
    check_json(
        "{{ dependency_task_outputs | tojson }}",
        expect![[r#"{"a": {"done": true}}"#]],
    )
    .await;
    check_json(
        r#"{"id": {{ current_task.task_id | tojson }}, "goal": "{{ goal }}"}"#,
        expect![[r#"{"id": "b", "goal": "more"}"#]],
    )
    .await;
    check_json("[1,\n2,,3]", expect!["template_failed: the template did not make JSON: expected value at line 2 column 3: `2,,3]`"]).await;
    check_json("", expect!["template_failed: the template did not make JSON: EOF while parsing a value at line 1 column 0: ``"]).await;
}

#[tokio::test]
async fn unknown_names() {
    check("a\n{{ inptu }}", expect!["template_failed: line 2: undefined value: `inptu` is undefined; did you mean `input`?; there are `input`, `names`"]).await;
    check("{{ zzz }}", expect!["template_failed: line 1: undefined value: `zzz` is undefined; there are `input`, `names`"]).await;
    check(
        "{{ names.first }}",
        expect!["template_failed: line 1: undefined value: `names.first` is undefined"],
    )
    .await;
    check(
        "{{ names[7] }}{{ names['x'] }}",
        expect!["template_failed: line 1: undefined value: `names[7]` is undefined"],
    )
    .await;
    check("{% for it in nmaes %}{% endfor %}", expect!["template_failed: line 1: undefined value: `nmaes` is undefined; did you mean `names`?; there are `input`, `names`"]).await;
}

#[tokio::test]
async fn build_errors() {
    check("a\n{% for x %}", expect![[r#"Template { message: "syntax error: unexpected end of block, expected in", line: Some(2) }"#]]).await;
    check(
        "{{ input | nofilter }}",
        expect!["template_failed: line 1: unknown filter: filter nofilter is unknown"],
    )
    .await;
}

#[tokio::test]
async fn bounds() {
    let loops = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
    let runtime =
        json!({ "kind": "template", "output": "text", "template": loops, "fuel": 10_000 });
    expect!["template_failed: line 1: engine ran out of fuel"]
        .assert_eq(&render(runtime, testing::question()).await);

    let mut request = testing::question();
    request.max_output_bytes = 9;
    let runtime =
        json!({ "kind": "template", "output": "text", "template": "{{ input }}{{ input }}" });
    expect!["too_long: the template makes more than the 9 bytes that are allowed"]
        .assert_eq(&render(runtime.clone(), request.clone()).await);
    request.max_output_bytes = 10;
    expect!["hellohello"].assert_eq(&render(runtime, request).await);
}
