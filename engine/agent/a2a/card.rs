//! The card of a remote agent: where it answers, and how.

use reqwest::Url;
use serde_json::Value;

use super::{Remote, dialect::Dialect};
use crate::{
    accept::{Failure, Rejection},
    endpoint,
};

/// Where a card lies, as A2A says.
const WELL_KNOWN: &str = ".well-known/agent-card.json";
/// The longest card that is read, in bytes.
const MAX_CARD: usize = 1 << 20;

/// A remote agent, as its card says.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) url: Url,
    pub(super) dialect: Dialect,
    pub(super) streams: bool,
}

/// Where the card of an address lies, which may be that of the card itself.
pub(super) fn address(mut url: Url) -> Url {
    if !url.path().ends_with(".json") {
        let path = format!("{}/{WELL_KNOWN}", url.path().trim_end_matches('/'));
        url.set_path(&path);
    }
    url
}

impl Remote {
    /// The other side, whose card is read once.
    pub(super) async fn peer(&self) -> Result<&Peer, Rejection> {
        self.peer.get_or_try_init(|| self.read_card()).await
    }

    async fn read_card(&self) -> Result<Peer, Rejection> {
        let request = self.http.get(self.card.clone());
        let response = self.send(request).await?;
        let bytes = self.whole(response, MAX_CARD).await?;
        let refused = |why: &str| {
            let message = format!("the agent's card cannot be used: {why}");
            Err(Rejection::new(Failure::NotFound, message))
        };
        let Ok(card) = serde_json::from_slice::<Value>(&bytes) else {
            return refused("it is not JSON");
        };
        let Some((dialect, url)) = interface(&card) else {
            return refused("it names no interface of A2A 1.0 or 0.3 over JSON-RPC");
        };
        let url = match &self.endpoint {
            Some(own) => own.clone(),
            None => match endpoint::address(url, self.allow_plain_http) {
                Ok(url) if is_same_place(&url, &self.card) => url,
                // A key is for the place it was given to: another address of this machine may be somebody else's.
                Ok(_) => {
                    return refused(
                        "it names an endpoint that is not at its own host and port; `endpoint` of the runtime allows one",
                    );
                }
                Err(bad) => return refused(&self.said(&bad.why)),
            },
        };
        let streams = card.pointer("/capabilities/streaming") == Some(&Value::Bool(true));
        Ok(Peer {
            url,
            dialect,
            streams,
        })
    }
}

/// The newest interface of a card that we speak.
fn interface(card: &Value) -> Option<(Dialect, &str)> {
    let text = |it: &'_ Value, key: &str| it.get(key).and_then(Value::as_str).map(str::to_owned);
    let is_ours = |it: &&Value, key: &str| {
        let binding = text(it, key);
        binding.is_none_or(|it| it.eq_ignore_ascii_case("JSONRPC"))
    };
    let listed = |key: &str| card.get(key).and_then(Value::as_array);
    let supported = || listed("supportedInterfaces").into_iter().flatten();
    let of = |version: &str| {
        let mut all = supported().filter(|it| is_ours(it, "protocolBinding"));
        all.find(|it| text(it, "protocolVersion").is_some_and(|it| it.starts_with(version)))
    };
    if let Some(it) = of("1.") {
        return Some((Dialect::V1, it.get("url")?.as_str()?));
    }
    if let Some(it) = of("0.3") {
        return Some((Dialect::V03, it.get("url")?.as_str()?));
    }
    // Before 1.0 the first interface stands in the card itself.
    let others = listed("additionalInterfaces").into_iter().flatten();
    let own = is_ours(&card, "preferredTransport").then_some(card);
    let others = others.filter(|it| text(it, "transport").is_some() && is_ours(it, "transport"));
    let mut urls = own.into_iter().chain(others);
    let url = urls.find_map(|it| it.get("url")?.as_str())?;
    Some((Dialect::V03, url))
}

/// Whether two addresses are of one host and port, asked in the same way.
fn is_same_place(one: &Url, other: &Url) -> bool {
    let ports = (one.port_or_known_default(), other.port_or_known_default());
    one.host() == other.host() && ports.0 == ports.1 && one.scheme() == other.scheme()
}
