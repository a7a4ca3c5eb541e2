//! A model behind an OpenAI-compatible endpoint: chat completions.
//!
//! **Invariant:** the key is in the request's header and nowhere else: in no message, error or event.
//! **Invariant:** whether to try again is the engine's decision. The client's own retries are off.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    num::NonZeroU64,
    sync::{
        Arc, Once,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use async_openai::{
    Client,
    config::{Config, OpenAIConfig},
    error::OpenAIError,
};
use reqwest::{Url, header::HeaderValue, redirect};
use serde_json::{Value, json};

use super::{Agent, Answer, Request, build::BuildError, env::Env};
use crate::{contract::runtime::Structured, shape::Shape};

mod answer;
mod http;
mod later;
mod meaning;
mod stream;

const OPENAI: &str = "https://api.openai.com/v1";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest name of a schema that OpenAI takes.
const MAX_NAME: usize = 64;

/// A model that can be asked.
pub struct OpenAi {
    http: reqwest::Client,
    config: OpenAIConfig,
    /// What every request says.
    body: Value,
    structured: Structured,
    stream: bool,
    idle_timeout: Duration,
    /// Whether the endpoint takes `stream_options`, as far as it is known.
    takes_options: Arc<AtomicBool>,
    /// Empty if there is none.
    key: Arc<str>,
}

/// How a model is asked.
#[derive(Debug)]
pub struct Settings<'a> {
    /// Without it, the environment variable `MOZAIKS_MODEL`.
    pub model: Option<&'a str>,
    /// Without it, the environment variable `OPENAI_BASE_URL`; without that, OpenAI's own.
    pub base_url: Option<&'a str>,
    /// Without it, `OPENAI_API_KEY`.
    pub api_key_env: Option<&'a str>,
    pub temperature: Option<f64>,
    pub max_output_tokens: Option<NonZeroU64>,
    pub structured: Structured,
    pub stream: bool,
    /// The longest silence.
    pub idle_timeout: Duration,
    /// Goes over every other field but the messages and the response format.
    pub extra_body: &'a BTreeMap<String, Value>,
}

impl OpenAi {
    /// # Errors
    /// There is no model or no key, or the endpoint's address cannot be used.
    pub fn new(settings: &Settings<'_>, env: &Env) -> Result<OpenAi, BuildError> {
        let url = endpoint(settings, env)?;
        let key = key(settings, env, &url)?;
        let body = body(settings, env, &url)?;
        let http = http_client().map_err(|error| bad(&url, error.to_string()))?;
        // Nothing is taken from the environment but what `env` gives.
        let config = OpenAIConfig::new()
            .with_org_id("")
            .with_project_id("")
            .with_api_base(url.as_str().trim_end_matches('/'))
            .with_api_key(match key.as_str() {
                "" => "none",
                key => key,
            });
        Ok(OpenAi {
            http,
            config,
            body,
            structured: settings.structured,
            stream: settings.stream,
            idle_timeout: settings.idle_timeout,
            takes_options: Arc::new(AtomicBool::new(true)),
            key: key.into(),
        })
    }

    fn body(&self, request: &Request) -> Value {
        let mut body = self.body.clone();
        let mut system = request.prompt.system.clone();
        if let Some(shape) = &request.shape {
            match self.structured {
                Structured::JsonSchema => body["response_format"] = response_format(shape),
                Structured::JsonObject => {
                    body["response_format"] = json!({ "type": "json_object" });
                    system.push_str(&in_words(shape));
                }
                Structured::Prompt => system.push_str(&in_words(shape)),
            }
        }
        let system = system.trim_start();
        let mut messages = Vec::new();
        if !system.is_empty() {
            messages.push(json!({ "role": "system", "content": system }));
        }
        messages.push(json!({ "role": "user", "content": request.prompt.user }));
        body["messages"] = Value::Array(messages);
        if self.stream && body.get("stream").is_none() {
            body["stream"] = json!(true);
        }
        body
    }
}

impl Agent for OpenAi {
    fn identity(&self) -> Vec<u8> {
        format!("{} {}", self.config.api_base(), self.body).into_bytes()
    }

