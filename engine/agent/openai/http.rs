//! One request, one response: what the endpoint said is kept, and nothing is tried again here.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, SystemTime},
};

use async_openai::{error::OpenAIError, middleware::HttpRequestFactory};
use reqwest::{
    Response,
    header::{CONTENT_TYPE, HeaderValue},
};
use serde_json::Value;

use super::{super::SoFar, later, meaning, stream};
use crate::{
    accept::{Failure, Rejection},
    endpoint::{self, Secrets, Unread, cause, events, halves},
    prompt::cut,
};

/// How much of an endpoint's complaint is read, and how much of it is kept, in bytes.
const MAX_COMPLAINT: usize = 64 << 10;
const MAX_SAID: usize = 500;
/// How much is shown of a response that is none, in bytes.
const MAX_BEGINNING: usize = 120;

/// Around an answer, in bytes: usage, and what a model thought.
const MAX_AROUND: usize = 1 << 20;

/// Sends a request once.
#[derive(Clone)]
pub(super) struct Once {
    client: reqwest::Client,
    /// The longest response that is read, in bytes.
    limit: usize,
    /// The longest silence.
    idle: Duration,
    so_far: SoFar,
}

impl Once {
    /// For an answer of at most `max_output` bytes. As JSON it may be longer: some endpoints write `é` as `\u00e9`.
    pub(super) fn new(
        client: reqwest::Client,
        max_output: usize,
        idle: Duration,
        so_far: &SoFar,
    ) -> Once {
        let limit = max_output.saturating_mul(4).saturating_add(MAX_AROUND);
        Once {
            client,
            limit,
            idle,
            so_far: so_far.clone(),
        }
    }
}

impl tower::Service<HttpRequestFactory> for Once {
    type Response = Response;
    type Error = OpenAIError;
    type Future = Pin<Box<dyn Future<Output = Result<Response, OpenAIError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), OpenAIError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, factory: HttpRequestFactory) -> Self::Future {
        let Once {
            client,
            limit,
            idle,
            so_far,
        } = self.clone();
        Box::pin(async move {
            let request = factory.build().await?;
            let response = within(idle, client.execute(request)).await??;
            match response.status().is_success() {
                true if events::are_in(&response) => {
                    stream::whole(response, limit, idle, &so_far).await
                }
                true => whole(response, limit, idle, &so_far).await,
                false => Err(broken(within(idle, complaint(response)).await?)),
            }
        })
    }
}

/// A response that is no answer.
#[derive(Debug)]
pub(in crate::agent) struct HttpFailure {
    status: u16,
    /// Whether that was said.
    has_status: bool,
    failure: Failure,
    retry_after: Option<Duration>,
    said: String,
}

impl HttpFailure {
    fn new(status: u16, body: &Value) -> HttpFailure {
        // Google's endpoint puts its errors into a list.
        let body = body.get(0).unwrap_or(body);
        let places = ["/error/message", "/message", "/error", "/detail", ""];
        let mut said = places.iter().filter_map(|it| body.pointer(it)?.as_str());
        let said = said.next().unwrap_or_default().trim().to_owned();
        HttpFailure {
            status,
            has_status: true,
            failure: meaning::of(status, body, &said),
            retry_after: later::in_body(body, &said),
            said,
        }
    }

    /// An error that came with the status of success. Its code is the status that was meant, if it is one.
    pub(super) fn in_success(error: &Value, body: &Value) -> HttpFailure {
        let code = error.get("code").and_then(Value::as_u64);
        let status = code.and_then(|it| u16::try_from(it).ok());
        let status = status.filter(|it| (400..600).contains(it));
        HttpFailure {
            has_status: status.is_some(),
            ..HttpFailure::new(status.unwrap_or(502), body)
        }
    }

    /// What it means for the attempt.
    pub(in crate::agent) fn rejection(&self, secrets: &Secrets) -> Rejection {
        let said = secrets.hide(&self.said);
        let mut message = match self.has_status {
            true => format!("the endpoint answered with status {}", self.status),
            false => "the endpoint answered with an error".to_owned(),
        };
        if !said.is_empty() {
            message.push_str(&format!(": {}", cut(&said, MAX_SAID)));
        }
        if self.retry_after.is_some_and(|it| it > later::LONGEST) {
            let longest = later::LONGEST.as_secs();
            message.push_str(&format!(
                "; it asks for a longer wait than {longest} seconds, which is the longest there is"
            ));
        }
        let mut rejection = Rejection::new(self.failure, message);
        rejection.retry_after = self.retry_after.map(|it| it.min(later::LONGEST));
        rejection
    }
}

/// A response that ended, or went wrong, before its answer did.
#[derive(Debug)]
pub(super) struct Broken(pub(super) String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Broken {}

/// An endpoint that said nothing for so long.
#[derive(Debug)]
struct Silent(Duration);

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        write!(f, "the endpoint sent nothing for {seconds} seconds")
    }
}

impl std::error::Error for Silent {}

pub(super) fn broken(error: impl std::error::Error + Send + Sync + 'static) -> OpenAIError {
    OpenAIError::Boxed(Box::new(error))
}

/// What comes of `work`, if it comes before the silence is too long.
pub(super) async fn within<T>(
    idle: Duration,
    work: impl Future<Output = T>,
) -> Result<T, OpenAIError> {
    let came = tokio::time::timeout(idle, work).await;
    came.map_err(|_| broken(Silent(idle)))
}

/// Whether the endpoint refused the request for a field of this name.
pub(super) fn is_about(error: &OpenAIError, field: &str) -> bool {
    let OpenAIError::Boxed(inner) = error else {
        return false;
    };
    let failure = inner.downcast_ref::<HttpFailure>();
    failure.is_some_and(|it| matches!(it.status, 400 | 422) && it.said.contains(field))
}

