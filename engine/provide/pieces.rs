//! What a buyer is sent of what came of its task: an answer, and before it the output in chunks, if it wants it so.
//!
//! **Invariant:** the chunks of an output make up exactly that output: it is whole, and was checked, before the first of them leaves.

use serde_json::{Value, json};

use super::tasks::{Done, Outcome};
use crate::acmp::{chunks, wire::Message};

/// How much of a text goes in one chunk at most, in bytes.
const PIECE: usize = 16 << 10;

/// The messages about what came of one task, one after the other.
pub(super) struct Pieces {
    id: Value,
    task_id: String,
    next: Next,
}

enum Next {
    /// The answer, with the output.
    Whole,
    /// The chunk with what begins at this byte.
    Chunk {
        seq: usize,
        from: usize,
    },
    /// The answer after the last chunk.
    Rest,
    Nothing,
}

impl Pieces {
    /// Answers the request with this id.
    pub(super) fn new(id: Value, task_id: String, streams: bool) -> Pieces {
        let next = match streams {
            true => Next::Chunk { seq: 0, from: 0 },
            false => Next::Whole,
        };
        Pieces { id, task_id, next }
    }

    /// Whether the answer was the last message.
    pub(super) fn are_sent(&self) -> bool {
        matches!(self.next, Next::Nothing)
    }

    /// About how large the next message is, as far as it is made of this.
    pub(super) fn bytes(&self, done: &Done) -> usize {
        match (&self.next, &done.outcome) {
            (Next::Whole, _) | (_, Err(_)) => done.bytes,
            (Next::Chunk { from, .. }, Ok(result)) => match text(&result["output"]) {
                Some(text) => (text.len() - from).min(PIECE),
                None => done.bytes,
            },
            (Next::Rest | Next::Nothing, Ok(_)) => 0,
        }
    }

    /// The next message. Where nothing came of the task, or nothing any more, that is the answer.
    pub(super) fn next(&mut self, outcome: &Outcome) -> String {
        let outcome = match (&self.next, outcome) {
            (Next::Chunk { seq, from }, Ok(result)) => {
                let (seq, (piece, after)) = (*seq, cut(&result["output"], *from));
                let params = chunks::params(&self.task_id, seq, piece, after.is_none());
                let chunk = |from| Next::Chunk { seq: seq + 1, from };
                self.next = after.map_or(Next::Rest, chunk);
                let method = "acmp/streamChunk".to_owned();
                return Message::Notification { method, params }.text();
            }
            (Next::Rest, Ok(result)) => Ok(without_output(result)),
            (_, outcome) => outcome.clone().map_err(|it| it.about(&self.task_id)),
        };
        self.next = Next::Nothing;
        let id = self.id.clone();
        Message::Answer { id, outcome }.text()
    }
}

/// The text that an output is, if it is one.
fn text(output: &Value) -> Option<&str> {
    output["data"].as_str().filter(|_| output["type"] == "text")
}

/// The piece of an output that begins at a byte, and where the next one does, if there is one. Only texts come in several.
fn cut(output: &Value, from: usize) -> (Value, Option<usize>) {
    let Some(text) = text(output) else {
        return (output.clone(), None);
    };
    let to = text.floor_char_boundary(from + PIECE);
    let piece = json!({ "type": "text", "data": &text[from..to] });
    (piece, (to < text.len()).then_some(to))
}

fn without_output(result: &Value) -> Value {
    let fields = result.as_object().into_iter().flatten();
    let fields = fields.filter(|(key, _)| *key != "output");
    let mut rest: Value = fields.map(|(key, it)| (key.clone(), it.clone())).collect();
    rest["output_streamed"] = json!(true);
    rest
}

#[cfg(test)]
mod tests;
