use expect_test::expect;
use serde_json::json;

use super::*;

#[test]
fn addresses() {
    let urls = [
        "https://a.example/v1",
        "http://127.0.0.1:1/v1",
        "http://localhost/v1",
        "http://[::1]/v1",
        "http://10.0.0.1/v1",
        "ftp://a.example",
        "https://me:secret@a.example/v1",
        "a.example",
    ];
    let mut lines = String::new();
    for url in urls {
        let shown = |plain| match address(url, plain) {
            Ok(url) => url.to_string(),
            Err(bad) => format!("{}: {}", bad.url, bad.why),
        };
        lines.push_str(&format!("{}\n", shown(false)));
        if shown(true) != shown(false) {
            lines.push_str(&format!("  allowed: {}\n", shown(true)));
        }
    }
    expect![[r#"
        https://a.example/v1
        http://127.0.0.1:1/v1
        http://localhost/v1
        http://[::1]/v1
        http://10.0.0.1/v1: plain http is for this machine only, as 127.0.0.1 or localhost, unless `allow_plain_http: true` says otherwise
          allowed: http://10.0.0.1/v1
        ftp://a.example/: `ftp` is neither `https` nor `http`
        https://a.example/v1: a name or password in it would be shown; keys go into the environment
        a.example: relative URL without a base
    "#]].assert_eq(&lines);
}

#[test]
fn headers_have_their_secrets_from_the_environment() {
    let env = Env::fixed([("TOKEN", "s3cret"), ("BROKEN", "a\nb")]);
    let cases = [
        json!({ "X-Team": "blue", "Authorization": { "env": "TOKEN", "prefix": "Bearer " } }),
        json!({ "Authorization": "Bearer s3cret" }),
        json!({ "X-Api-Key": "s3cret" }),
        json!({ "two words": "a" }),
        json!({ "X": "a\nb" }),
        json!({ "X": { "env": "NOWHERE" } }),
        json!({ "X": { "env": "BROKEN" } }),
    ];
    let mut lines = String::new();
    for case in cases {
        let written: Headers = serde_json::from_value(case).unwrap();
        let mut secrets = Secrets::default();
        match headers(&written, &env, &mut secrets) {
            Ok(map) => {
                assert_eq!(map["authorization"], "Bearer s3cret");
                assert_eq!(secrets.hide("it was s3cret"), "it was [key]");
                lines.push_str(&format!("{map:?} {secrets:?}\n"));
            }
            Err(bad) => lines.push_str(&format!("{bad}\n")),
        }
    }
    assert!(!lines.contains("s3cret"), "{lines}");
    expect![[r#"
        {"authorization": Sensitive, "x-team": Sensitive} 1 secrets
        the value of the header `Authorization` is a secret, which the environment has to hold: write `{env: NAME}`
        the value of the header `X-Api-Key` is a secret, which the environment has to hold: write `{env: NAME}`
        `two words` cannot be sent as a header
        `X` cannot be sent as a header
        the environment variable `NOWHERE` is not set
        the environment variable `BROKEN` holds characters that no header can have
    "#]]
    .assert_eq(&lines);
}

#[test]
fn a_key_is_hidden_however_an_answer_spells_it() {
    let key = r#"sk-a/b"c\d-0123456789"#;
    let mut secrets = Secrets::default();
    secrets.add(key);
    let escaped: String = key
        .chars()
        .map(|it| format!("\\u{:04X}", u32::from(it)))
        .collect();
    let told = json!({ "it": key }).to_string();
    for (answer, hidden) in [
        (format!("it is {key}."), "it is [key]."),
        (told.clone(), r#"{"it":"[key]"}"#),
        (told.replace('/', r"\/"), r#"{"it":"[key]"}"#),
        (told.replace("sk", r"s\u006b"), r#"{"it":"[key]"}"#),
        (told.replace("-0", r"\u002D0"), r#"{"it":"[key]"}"#),
        (format!("\"{escaped}\""), r#""[key]""#),
        (format!(r"a\\b \ {key}\n"), r"a\\b \ [key]\n"),
    ] {
        assert_eq!(secrets.hide_in_answer(answer.clone()), hidden, "{answer}");
    }
    // What only looks like it is left as it is.
    for answer in [r"\\u0073k-a", r"é\u00e", r"\", r#"sk-a\/b\"c"#, "sk-a/b"] {
        assert_eq!(secrets.hide_in_answer(answer.to_owned()), answer);
    }
}
