//! Messages: JSON-RPC 2.0, one object each.

use serde_json::{Value, json};

pub const BUDGET_EXCEEDED: i64 = -33001;
pub const CAPABILITY_NOT_FOUND: i64 = -33002;
pub const TIMEOUT: i64 = -33003;
pub const CANCELLED: i64 = -33004;
pub const ESCROW_INVALID: i64 = -33005;
pub const PROOF_UNSUPPORTED: i64 = -33006;
pub const FEATURE_UNSUPPORTED: i64 = -33007;
pub const INTERNAL: i64 = -33099;
pub const NOT_JSON: i64 = -32700;
pub const BAD_REQUEST: i64 = -32600;
pub const NO_METHOD: i64 = -32601;
pub const BAD_PARAMS: i64 = -32602;

/// The version of ACMP that is spoken.
pub const VERSION: &str = "0.1.0";
/// The version of MCP, which carries it.
pub const MCP_VERSION: &str = "2025-06-18";

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    Answer {
        id: Value,
        outcome: Result<Value, Error>,
    },
}

/// An answer that is an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub code: i64,
    pub message: String,
    pub data: Value,
}

impl Error {
    pub fn new(code: i64, message: impl Into<String>) -> Error {
        Error {
            code,
            message: message.into(),
            data: Value::Null,
        }
    }

    /// What is said in place of a code or a message is told as it stands.
    fn read(error: &Value) -> Error {
        let message = error["message"].as_str().or(error.as_str());
        let message = message.map_or_else(|| error.to_string(), str::to_owned);
        Error {
            code: error["code"].as_i64().unwrap_or(INTERNAL),
            message,
            data: error["data"].clone(),
        }
    }

    /// With the task it is about.
    pub fn about(mut self, task_id: &str) -> Error {
        self.data = json!({ "task_id": task_id });
        self
    }
}

/// What a text that is no message says is its id.
pub(super) fn id_in(text: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    value["id"].as_str().map(str::to_owned)
}

impl Message {
    /// Reads a message.
    ///
    /// # Errors
    /// What to answer whoever sent it.
    pub fn parse(text: &str) -> Result<Message, Error> {
        let mut value: Value = serde_json::from_str(text)
            .map_err(|error| Error::new(NOT_JSON, format!("not JSON: {error}")))?;
        let bad = |what: &str| Error::new(BAD_REQUEST, what);
        let object = value
            .as_object_mut()
            .ok_or_else(|| bad("a message is an object"))?;
        if object.get("jsonrpc") != Some(&json!("2.0")) {
            return Err(bad("a message has `jsonrpc: 2.0`"));
        }
        let id = object.remove("id");
        let params = object.remove("params").unwrap_or(Value::Null);
        match (object.remove("method"), id) {
            (Some(Value::String(method)), None) => Ok(Message::Notification { method, params }),
            (Some(Value::String(method)), Some(id)) => match id {
                Value::String(_) | Value::Null => Ok(Message::Request { id, method, params }),
                // Another number could not be given back as it came.
                Value::Number(it) if it.is_i64() || it.is_u64() => Ok(Message::Request {
                    id: Value::Number(it),
                    method,
                    params,
                }),
                _ => Err(bad("an id is a text or a whole number of 64 bits")),
            },
            (Some(_), _) => Err(bad("a method is a text")),
            (None, None) => Err(bad("a message has a `method` or an `id`")),
            (None, Some(id)) => {
                let outcome = match (object.remove("result"), object.remove("error")) {
                    (Some(result), None) => Ok(result),
                    (None, Some(error)) => Err(Error::read(&error)),
                    _ => return Err(bad("an answer has either a `result` or an `error`")),
                };
                Ok(Message::Answer { id, outcome })
            }
        }
    }

    /// The message as one line.
    pub fn text(&self) -> String {
        let message = match self {
            Message::Request { id, method, params } => {
                json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
            }
            Message::Notification { method, params } => {
                json!({ "jsonrpc": "2.0", "method": method, "params": params })
            }
            Message::Answer { id, outcome } => match outcome {
                Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
                Err(error) => {
                    let mut said = json!({ "code": error.code, "message": error.message });
                    if !error.data.is_null() {
                        said["data"] = error.data.clone();
                    }
                    json!({ "jsonrpc": "2.0", "id": id, "error": said })
                }
            },
        };
        message.to_string()
    }
}
