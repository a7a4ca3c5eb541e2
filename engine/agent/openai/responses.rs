//! The responses API: a conversation as the endpoint reads it, and what it answers.

use serde_json::{Value, json};

use super::{
    super::Usage,
    answer::{cut_off, empty, filtered, refusal, written},
    http::HttpFailure,
    talk::{Heard, Talk, Wanted},
};
use crate::{
    accept::{Failure, Rejection},
    endpoint::Secrets,
};

/// The conversation so far, without its instruction.
pub(super) fn input(talk: &Talk<'_>) -> Value {
    let mut items = vec![json!({ "role": "user", "content": talk.request.prompt.user })];
    for round in &talk.rounds {
        let heard = &round.heard;
        match heard.items.is_empty() {
            // What the model thought goes back with what it said.
            false => items.extend(heard.items.iter().cloned()),
            true => {
                if !heard.text.is_empty() {
                    items.push(json!({ "role": "assistant", "content": heard.text }));
                }
                items.extend(heard.calls.iter().map(asked));
            }
        }
        let calls = heard.calls.iter().zip(&round.results);
        items.extend(calls.map(|(call, result)| {
            json!({ "type": "function_call_output", "call_id": call.id, "output": result })
        }));
    }
    Value::Array(items)
}

fn asked(call: &Wanted) -> Value {
    json!({
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments_as_sent(),
    })
}

/// What the model may call.
pub(super) fn tools(talk: &Talk<'_>) -> Value {
    let tools = talk.tools.iter().map(|(name, tool)| {
        json!({
            "type": "function",
            "name": name,
            "description": tool.description,
            "parameters": tool.parameters,
            "strict": false,
        })
    });
    tools.collect()
}

/// What a response says, if it ended as a response should, and what was used.
///
/// # Errors
/// There is nothing, or it is cut off or a refusal. What it used is counted all the same.
pub(super) fn read(answer: &Value, secrets: &Secrets) -> Result<(Heard, Usage), Rejection> {
    let count = |path| answer.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    let usage = Usage {
        input_tokens: count("/usage/input_tokens"),
        output_tokens: count("/usage/output_tokens"),
        cached_input_tokens: count("/usage/input_tokens_details/cached_tokens"),
        ..Usage::default()
    };
    match said(answer, secrets) {
        Ok(heard) => Ok((heard, usage)),
        Err(rejection) => Err(Rejection { usage, ..rejection }),
    }
}

fn said(answer: &Value, secrets: &Secrets) -> Result<Heard, Rejection> {
    if let Some(error) = answer.get("error").filter(|it| !it.is_null()) {
        return Err(HttpFailure::in_success(error, answer).rejection(secrets));
    }
    let Some(items) = answer.get("output").and_then(Value::as_array) else {
        let message = "the endpoint's answer has no output";
        return Err(Rejection::new(Failure::Empty, message));
    };
    let mut heard = Heard::default();
    for item in items {
        match item["type"].as_str() {
            Some("function_call") => heard.calls.push(call(item, heard.calls.len() + 1)),
            Some("message") => {
                let parts = item["content"].as_array();
                for part in parts.into_iter().flatten() {
                    if let Some(reason) = part["refusal"].as_str() {
                        return Err(refusal(reason, secrets));
                    }
                    heard
                        .text
                        .push_str(part["text"].as_str().unwrap_or_default());
                }
            }
            _ => (),
        }
    }
    let reason = answer.pointer("/incomplete_details/reason");
    match (answer["status"].as_str(), reason.and_then(Value::as_str)) {
        (_, Some("content_filter")) => return Err(filtered()),
        (Some("incomplete"), _) => return Err(cut_off(&heard.text)),
        _ => (),
    }
    if heard.text.trim().is_empty() && heard.calls.is_empty() {
        return Err(empty());
    }
    heard.items.clone_from(items);
    Ok(heard)
}

fn call(item: &Value, number: usize) -> Wanted {
    let id = item["call_id"].as_str().or(item["id"].as_str());
    Wanted {
        id: id.map_or_else(|| format!("call_{number}"), str::to_owned),
        name: item["name"].as_str().unwrap_or_default().to_owned(),
        arguments: written(item.get("arguments")),
    }
}
