//! One model at one endpoint.

use std::{collections::BTreeMap, num::NonZeroU64, sync::Arc, time::Duration};

use async_openai::{
    Client,
    config::{Config, OpenAIConfig},
    error::OpenAIError,
};
use reqwest::{Url, header::HeaderValue};
use serde_json::{Value, json};

use super::{
    super::{SoFar, Usage, build::BuildError, env::Env, in_words},
    answer, chat, http,
    known::{Known, Learnt, Way},
    responses,
    talk::{Heard, Talk, plain},
};
use crate::{
    accept::{Failure, Rejection},
    contract::{
        endpoint::Headers,
        runtime::{Api, Structured},
    },
    endpoint::{self, Secrets},
    shape::Shape,
};

const OPENAI: &str = "https://api.openai.com/v1";
/// Where the key is of those who name no variable.
pub const OPENAI_KEY: &str = "OPENAI_API_KEY";
/// The longest name of a schema that OpenAI takes.
const MAX_NAME: usize = 64;

/// How a model is asked.
#[derive(Debug, Clone)]
pub struct Settings<'a> {
    /// Without it, the environment variable `MOZAIKS_MODEL`.
    pub model: Option<&'a str>,
    /// Without it, the environment variable `OPENAI_BASE_URL`; without that, OpenAI's own.
    pub base_url: Option<&'a str>,
    /// Without it, `OPENAI_API_KEY`.
    pub api_key_env: Option<&'a str>,
    /// Whether it has no key, because that one is for another endpoint.
    pub is_keyless: bool,
    pub api: Api,
    pub headers: &'a Headers,
    pub allow_plain_http: bool,
    pub temperature: Option<f64>,
    pub max_output_tokens: Option<NonZeroU64>,
    pub structured: Structured,
    pub stream: bool,
    /// The longest silence.
    pub idle_timeout: Duration,
    /// How often it may call tools before it answers.
    pub max_tool_rounds: usize,
    /// Goes over every other field but the messages, the response format and the tools.
    pub extra_body: &'a BTreeMap<String, Value>,
}

/// A model that can be asked.
pub(super) struct Model {
    http: reqwest::Client,
    config: OpenAIConfig,
    /// What every request says.
    body: Value,
    api: Api,
    structured: Structured,
    stream: bool,
    idle_timeout: Duration,
    pub(super) max_tool_rounds: usize,
    learnt: Arc<Learnt>,
    /// The key, and what else must not be shown.
    secrets: Secrets,
    /// The variable without a key.
    no_key: Option<String>,
    /// What the endpoint knows it by.
    pub(super) name: Arc<str>,
}

impl Model {
    pub(super) fn new(
        settings: &Settings<'_>,
        env: &Env,
        known: &Known,
    ) -> Result<Model, BuildError> {
        let url = address(settings, env)?;
        let key = key(settings, env, &url)?;
        let body = body(settings, env, &url)?;
        let name: Arc<str> = body["model"].as_str().unwrap_or_default().into();
        let mut secrets = Secrets::default();
        secrets.add(&key);
        let headers = endpoint::headers(settings.headers, env, &mut secrets)?;
        let http = endpoint::client(headers);
        let http = http.map_err(|error| endpoint::bad(&url, error.to_string()))?;
        // Nothing is taken from the environment but what `env` gives.
        let config = OpenAIConfig::new()
            .with_org_id("")
            .with_project_id("")
            .with_api_base(url.as_str().trim_end_matches('/'))
            .with_api_key(match key.as_str() {
                "" => "none",
                key => key,
            });
        Ok(Model {
            http,
            config,
            body,
            api: settings.api,
            structured: settings.structured,
            stream: settings.stream,
            idle_timeout: settings.idle_timeout,
            max_tool_rounds: settings.max_tool_rounds,
            learnt: known.of(url.as_str(), &name),
            secrets,
            no_key: (key.is_empty() && !settings.is_keyless).then(|| variable(settings)),
            name,
        })
    }

    /// An endpoint on this machine may want no key; where it does, what is missing is named.
    fn without_key(&self, rejection: Rejection) -> Rejection {
        match &self.no_key {
            Some(variable) if rejection.failure == Failure::Authentication => {
                let message = format!(
                    "{}; `{variable}`, which is to hold the key, is not set",
                    rejection.message
                );
                Rejection {
                    message,
                    ..rejection
                }
            }
            _ => rejection,
        }
    }

    /// What its answers follow from that no request says.
    pub(super) fn identity(&self) -> String {
        format!("{} {}", self.config.api_base(), self.body)
    }

    /// Asks once, and says what was used.
    ///
    /// # Errors
    /// There is no answer, or none that could be read. What it used is counted all the same.
    pub(super) async fn ask(
        &self,
        talk: &Talk<'_>,
        so_far: &SoFar,
    ) -> Result<(Heard, Usage), Rejection> {
        let forced = match self.structured {
            Structured::Strict => Some(Way::Strict),
            Structured::JsonObject => Some(Way::JsonObject),
            Structured::Prompt => Some(Way::Prompt),
            Structured::Auto => None,
        };
        let Some(shape) = talk.request.shape.as_deref().filter(|_| forced.is_none()) else {
            let way = forced.unwrap_or(Way::Prompt);
            return self.ask_by(way, talk, so_far).await;
        };
        let mut way = self.learnt.way();
        let mut refused = None;
        loop {
            match (self.ask_by(way, talk, so_far).await, way.next()) {
                // It may be about something else: then the last way is refused as well, and nothing was learnt.
                (Err(rejection), Some(next)) if rejection.failure == Failure::BadRequest => {
                    refused.get_or_insert(rejection);
                    way = next;
                }
                (Err(rejection), _) if rejection.failure == Failure::BadRequest => {
                    return Err(refused.unwrap_or(rejection));
                }
                (answer, _) => {
                    self.learn(way, shape, &answer);
                    return answer;
                }
            }
        }
    }

