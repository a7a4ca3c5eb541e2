//! An answer that comes piece by piece, put together as if it had come at once.
//!
//! **Invariant:** what ended before it said so is no answer.

use std::{mem, time::Duration};

use async_openai::error::OpenAIError;
use reqwest::Response;
use serde_json::{Value, json};

use super::{
    super::{Came, SoFar},
    answer,
    http::{Broken, Stopped, TooLong, broken, within},
    talk::MAX_CALLS,
};
use crate::endpoint::halves::Halves;

/// Reads the stream to its end, into the completion it stands for.
pub(super) async fn whole(
    mut response: Response,
    limit: usize,
    idle: Duration,
    so_far: &SoFar,
) -> Result<Response, OpenAIError> {
    let mut line = Vec::new();
    let mut pieces = Pieces::default();
    while !pieces.is_done {
        let Some(bytes) = within(idle, response.chunk()).await?? else {
            pieces.hear(&line)?;
            break;
        };
        let mut rest = &bytes[..];
        while let Some(end) = rest.iter().position(|it| *it == b'\n') {
            line.extend_from_slice(&rest[..end]);
            pieces.hear(&line)?;
            line.clear();
            rest = &rest[end + 1..];
        }
        line.extend_from_slice(rest);
        if pieces.has_begun {
            so_far
                .note(pieces.came())
                .map_err(|it| broken(Stopped(it)))?;
        }
        let length = pieces.length().max(pieces.items_length);
        if length.max(line.len()).max(pieces.begun.len()) > limit {
            return Err(broken(TooLong(limit)));
        }
    }
    let halves = pieces.halves;
    let completion = halves.end(pieces.completion()?.to_string());
    Ok(::http::Response::new(completion).into())
}

/// What was heard so far of a call.
#[derive(Default)]
struct Piece {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
}

/// What was heard so far of the first choice.
#[derive(Default)]
struct Pieces {
    halves: Halves,
    /// The lines of an event that is no JSON before its last one.
    begun: Vec<u8>,
    content: String,
    refusal: String,
    calls: Vec<Piece>,
    /// How long what it thought is.
    thought: usize,
    finish_reason: Option<Value>,
    usage: Value,
    /// How long all of it was when the endpoint said what was used.
    length_at_usage: usize,
    error: Option<Value>,
    has_begun: bool,
    is_done: bool,
    /// Of the responses API: what it ended with, and the items before that.
    response: Option<Value>,
    items: Vec<Value>,
    items_length: usize,
    /// How long the items are that are no thoughts, which may be encrypted, and the pieces that came before the items.
    items_said: usize,
    said_length: usize,
}

