//! Whatever an endpoint sends, it is an answer or a rejection.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::{super::SoFar, answer, http, responses, stream};
use crate::endpoint::Secrets;

/// The keys that are looked for, and others.
const KEYS: [&str; 26] = [
    "type",
    "choices",
    "delta",
    "message",
    "content",
    "refusal",
    "tool_calls",
    "index",
    "id",
    "function",
    "name",
    "arguments",
    "finish_reason",
    "usage",
    "error",
    "code",
    "response",
    "output",
    "item",
    "status",
    "incomplete_details",
    "reason",
    "call_id",
    "text",
    "output_tokens",
    "x",
];
const WORDS: [&str; 12] = [
    "response.completed",
    "response.output_item.done",
    "error",
    "message",
    "function_call",
    "stop",
    "length",
    "incomplete",
    "{\"a\": 1}",
    "",
    "é",
    "429",
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(&WORDS[..]).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        let fields = prop::collection::vec((prop::sample::select(&KEYS[..]), inner.clone()), 0..6);
        let object = fields.prop_map(|it| {
            let fields = it.into_iter().map(|(name, value)| (name.to_owned(), value));
            Value::Object(fields.collect::<Map<_, _>>())
        });
        prop_oneof![
            3 => object,
            1 => prop::collection::vec(inner, 0..4).prop_map(Value::from),
        ]
    })
}

/// An event that is near to those that there are.
fn event() -> impl Strategy<Value = Value> {
    prop_oneof![
        value(),
        value().prop_map(|it| json!({ "choices": [{ "delta": it }] })),
        value().prop_map(|it| json!({ "choices": [{ "delta": { "tool_calls": [it] } }] })),
        value().prop_map(|it| json!({ "choices": [it] })),
        value().prop_map(|it| json!({ "type": "response.completed", "response": it })),
        value().prop_map(|it| json!({ "type": "response.output_item.done", "item": it })),
        value()
            .prop_map(|it| json!({ "type": "response.completed", "response": { "output": [it] } })),
        value().prop_map(|it| json!({ "error": it })),
    ]
}

/// Reads what was sent by both APIs.
fn read(body: &Value) {
    let secrets = Secrets::default();
    let _ = answer::read(body, &secrets);
    let _ = responses::read(body, &secrets);
}

proptest! {
    #[test]
    fn bodies_are_read(body in event()) {
        read(&body);
        if let Some(error) = body.get("error") {
            let _ = http::HttpFailure::in_success(error, &body);
        }
    }

    #[test]
    fn streams_are_read(events in prop::collection::vec(event(), 0..6), is_done in any::<bool>()) {
        let lines = events.iter().map(|it| format!("data: {it}\n\n"));
        let done = if is_done { "data: [DONE]\n" } else { "" };
        let text = lines.collect::<String>() + done;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let whole = runtime.unwrap().block_on(async {
            let response = ::http::Response::new(text).into();
            let whole = stream::whole(response, 1 << 20, Duration::from_secs(60), &SoFar::default()).await;
            match whole {
                Ok(response) => response.json::<Value>().await.ok(),
                Err(_) => None,
            }
        });
        if let Some(body) = whole {
            read(&body);
        }
    }
}
