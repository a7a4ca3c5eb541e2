//! What an endpoint is sent.

use std::sync::Arc;

use expect_test::expect;
use serde_json::{Value, json};

use super::{
    super::super::{Request, testing},
    KEY, endpoint, http, model,
};
use crate::shape;

/// The request that the endpoint gets, without the schema itself.
async fn sent(more: Value, request: Request) -> String {
    let body = json!({ "choices": [{ "message": { "content": "hi" } }] });
    let (url, served) = endpoint(http("200 OK", &body.to_string())).await;
    model(&url, more).ask(request).await.unwrap();
    let sent = served.await.unwrap();
    let (head, body) = sent.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"),
        "{head}"
    );
    assert!(
        head.to_lowercase()
            .contains(&format!("authorization: bearer {}", KEY.to_lowercase()))
    );
    assert!(
        !head.to_lowercase().contains("openai-organization"),
        "{head}"
    );
    let mut body: Value = serde_json::from_str(body).unwrap();
    if let Some(schema) = body.pointer_mut("/response_format/json_schema/schema") {
        assert!(schema.is_object());
        *schema = json!("SCHEMA");
    }
    let shown = body.to_string();
    match shown.split_once("JSON Schema:") {
        Some((before, _)) => format!("{before}..."),
        None => shown,
    }
}

#[tokio::test]
async fn requests() {
    expect![[r#"{"model":"m","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hello"}],"stream":true,"stream_options":{"include_usage":true}}"#]].assert_eq(&sent(json!({}), testing::question()).await);
    let settings =
        json!({ "temperature": 0.0, "max_output_tokens": 5, "extra_body": { "seed": 1 } });
    expect![[r#"{"model":"m","temperature":0.0,"max_tokens":5,"seed":1,"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hello"}],"stream":true,"stream_options":{"include_usage":true}}"#]].assert_eq(&sent(settings, testing::question()).await);

    expect![[r#"{"model":"m","messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hello"}]}"#]].assert_eq(&sent(json!({ "stream": false }), testing::question()).await);

    let mut request = testing::question();
    request.prompt.system.clear();
    request.shape = Some(Arc::new(shape::decomposition_plan(&[])));
    expect![[r#"{"model":"m","response_format":{"type":"json_schema","json_schema":{"name":"Plan","schema":"SCHEMA","strict":true}},"messages":[{"role":"user","content":"hello"}],"stream":true,"stream_options":{"include_usage":true}}"#]].assert_eq(&sent(json!({}), request.clone()).await);
    expect![[r#"{"model":"m","response_format":{"type":"json_object"},"messages":[{"role":"system","content":"Answer with one JSON value, and nothing else, that fits this ..."#]].assert_eq(&sent(json!({ "structured": "json_object" }), request.clone()).await);
    expect![[r#"{"model":"m","messages":[{"role":"system","content":"Answer with one JSON value, and nothing else, that fits this ..."#]].assert_eq(&sent(json!({ "structured": "prompt" }), request).await);
}
