//! A provider, as a buyer sees it.

use std::{
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use reqwest::{
    Client, Url,
    header::{AUTHORIZATION, HeaderValue},
};
use serde_json::{Value, json};
use tokio::{
    sync::{Mutex, Semaphore},
    time::{sleep, timeout},
};

use super::{
    call::Connection,
    chunks::{Chunks, Wrong},
    link::{self, Unconnected},
    streamable,
    wire::{self, Error},
};
use crate::{
    child::{Program, env::Env},
    contract::acmp::{self as written, Endpoint},
    endpoint::{self, BadUrl},
};

/// How long a provider may take to say what it can do.
const GREETING: Duration = Duration::from_secs(10);
/// How often an invocation is sent again after its connection was lost.
const RESENDS: u32 = 3;
/// How long to wait before that; twice as long each time.
const PAUSE: Duration = Duration::from_millis(100);
/// How many heartbeats may be missed.
const MISSED: u32 = 3;

/// Somebody who serves capabilities. Connected when it is asked first, and again when a connection was lost.
pub struct Provider {
    pub name: Arc<str>,
    endpoint: Where,
    beat: Option<Duration>,
    limit: usize,
    slots: Semaphore,
    connection: Mutex<Option<Arc<Connection>>>,
}

enum Where {
    Program(Program),
    Websocket {
        url: Url,
        bearer: Option<HeaderValue>,
    },
    Http {
        url: Url,
        client: Client,
    },
}

/// What keeps a provider from being asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unusable {
    /// The environment variable that would hold its token is not set.
    NoToken {
        variable: String,
    },
    /// The environment variable holds what no token can be.
    BadToken {
        variable: String,
    },
    BadUrl(BadUrl),
    /// The system has no certificates to trust.
    NoCertificates(String),
}

/// Why there is no result.
#[derive(Debug, Clone, PartialEq)]
pub enum Failed {
    /// The provider says so.
    Error(Error),
    /// It cannot be reached, or the connection broke.
    Lost(String),
    /// What it sent cannot be read: it would not be another time, and the task may be done.
    Unreadable(String),
    /// It said nothing of the task for so long.
    Silent(Duration),
    /// The message would be longer than it may be.
    TooLong { bytes: usize, limit: usize },
    /// Whoever is there is no provider that can be asked.
    Foreign(String),
    /// It does not let us in.
    Refused(String),
    /// What it sent is no message.
    Malformed(Error),
    /// Its chunks, or when it answers, are not as they have to be.
    OutOfOrder(String),
    /// Its chunks are more than may come.
    TooMuch(String),
    /// There is a result, which cannot be used for what its chunks are. What it says that it took was taken.
    Spoiled { what: String, result: Value },
}

/// What is known of an invocation before it is over.
#[derive(Debug, Default)]
pub struct Course {
    is_given: AtomicBool,
    stray: OnceLock<String>,
}

impl Course {
    /// Whether a provider may have the task.
    pub fn is_given(&self) -> bool {
        self.is_given.load(Ordering::Relaxed)
    }

    pub fn ends(&self) {
        self.is_given.store(false, Ordering::Relaxed);
    }

    /// Meanwhile an answer came with this id, which fits no request.
    pub(super) fn strays(&self, id: &Value) {
        self.stray.get_or_init(|| {
            let id = crate::prompt::cut(&id.to_string(), 60);
            format!("sent an answer with the id {id}, which no request has")
        });
    }

    /// What of that is told of the provider.
    pub fn stray(&self) -> Option<&str> {
        self.stray.get().map(String::as_str)
    }
}

/// What of a task goes in chunks.
#[derive(Debug, Clone, Default)]
pub struct Streams {
    /// Where its input comes from, instead of from its params.
    pub input: Option<Arc<Chunks>>,
    /// Where its output goes as it comes, if the provider gives it so.
    pub output: Option<Arc<Chunks>>,
}

/// What a provider offers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Features {
    /// How often it says that it is alive.
    beat: Option<Duration>,
    input: bool,
    output: bool,
}

impl From<Unconnected> for Failed {
    fn from(why: Unconnected) -> Failed {
        match why {
            Unconnected::Refused(why) => Failed::Refused(why),
            Unconnected::Lost(why) => Failed::Lost(why),
            Unconnected::Unreadable(why) => Failed::Unreadable(why),
            Unconnected::Malformed(error) => Failed::Malformed(error),
        }
    }
}

