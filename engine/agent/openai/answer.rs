//! What a completion says. Endpoints differ, so only what is needed is looked for.

use serde_json::Value;

use super::{
    super::{Reply, Request, Usage, capped},
    http::{HttpFailure, without_key},
};
use crate::{
    accept::{Failure, Rejection},
    prompt::cut,
};

/// How much of a refusal is kept, in bytes.
const MAX_REFUSAL: usize = 500;

/// The message of the first choice, if it ended as a message should.
///
/// # Errors
/// There is none, or it is empty, cut off or a refusal. What it used is counted all the same.
pub(super) fn read(answer: &Value, request: &Request, key: &str) -> Result<Reply, Rejection> {
    let usage = usage(answer);
    match message(answer, request, key) {
        Ok(text) => Ok(Reply { text, usage }),
        Err(rejection) => Err(Rejection { usage, ..rejection }),
    }
}

fn message(answer: &Value, request: &Request, key: &str) -> Result<String, Rejection> {
    let Some(choice) = answer.pointer("/choices/0") else {
        return Err(match answer.get("error").filter(|it| !it.is_null()) {
            // Some gateways say so with the status of success.
            Some(error) => HttpFailure::in_success(error, answer).rejection(key),
            None => Rejection::new(Failure::Empty, "the endpoint's answer has no choices"),
        });
    };
    let text = content(choice);
    if let Some(reason) = choice.pointer("/message/refusal").and_then(Value::as_str) {
        let reason = without_key(reason, key);
        let message = format!("the model declined: {}", cut(&reason, MAX_REFUSAL));
        return Err(Rejection::new(Failure::Refused, message));
    }
    match choice.get("finish_reason").and_then(Value::as_str) {
        Some("length") => {
            let message = "the answer was cut off at the limit of output tokens";
            return Err(Rejection::new(Failure::Truncated, message).with_answer(&text));
        }
        Some("content_filter") => {
            let message = "the endpoint's content filter held the answer back";
            return Err(Rejection::new(Failure::Refused, message));
        }
        _ => (),
    }
    if text.trim().is_empty() {
        let message = "the model's answer is empty";
        return Err(Rejection::new(Failure::Empty, message));
    }
    capped(text, request)
}

/// A text, or texts in parts.
fn content(choice: &Value) -> String {
    match choice.pointer("/message/content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|it| it.get("text")?.as_str());
            texts.collect()
        }
        _ => String::new(),
    }
}

fn usage(answer: &Value) -> Usage {
    let count = |path| answer.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    Usage {
        input_tokens: count("/usage/prompt_tokens"),
        output_tokens: count("/usage/completion_tokens"),
    }
}