impl Pieces {
    /// Takes one line of the stream. Names of events and comments say nothing.
    fn hear(&mut self, line: &[u8]) -> Result<(), OpenAIError> {
        let no_json = |error| {
            let message = format!("a piece of the endpoint's stream is not JSON: {error}");
            broken(Broken(message))
        };
        if line.trim_ascii().is_empty() && !self.begun.is_empty() {
            let data = mem::take(&mut self.begun);
            let event = self.halves.parse(&data).map_err(no_json)?;
            self.hear_event(event, data.len());
            return Ok(());
        }
        let Some(data) = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii) else {
            return Ok(());
        };
        match data {
            _ if self.is_done => return Ok(()),
            b"" => return Ok(()),
            _ if !self.begun.is_empty() => {
                self.begun.push(b'\n');
                self.begun.extend_from_slice(data);
                return Ok(());
            }
            b"[DONE]" => {
                self.is_done = true;
                return Ok(());
            }
            _ => (),
        }
        match self.halves.parse(data) {
            Ok(event) => self.hear_event(event, data.len()),
            Err(error) if error.is_eof() => self.begun.extend_from_slice(data),
            Err(error) => return Err(no_json(error)),
        }
        Ok(())
    }

    fn hear_event(&mut self, mut event: Value, length: usize) {
        if self.hear_response(&mut event, length) {
            return;
        }
        if let Some(error) = event.get_mut("error").filter(|it| !it.is_null()) {
            self.is_done = true;
            self.error = Some(error.take());
            return;
        }
        let usage = event.get_mut("usage").filter(|it| !it.is_null());
        let usage = usage.map(Value::take);
        let choices = event.get("choices").and_then(Value::as_array);
        let is_first = |it: &&Value| it.get("index").is_none_or(|it| it == 0);
        self.has_begun |= choices.is_some();
        for choice in choices.into_iter().flatten().filter(is_first) {
            let text = |path| choice.pointer(path).and_then(Value::as_str);
            let content = answer::text(choice.pointer("/delta/content"));
            self.halves.push(&mut self.content, &content);
            let refusal = text("/delta/refusal").unwrap_or_default();
            self.halves.push(&mut self.refusal, refusal);
            let calls = choice.pointer("/delta/tool_calls");
            for call in calls.and_then(Value::as_array).into_iter().flatten() {
                self.hear_call(call);
            }
            self.thought += answer::thought(choice.get("delta"));
            let reason = choice.get("finish_reason").filter(|it| !it.is_null());
            self.finish_reason = reason.cloned().or(self.finish_reason.take());
        }
        if let Some(usage) = usage {
            self.usage = usage;
            self.has_begun = true;
            self.length_at_usage = self.length();
        }
    }

    /// Takes an event of the responses API, if it is one. The last one holds the whole.
    fn hear_response(&mut self, event: &mut Value, length: usize) -> bool {
        let Some(kind) = event["type"].as_str() else {
            return false;
        };
        match kind {
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.is_done = true;
                self.response = Some(event["response"].take());
            }
            "response.output_item.done" => {
                self.has_begun = true;
                self.items_length += length;
                if event["item"]["type"] != "reasoning" {
                    self.items_said += length;
                }
                self.items.push(event["item"].take());
            }
            "error" => {
                self.is_done = true;
                self.error = Some(event.take());
            }
            it if it.starts_with("response.") => {
                self.has_begun = true;
                let length = event["delta"].as_str().map_or(0, str::len);
                match it.starts_with("response.reasoning") {
                    true => self.thought += length,
                    false => self.said_length += length,
                }
            }
            _ => return false,
        }
        true
    }

    /// A piece of a call says by its number which one it is of. Some endpoints number none, and send each whole.
    fn hear_call(&mut self, call: &Value) {
        let text = |path| call.pointer(path).and_then(Value::as_str);
        let index = call.get("index").and_then(Value::as_u64);
        let id = text("/id").unwrap_or_default();
        let is_named = text("/function/name").is_some_and(|it| !it.is_empty());
        let is_its_id = |it: &Piece| id.is_empty() || it.id.is_empty() || id == it.id;
        let at = match index {
            Some(_) => self
                .calls
                .iter()
                .rposition(|it| it.index == index && is_its_id(it)),
            // It goes on with the last one, unless it begins another.
            None => self.calls.len().checked_sub(1).filter(|at| {
                let last = &self.calls[*at];
                is_its_id(last) && (last.name.is_empty() || !is_named || !id.is_empty())
            }),
        };
        let at = match at {
            Some(at) => at,
            // What is past the last one that is counted is not kept.
            None if self.calls.len() > MAX_CALLS => return,
            None => {
                self.calls.push(Piece::default());
                self.calls.len() - 1
            }
        };
        let piece = &mut self.calls[at];
        piece.index = index;
        if piece.id.is_empty() {
            piece.id = id.to_owned();
        }
        if piece.name.is_empty() {
            piece.name = text("/function/name").unwrap_or_default().to_owned();
        }
        match call.pointer("/function/arguments") {
            Some(Value::String(text)) => self.halves.push(&mut piece.arguments, text),
            None | Some(Value::Null) => (),
            Some(other) => piece.arguments.push_str(&other.to_string()),
        }
    }

    fn came(&self) -> Came {
        let length = self.length();
        Came {
            bytes: Some(length),
            thought: self.thought,
            usage: answer::usage(&self.usage),
            later: length.saturating_sub(self.length_at_usage),
        }
    }

    fn length(&self) -> usize {
        let calls = self.calls.iter();
        let calls = calls.map(|it| it.id.len() + it.name.len() + it.arguments.len());
        self.items_said.max(self.said_length)
            + self.thought
            + self.content.len()
            + self.refusal.len()
            + calls.sum::<usize>()
    }

    fn completion(self) -> Result<Value, OpenAIError> {
        if let Some(error) = self.error {
            return Ok(json!({ "error": error }));
        }
        if let Some(mut response) = self.response {
            let has_output = response["output"]
                .as_array()
                .is_some_and(|it| !it.is_empty());
            if !has_output && response.is_object() {
                response["output"] = Value::Array(self.items);
            }
            return Ok(response);
        }
        if !self.is_done && self.finish_reason.is_none() {
            let message = "the endpoint's stream ended before its answer did";
            return Err(broken(Broken(message.to_owned())));
        }
        let mut message = json!({ "content": self.content });
        if !self.refusal.is_empty() {
            message["refusal"] = Value::String(self.refusal);
        }
        let calls = self.calls.into_iter().map(|it| {
            let function = json!({ "name": it.name, "arguments": it.arguments });
            json!({ "id": it.id, "function": function })
        });
        message["tool_calls"] = calls.collect();
        let choice = json!({ "message": message, "finish_reason": self.finish_reason });
        Ok(json!({ "choices": [choice], "usage": self.usage }))
    }
}