impl From<Wrong> for Failed {
    fn from(why: Wrong) -> Failed {
        match why {
            Wrong::OutOfOrder(what) => Failed::OutOfOrder(what),
            Wrong::TooMuch(what) => Failed::TooMuch(what),
        }
    }
}

/// What can be known to be wrong with a provider without its token.
///
/// # Errors
/// Its address cannot be used.
pub fn check(provider: &written::Provider) -> Result<(), Unusable> {
    let address = match &provider.endpoint {
        Endpoint::Stdio { .. } => return Ok(()),
        Endpoint::Http {
            url,
            allow_plain_http,
        } => endpoint::address(url, *allow_plain_http),
        Endpoint::Websocket {
            url,
            allow_plain_http,
        } => endpoint::websocket(url, *allow_plain_http),
    };
    address.map(drop).map_err(Unusable::BadUrl)
}

impl Provider {
    /// A provider that is written in a file, seen from the folder `home`.
    ///
    /// # Errors
    /// What keeps it from being asked.
    pub fn new(provider: &written::Provider, home: &Path, env: &Env) -> Result<Provider, Unusable> {
        let variable = provider.token_env.as_ref();
        let token = variable.map(|it| token(it, env)).transpose()?;
        let bearer = || token.as_ref().map(|it| it.as_bearer()).transpose();
        let endpoint = match &provider.endpoint {
            Endpoint::Http {
                url,
                allow_plain_http,
            } => {
                let url = endpoint::address(url, *allow_plain_http).map_err(Unusable::BadUrl)?;
                let headers = bearer()?.map(|it| (AUTHORIZATION, it));
                let client = endpoint::client(headers.into_iter().collect());
                let client = client.map_err(|it| Unusable::NoCertificates(it.to_string()))?;
                Where::Http { url, client }
            }
            Endpoint::Websocket {
                url,
                allow_plain_http,
            } => {
                let url = endpoint::websocket(url, *allow_plain_http).map_err(Unusable::BadUrl)?;
                let bearer = bearer()?;
                Where::Websocket { url, bearer }
            }
            Endpoint::Stdio {
                argv,
                env: allowed,
                cwd,
            } => {
                let allowed: Vec<_> = allowed.iter().chain(variable).cloned().collect();
                Where::Program(Program::new(argv, &allowed, cwd.as_deref(), home, env))
            }
        };
        Ok(Provider {
            name: provider.name.as_str().into(),
            endpoint,
            beat: provider.heartbeat_interval_ms.map(Duration::from_millis),
            limit: provider.max_message_bytes,
            slots: Semaphore::new(provider.concurrency as usize),
            connection: Mutex::default(),
        })
    }

    /// Has a task carried out. Dropped, it is cancelled. After a lost connection it is sent again with the same id, so
    /// that a provider that has it already does not do it twice; but not where its input goes in chunks.
    ///
    /// # Errors
    /// Why there is no result.
    pub async fn invoke(
        &self,
        task_id: &str,
        params: &Value,
        streams: &Streams,
        course: &Arc<Course>,
    ) -> Result<Value, Failed> {
        let slot = self.slots.acquire().await;
        let _slot = slot.expect("the slots are never closed");
        let mut resends = 0;
        loop {
            let lost = match self.connected().await {
                Ok(connection) => {
                    course.is_given.store(true, Ordering::Relaxed);
                    let invoked = self.invoked(&connection, task_id, params, (streams, course));
                    match invoked.await {
                        Err(Failed::Lost(why)) if streams.input.is_none() => why,
                        done => return done,
                    }
                }
                Err(Failed::Lost(why)) => why,
                Err(failed) => return Err(failed),
            };
            if resends == RESENDS {
                return Err(Failed::Lost(lost));
            }
            sleep(PAUSE * 2_u32.pow(resends)).await;
            resends += 1;
        }
    }

    async fn invoked(
        &self,
        connection: &Connection,
        task_id: &str,
        params: &Value,
        (streams, course): (&Streams, &Arc<Course>),
    ) -> Result<Value, Failed> {
        let (mut params, mut streams) = (params.clone(), streams.clone());
        if streams.input.is_some() {
            if !connection.features.input {
                let what = "it takes no input in chunks";
                return Err(Failed::Error(Error::new(wire::FEATURE_UNSUPPORTED, what)));
            }
            params["input_stream"] = json!(true);
            params.as_object_mut().and_then(|it| it.remove("input"));
        }
        streams.output = streams.output.filter(|_| connection.features.output);
        if let Some(output) = &streams.output {
            output.rewind();
            params["stream"] = json!(true);
        }
        let aside = (&streams, course);
        let called = connection.call(task_id, "acmp/invoke", params, self.limit, aside);
        let mut result = called.await?;
        if let Some(output) = streams.output
            && result["output_streamed"] == true
        {
            let Some(whole) = output.whole() else {
                let what = "the result came before the last chunk of the output".to_owned();
                return Err(Failed::Spoiled { what, result });
            };
            result["output"] = whole;
        }
        Ok(result)
    }

