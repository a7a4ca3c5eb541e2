//! A connection, whatever carries it: messages in both directions.

use std::io;

use futures_util::{SinkExt, StreamExt};
use reqwest::{
    Url,
    header::{AUTHORIZATION, HeaderValue},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    sync::mpsc,
    task::JoinSet,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error as Fault, Message as Frame, client::IntoClientRequest, protocol::WebSocketConfig,
    },
};

use super::wire::Error;
use crate::{
    child::{Ends, Group, Program},
    endpoint::cause,
};

/// How many messages wait in each direction.
pub(super) const ROOM: usize = 32;

/// How many bytes go in one piece.
const PIECE: usize = 64 << 10;

pub(super) const NOT_UTF8: &str = "a message is not UTF-8";

/// A connection. Dropped, it is closed, and a program at its other end is gone.
pub struct Link {
    /// Whoever sends waits until there is room.
    pub outgoing: mpsc::Sender<String>,
    /// Messages, and at last why there are no more.
    pub incoming: mpsc::Receiver<Result<String, Gone>>,
    pub(super) pump: JoinSet<()>,
}

/// Nothing more will be heard, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gone {
    /// Of one request, or of anything.
    pub of: Option<String>,
    pub why: Unconnected,
}

impl Gone {
    pub(super) fn all(why: impl Into<String>) -> Gone {
        let why = Unconnected::Lost(why.into());
        Gone { of: None, why }
    }

    fn unreadable(why: impl Into<String>) -> Gone {
        let why = Unconnected::Unreadable(why.into());
        Gone { of: None, why }
    }
}

/// Starts a program, and speaks with it a line a message.
///
/// # Errors
/// It cannot be started.
pub fn program(program: &Program, limit: usize) -> io::Result<Link> {
    let mut group = Group::start(program)?;
    let child = &mut group.child;
    let (stdin, stdout, stderr) = (
        child.stdin().take(),
        child.stdout().take(),
        child.stderr().take(),
    );
    let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let mut link = lines(stdout, stdin, limit);
    link.pump.spawn(async move {
        // The program lives as long as its link.
        let _group = group;
        Ends::default().drain(stderr).await;
        std::future::pending().await
    });
    Ok(link)
}

/// Speaks a line a message.
pub fn lines(
    reader: impl AsyncRead + Send + Unpin + 'static,
    mut writer: impl AsyncWrite + Send + Unpin + 'static,
    limit: usize,
) -> Link {
    let (outgoing, mut to_send) = mpsc::channel::<String>(ROOM);
    let (received, incoming) = mpsc::channel(ROOM);
    let mut pump = JoinSet::new();
    pump.spawn(async move {
        while let Some(mut text) = to_send.recv().await {
            text.push('\n');
            let written = writer.write_all(text.as_bytes()).await;
            if written.is_err() || writer.flush().await.is_err() {
                return;
            }
        }
    });
    pump.spawn(async move {
        let mut reader = BufReader::new(reader);
        loop {
            let line = line(&mut reader, limit).await;
            let is_last = line.is_err();
            if received.send(line).await.is_err() || is_last {
                return;
            }
        }
    });
    Link {
        outgoing,
        incoming,
        pump,
    }
}

/// The next line, if it is no longer than the limit.
async fn line(
    reader: &mut BufReader<impl AsyncRead + Unpin>,
    limit: usize,
) -> Result<String, Gone> {
    let mut bytes = Vec::new();
    let most = (limit as u64).saturating_add(1);
    let read = reader.take(most).read_until(b'\n', &mut bytes).await;
    read.map_err(|error| Gone::all(error.to_string()))?;
    match bytes.pop() {
        None => Err(Gone::all("it was closed")),
        Some(b'\n') => String::from_utf8(bytes).map_err(|_| Gone::unreadable(NOT_UTF8)),
        Some(_) if bytes.len() >= limit => Err(Gone::unreadable(too_long(limit))),
        Some(_) => Err(Gone::all("it was closed in the middle of a message")),
    }
}

pub(super) fn too_long(limit: usize) -> String {
    format!("a message is longer than the {limit} bytes that are allowed")
}

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unconnected {
    /// Nobody is there, or whoever is does not speak as we do, or it broke.
    Lost(String),
    /// What came cannot be read, and nobody expects it to be another time.
    Unreadable(String),
    /// We are not let in, and would not be another time.
    Refused(String),
    /// What came is no message.
    Malformed(Error),
}

/// Connects to a WebSocket.
///
/// # Errors
/// Why that is not possible.
pub async fn connect(
    url: &Url,
    bearer: Option<&HeaderValue>,
    limit: usize,
) -> Result<Link, Unconnected> {
    let request = url.as_str().into_client_request();
    let mut request =
        request.map_err(|error| Unconnected::Refused(format!("`{url}` is no address: {error}")))?;
    if let Some(bearer) = bearer {
        request.headers_mut().insert(AUTHORIZATION, bearer.clone());
    }
    // There may be several in the program, and this is the one that is meant.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = Some(config(limit));
    let connected = tokio_tungstenite::connect_async_with_config(request, config, true).await;
    let (stream, _) = connected.map_err(|error| match error {
        Fault::Http(answer) if matches!(answer.status().as_u16(), 401 | 403) => {
            Unconnected::Refused(format!("it answers with status {}", answer.status()))
        }
        Fault::Io(_) | Fault::Tls(_) => Unconnected::Lost(cause::unreached(&error)),
        error => Unconnected::Lost(error.to_string()),
    })?;
    Ok(frames(stream, limit))
}

/// What a WebSocket may carry.
pub fn config(limit: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(limit))
        .max_frame_size(Some(limit))
}

/// Speaks a frame a message.
pub fn frames<S>(stream: WebSocketStream<S>, limit: usize) -> Link
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (outgoing, mut to_send) = mpsc::channel::<String>(ROOM);
    let (received, incoming) = mpsc::channel(ROOM);
    let (mut sink, mut stream) = stream.split();
    let mut pump = JoinSet::new();
    pump.spawn(async move {
        while let Some(text) = to_send.recv().await {
            // What is there already goes in one piece, if it is not large.
            let mut bytes = text.len();
            let mut sent = sink.feed(Frame::text(text)).await;
            while sent.is_ok()
                && bytes < PIECE
                && let Ok(text) = to_send.try_recv()
            {
                bytes += text.len();
                sent = sink.feed(Frame::text(text)).await;
            }
            if sent.is_err() || sink.flush().await.is_err() {
                return;
            }
        }
        let _ = sink.close().await;
    });
    pump.spawn(async move {
        loop {
            let message = match stream.next().await {
                None | Some(Ok(Frame::Close(_))) => Err(Gone::all("it was closed")),
                Some(Ok(Frame::Text(text))) => Ok(text.as_str().to_owned()),
                Some(Ok(Frame::Binary(bytes))) => {
                    String::from_utf8(bytes.to_vec()).map_err(|_| Gone::unreadable(NOT_UTF8))
                }
                // Pings are answered below us.
                Some(Ok(_)) => continue,
                Some(Err(Fault::Utf8(_))) => Err(Gone::unreadable(NOT_UTF8)),
                Some(Err(Fault::Capacity(_))) => Err(Gone::unreadable(too_long(limit))),
                Some(Err(error)) => Err(Gone::all(error.to_string())),
            };
            let is_last = message.is_err();
            if received.send(message).await.is_err() || is_last {
                return;
            }
        }
    });
    Link {
        outgoing,
        incoming,
        pump,
    }
}