    fn ask(&self, request: Request) -> Answer {
        let once = http::Once::new(
            self.http.clone(),
            request.max_output_bytes,
            self.idle_timeout,
        );
        let client = Client::build(self.http.clone(), self.config.clone()).with_http_service(once);
        let key = Arc::clone(&self.key);
        let plain = self.body(&request);
        let is_streamed = plain["stream"] == json!(true);
        let takes_options = Arc::clone(&self.takes_options);
        Box::pin(async move {
            let ask = async |body: Value| -> Result<Value, OpenAIError> {
                client.chat().create_byot(body).await
            };
            let mut answer = None;
            if is_streamed && takes_options.load(Relaxed) {
                let mut body = plain.clone();
                if body.get("stream_options").is_none() {
                    body["stream_options"] = json!({ "include_usage": true });
                }
                answer = match ask(body).await {
                    Err(error) if http::is_about(&error, "stream_options") => {
                        takes_options.store(false, Relaxed);
                        None
                    }
                    other => Some(other),
                };
            }
            let answer = match answer {
                Some(answer) => answer,
                None => ask(plain).await,
            };
            let answer = answer.map_err(|error| http::rejection(&error, &key))?;
            answer::read(&answer, &request, &key)
        })
    }
}

fn endpoint(settings: &Settings<'_>, env: &Env) -> Result<Url, BuildError> {
    let given = settings.base_url.map(str::to_owned);
    let given = given.or_else(|| env.text("OPENAI_BASE_URL"));
    let given = given.unwrap_or_else(|| OPENAI.to_owned());
    let url = Url::parse(&given).map_err(|error| BuildError::BadUrl {
        url: given,
        why: error.to_string(),
    })?;
    if !url.username().is_empty() || url.password().is_some() {
        let mut url = url;
        // Fails only for addresses without a host, which have no user either.
        let _ = url.set_password(None).and_then(|()| url.set_username(""));
        let why = "a name or password in it would be shown; keys go into the environment";
        return Err(bad(&url, why.to_owned()));
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        "http" => {
            let why = "plain http is for this machine only, as 127.0.0.1 or localhost";
            Err(bad(&url, why.to_owned()))
        }
        other => Err(bad(
            &url,
            format!("`{other}` is neither `https` nor `http`"),
        )),
    }
}

fn bad(url: &Url, why: String) -> BuildError {
    let url = url.to_string();
    BuildError::BadUrl { url, why }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse();
    host == "localhost" || address.is_ok_and(|it: IpAddr| it.is_loopback())
}

fn key(settings: &Settings<'_>, env: &Env, url: &Url) -> Result<String, BuildError> {
    let variable = settings.api_key_env.unwrap_or("OPENAI_API_KEY").to_owned();
    match env.text(&variable) {
        // The client takes for granted that a key can be a header.
        Some(key) if HeaderValue::from_str(&key).is_err() => Err(BuildError::BadKey { variable }),
        Some(key) => Ok(key),
        None if is_loopback(url) => Ok(String::new()),
        None => Err(BuildError::MissingKey { variable }),
    }
}

fn body(settings: &Settings<'_>, env: &Env, url: &Url) -> Result<Value, BuildError> {
    let model = settings.model.map(str::to_owned);
    let model = model.or_else(|| env.text("MOZAIKS_MODEL"));
    let model = model.ok_or(BuildError::MissingModel)?;
    let mut body = json!({ "model": model });
    if let Some(temperature) = settings.temperature {
        body["temperature"] = json!(temperature);
    }
    if let Some(limit) = settings.max_output_tokens {
        // OpenAI's newer models refuse the name that all other endpoints know.
        let name = match url.host_str() {
            Some("api.openai.com") => "max_completion_tokens",
            _ => "max_tokens",
        };
        body[name] = json!(limit);
    }
    for (name, value) in settings.extra_body {
        body[name] = value.clone();
    }
    Ok(body)
}

fn http_client() -> Result<reqwest::Client, reqwest::Error> {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // Fails only if another one is installed, which does as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        // A key is for the endpoint it was given to.
        .redirect(redirect::Policy::none())
        .build()
}

fn response_format(shape: &Shape) -> Value {
    let (schema, strict) = match shape.strict_schema() {
        Ok(schema) => (schema, true),
        Err(_) => (shape.json_schema(), false),
    };
    let allowed = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    let name = shape.name().chars().take(MAX_NAME);
    let name: String = name.map(|it| if allowed(it) { it } else { '_' }).collect();
    json!({
        "type": "json_schema",
        "json_schema": { "name": name, "schema": schema, "strict": strict },
    })
}

fn in_words(shape: &Shape) -> String {
    format!(
        "\n\nAnswer with one JSON value, and nothing else, that fits this JSON Schema:\n{}",
        shape.json_schema()
    )
}

#[cfg(test)]
mod tests;
