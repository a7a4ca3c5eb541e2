//! One request, one response: what the endpoint said is kept, and nothing is tried again here.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use async_openai::{error::OpenAIError, middleware::HttpRequestFactory};
use reqwest::Response;
use serde_json::Value;

use crate::accept::{Failure, Rejection};

/// How much of an endpoint's complaint is kept.
const MAX_SAID: usize = 500;

/// Sends a request once.
#[derive(Clone)]
pub(super) struct Once(pub(super) reqwest::Client);

impl tower::Service<HttpRequestFactory> for Once {
    type Response = Response;
    type Error = OpenAIError;
    type Future = Pin<Box<dyn Future<Output = Result<Response, OpenAIError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), OpenAIError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, factory: HttpRequestFactory) -> Self::Future {
        let client = self.0.clone();
        Box::pin(async move {
            let request = factory.build().await?;
            let response = client.execute(request).await?;
            if response.status().is_success() {
                return Ok(response);
            }
            let status = response.status().as_u16();
            let header = response.headers().get("retry-after");
            let header = header
                .and_then(|it| it.to_str().ok())
                .and_then(|it| it.trim().parse::<f64>().ok());
            let body = response.text().await.unwrap_or_default();
            let said: Option<Value> = serde_json::from_str(&body).ok();
            let in_body = said.as_ref().and_then(|it| {
                it.get("retry_after")
                    .or_else(|| it.pointer("/error/retry_after"))?
                    .as_f64()
            });
            let retry_after = header
                .or(in_body)
                .and_then(|it| Duration::try_from_secs_f64(it).ok());
            let failure = HttpFailure {
                status,
                retry_after,
                body,
            };
            Err(OpenAIError::Boxed(Box::new(failure)))
        })
    }
}

/// A response that is no answer.
#[derive(Debug)]
struct HttpFailure {
    status: u16,
    retry_after: Option<Duration>,
    body: String,
}

impl fmt::Display for HttpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the endpoint answered with status {}", self.status)?;
        match self.said() {
            said if said.trim().is_empty() => Ok(()),
            said => write!(f, ": {}", crate::prompt::cut(said.trim(), MAX_SAID)),
        }
    }
}

impl std::error::Error for HttpFailure {}

impl HttpFailure {
    /// The message in the body, whichever of the usual forms it has.
    fn said(&self) -> String {
        let value: Option<Value> = serde_json::from_str(&self.body).ok();
        let message = value.as_ref().and_then(|it| {
            let at = it
                .pointer("/error/message")
                .or_else(|| it.get("message"))
                .or_else(|| it.get("error"))?;
            at.as_str()
        });
        message.unwrap_or(&self.body).to_owned()
    }

    fn failure(&self) -> Failure {
        match self.status {
            401 | 403 => Failure::Authentication,
            404 => Failure::NotFound,
            408 => Failure::Timeout,
            // No waiting brings money back.
            429 if self.body.contains("insufficient_quota") => Failure::BadRequest,
            429 => Failure::RateLimited,
            500.. => Failure::Overloaded,
            _ => Failure::BadRequest,
        }
    }
}

/// What an error of the client means for the attempt.
pub(super) fn refusal(error: &OpenAIError) -> Rejection {
    match error {
        OpenAIError::Boxed(inner) => match inner.downcast_ref::<HttpFailure>() {
            Some(http) => {
                let mut rejection = Rejection::new(http.failure(), http.to_string());
                rejection.retry_after = http.retry_after;
                rejection
            }
            None => Rejection::new(Failure::Connection, "the request could not be sent"),
        },
        OpenAIError::Reqwest(error) => {
            // The address may carry more than people should see.
            let failure = if error.is_timeout() {
                Failure::Timeout
            } else {
                Failure::Connection
            };
            let what = if error.is_connect() {
                "cannot reach the endpoint"
            } else {
                "the connection to the endpoint broke"
            };
            Rejection::new(failure, what)
        }
        OpenAIError::JSONDeserialize(error, _) => Rejection::new(
            Failure::BadRequest,
            format!("the endpoint's answer is no JSON: {error}"),
        ),
        _ => Rejection::new(Failure::BadRequest, "the request could not be made"),
    }
}