    /// What an answer says of the endpoint. One that promises a schema and sends what is no JSON object ignores it.
    fn learn(&self, way: Way, shape: &Shape, answer: &Result<(Heard, Usage), Rejection>) {
        let Ok((heard, _)) = answer else { return };
        self.learnt.at_most(way);
        let is_object = || {
            let value = serde_json::from_str::<Value>(&heard.text);
            value.is_ok_and(|it| it.is_object())
        };
        let is_bound = way == Way::Strict && shape.strict_schema().is_ok();
        if is_bound && heard.calls.is_empty() && !is_object() {
            self.learnt.at_most(Way::JsonObject);
        }
    }

    async fn ask_by(
        &self,
        way: Way,
        talk: &Talk<'_>,
        so_far: &SoFar,
    ) -> Result<(Heard, Usage), Rejection> {
        let most = talk.request.max_output_bytes;
        let once = http::Once::new(self.http.clone(), most, self.idle_timeout, so_far);
        let client = Client::build(self.http.clone(), self.config.clone()).with_http_service(once);
        let ask = async |body: Value| -> Result<Value, OpenAIError> {
            match self.api {
                Api::Chat => client.chat().create_byot(body).await,
                Api::Responses => client.responses().create_byot(body).await,
            }
        };
        let plain = self.body(way, talk);
        let mut answer = None;
        let is_streamed = plain["stream"] == json!(true) && self.api == Api::Chat;
        if is_streamed && self.learnt.takes_options() {
            let mut body = plain.clone();
            if body.get("stream_options").is_none() {
                body["stream_options"] = json!({ "include_usage": true });
            }
            answer = match ask(body).await {
                Err(error) if http::is_about(&error, "stream_options") => {
                    self.learnt.refuses_options();
                    None
                }
                other => Some(other),
            };
        }
        let answer = match answer {
            Some(answer) => answer,
            None => ask(plain).await,
        };
        let answer =
            answer.map_err(|error| self.without_key(http::rejection(&error, &self.secrets)))?;
        let (heard, usage) = match self.api {
            Api::Chat => answer::read(&answer, &self.secrets),
            Api::Responses => responses::read(&answer, &self.secrets),
        }?;
        Ok((heard.without(&self.secrets), usage))
    }

    fn body(&self, way: Way, talk: &Talk<'_>) -> Value {
        let mut body = self.body.clone();
        let mut system = talk.request.prompt.system.clone();
        if let Some(shape) = &talk.request.shape {
            match way {
                Way::Strict => self.set_format(&mut body, response_format(shape)),
                Way::JsonObject => {
                    self.set_format(&mut body, json!({ "type": "json_object" }));
                    system.push_str(&in_words(shape));
                }
                Way::Prompt => system.push_str(&in_words(shape)),
            }
        }
        let system = system.trim_start();
        let tools = match self.api {
            Api::Chat => {
                body["messages"] = chat::messages(talk, system);
                chat::tools(talk)
            }
            Api::Responses => {
                if !system.is_empty() {
                    body["instructions"] = json!(system);
                }
                body["input"] = responses::input(talk);
                responses::tools(talk)
            }
        };
        if !talk.tools.is_empty() {
            body["tools"] = tools;
        }
        if self.stream {
            body["stream"] = json!(true);
        }
        body
    }

    /// Where an API wants to be told what the answer has to be.
    fn set_format(&self, body: &mut Value, mut format: Value) {
        match self.api {
            Api::Chat => body["response_format"] = format,
            Api::Responses => {
                // The same, a level flatter.
                if let Value::Object(inner) = format["json_schema"].take() {
                    format = Value::Object(inner);
                    format["type"] = json!("json_schema");
                } else if let Some(fields) = format.as_object_mut() {
                    fields.remove("json_schema");
                }
                // The author may have said how it is to be worded.
                if !body["text"].is_object() {
                    body["text"] = json!({});
                }
                body["text"]["format"] = format;
            }
        }
    }
}

fn address(settings: &Settings<'_>, env: &Env) -> Result<Url, BuildError> {
    let given = settings.base_url.map(str::to_owned);
    let given = given.or_else(|| env.text("OPENAI_BASE_URL"));
    let given = given.unwrap_or_else(|| OPENAI.to_owned());
    Ok(endpoint::address(&given, settings.allow_plain_http)?)
}

/// Where the key is.
fn variable(settings: &Settings<'_>) -> String {
    settings.api_key_env.unwrap_or(OPENAI_KEY).to_owned()
}

fn key(settings: &Settings<'_>, env: &Env, url: &Url) -> Result<String, BuildError> {
    if settings.is_keyless {
        return match endpoint::is_loopback(url) {
            true => Ok(String::new()),
            false => Err(BuildError::KeyOfAnother),
        };
    }
    let variable = variable(settings);
    match env.text(&variable) {
        // The client takes for granted that a key can be a header.
        Some(key) if HeaderValue::from_str(&key).is_err() => Err(BuildError::BadKey { variable }),
        Some(key) => Ok(key),
        None if endpoint::is_loopback(url) => Ok(String::new()),
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
            _ if settings.api == Api::Responses => "max_output_tokens",
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

fn response_format(shape: &Shape) -> Value {
    let (schema, strict) = match shape.strict_schema() {
        Ok(schema) => (schema, true),
        Err(_) => (shape.json_schema(), false),
    };
    let name = plain(shape.name(), MAX_NAME);
    json!({
        "type": "json_schema",
        "json_schema": { "name": name, "schema": schema, "strict": strict },
    })
}