/// A response that is longer than so many bytes. The rest of it was not read.
#[derive(Debug)]
pub(super) struct TooLong(pub(super) usize);

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the endpoint's response is longer than {} bytes", self.0)
    }
}

impl std::error::Error for TooLong {}

/// An answer that was stopped while it came, and why.
#[derive(Debug)]
pub(super) struct Stopped(pub(super) String);

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Stopped {}

impl fmt::Display for HttpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}", self.status)
    }
}

impl std::error::Error for HttpFailure {}

/// Who could not be reached, and why. Of an address only its host and its port are shown.
fn unreached(error: &reqwest::Error) -> String {
    let url = error.url();
    let host = url.and_then(|it| {
        Some(format!(
            " at {}:{}",
            it.host_str()?,
            it.port_or_known_default()?
        ))
    });
    let host = host.unwrap_or_default();
    format!(
        "cannot reach the endpoint{host}: {}",
        cut(&cause::deepest(error), MAX_SAID)
    )
}

/// What an error of the client means for the attempt. Its own text is not passed on: it may hold the address, or the answer.
pub(super) fn rejection(error: &OpenAIError, secrets: &Secrets) -> Rejection {
    match error {
        OpenAIError::Boxed(inner) => {
            if let Some(failure) = inner.downcast_ref::<HttpFailure>() {
                failure.rejection(secrets)
            } else if let Some(failure) = inner.downcast_ref::<TooLong>() {
                Rejection::new(Failure::TooLong, failure.to_string())
            } else if let Some(stopped) = inner.downcast_ref::<Stopped>() {
                Rejection::new(Failure::TooLong, stopped.to_string())
            } else if let Some(failure) = inner.downcast_ref::<Silent>() {
                Rejection::new(Failure::IdleTimeout, failure.to_string())
            } else if let Some(failure) = inner.downcast_ref::<Broken>() {
                Rejection::new(Failure::Connection, failure.to_string())
            } else {
                Rejection::new(Failure::Connection, "the request could not be sent")
            }
        }
        OpenAIError::Reqwest(error) if error.is_timeout() => {
            Rejection::new(Failure::Timeout, "the endpoint took too long")
        }
        OpenAIError::Reqwest(error) if error.is_connect() => {
            Rejection::new(Failure::Connection, secrets.hide(&unreached(error)))
        }
        OpenAIError::Reqwest(_) => {
            Rejection::new(Failure::Connection, "the connection to the endpoint broke")
        }
        OpenAIError::JSONDeserialize(error, body) => no_json(error, body, secrets),
        _ => Rejection::new(Failure::BadRequest, "the request could not be made"),
    }
}

/// What a response means that has the status of success, and is no JSON.
fn no_json(error: &serde_json::Error, body: &str, secrets: &Secrets) -> Rejection {
    // Of a key that is cut here, nothing is shown.
    let beginning = &body[..body.floor_char_boundary(MAX_COMPLAINT)];
    let beginning = secrets.hide(beginning);
    let words: Vec<&str> = beginning.split_whitespace().take(MAX_BEGINNING).collect();
    let beginning = cut(&words.join(" "), MAX_BEGINNING);
    let (failure, what) = match beginning.trim_start_matches('\u{feff}') {
        "" => (
            Failure::Overloaded,
            "the endpoint answered with nothing".to_owned(),
        ),
        page if page.starts_with('<') => {
            let what = "there is no API at this address, but a page: is `base_url` right?";
            (Failure::NotFound, format!("{what} It begins with `{page}`"))
        }
        begun if error.is_eof() => {
            let what = format!("the endpoint's answer breaks off; it begins with `{begun}`");
            (Failure::Connection, what)
        }
        other => {
            let what = format!("the endpoint's answer is no JSON; it begins with `{other}`");
            (Failure::Overloaded, what)
        }
    };
    Rejection::new(failure, what)
}

/// The response with all of its body in memory.
async fn whole(
    response: Response,
    limit: usize,
    idle: Duration,
    so_far: &SoFar,
) -> Result<Response, OpenAIError> {
    let is_json = |it: &HeaderValue| it.to_str().is_ok_and(|it| it.contains("json"));
    if response.headers().get(CONTENT_TYPE).is_some_and(is_json) {
        // The model has said all of it by now, whether it arrives or not.
        let length = response.content_length().unwrap_or_default();
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        so_far.note_last(length.min(limit));
    }
    let body = endpoint::body(response, limit, idle).await;
    if body.is_ok() {
        // It says by itself what it is.
        so_far.forget();
    }
    let body = body.map_err(|it| match it {
        Unread::TooLong(limit) => {
            so_far.note_last(limit);
            broken(TooLong(limit))
        }
        Unread::Silent(idle) => broken(Silent(idle)),
        Unread::Broke(error) => error.into(),
    })?;
    let body = halves::whole(&body).into_owned();
    Ok(::http::Response::new(body).into())
}

pub(in crate::agent) async fn complaint(mut response: Response) -> HttpFailure {
    let status = response.status().as_u16();
    let retry_after = later::in_headers(response.headers(), SystemTime::now());
    let mut bytes = Vec::new();
    // What came before an error is what there is.
    while let Ok(Some(piece)) = response.chunk().await {
        bytes.extend_from_slice(&piece);
        if bytes.len() > MAX_COMPLAINT {
            break;
        }
    }
    let text = || Value::from(String::from_utf8_lossy(&bytes).into_owned());
    let body = serde_json::from_slice(&halves::whole(&bytes));
    let body = body.unwrap_or_else(|_| text());
    let failure = HttpFailure::new(status, &body);
    HttpFailure {
        retry_after: retry_after.or(failure.retry_after),
        ..failure
    }
}
