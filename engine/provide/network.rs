//! Buyers that come over the network: a request of HTTP each, or a WebSocket that one of them becomes.
//!
//! There are no sessions: tasks are known by their ids, so nothing has to be held for a buyer that is not connected.

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use futures_util::stream::unfold;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::{Body as _, Bytes, Frame, Incoming},
    header::{
        ACCEPT, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, ORIGIN,
        UPGRADE,
    },
    server::conn::http1,
    service::service_fn,
    upgrade::OnUpgrade,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::mpsc,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{handshake::server::create_response, protocol::Role},
};
use tokio_util::sync::CancellationToken;

use super::{
    Provider,
    connection::{self, Asked, Taken},
    patience::Patient,
    peers::Unsent,
    places::{Busy, Place},
};
use crate::acmp::link;

/// How long a buyer may take to say what it wants.
const GREETING: Duration = Duration::from_secs(10);
/// How much of the head of a request is read, in bytes.
const HEAD: usize = 16 << 10;
/// What a token comes after, in capitals or not.
const BEARER: &[u8] = b"Bearer ";

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Serves one connection until it ends, or `stop`.
pub(super) async fn welcome(
    provider: &Arc<Provider>,
    stream: TcpStream,
    tls: Option<&TlsAcceptor>,
    place: &Place,
    stop: &CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else {
        return serve(provider, stream, place, stop).await;
    };
    let secured = tokio::select! {
        secured = timeout(GREETING, tls.accept(stream)) => secured,
        () = place.lost() => return,
        () = stop.cancelled() => return,
    };
    // One that speaks no TLS hears so by TLS.
    if let Ok(Ok(stream)) = secured {
        serve(provider, stream, place, stop).await;
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    provider: &Arc<Provider>,
    stream: S,
    place: &Place,
    stop: &CancellationToken,
) {
    let stream = Patient::new(stream, provider.limits.patience, place);
    let (upgrades, mut upgraded) = mpsc::channel(1);
    let service = service_fn(|request| {
        let (provider, upgrades) = (Arc::clone(provider), upgrades.clone());
        async move { Ok::<_, Infallible>(respond(&provider, request, place, &upgrades).await) }
    });
    let mut builder = http1::Builder::new();
    let builder = builder.timer(TokioTimer::new());
    let builder = builder.header_read_timeout(GREETING).max_buf_size(HEAD);
    let serving = builder.serve_connection(TokioIo::new(stream), service);
    let mut serving = pin!(serving.with_upgrades());
    tokio::select! {
        _ = serving.as_mut() => (),
        () = place.lost() => return,
        () = stop.cancelled() => {
            serving.as_mut().graceful_shutdown();
            // What takes longer can be asked for again.
            let _ = timeout(provider.limits.grace, serving).await;
            return;
        }
    }
    let upgraded: Option<OnUpgrade> = upgraded.try_recv().ok();
    let Some(Ok(stream)) = (match upgraded {
        Some(upgraded) => Some(upgraded.await),
        None => None,
    }) else {
        return;
    };
    let limit = provider.limits.message_bytes;
    let (stream, config) = (TokioIo::new(stream), Some(link::config(limit)));
    let stream = WebSocketStream::from_raw_socket(stream, Role::Server, config).await;
    let link = link::frames(stream, limit);
    tokio::select! {
        () = connection::serve(provider, link, place, stop) => (),
        () = place.lost() => (),
    }
}

async fn respond(
    provider: &Arc<Provider>,
    mut request: Request<Incoming>,
    place: &Place,
    upgrades: &mpsc::Sender<OnUpgrade>,
) -> Response<Body> {
    place.held().take(usize::MAX);
    if let Err(status) = admit(provider, request.headers()) {
        return empty(status);
    }
    place.let_in();
    if request.headers().contains_key(UPGRADE) {
        let upgraded = hyper::upgrade::on(&mut request);
        let request = request.map(|_| ());
        return match create_response(&request) {
            Ok(response) if upgrades.try_send(upgraded).is_ok() => {
                response.map(|()| Full::default().boxed_unsync())
            }
            _ => empty(StatusCode::BAD_REQUEST),
        };
    }
    if request.method() != Method::POST {
        let mut refusal = empty(StatusCode::METHOD_NOT_ALLOWED);
        let headers = refusal.headers_mut();
        headers.insert(ALLOW, HeaderValue::from_static("POST"));
        return refusal;
    }
    let (head, body) = request.into_parts();
    let text = match read(body, provider.limits.message_bytes).await {
        Ok(text) => text,
        Err(status) => return empty(status),
    };
    place.held().take(usize::MAX);
    let busy = place.work();
    match connection::take(provider, &text, place, 0) {
        Taken::Answer(answer) => with(JSON, Full::from(answer).boxed_unsync()),
        Taken::Malformed(answer) => {
            let mut response = with(JSON, Full::from(answer).boxed_unsync());
            *response.status_mut() = StatusCode::BAD_REQUEST;
            response
        }
        Taken::Noted => empty(StatusCode::ACCEPTED),
        Taken::Task(asked) if reads_events(&head.headers) => {
            let unsent = Arc::clone(place.unsent());
            with(EVENTS, events(provider, unsent, asked, busy))
        }
        Taken::Task(mut asked) => {
            // Only the answer, which is the last, has room in such a response.
            asked.streams = false;
            let (outgoing, mut texts) = mpsc::channel(1);
            let unsent = Arc::clone(place.unsent());
            let waiting = connection::wait(Arc::clone(provider), outgoing, unsent, asked);
            let mut waiting = pin!(waiting);
            let mut last = String::new();
            loop {
                tokio::select! {
                    biased;
                    text = texts.recv() => match text {
                        Some(text) => last = text,
                        None => return with(JSON, Full::from(last).boxed_unsync()),
                    },
                    () = waiting.as_mut() => (),
                }
            }
        }
    }
}

/// Lets in whoever has the token, and no page of a browser.
fn admit(provider: &Provider, headers: &HeaderMap) -> Result<(), StatusCode> {
    if headers.contains_key(ORIGIN) {
        return Err(StatusCode::FORBIDDEN);
    }
    let Some(token) = &provider.token else {
        return Ok(());
    };
    let shown = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let (scheme, shown) = shown
        .and_then(|it| it.split_at_checked(BEARER.len()))
        .unwrap_or_default();
    let is_it: bool = subtle::ConstantTimeEq::ct_eq(shown, token.as_bytes()).into();
    match is_it && scheme.eq_ignore_ascii_case(BEARER) {
        true => Ok(()),
        false => Err(StatusCode::UNAUTHORIZED),
    }
}

/// The text of a request, if it goes on coming and is not too long.
async fn read(mut body: Incoming, limit: usize) -> Result<String, StatusCode> {
    let too_long = |length: u64| length > limit as u64;
    if too_long(body.size_hint().lower()) {
        return Err(StatusCode::PAYLOAD_TOO_LARGE);
    }
    let mut bytes = Vec::new();
    loop {
        let frame = timeout(GREETING, body.frame()).await;
        let frame = frame.map_err(|_| StatusCode::REQUEST_TIMEOUT)?;
        let Some(frame) = frame.transpose().map_err(|_| StatusCode::BAD_REQUEST)? else {
            return String::from_utf8(bytes).map_err(|_| StatusCode::BAD_REQUEST);
        };
        bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |it| it));
        if too_long(bytes.len() as u64) {
            return Err(StatusCode::PAYLOAD_TOO_LARGE);
        }
    }
}

