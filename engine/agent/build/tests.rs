use std::{fs, path::Path};

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::super::{env::Env, testing};

fn check(runtime: Value, variables: &[(&str, &str)], expected: Expect) {
    let env = Env::fixed(variables.iter().copied());
    let shown = match testing::agent(runtime, Path::new("/nowhere"), &env) {
        Ok(_) => "ready".to_owned(),
        Err(error) => format!("{error:?}"),
    };
    expected.assert_eq(&shown);
}

#[test]
fn keys_and_models() {
    let openai = |more: Value| {
        let mut runtime = json!({ "kind": "openai" });
        runtime
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        runtime
    };
    let model = json!({ "model": "m" });
    check(
        openai(model.clone()),
        &[("OPENAI_API_KEY", "sk-1")],
        expect!["ready"],
    );
    check(
        openai(model.clone()),
        &[],
        expect![[r#"MissingKey { variable: "OPENAI_API_KEY" }"#]],
    );
    check(
        openai(model.clone()),
        &[("OPENAI_API_KEY", " ")],
        expect![[r#"MissingKey { variable: "OPENAI_API_KEY" }"#]],
    );
    check(
        openai(model.clone()),
        &[("OPENAI_API_KEY", "sk-\n1")],
        expect![[r#"BadKey { variable: "OPENAI_API_KEY" }"#]],
    );
    let other = json!({ "model": "m", "api_key_env": "OTHER_KEY" });
    check(
        openai(other),
        &[("OPENAI_API_KEY", "sk-1")],
        expect![[r#"MissingKey { variable: "OTHER_KEY" }"#]],
    );
    check(
        openai(json!({})),
        &[("OPENAI_API_KEY", "sk-1")],
        expect!["MissingModel"],
    );
    let from_env = [("OPENAI_API_KEY", "sk-1"), ("MOZAIKS_MODEL", "m")];
    check(openai(json!({})), &from_env, expect!["ready"]);
    let here = [
        ("OPENAI_BASE_URL", "http://localhost:8080/v1"),
        ("MOZAIKS_MODEL", "m"),
    ];
    check(openai(json!({})), &here, expect!["ready"]);
}

#[test]
fn addresses() {
    let at = |url: &str, expected| {
        let runtime = json!({ "kind": "openai", "model": "m", "base_url": url });
        check(runtime, &[("OPENAI_API_KEY", "sk-1")], expected);
    };
    at("https://example.com/v1", expect!["ready"]);
    at("http://127.0.0.2/v1", expect!["ready"]);
    at("http://[::1]:80/v1", expect!["ready"]);
    at(
        "http://example.com/v1",
        expect![[
            r#"BadUrl(BadUrl { url: "http://example.com/v1", why: "plain http is for this machine only, as 127.0.0.1 or localhost, unless `allow_plain_http: true` says otherwise" })"#
        ]],
    );
    at(
        "http://localhost.example.com/v1",
        expect![[
            r#"BadUrl(BadUrl { url: "http://localhost.example.com/v1", why: "plain http is for this machine only, as 127.0.0.1 or localhost, unless `allow_plain_http: true` says otherwise" })"#
        ]],
    );
    at(
        "https://me:secret@example.com/v1",
        expect![[
            r#"BadUrl(BadUrl { url: "https://example.com/v1", why: "a name or password in it would be shown; keys go into the environment" })"#
        ]],
    );
    at(
        "ftp://example.com",
        expect![[
            r#"BadUrl(BadUrl { url: "ftp://example.com/", why: "`ftp` is neither `https` nor `http`" })"#
        ]],
    );
    at(
        "example.com",
        expect![[r#"BadUrl(BadUrl { url: "example.com", why: "relative URL without a base" })"#]],
    );
}

#[test]
fn what_is_sent_along() {
    let with = |more: serde_json::Value, expected| {
        let mut runtime = json!({ "kind": "openai", "model": "m" });
        let fields = more.as_object().unwrap().clone();
        runtime.as_object_mut().unwrap().extend(fields);
        check(runtime, &[("OPENAI_API_KEY", "sk-1")], expected);
    };
    let plain = json!({ "base_url": "http://10.0.0.1/v1", "allow_plain_http": true });
    with(plain, expect!["ready"]);
    with(json!({ "headers": { "X-Team": "a" } }), expect!["ready"]);
    with(
        json!({ "headers": { "Authorization": "Bearer 1" } }),
        expect![[r#"BadHeader(Written { name: "Authorization" })"#]],
    );
    with(
        json!({ "headers": { "X": { "env": "NOWHERE" } } }),
        expect![[r#"BadHeader(Missing { variable: "NOWHERE" })"#]],
    );
    let elsewhere =
        json!({ "model": "n", "base_url": "https://n.example", "api_key_env": "NOWHERE" });
    with(
        json!({ "fallback": [elsewhere] }),
        expect![[r#"MissingKey { variable: "NOWHERE" }"#]],
    );
    with(json!({ "fallback": [{ "model": "n" }] }), expect!["ready"]);
    // The first names this key as its own.
    let of_another = |url: &str, key: serde_json::Value| {
        let other = json!({ "model": "n", "base_url": url, "api_key_env": key });
        json!({ "api_key_env": "OPENAI_API_KEY", "fallback": [other], "base_url": "https://m.example/v1" })
    };
    let (key, none) = (json!("OPENAI_API_KEY"), json!(null));
    with(
        of_another("https://n.example", none.clone()),
        expect!["KeyOfAnother"],
    );
    with(of_another("https://n.example", key), expect!["ready"]);
    with(
        of_another("https://m.example/v1", none.clone()),
        expect!["ready"],
    );
    with(of_another("http://127.0.0.1/v1", none), expect!["ready"]);
}

#[test]
fn template_files() {
    let missing = json!({ "kind": "template", "template_file": "t.j2" });
    check(
        missing,
        &[],
        expect![[
            r#"MissingFile { path: "/nowhere/t.j2", why: "No such file or directory (os error 2)" }"#
        ]],
    );
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("t.j2"), "{}\n{% if %}").unwrap();
    let runtime = json!({ "kind": "template", "template_file": "t.j2" });
    let built = testing::agent(runtime, home.path(), &Env::Process);
    expect![[
        r#"Some(Template { message: "syntax error: unexpected end of block", line: Some(2) })"#
    ]]
    .assert_eq(&format!("{:?}", built.err()));
}
