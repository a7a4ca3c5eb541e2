//! An answer that comes piece by piece, put together as if it had come at once.
//!
//! **Invariant:** what ended before it said so is no answer.

use std::time::Duration;

use async_openai::error::OpenAIError;
use reqwest::{Response, header::CONTENT_TYPE};
use serde_json::{Value, json};

use super::http::{Broken, TooLong, broken, within};

/// Whether the endpoint does stream. Some send the whole answer although they were asked to.
pub(super) fn is_one(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|it| it.to_str().ok()).unwrap_or_default();
    kind.trim_start().starts_with("text/event-stream")
}

/// Reads the stream to its end, into the completion it stands for.
pub(super) async fn whole(
    mut response: Response,
    limit: usize,
    idle: Duration,
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
        if pieces.length().max(line.len()) > limit {
            return Err(broken(TooLong(limit)));
        }
    }
    let completion = pieces.completion()?;
    Ok(::http::Response::new(completion.to_string()).into())
}

/// What was heard so far of the first choice.
#[derive(Default)]
struct Pieces {
    content: String,
    refusal: String,
    finish_reason: Option<Value>,
    usage: Value,
    error: Option<Value>,
    is_done: bool,
}

impl Pieces {
    /// Takes one line of the stream. Names of events and comments say nothing.
    fn hear(&mut self, line: &[u8]) -> Result<(), OpenAIError> {
        let Some(data) = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii) else {
            return Ok(());
        };
        match data {
            _ if self.is_done => return Ok(()),
            b"" => return Ok(()),
            b"[DONE]" => {
                self.is_done = true;
                return Ok(());
            }
            _ => (),
        }
        let mut event: Value = serde_json::from_slice(data).map_err(|error| {
            broken(Broken(format!(
                "a piece of the endpoint's stream is not JSON: {error}"
            )))
        })?;
        if let Some(error) = event.get_mut("error").filter(|it| !it.is_null()) {
            self.is_done = true;
            self.error = Some(error.take());
            return Ok(());
        }
        if let Some(usage) = event.get_mut("usage").filter(|it| !it.is_null()) {
            self.usage = usage.take();
        }
        let choices = event.get("choices").and_then(Value::as_array);
        let is_first = |it: &&Value| it.get("index").is_none_or(|it| it == 0);
        for choice in choices.into_iter().flatten().filter(is_first) {
            let text = |path| choice.pointer(path).and_then(Value::as_str);
            self.content
                .push_str(text("/delta/content").unwrap_or_default());
            self.refusal
                .push_str(text("/delta/refusal").unwrap_or_default());
            let reason = choice.get("finish_reason").filter(|it| !it.is_null());
            self.finish_reason = reason.cloned().or(self.finish_reason.take());
        }
        Ok(())
    }

    fn length(&self) -> usize {
        self.content.len() + self.refusal.len()
    }

    fn completion(self) -> Result<Value, OpenAIError> {
        if let Some(error) = self.error {
            return Ok(json!({ "error": error }));
        }
        if !self.is_done && self.finish_reason.is_none() {
            let message = "the endpoint's stream ended before its answer did";
            return Err(broken(Broken(message.to_owned())));
        }
        let mut message = json!({ "content": self.content });
        if !self.refusal.is_empty() {
            message["refusal"] = Value::String(self.refusal);
        }
        let choice = json!({ "message": message, "finish_reason": self.finish_reason });
        Ok(json!({ "choices": [choice], "usage": self.usage }))
    }
}