fn reads_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter();
    let mut accepted = accepted.filter_map(|it| it.to_str().ok());
    accepted.any(|it| it.contains(EVENTS) || it.contains("*/*"))
}

/// What is to be said of a task, each as an event. When nobody reads it any more, it ends.
fn events(provider: &Arc<Provider>, unsent: Arc<Unsent>, asked: Asked, busy: Busy) -> Body {
    let (outgoing, texts) = mpsc::channel(1);
    let waiting = connection::wait(Arc::clone(provider), outgoing, unsent, asked);
    let waiting = Box::pin(async move {
        let _busy = busy;
        waiting.await;
    });
    let events = unfold((Some(waiting), texts), |(mut waiting, mut texts)| async {
        loop {
            let text = match &mut waiting {
                None => texts.recv().await,
                Some(it) => tokio::select! {
                    biased;
                    text = texts.recv() => text,
                    () = it => {
                        waiting = None;
                        continue;
                    }
                },
            };
            let event = Frame::data(Bytes::from(format!("data: {}\n\n", text?)));
            return Some((Ok(event), (waiting, texts)));
        }
    });
    StreamBody::new(events).boxed_unsync()
}

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

fn with(kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers: [(HeaderName, _); 2] = [(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-store")];
    let headers = headers.map(|(name, value)| (name, HeaderValue::from_static(value)));
    response.headers_mut().extend(headers);
    response
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Full::default().boxed_unsync());
    *response.status_mut() = status;
    response
}
