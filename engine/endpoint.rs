//! Where something answers over HTTP: its address, what is sent along with every request, and who asks.
//!
//! **Invariant:** nothing goes unencrypted to another machine unless its author says so, and nothing follows a redirect.

use std::{fmt, mem, net::IpAddr, sync::Once, time::Duration};

use reqwest::{
    Client, Response, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect,
};
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::{
    child::env::Env,
    contract::endpoint::{Header, Headers},
};

pub mod cause;
pub mod events;
pub mod halves;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Parts of names of headers whose values are secrets.
const SECRET: [&str; 6] = [
    "authorization",
    "api-key",
    "apikey",
    "token",
    "secret",
    "cookie",
];

/// An address that cannot be used, as far as it may be shown, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadUrl {
    pub url: String,
    pub why: String,
}

/// An address of `https`, or of `http` on this machine; of `http` elsewhere only if that is allowed.
///
/// # Errors
/// It is none.
pub fn address(text: &str, allow_plain_http: bool) -> Result<Url, BadUrl> {
    of_scheme(text, ("https", "http"), allow_plain_http)
}

/// The same of a WebSocket, whose schemes are `wss` and `ws`.
///
/// # Errors
/// It is none.
pub fn websocket(text: &str, allow_plain_http: bool) -> Result<Url, BadUrl> {
    of_scheme(text, ("wss", "ws"), allow_plain_http)
}

/// Whether there is a name or a password in an address.
pub fn names_somebody(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

fn of_scheme(
    text: &str,
    (secure, plain): (&str, &str),
    allow_plain_http: bool,
) -> Result<Url, BadUrl> {
    let mut url = Url::parse(text).map_err(|error| BadUrl {
        url: text.to_owned(),
        why: error.to_string(),
    })?;
    if names_somebody(&url) {
        // Fails only for addresses without a host, which have no user either.
        let _ = url.set_password(None).and_then(|()| url.set_username(""));
        let why = "a name or password in it would be shown; keys go into the environment";
        return Err(bad(&url, why.to_owned()));
    }
    match url.scheme() {
        it if it == secure => Ok(url),
        it if it == plain && (allow_plain_http || is_loopback(&url)) => Ok(url),
        it if it == plain => {
            let why = format!(
                "plain {plain} is for this machine only, as 127.0.0.1 or localhost, unless `allow_plain_http: true` says otherwise"
            );
            Err(bad(&url, why))
        }
        other => Err(bad(
            &url,
            format!("`{other}` is neither `{secure}` nor `{plain}`"),
        )),
    }
}

/// The same of an address that was parsed.
pub fn bad(url: &Url, why: String) -> BadUrl {
    let url = url.to_string();
    BadUrl { url, why }
}

/// Whether an address is of this machine.
pub fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse();
    host == "localhost" || address.is_ok_and(|it: IpAddr| it.is_loopback())
}

/// What a key is sent as. Nothing if it has characters that no header can have.
pub fn bearer(key: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(format!("Bearer {key}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Whether a response says that it is of this type.
pub fn is_of_type(response: &Response, wanted: &str) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    let kind = kind.and_then(|it| it.to_str().ok()).unwrap_or_default();
    kind.trim_start().starts_with(wanted)
}

/// Why the body of a response is not there.
#[derive(Debug)]
pub enum Unread {
    /// It is longer than so many bytes. The rest of it was not read.
    TooLong(usize),
    /// For so long nothing more of it came.
    Silent(Duration),
    Broke(reqwest::Error),
}

/// The body of a response, which a client would read however long it is.
///
/// # Errors
/// It is longer than `limit`, or did not go on coming.
pub async fn body(mut response: Response, limit: usize, idle: Duration) -> Result<Vec<u8>, Unread> {
    if response.content_length() > Some(limit as u64) {
        return Err(Unread::TooLong(limit));
    }
    let mut bytes = Vec::new();
    loop {
        let piece = timeout(idle, response.chunk()).await;
        let piece = piece.map_err(|_| Unread::Silent(idle))?;
        let Some(piece) = piece.map_err(Unread::Broke)? else {
            return Ok(bytes);
        };
        bytes.extend_from_slice(&piece);
        if bytes.len() > limit {
            return Err(Unread::TooLong(limit));
        }
    }
}

/// The shortest text that is taken for a key wherever it stands: servers that want none are given words such as `none`.
pub const MIN_KEY_BYTES: usize = 12;

/// Texts that must not be shown.
#[derive(Clone, Default)]
pub struct Secrets(Vec<String>);

impl Secrets {
    /// What stands in these variables.
    pub fn of<'a>(variables: impl IntoIterator<Item = &'a str>, env: &Env) -> Secrets {
        let variables = variables.into_iter();
        Secrets(variables.filter_map(|it| env.text(it)).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn add(&mut self, secret: &str) {
        if !secret.is_empty() {
            self.0.push(secret.to_owned());
        }
    }

    /// An answer, which may quote what was sent. What is too short to be a key is left in it: it may be any word.
    pub fn hide_in_answer(&self, answer: String) -> String {
        let long = self.0.iter().filter(|it| it.len() >= MIN_KEY_BYTES);
        let is_spelled = answer.contains('\\');
        let quoted = long.filter(|it| is_spelled || answer.contains(it.as_str()));
        match quoted.cloned().collect::<Vec<_>>() {
            quoted if quoted.is_empty() => answer,
            quoted => Secrets(quoted).hide(&answer),
        }
    }

    /// The same in all texts of a value, and in the names of its fields.
    pub fn hide_in_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.hide_in_answer(mem::take(text)),
            Value::Array(items) => items.iter_mut().for_each(|it| self.hide_in_value(it)),
            Value::Object(fields) => self.hide_in_fields(fields),
            Value::Null | Value::Bool(_) | Value::Number(_) => (),
        }
    }

    pub fn hide_in_fields(&self, fields: &mut Map<String, Value>) {
        let hidden = mem::take(fields).into_iter().map(|(name, mut value)| {
            self.hide_in_value(&mut value);
            (self.hide_in_answer(name), value)
        });
        *fields = hidden.collect();
    }

    /// What somebody said, who may quote what was sent, as it is or as JSON spells it.
    pub fn hide(&self, said: &str) -> String {
        let hidden = said.to_owned();
        let mut secrets: Vec<&String> = self.0.iter().collect();
        // One may be a part of another.
        secrets.sort_by_key(|it| std::cmp::Reverse(it.len()));
        let hide = |text: String, secret: &String| hide_spelled(&text, secret);
        secrets.into_iter().fold(hidden, hide)
    }
}

fn hide_spelled(text: &str, secret: &str) -> String {
    let mut hidden = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = after_spelled(rest, secret) {
            hidden.push_str("[key]");
            rest = after;
            continue;
        }
        // What follows an escaped backslash is not escaped.
        let length = if rest.starts_with(r"\\") {
            2
        } else {
            c.len_utf8()
        };
        hidden.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    hidden
}

/// What comes after a secret that stands here, each of its characters as it is or escaped as in JSON.
fn after_spelled<'a>(text: &'a str, secret: &str) -> Option<&'a str> {
    secret.chars().try_fold(text, |rest, c| {
        after_escaped(rest, c).or_else(|| rest.strip_prefix(c))
    })
}

