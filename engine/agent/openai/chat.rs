//! Chat completions: a conversation as the endpoint reads it.

use serde_json::{Value, json};

use super::talk::{Heard, Talk};

/// The conversation so far. `system` is its instruction, with what the endpoint's dialect has to be told in words.
pub(super) fn messages(talk: &Talk<'_>, system: &str) -> Value {
    let mut messages = Vec::new();
    if !system.is_empty() {
        messages.push(json!({ "role": "system", "content": system }));
    }
    messages.push(json!({ "role": "user", "content": talk.request.prompt.user }));
    for round in &talk.rounds {
        messages.push(said(&round.heard));
        let calls = round.heard.calls.iter().zip(&round.results);
        messages.extend(calls.map(
            |(call, result)| json!({ "role": "tool", "tool_call_id": call.id, "content": result }),
        ));
    }
    Value::Array(messages)
}

fn said(heard: &Heard) -> Value {
    let calls = heard.calls.iter().map(|it| {
        let function = json!({ "name": it.name, "arguments": it.arguments_as_sent() });
        json!({ "id": it.id, "type": "function", "function": function })
    });
    let calls: Vec<Value> = calls.collect();
    let content = (!heard.text.is_empty()).then_some(&heard.text);
    json!({ "role": "assistant", "content": content, "tool_calls": calls })
}

/// What the model may call.
pub(super) fn tools(talk: &Talk<'_>) -> Value {
    let tools = talk.tools.iter().map(|(name, tool)| {
        let function = json!({
            "name": name,
            "description": tool.description,
            "parameters": tool.parameters,
        });
        json!({ "type": "function", "function": function })
    });
    tools.collect()
}
