//! A remote agent that speaks A2A, 1.0 or 0.3, as JSON-RPC over HTTP: found by its card, asked by one message.
//!
//! **Invariant:** a task that was begun over there and is not over is cancelled when nobody waits for it any more.
//! **Invariant:** secrets are in the headers of requests and nowhere else, and go only to where the author says.
//! **Invariant:** of what the other side sends, no more is kept than an answer may have.

use std::{
    future::Future,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use reqwest::{Client, Url, header::AUTHORIZATION};
use tokio::{
    sync::{OnceCell, oneshot},
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{Agent, Answer, Closing, Reply, Request, build::BuildError};
use crate::{
    accept::{Failure, Rejection},
    child::env::Env,
    contract::endpoint::Headers,
    endpoint::{self, Secrets},
};

mod call;
mod card;
mod dialect;
mod heard;

use card::Peer;
use dialect::Method;
use heard::{Heard, Standing};

/// How long it may take to say that an answer is not waited for any more.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long to wait before a task is asked after: first, and at most.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const LAST_LOOK: Duration = Duration::from_secs(5);
/// How often in a row a task may be asked after in vain.
const LOOKS: u32 = 5;

/// A remote agent that can be asked.
pub struct A2a {
    remote: Arc<Remote>,
    /// Exchanges under way, some of which nobody waits for any more.
    exchanges: Mutex<JoinSet<()>>,
}

/// What all exchanges with one remote agent have in common.
struct Remote {
    http: Client,
    card: Url,
    endpoint: Option<Url>,
    allow_plain_http: bool,
    secrets: Secrets,
    /// The longest silence.
    idle: Duration,
    peer: OnceCell<Peer>,
}

/// Where a remote agent is.
#[derive(Debug)]
pub struct Place<'a> {
    /// The address of its card, or of what the card lies under.
    pub url: &'a str,
    /// Where it answers, if the card is not to say that.
    pub endpoint: Option<&'a str>,
    /// The variable of the key that is sent as a bearer token, if there is one.
    pub api_key_env: Option<&'a str>,
    pub headers: &'a Headers,
    pub allow_plain_http: bool,
    pub idle_timeout: Duration,
}

impl A2a {
    /// # Errors
    /// An address, a key or a header that cannot be used.
    pub fn new(place: &Place<'_>, env: &Env) -> Result<A2a, BuildError> {
        let card = endpoint::address(place.url, place.allow_plain_http)?;
        let card = card::address(card);
        let its = |it| endpoint::address(it, place.allow_plain_http);
        let endpoint = place.endpoint.map(its).transpose()?;
        let mut secrets = Secrets::default();
        let mut headers =
            endpoint::headers(place.headers, env, &mut secrets).map_err(BuildError::BadHeader)?;
        if let Some(variable) = place.api_key_env {
            let variable = variable.to_owned();
            let Some(key) = env.text(&variable) else {
                return Err(BuildError::MissingKey { variable });
            };
            secrets.add(&key);
            let Some(value) = endpoint::bearer(&key) else {
                return Err(BuildError::BadKey { variable });
            };
            headers.insert(AUTHORIZATION, value);
        }
        let http = endpoint::client(headers);
        let http = http.map_err(|error| endpoint::bad(&card, error.to_string()))?;
        let remote = Remote {
            http,
            card,
            endpoint,
            allow_plain_http: place.allow_plain_http,
            secrets,
            idle: place.idle_timeout,
            peer: OnceCell::new(),
        };
        Ok(A2a {
            remote: Arc::new(remote),
            exchanges: Mutex::default(),
        })
    }

    fn spawn(&self, exchange: impl Future<Output = ()> + Send + 'static) {
        let mut exchanges = self.exchanges();
        while exchanges.try_join_next().is_some() {}
        exchanges.spawn(exchange);
    }

    fn exchanges(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        // A set is never half changed.
        self.exchanges
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Agent for A2a {
    fn identity(&self) -> Vec<u8> {
        let Remote { card, endpoint, .. } = &*self.remote;
        format!("{card} {endpoint:?}").into_bytes()
    }

    fn ask(&self, request: Request) -> Answer {
        let exchange = Exchange {
            remote: Arc::clone(&self.remote),
            standing: Standing::unsent(),
            request,
        };
        let (waits, gone) = oneshot::channel();
        let (tell, told) = oneshot::channel();
        // On its own, so that it can say goodbye when the answer is dropped.
        self.spawn(exchange.hold(tell, gone));
        Box::pin(async move {
            let _waits: oneshot::Sender<()> = waits;
            told.await.unwrap_or_else(|_| {
                let message = "the exchange with the agent broke inside the engine";
                Err(Rejection::new(Failure::Internal, message))
            })
        })
    }

    fn close(&self) -> Closing {
        let exchanges = std::mem::take(&mut *self.exchanges());
        Box::pin(async move {
            exchanges.join_all().await;
        })
    }
}

/// One question, and what comes of it.
struct Exchange {
    remote: Arc<Remote>,
    standing: Standing,
    request: Request,
}

impl Exchange {
    /// Goes on until there is an answer, or until nobody waits for it.
    async fn hold(
        self,
        tell: oneshot::Sender<Result<Reply, Rejection>>,
        gone: oneshot::Receiver<()>,
    ) {
        let mut talk = pin!(self.talk());
        tokio::select! {
            came = &mut talk => {
                // Whoever waited may be gone by now.
                let _ = tell.send(came);
                let _ = timeout(FAREWELL, self.cancel()).await;
            }
            _ = gone => {
                let farewell = async {
                    // What was sent has no name before the other side gives it one.
                    tokio::select! {
                        _ = &mut talk => (),
                        () = self.standing.named() => (),
                    }
                    self.cancel().await;
                };
                let _ = timeout(FAREWELL, farewell).await;
            }
        }
    }

    async fn talk(&self) -> Result<Reply, Rejection> {
        let peer = self.remote.peer().await?;
        let mut heard = Heard::new(&self.standing, self.request.max_output_bytes);
        let message = peer.dialect.message(&self.request, !peer.streams);
        self.standing.send();
        let came = match peer.streams {
            true => self.remote.stream(peer, message, &mut heard).await,
            false => {
                let came = self.remote.call(peer, Method::Send, message, &mut heard);
                came.await.map_err(|it| it.0)
            }
        };
        match came {
            // A task is there whatever becomes of the connection.
            Err(rejection) if rejection.failure != Failure::Connection => return Err(rejection),
            Err(rejection) if self.standing.open().is_none() && !heard.is_over() => {
                return Err(rejection);
            }
            _ => (),
        }
        if !heard.is_over() {
            self.look(peer, &mut heard).await?;
        }
        heard.answer(&self.request, |said| self.remote.said(said))
    }

    /// Asks after a task until it is over.
    async fn look(&self, peer: &Peer, heard: &mut Heard<'_>) -> Result<(), Rejection> {
        let mut wait = FIRST_LOOK;
        let mut in_vain = 0;
        while !heard.is_over() {
            let Some(id) = self.standing.open() else {
                let message = "the agent's answer is neither a message nor a task";
                return Err(Rejection::new(Failure::Connection, message));
            };
            sleep(wait).await;
            wait = (wait * 2).min(LAST_LOOK);
            let params = peer.dialect.task(&id);
            let came = self.remote.call(peer, Method::Get, params, heard).await;
            in_vain = match came {
                Ok(()) => 0,
                Err((rejection, _)) if !rejection.failure.is_worth_a_retry() => {
                    return Err(rejection);
                }
                Err((rejection, is_answer)) => match in_vain + 1 {
                    n if is_answer || n == LOOKS => return Err(rejection),
                    n => n,
                },
            };
        }
        Ok(())
    }

    /// Tells the other side that a task of it is not wanted any more, if it is not over.
    async fn cancel(&self) {
        let (Some(id), Some(peer)) = (self.standing.open(), self.remote.peer.get()) else {
            return;
        };
        let params = peer.dialect.task(&id);
        let nothing = Standing::unsent();
        let mut heard = Heard::new(&nothing, 0);
        // Where it fails there is nobody left to tell.
        let _ = self
            .remote
            .call(peer, Method::Cancel, params, &mut heard)
            .await;
    }
}

#[cfg(test)]
mod tests;