fn after_escaped(text: &str, c: char) -> Option<&str> {
    let escaped = text.strip_prefix('\\')?;
    if matches!(c, '"' | '\\' | '/')
        && let Some(rest) = escaped.strip_prefix(c)
    {
        return Some(rest);
    }
    let (hex, rest) = escaped.strip_prefix('u')?.split_at_checked(4)?;
    let is_it = u32::from_str_radix(hex, 16) == Ok(u32::from(c));
    is_it.then_some(rest)
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

/// What keeps headers from being sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadHeader {
    /// A name or a text that cannot be one of a header.
    Malformed { name: String },
    /// A secret that stands in the file.
    Written { name: String },
    /// The environment variable is not set.
    Missing { variable: String },
    /// The environment variable holds what no header can have.
    Unsendable { variable: String },
}

/// What can be known to be wrong with headers without their secrets.
pub fn check(headers: &Headers) -> Option<BadHeader> {
    headers.iter().find_map(|(name, value)| {
        let owned = || name.to_string();
        let text = match value {
            Header::Text(text) => text.as_str(),
            Header::Variable(it) => &it.prefix,
        };
        let is_header = HeaderName::try_from(name.as_str()).is_ok();
        if !is_header || HeaderValue::from_str(text).is_err() {
            return Some(BadHeader::Malformed { name: owned() });
        }
        let lower = name.to_lowercase();
        let is_secret = SECRET.iter().any(|it| lower.contains(it));
        match value {
            Header::Text(_) if is_secret => Some(BadHeader::Written { name: owned() }),
            _ => None,
        }
    })
}

/// Headers with their secrets, which are added to `secrets`.
///
/// # Errors
/// A variable is not set, or it cannot be sent.
pub fn headers(
    headers: &Headers,
    env: &Env,
    secrets: &mut Secrets,
) -> Result<HeaderMap, BadHeader> {
    if let Some(bad) = check(headers) {
        return Err(bad);
    }
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let text = match value {
            Header::Text(text) => text.to_string(),
            Header::Variable(it) => {
                let variable = || it.env.to_string();
                let found = env.text(&it.env);
                let found = found.ok_or_else(|| BadHeader::Missing {
                    variable: variable(),
                })?;
                secrets.add(&found);
                if HeaderValue::from_str(&found).is_err() {
                    return Err(BadHeader::Unsendable {
                        variable: variable(),
                    });
                }
                format!("{}{found}", it.prefix)
            }
        };
        let malformed = || BadHeader::Malformed {
            name: name.to_string(),
        };
        let key = HeaderName::try_from(name.as_str()).map_err(|_| malformed())?;
        let mut value = HeaderValue::try_from(text).map_err(|_| malformed())?;
        value.set_sensitive(true);
        map.insert(key, value);
    }
    Ok(map)
}

impl fmt::Display for BadHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadHeader::Malformed { name } => write!(f, "`{name}` cannot be sent as a header"),
            BadHeader::Written { name } => write!(
                f,
                "the value of the header `{name}` is a secret, which the environment has to hold: write `{{env: NAME}}`"
            ),
            BadHeader::Missing { variable } => {
                write!(f, "the environment variable `{variable}` is not set")
            }
            BadHeader::Unsendable { variable } => write!(
                f,
                "the environment variable `{variable}` holds characters that no header can have"
            ),
        }
    }
}

/// Whoever sends requests with these headers.
///
/// # Errors
/// The system has no certificates to trust.
pub fn client(headers: HeaderMap) -> Result<Client, reqwest::Error> {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // Fails only if another one is installed, which does as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .default_headers(headers)
        // A key is for the endpoint it was given to.
        .redirect(redirect::Policy::none())
        .build()
}

#[cfg(test)]
mod tests;
