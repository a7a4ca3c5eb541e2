//! What a completion says. Endpoints differ, so only what is needed is looked for.

use serde_json::Value;

use super::{
    super::Usage,
    http::HttpFailure,
    talk::{Heard, Wanted},
};
use crate::{
    accept::{Failure, Rejection},
    endpoint::Secrets,
    prompt::cut,
};

/// How much of a refusal is kept, in bytes.
const MAX_REFUSAL: usize = 500;

/// The message of the first choice, if it ended as a message should, and what was used.
///
/// # Errors
/// There is none, or it is empty, cut off or a refusal. What it used is counted all the same.
pub(super) fn read(answer: &Value, secrets: &Secrets) -> Result<(Heard, Usage), Rejection> {
    let usage = usage(&answer["usage"]);
    match message(answer, secrets) {
        Ok(heard) => Ok((heard, usage)),
        Err(rejection) => Err(Rejection { usage, ..rejection }),
    }
}

fn message(answer: &Value, secrets: &Secrets) -> Result<Heard, Rejection> {
    let Some(choice) = answer.pointer("/choices/0") else {
        return Err(match answer.get("error").filter(|it| !it.is_null()) {
            // Some gateways say so with the status of success.
            Some(error) => HttpFailure::in_success(error, answer).rejection(secrets),
            None => Rejection::new(Failure::Empty, "the endpoint's answer has no choices"),
        });
    };
    let text = text(choice.pointer("/message/content"));
    if let Some(reason) = choice.pointer("/message/refusal").and_then(Value::as_str) {
        return Err(refusal(reason, secrets));
    }
    match choice.get("finish_reason").and_then(Value::as_str) {
        Some("length") => return Err(cut_off(&text)),
        Some("content_filter") => return Err(filtered()),
        _ => (),
    }
    let calls = calls(choice);
    if text.trim().is_empty() && calls.is_empty() {
        return Err(empty());
    }
    Ok(Heard {
        text,
        calls,
        items: Vec::new(),
        thought: thought(choice.get("message")),
    })
}

pub(super) fn refusal(reason: &str, secrets: &Secrets) -> Rejection {
    let reason = secrets.hide(reason);
    let message = format!("the model declined: {}", cut(&reason, MAX_REFUSAL));
    Rejection::new(Failure::Refused, message)
}

pub(super) fn cut_off(text: &str) -> Rejection {
    let message = "the answer was cut off at the limit of output tokens";
    Rejection::new(Failure::Truncated, message).with_answer(text)
}

pub(super) fn filtered() -> Rejection {
    let message = "the endpoint's content filter held the answer back";
    Rejection::new(Failure::Refused, message)
}

pub(super) fn empty() -> Rejection {
    Rejection::new(Failure::Empty, "the model's answer is empty")
}

/// A text, or texts in parts.
pub(super) fn text(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|it| it.get("text")?.as_str());
            texts.collect()
        }
        _ => String::new(),
    }
}

/// How long what a model thought is. Endpoints call it by different names, and some say it twice.
pub(super) fn thought(message: Option<&Value>) -> usize {
    let fields = message.and_then(Value::as_object).into_iter().flatten();
    let said = ["role", "content", "refusal"];
    let others = fields.filter(|(name, _)| !said.contains(&name.as_str()));
    let lengths = others.filter_map(|(_, it)| it.as_str().map(str::len));
    // Mistral's models think in parts of the content.
    let parts = message.and_then(|it| it["content"].as_array());
    let parts = parts.into_iter().flatten();
    let thoughts = parts.filter_map(|it| Some(it.get("thinking")?.to_string().len()));
    lengths.max().unwrap_or(0) + thoughts.sum::<usize>()
}

fn calls(choice: &Value) -> Vec<Wanted> {
    let calls = choice
        .pointer("/message/tool_calls")
        .and_then(Value::as_array);
    let calls = calls.into_iter().flatten().zip(1..);
    let calls = calls.map(|(call, number)| {
        let text = |path| call.pointer(path).and_then(Value::as_str);
        let id = text("/id").filter(|it| !it.is_empty());
        Wanted {
            // Some endpoints give none.
            id: id.map_or_else(|| format!("call_{number}"), str::to_owned),
            name: text("/function/name").unwrap_or_default().to_owned(),
            arguments: written(call.pointer("/function/arguments")),
        }
    });
    calls.collect()
}

/// Arguments as a text. Some endpoints send the value itself.
pub(super) fn written(arguments: Option<&Value>) -> String {
    match arguments {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => String::new(),
        Some(other) => other.to_string(),
    }
}

pub(super) fn usage(usage: &Value) -> Usage {
    let said = |path| usage.pointer(path).and_then(Value::as_u64);
    let count = |path| said(path).unwrap_or(0);
    let cached = said("/prompt_tokens_details/cached_tokens");
    // DeepSeek's word for it.
    let cached = cached.or_else(|| said("/prompt_cache_hit_tokens"));
    Usage {
        input_tokens: count("/prompt_tokens"),
        output_tokens: count("/completion_tokens"),
        cached_input_tokens: cached.unwrap_or(0),
        ..Usage::default()
    }
}
