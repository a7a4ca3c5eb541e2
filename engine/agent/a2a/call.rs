//! One request to the other side, and its response: at once, or event by event.

use std::time::Duration;

use reqwest::{RequestBuilder, Response, header::ACCEPT};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    super::openai::http::complaint,
    Remote,
    card::Peer,
    dialect::Method,
    heard::{Heard, State},
};
use crate::{
    accept::{Failure, Rejection},
    endpoint::{
        self, Unread, cause,
        events::{self, Events},
        halves,
    },
    prompt::cut,
};

/// How much of a message of the other side is kept, in bytes.
const MAX_SAID: usize = 500;
/// What we call a request. Each goes over a response of its own.
const ID: u64 = 1;
/// How long the reason of a failure may come after it.
const REASON: Duration = Duration::from_secs(2);

impl Remote {
    /// Calls a method, and hears its result. A rejection says besides whether it is what the other side answered.
    pub(super) async fn call(
        &self,
        peer: &Peer,
        method: Method,
        params: Value,
        heard: &mut Heard<'_>,
    ) -> Result<(), (Rejection, bool)> {
        let came = async {
            let response = self.send(self.request(peer, method, params)).await?;
            self.whole(response, heard.limit()).await
        };
        let bytes = came.await.map_err(|it| (it, false))?;
        let result = self.result(&bytes).map_err(|it| (it, true))?;
        heard.take(&result).map_err(|it| (it, true))
    }

    /// Sends a message, and hears what becomes of it until it is over.
    pub(super) async fn stream(
        &self,
        peer: &Peer,
        params: Value,
        heard: &mut Heard<'_>,
    ) -> Result<(), Rejection> {
        let request = self.request(peer, Method::Stream, params);
        let mut response = self.send(request).await?;
        if !events::are_in(&response) {
            let bytes = self.whole(response, heard.limit()).await?;
            return heard.take(&self.result(&bytes)?);
        }
        let mut events = Events::default();
        loop {
            let wait = match heard.state() {
                State::Failed => REASON.min(self.idle),
                _ if heard.is_over() => return Ok(()),
                _ => self.idle,
            };
            let piece = match timeout(wait, response.chunk()).await {
                Ok(Ok(piece)) => piece,
                Ok(Err(_)) | Err(_) if heard.is_over() => return Ok(()),
                Ok(Err(_)) => return Err(broke()),
                Err(_) => return Err(self.silent()),
            };
            let is_end = piece.is_none();
            events.feed(piece.as_deref().unwrap_or(b"\n\n"));
            while let Some(event) = events.next(heard.limit()).map_err(|it| too_long(it.0))? {
                heard.weigh(event.len())?;
                match self.result(&event) {
                    Ok(result) => heard.take(&result)?,
                    Err(rejection) if heard.state() == State::Failed => {
                        heard.because(rejection.message);
                        return Ok(());
                    }
                    Err(rejection) => return Err(rejection),
                }
            }
            if is_end {
                return match heard.is_over() {
                    true => Ok(()),
                    false => Err(broke()),
                };
            }
        }
    }

    fn request(&self, peer: &Peer, method: Method, params: Value) -> RequestBuilder {
        let accepted = match method {
            Method::Stream => "text/event-stream, application/json",
            _ => "application/json",
        };
        let method = peer.dialect.name(method);
        let body = json!({ "jsonrpc": "2.0", "id": ID, "method": method, "params": params });
        let request = self.http.post(peer.url.clone());
        let request = request.header("A2A-Version", peer.dialect.version());
        request.header(ACCEPT, accepted).json(&body)
    }

    /// Sends a request. Gives its response, if that is one of success.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Response, Rejection> {
        let response = match timeout(self.idle, request.send()).await {
            Err(_) => return Err(self.silent()),
            Ok(Err(error)) if error.is_connect() => {
                let why = cause::deepest(&error);
                let message = self.secrets.hide(&format!("cannot reach the agent: {why}"));
                return Err(Rejection::new(Failure::Connection, message));
            }
            Ok(Err(_)) => return Err(broke()),
            Ok(Ok(response)) => response,
        };
        if response.status().is_success() {
            return Ok(response);
        }
        let said = timeout(self.idle, complaint(response)).await;
        let said = said.map_err(|_| self.silent())?;
        Err(said.rejection(&self.secrets))
    }

    /// The body of a response that is no longer than so many bytes.
    pub(super) async fn whole(
        &self,
        response: Response,
        limit: usize,
    ) -> Result<Vec<u8>, Rejection> {
        let body = endpoint::body(response, limit, self.idle).await;
        body.map_err(|it| match it {
            Unread::TooLong(limit) => too_long(limit),
            Unread::Silent(_) => self.silent(),
            Unread::Broke(_) => broke(),
        })
    }

    /// The result of a JSON-RPC response, which is the one to our request.
    fn result(&self, response: &[u8]) -> Result<Value, Rejection> {
        let odd = |what: &str| {
            let message = format!("the agent's response {what}");
            Err(Rejection::new(Failure::Connection, message))
        };
        let Ok(mut response) = serde_json::from_slice::<Value>(&halves::whole(response)) else {
            return odd("is not JSON");
        };
        if let Some(error) = response.get("error").filter(|it| !it.is_null()) {
            let code = error.get("code").and_then(Value::as_i64).unwrap_or(0);
            let said = error.get("message").and_then(Value::as_str);
            let said = self.said(said.unwrap_or_default());
            let (failure, what) = meaning(code);
            let message = match said.as_str() {
                "" => format!("{what} (code {code})"),
                said => format!("{what} (code {code}): {said}"),
            };
            return Err(Rejection::new(failure, message));
        }
        if response.get("id") != Some(&json!(ID)) {
            return odd("is to another request");
        }
        match response.get_mut("result") {
            Some(result) => Ok(result.take()),
            None => odd("has neither a result nor an error"),
        }
    }

    /// What the other side said, as far as it may be shown.
    pub(super) fn said(&self, said: &str) -> String {
        cut(self.secrets.hide(said).trim(), MAX_SAID)
    }

    fn silent(&self) -> Rejection {
        let seconds = self.idle.as_secs();
        let message = format!("the agent sent nothing for {seconds} seconds");
        Rejection::new(Failure::IdleTimeout, message)
    }
}

/// What the code of an error means.
fn meaning(code: i64) -> (Failure, &'static str) {
    match code {
        -32700 | -32602..=-32600 => (Failure::BadRequest, "the agent does not understand us"),
        -32009 => (Failure::BadRequest, "the agent speaks another version"),
        -32005..=-32003 => (Failure::BadRequest, "the agent cannot do that"),
        -32001 => (Failure::AgentFailed, "the agent does not know its task"),
        _ => (Failure::AgentFailed, "the agent failed"),
    }
}

fn broke() -> Rejection {
    let message = "the connection to the agent broke";
    Rejection::new(Failure::Connection, message)
}

pub(super) fn too_long(limit: usize) -> Rejection {
    let message = format!("the agent's response is longer than {limit} bytes");
    Rejection::new(Failure::TooLong, message)
}
