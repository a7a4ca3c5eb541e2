use std::{path::Path, sync::Arc};

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinHandle,
};

use super::super::{Agent, Usage, env::Env, testing};
use crate::accept::Failure;

mod connections;
mod fallback;
mod nonsense;
mod requests;
mod responses;
mod streams;
mod structured;
mod tools;

const KEY: &str = "sk-test-5EcReT";

/// An endpoint that gives one response to one request, and hands the request over.
async fn endpoint(response: String) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        // Nobody else is listened to: a second attempt would fail.
        drop(listener);
        let mut bytes = Vec::new();
        while !is_whole(&bytes) {
            assert_ne!(
                stream.read_buf(&mut bytes).await.unwrap(),
                0,
                "a request came in half"
            );
        }
        // A client that has read enough hangs up.
        let _ = stream.write_all(response.as_bytes()).await;
        String::from_utf8(bytes).unwrap()
    });
    (url, served)
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let lengths = head.lines().filter_map(|it| it.split_once(": "));
    let mut lengths = lengths.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    lengths
        .next()
        .is_none_or(|(_, it)| body.len() >= it.parse().unwrap())
}

fn http(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
}

fn model(url: &str, more: Value) -> Arc<dyn Agent> {
    let mut runtime = json!({ "kind": "openai", "model": "m", "base_url": url });
    runtime
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let env = Env::fixed([("OPENAI_API_KEY", KEY)]);
    testing::agent(runtime, Path::new("."), &env).unwrap()
}

/// What there always is of a usage, and what an endpoint had read before where it says so.
fn used(usage: Usage) -> String {
    let (input, output) = (usage.input_tokens, usage.output_tokens);
    let cached = match usage.cached_input_tokens {
        0 => String::new(),
        n => format!(", cached: {n}"),
    };
    format!("Usage {{ input_tokens: {input}, output_tokens: {output}{cached} }}")
}

/// Asks an endpoint that responds so, and says what came of it and what it used.
async fn check(response: String, expected: Expect) {
    let (url, served) = endpoint(response).await;
    let answer = model(&url, json!({})).ask(testing::question()).await;
    served.await.unwrap();
    let shown = match &answer {
        Ok(reply) => format!("{} {}", reply.text, used(reply.usage)),
        Err(rejection) => {
            let after = rejection.retry_after.map(|it| format!(" (after {it:?})"));
            let is_used = rejection.usage != Usage::default();
            let used = is_used.then(|| format!(" {}", used(rejection.usage)));
            let more = [after, used].into_iter().flatten().collect::<String>();
            format!("{rejection}{more}")
        }
    };
    let everything = format!("{shown} {answer:?}");
    assert!(
        !everything.contains("5EcReT") && !everything.contains("127.0.0.1"),
        "{everything}"
    );
    expected.assert_eq(&shown);
}

async fn check_body(body: Value, expected: Expect) {
    check(http("200 OK", &body.to_string()), expected).await;
}

#[tokio::test]
async fn answers() {
    let usage = json!({ "prompt_tokens": 7, "completion_tokens": 2 });
    let message = json!({ "content": "hi", "reasoning_content": "hm" });
    check_body(
        json!({ "choices": [{ "message": message, "finish_reason": "eos" }], "usage": usage }),
        expect!["hi Usage { input_tokens: 7, output_tokens: 2 }"],
    )
    .await;
    let parts = json!([{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }]);
    check_body(
        json!({ "choices": [{ "message": { "content": parts } }] }),
        expect!["ab Usage { input_tokens: 0, output_tokens: 0 }"],
    )
    .await;
}