    /// Whether it is there, and takes an input in chunks.
    pub async fn takes_chunks(&self) -> bool {
        let connected = self.connected().await;
        connected.is_ok_and(|it| it.features.input)
    }

    /// Ends the connection, once what was sent has been heard.
    pub async fn close(&self) {
        let connection = self.connection.lock().await.take();
        if let Some(connection) = connection.and_then(Arc::into_inner) {
            connection.close().await;
        }
    }

    async fn connected(&self) -> Result<Arc<Connection>, Failed> {
        let mut connection = self.connection.lock().await;
        if let Some(connection) = connection.as_ref().filter(|it| !it.is_lost()) {
            return Ok(Arc::clone(connection));
        }
        let link = match &self.endpoint {
            Where::Program(program) => link::program(program, self.limit)
                .map_err(|error| Failed::Foreign(program.not_started(&error)))?,
            Where::Websocket { url, bearer } => {
                let connecting = link::connect(url, bearer.as_ref(), self.limit);
                let connected = timeout(GREETING, connecting).await;
                connected
                    .unwrap_or_else(|_| Err(Unconnected::Lost("it does not answer".to_owned())))?
            }
            Where::Http { url, client } => {
                streamable::link(url.clone(), client.clone(), self.limit)
            }
        };
        let mut made = Connection::new(link);
        made.features = self.greet(&made).await?;
        let beat = made.features.beat.or(self.beat);
        made.patience = beat.map(|it| it.saturating_mul(MISSED));
        let made = Arc::new(made);
        *connection = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Asks a provider what it can do. One that knows no greeting is taken as it was written down.
    async fn greet(&self, connection: &Connection) -> Result<Features, Failed> {
        let params = json!({
            "protocolVersion": wire::MCP_VERSION,
            "capabilities": {},
            "clientInfo": { "name": "mozaiks", "version": env!("CARGO_PKG_VERSION") },
        });
        let (whole, course) = (Streams::default(), Arc::new(Course::default()));
        let aside = (&whole, &course);
        let greeting = connection.call("initialize", "initialize", params, self.limit, aside);
        let answer = match timeout(GREETING, greeting).await {
            Err(_) => {
                let stray = course.stray().map(|it| format!(", but {it}"));
                let why = format!(
                    "it does not answer `initialize`{}",
                    stray.unwrap_or_default()
                );
                return Err(Failed::Lost(why));
            }
            Ok(Err(Failed::Error(error))) if error.code == wire::NO_METHOD => {
                return Ok(Features::default());
            }
            Ok(answer) => answer?,
        };
        connection.notify("notifications/initialized", json!({}));
        let acmp = &answer["capabilities"]["acmp"];
        let Some(version) = acmp["version"].as_str() else {
            let what = "it answers `initialize`, but is no ACMP provider";
            return Err(Failed::Foreign(what.to_owned()));
        };
        let major = |it: &str| it.split('.').next().map(str::to_owned);
        if major(version) != major(wire::VERSION) {
            let version = crate::prompt::cut(version, 20);
            let what = format!("it speaks ACMP {version}; {} is known", wire::VERSION);
            return Err(Failed::Foreign(what));
        }
        let features = &acmp["features"];
        let beat = features["heartbeat_interval_ms"].as_u64();
        Ok(Features {
            beat: beat.filter(|it| *it > 0).map(Duration::from_millis),
            input: features["input_streaming"] == true,
            output: features["output_streaming"] == true,
        })
    }
}

/// A token, and the variable that holds it.
struct Token<'a> {
    variable: &'a str,
    text: String,
}

fn token<'a>(variable: &'a str, env: &Env) -> Result<Token<'a>, Unusable> {
    let text = env.text(variable).ok_or_else(|| Unusable::NoToken {
        variable: variable.to_owned(),
    })?;
    Ok(Token { variable, text })
}

impl Token<'_> {
    fn as_bearer(&self) -> Result<HeaderValue, Unusable> {
        endpoint::bearer(&self.text).ok_or_else(|| Unusable::BadToken {
            variable: self.variable.to_owned(),
        })
    }
}
