//! What the two versions of the protocol call things. Answers are read alike, whichever it is.

use serde_json::{Value, json};

use super::super::{Request, in_words};

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    V1,
    V03,
}

/// What is asked of the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Send,
    Stream,
    Get,
    Cancel,
}

impl Dialect {
    pub(super) fn name(self, method: Method) -> &'static str {
        match (self, method) {
            (Dialect::V1, Method::Send) => "SendMessage",
            (Dialect::V1, Method::Stream) => "SendStreamingMessage",
            (Dialect::V1, Method::Get) => "GetTask",
            (Dialect::V1, Method::Cancel) => "CancelTask",
            (Dialect::V03, Method::Send) => "message/send",
            (Dialect::V03, Method::Stream) => "message/stream",
            (Dialect::V03, Method::Get) => "tasks/get",
            (Dialect::V03, Method::Cancel) => "tasks/cancel",
        }
    }

    pub(super) fn version(self) -> &'static str {
        match self {
            Dialect::V1 => "1.0",
            Dialect::V03 => "0.3",
        }
    }

    /// What is sent for a question. Where the answer does not come piece by piece, the task is told at once, so that it
    /// can be cancelled.
    pub(super) fn message(self, request: &Request, at_once: bool) -> Value {
        let mut text = format!("{}\n\n{}", request.prompt.system, request.prompt.user);
        if let Some(shape) = &request.shape {
            text.push_str(&in_words(shape));
        }
        let text = text.trim();
        let id = &request.idempotency_key;
        let message = match self {
            Dialect::V1 => {
                json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }] })
            }
            Dialect::V03 => {
                let part = json!({ "kind": "text", "text": text });
                json!({ "kind": "message", "messageId": id, "role": "user", "parts": [part] })
            }
        };
        let mut params = json!({ "message": message });
        if at_once {
            params["configuration"] = match self {
                Dialect::V1 => json!({ "returnImmediately": true }),
                Dialect::V03 => json!({ "blocking": false }),
            };
        }
        params
    }

    /// What is sent to ask after a task, or to cancel it.
    pub(super) fn task(self, id: &str) -> Value {
        json!({ "id": id })
    }
}