#[tokio::test]
async fn answers_that_are_none() {
    let choice = |message: Value, reason: &str| json!({ "choices": [{ "message": message, "finish_reason": reason }] });
    check_body(
        choice(json!({ "content": "{\"a\":" }), "length"),
        expect!["truncated: the answer was cut off at the limit of output tokens"],
    )
    .await;
    check_body(
        choice(json!({ "content": "x" }), "content_filter"),
        expect!["refused: the endpoint's content filter held the answer back"],
    )
    .await;
    check_body(
        choice(json!({ "content": null, "refusal": "I cannot" }), "stop"),
        expect!["refused: the model declined: I cannot"],
    )
    .await;
    check_body(
        choice(json!({ "content": " " }), "stop"),
        expect!["empty: the model's answer is empty"],
    )
    .await;
    check_body(
        choice(json!({ "content": null }), "stop"),
        expect!["empty: the model's answer is empty"],
    )
    .await;
    check_body(
        json!({ "choices": [] }),
        expect!["empty: the endpoint's answer has no choices"],
    )
    .await;
    check_body(
        json!({ "error": { "code": 429, "message": "slow" } }),
        expect!["rate_limited: the endpoint answered with status 429: slow"],
    )
    .await;
    check_body(
        json!({ "error": { "code": "odd" } }),
        expect!["overloaded: the endpoint answered with an error"],
    )
    .await;
    for (body, expected) in [
        (
            "<html>\n  not yours</html>",
            expect![
                "not_found: there is no API at this address, but a page: is `base_url` right? It begins with `<html> not yours</html>`"
            ],
        ),
        (
            "\u{feff}<!doctype html>",
            expect![
                "not_found: there is no API at this address, but a page: is `base_url` right? It begins with `<!doctype html>`"
            ],
        ),
        (
            "bad gateway",
            expect!["overloaded: the endpoint's answer is no JSON; it begins with `bad gateway`"],
        ),
        (
            "{'choices': []}",
            expect![
                "overloaded: the endpoint's answer is no JSON; it begins with `{'choices': []}`"
            ],
        ),
        (
            r#"{"choices": [{"message": {"content": "hel"#,
            expect![[
                r#"connection: the endpoint's answer breaks off; it begins with `{"choices": [{"message": {"content": "hel`"#
            ]],
        ),
        (
            "",
            expect!["overloaded: the endpoint answered with nothing"],
        ),
    ] {
        check(http("200 OK", body), expected).await;
    }
    check(http("200 OK", &"é".repeat(20_000)), expect!["overloaded: the endpoint's answer is no JSON; it begins with `éééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé [cut: 120 of 40000 bytes shown]`"]).await;
    let long = "x".repeat((1 << 20) + 1);
    check_body(
        choice(json!({ "content": long }), "stop"),
        expect!["too_long: the answer is 1048577 bytes long; 1048576 are allowed"],
    )
    .await;
}

