//! The responses API.

use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::{
    super::super::{Usage, testing},
    http, model,
    tools::{endpoint, question},
};
use crate::shape;

/// Asks an endpoint that responds so, and says what came of it and what it used.
async fn check(response: String, expected: Expect) {
    let (url, served) = endpoint(vec![response]).await;
    let answer = model(&url, json!({ "api": "responses" }))
        .ask(testing::question())
        .await;
    served.await.unwrap();
    let usage = answer.as_ref().map_or_else(|it| it.usage, |it| it.usage);
    let shown = format!(
        "{} {}/{}",
        testing::show(&answer),
        usage.input_tokens,
        usage.output_tokens
    );
    expected.assert_eq(&shown);
}

fn usage() -> Value {
    json!({ "input_tokens": 7, "input_tokens_details": { "cached_tokens": 3 }, "output_tokens": 2 })
}

fn message(text: &str) -> Value {
    json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": text }] })
}

fn response(status: &str, output: Value) -> Value {
    json!({ "status": status, "error": null, "output": output, "usage": usage() })
}

fn ok(body: &Value) -> String {
    http("200 OK", &body.to_string())
}

fn streamed(events: &[Value]) -> String {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let events = events.iter();
    let events = events.map(|it| format!("event: {}\ndata: {it}\n\n", it["type"]));
    format!("{head}{}", events.collect::<String>())
}

#[tokio::test]
async fn answers() {
    let thought = json!({ "type": "reasoning", "id": "r", "summary": [] });
    let whole = response("completed", json!([thought, message("hi")]));
    check(ok(&whole), expect!["hi 7/2"]).await;
    let mut cut = response("incomplete", json!([message("{\"a\":")]));
    cut["incomplete_details"] = json!({ "reason": "max_output_tokens" });
    check(
        ok(&cut),
        expect!["truncated: the answer was cut off at the limit of output tokens 7/2"],
    )
    .await;
    cut["incomplete_details"] = json!({ "reason": "content_filter" });
    check(
        ok(&cut),
        expect!["refused: the endpoint's content filter held the answer back 7/2"],
    )
    .await;
    let refusal =
        json!([{ "type": "message", "content": [{ "type": "refusal", "refusal": "no" }] }]);
    check(
        ok(&response("completed", refusal)),
        expect!["refused: the model declined: no 7/2"],
    )
    .await;
    check(
        ok(&response("completed", json!([]))),
        expect!["empty: the model's answer is empty 7/2"],
    )
    .await;
    check(
        ok(&json!({ "status": "completed" })),
        expect!["empty: the endpoint's answer has no output 0/0"],
    )
    .await;
    let mut failed = response("failed", json!([]));
    failed["error"] = json!({ "code": "rate_limit_exceeded", "message": "slow" });
    check(
        ok(&failed),
        expect!["rate_limited: the endpoint answered with an error: slow 7/2"],
    )
    .await;
}

#[tokio::test]
async fn streams() {
    let delta = json!({ "type": "response.output_text.delta", "delta": "h" });
    let end = |kind: &str, response: Value| json!({ "type": kind, "response": response });
    let whole = end(
        "response.completed",
        response("completed", json!([message("hi")])),
    );
    check(streamed(&[delta.clone(), whole]), expect!["hi 7/2"]).await;
    // What the last event leaves out was said before.
    let item = json!({ "type": "response.output_item.done", "item": message("hi") });
    let bare = end("response.completed", response("completed", json!([])));
    check(streamed(&[item, bare]), expect!["hi 7/2"]).await;
    let mut cut = response("incomplete", json!([message("h")]));
    cut["incomplete_details"] = json!({ "reason": "max_output_tokens" });
    check(
        streamed(&[delta.clone(), end("response.incomplete", cut)]),
        expect!["truncated: the answer was cut off at the limit of output tokens 7/2"],
    )
    .await;
    check(
        streamed(&[delta]),
        expect!["connection: the endpoint's stream ended before its answer did 0/0"],
    )
    .await;
    let error = json!({ "type": "error", "code": "rate_limit_exceeded", "message": "slow" });
    check(
        streamed(&[error]),
        expect!["rate_limited: the endpoint answered with an error: slow 0/0"],
    )
    .await;
}

#[tokio::test]
async fn requests_and_calls() {
    let thought = json!({ "type": "reasoning", "id": "r", "summary": [] });
    let call = json!({ "type": "function_call", "call_id": "c", "name": "find", "arguments": "{\"q\": \"a\"}" });
    let responses = vec![
        ok(&response("completed", json!([thought, call]))),
        ok(&response("completed", json!([message("{}")]))),
    ];
    let (url, served) = endpoint(responses).await;
    let (mut request, told) = question(&[("find", "cat")]);
    request.shape = Some(Arc::new(shape::decomposition_plan(&[])));
    let more = json!({ "api": "responses", "max_output_tokens": 5 });
    let reply = model(&url, more).ask(request).await.unwrap();
    assert_eq!(
        reply.usage,
        Usage {
            input_tokens: 14,
            output_tokens: 4,
            cached_input_tokens: 6,
            ..Usage::default()
        }
    );
    assert_eq!(*told.lock().unwrap(), ["find ok"]);
    let mut bodies = served.await.unwrap();
    let schema = bodies[0]["text"]["format"]["schema"].take();
    assert!(schema.is_object());
    expect![[r#"{"model":"m","max_output_tokens":5,"text":{"format":{"name":"Plan","schema":null,"strict":true,"type":"json_schema"}},"instructions":"be brief","input":[{"role":"user","content":"hello"}],"tools":[{"type":"function","name":"find","description":"the tool find","parameters":{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]},"strict":false}],"stream":true}"#]].assert_eq(&bodies[0].to_string());
    expect![[r#"[{"role":"user","content":"hello"},{"type":"reasoning","id":"r","summary":[]},{"type":"function_call","call_id":"c","name":"find","arguments":"{\"q\": \"a\"}"},{"type":"function_call_output","call_id":"c","output":"{\"q\":\"a\"}"}]"#]].assert_eq(&bodies[1]["input"].to_string());
}