#[tokio::test]
async fn statuses() {
    let error = |message: &str| json!({ "error": { "message": message } }).to_string();
    let quoted = format!("incorrect key: {KEY}");
    check(
        http("401 Unauthorized", &error(&quoted)),
        expect!["authentication: the endpoint answered with status 401: incorrect key: [key]"],
    )
    .await;
    check(
        http("403 Forbidden", ""),
        expect!["authentication: the endpoint answered with status 403"],
    )
    .await;
    check(
        http("404 Not Found", &error("no such model")),
        expect!["not_found: the endpoint answered with status 404: no such model"],
    )
    .await;
    check(
        http("400 Bad Request", "<html>Bad</html>"),
        expect!["bad_request: the endpoint answered with status 400: <html>Bad</html>"],
    )
    .await;
    check(
        http("422 Unprocessable", r#"{"error": "flat", "code": 7}"#),
        expect!["bad_request: the endpoint answered with status 422: flat"],
    )
    .await;
    check(
        http("408 Request Timeout", ""),
        expect!["timeout: the endpoint answered with status 408"],
    )
    .await;
    check(
        http("500 Internal Server Error", r#"{"message": "vLLM"}"#),
        expect!["overloaded: the endpoint answered with status 500: vLLM"],
    )
    .await;
    check(
        http("529 Overloaded", ""),
        expect!["overloaded: the endpoint answered with status 529"],
    )
    .await;
    check(
        http("302 Found\r\nlocation: http://127.0.0.1:1/", ""),
        expect!["bad_request: the endpoint answered with status 302"],
    )
    .await;
}

/// What the attempt fails with when an endpoint responds so.
#[tokio::test]
async fn kinds_of_failure() {
    let code = |word: &str| json!({ "error": { "code": word } });
    let kind = |word: &str| json!({ "error": { "type": word } });
    let said = |text: &str| json!({ "error": { "message": text, "code": 400 } });
    let none = || json!({});
    let cases = [
        ("302 Found", none(), Failure::BadRequest),
        ("400 Bad", none(), Failure::BadRequest),
        (
            "400 Bad",
            code("context_length_exceeded"),
            Failure::ContextTooLong,
        ),
        (
            "400 Bad",
            kind("exceed_context_size_error"),
            Failure::ContextTooLong,
        ),
        (
            "400 Bad",
            said("This model's maximum context length is 8 tokens"),
            Failure::ContextTooLong,
        ),
        ("400 Bad", code("content_filter"), Failure::ContentFiltered),
        ("400 Bad", code("model_not_found"), Failure::NotFound),
        ("400 Bad", code("invalid_api_key"), Failure::Authentication),
        ("401 Unauthorized", none(), Failure::Authentication),
        ("402 Payment", none(), Failure::Quota),
        ("403 Forbidden", none(), Failure::Authentication),
        ("403 Forbidden", code("insufficient_quota"), Failure::Quota),
        ("404 Not Found", none(), Failure::NotFound),
        ("405 Not Allowed", none(), Failure::BadRequest),
        ("408 Timeout", none(), Failure::Timeout),
        ("409 Conflict", none(), Failure::Overloaded),
        ("410 Gone", none(), Failure::NotFound),
        ("413 Too Large", none(), Failure::ContextTooLong),
        ("422 Unprocessable", none(), Failure::BadRequest),
        ("425 Too Early", none(), Failure::Overloaded),
        ("429 Too Many", none(), Failure::RateLimited),
        ("429 Too Many", kind("insufficient_quota"), Failure::Quota),
        (
            "429 Too Many",
            json!([code("billing_not_active")]),
            Failure::Quota,
        ),
        ("500 Error", none(), Failure::Overloaded),
        ("501 Not Implemented", none(), Failure::BadRequest),
        ("502 Bad Gateway", none(), Failure::Overloaded),
        ("503 Unavailable", none(), Failure::Overloaded),
        ("504 Gateway Timeout", none(), Failure::Overloaded),
        (
            "529 Overloaded",
            kind("overloaded_error"),
            Failure::Overloaded,
        ),
        // Errors with the status of success.
        ("200 OK", code("rate_limit_exceeded"), Failure::RateLimited),
        ("200 OK", kind("insufficient_quota"), Failure::Quota),
        ("200 OK", said("no"), Failure::BadRequest),
    ];
    for (status, body, expected) in cases {
        let (url, served) = endpoint(http(status, &body.to_string())).await;
        let answer = model(&url, json!({})).ask(testing::question()).await;
        served.await.unwrap();
        let rejection = answer.unwrap_err();
        assert_eq!(rejection.failure, expected, "{status} {body}: {rejection}");
    }
}

#[tokio::test]
async fn a_key_that_an_endpoint_quotes_is_not_passed_on() {
    let quoted = format!("no {KEY}");
    let refusal = json!({ "choices": [{ "message": { "refusal": quoted } }] });
    check_body(refusal, expect!["refused: the model declined: no [key]"]).await;
    let error = json!({ "error": { "code": KEY, "type": KEY, "message": quoted } });
    check_body(
        error,
        expect!["overloaded: the endpoint answered with an error: no [key]"],
    )
    .await;
    check(
        http(
            &format!("302 {KEY}\r\nlocation: http://127.0.0.1:1/{KEY}\r\nretry-after: {KEY}"),
            KEY,
        ),
        expect!["bad_request: the endpoint answered with status 302: [key]"],
    )
    .await;
    check(
        http("200 OK", &quoted),
        expect!["overloaded: the endpoint's answer is no JSON; it begins with `no [key]`"],
    )
    .await;
}

#[tokio::test]
async fn long_complaints_are_cut() {
    let (url, served) = endpoint(http("418 Teapot", &"é".repeat(20_000))).await;
    let rejection = model(&url, json!({})).ask(testing::question()).await;
    let message = rejection.unwrap_err().message;
    served.await.unwrap();
    assert!(
        message.ends_with("é [cut: 500 of 40000 bytes shown]"),
        "{message}"
    );
    assert!(message.len() < 600, "{}", message.len());
}

#[tokio::test]
async fn limits() {
    check(
        http("429 Too Many\r\nretry-after: 3", "{}"),
        expect!["rate_limited: the endpoint answered with status 429 (after 3s)"],
    )
    .await;
    check(
        http("429 Too Many", r#"{"error": {"retry_after": 1.5}}"#),
        expect!["rate_limited: the endpoint answered with status 429 (after 1.5s)"],
    )
    .await;
    check(
        http("429 Too Many", ""),
        expect!["rate_limited: the endpoint answered with status 429"],
    )
    .await;
    check(
        http("503 Unavailable\r\nretry-after: 9", ""),
        expect!["overloaded: the endpoint answered with status 503 (after 9s)"],
    )
    .await;
    check(
        http("429 Too Many\r\nretry-after: 1e9", ""),
        expect!["rate_limited: the endpoint answered with status 429; it asks for a longer wait than 600 seconds, which is the longest there is (after 600s)"],
    )
    .await;
    check(
        http("429 Too Many\r\nretry-after: NaN", ""),
        expect!["rate_limited: the endpoint answered with status 429"],
    )
    .await;
    check(
        http(
            "429 Too Many",
            r#"{"error": {"message": "try again in 20ms"}}"#,
        ),
        expect![
            "rate_limited: the endpoint answered with status 429: try again in 20ms (after 20ms)"
        ],
    )
    .await;
    let quota = json!({ "error": { "code": "insufficient_quota", "message": "pay first" } });
    check(
        http("429 Too Many", &quota.to_string()),
        expect!["quota: the endpoint answered with status 429: pay first"],
    )
    .await;
}

#[tokio::test]
async fn what_is_of_no_use_is_counted() {
    let answer = |message: Value, reason: &str| json!({ "choices": [{ "message": message, "finish_reason": reason }], "usage": { "prompt_tokens": 7, "completion_tokens": 2 } });
    check_body(answer(json!({ "content": "{" }), "length"), expect!["truncated: the answer was cut off at the limit of output tokens Usage { input_tokens: 7, output_tokens: 2 }"]).await;
    check_body(
        answer(json!({ "content": "" }), "stop"),
        expect!["empty: the model's answer is empty Usage { input_tokens: 7, output_tokens: 2 }"],
    )
    .await;
    check_body(
        answer(json!({ "refusal": "no" }), "stop"),
        expect!["refused: the model declined: no Usage { input_tokens: 7, output_tokens: 2 }"],
    )
    .await;
    check_body(
        answer(json!({ "content": "x".repeat((1 << 20) + 1) }), "stop"),
        expect!["too_long: the answer is 1048577 bytes long; 1048576 are allowed Usage { input_tokens: 7, output_tokens: 2 }"],
    )
    .await;
    check_body(
        json!({ "choices": [], "usage": { "prompt_tokens": 7, "completion_tokens": -1, "prompt_tokens_details": { "cached_tokens": 3 } } }),
        expect!["empty: the endpoint's answer has no choices Usage { input_tokens: 7, output_tokens: 0, cached: 3 }"],
    )
    .await;
}
