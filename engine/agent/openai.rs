//! A model behind an OpenAI-compatible endpoint: chat completions.
//!
//! **Invariant:** the key is in the request's header and nowhere else: in no message, error or event.
//! **Invariant:** whether to try again is the engine's decision. The client's own retries are off.

use std::sync::Once;

use async_openai::{Client, config::OpenAIConfig, error::OpenAIError};
use serde_json::{Value, json};

use super::{Agent, Answer, Reply, Request, Usage, capped};
use crate::{
    accept::{Failure, Rejection},
    compile::AgentSpec,
    contract::runtime::{Runtime, Structured},
    diagnostic::{Code, Diagnostic},
    shape::Shape,
};

mod http;

use http::{Once as OnceService, refusal};

const DEFAULT_URL: &str = "https://api.openai.com/v1";

pub struct OpenAi {
    client: Client<OpenAIConfig>,
    body: Value,
    structured: Structured,
}

impl OpenAi {
    /// An agent that is asked through a model. `env` looks variables up.
    ///
    /// # Errors
    /// There is no key or no model, or the endpoint's address cannot be used.
    pub fn new(
        spec: &AgentSpec,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<OpenAi, Diagnostic> {
        let Runtime::Openai {
            model,
            base_url,
            api_key_env,
            temperature,
            max_output_tokens,
            structured,
            extra_body,
        } = &spec.runtime
        else {
            unreachable!("only `openai` agents are asked through a model");
        };
        let fault = |code, message: String| Diagnostic::error(code, message).at(spec.at.clone());
        let given = |text: String| Some(text).filter(|it| !it.trim().is_empty());
        let model = model
            .as_ref()
            .map(ToString::to_string)
            .or_else(|| env("MOZAIKS_MODEL").and_then(given));
        let model = model.ok_or_else(|| {
            let message = format!("no model is named for `{}`", spec.name);
            fault(Code::NoKey, message)
                .help("set `runtime.model`, or the environment variable `MOZAIKS_MODEL`")
        })?;
        let url = base_url.as_ref().map(ToString::to_string);
        let url = url
            .or_else(|| env("OPENAI_BASE_URL").and_then(given))
            .unwrap_or_else(|| DEFAULT_URL.to_owned());
        let place = reqwest::Url::parse(&url).map_err(|error| {
            fault(
                Code::BadInput,
                format!(
                    "the endpoint of `{}` is no address: `{url}`: {error}",
                    spec.name
                ),
            )
        })?;
        let is_loopback = matches!(place.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
        if place.scheme() != "https" && !(place.scheme() == "http" && is_loopback) {
            let message = format!(
                "the endpoint of `{}` is not reached by https: `{url}`",
                spec.name
            );
            return Err(fault(Code::BadInput, message)
                .help("plain http is for this machine only: 127.0.0.1 or localhost"));
        }
        let variable = api_key_env
            .as_ref()
            .map_or("OPENAI_API_KEY", |it| it.as_str());
        let key = match env(variable).and_then(given) {
            Some(key) => key,
            None if is_loopback => "none".to_owned(),
            None => {
                let message = format!(
                    "`{}` is asked through a model, but the environment variable `{variable}` is not set",
                    spec.name
                );
                let help = format!(
                    "set `{variable}`; the runtimes `template`, `command` and `scripted` need no key, nor does an endpoint on this machine"
                );
                return Err(fault(Code::NoKey, message).help(help));
            }
        };
        let mut body = json!({ "model": model });
        if let Some(temperature) = temperature {
            body["temperature"] = json!(temperature);
        }
        if let Some(limit) = max_output_tokens {
            body["max_tokens"] = json!(limit);
        }
        for (name, value) in extra_body {
            body[name] = value.clone();
        }
        let client = http_client()
            .map_err(|error| fault(Code::BadInput, format!("no client for `{url}`: {error}")))?;
        let config = OpenAIConfig::new()
            .with_api_base(url.trim_end_matches('/'))
            .with_api_key(key);
        let client = Client::build(client.clone(), config).with_http_service(OnceService(client));
        Ok(OpenAi {
            client,
            body,
            structured: *structured,
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
        let mut messages = Vec::new();
        if !system.trim().is_empty() {
            messages.push(json!({ "role": "system", "content": system }));
        }
        messages.push(json!({ "role": "user", "content": request.prompt.user }));
        body["messages"] = Value::Array(messages);
        body
    }
}

fn http_client() -> Result<reqwest::Client, reqwest::Error> {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // Fails only if another one is installed, which does as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    reqwest::Client::builder().build()
}

fn response_format(shape: &Shape) -> Value {
    let (schema, strict) = match shape.strict_schema() {
        Ok(schema) => (schema, true),
        Err(_) => (shape.json_schema(), false),
    };
    json!({
        "type": "json_schema",
        "json_schema": { "name": shape.name(), "schema": schema, "strict": strict },
    })
}

fn in_words(shape: &Shape) -> String {
    format!(
        "\n\nAnswer with one JSON value, and nothing else, that fits this JSON Schema:\n{}",
        shape.json_schema()
    )
}

impl Agent for OpenAi {
    fn ask(&self, request: Request) -> Answer {
        let client = self.client.clone();
        let body = self.body(&request);
        Box::pin(async move {
            let answer: Result<Value, OpenAIError> = client.chat().create_byot(body).await;
            let answer = answer.map_err(|error| refusal(&error))?;
            read(&answer, &request)
        })
    }
}

/// The message of the first choice, if it ended as a message should.
fn read(answer: &Value, request: &Request) -> Result<Reply, Rejection> {
    let count = |name: &str| {
        answer
            .pointer(&format!("/usage/{name}"))
            .and_then(Value::as_u64)
            .unwrap_or(0)
    };
    let usage = Usage {
        input_tokens: count("prompt_tokens"),
        output_tokens: count("completion_tokens"),
    };
    let Some(choice) = answer.pointer("/choices/0") else {
        let message = "the endpoint's answer has no choices";
        return Err(Rejection::new(Failure::Empty, message));
    };
    let text = choice
        .pointer("/message/content")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if let Some(reason) = choice.pointer("/message/refusal").and_then(Value::as_str) {
        return Err(Rejection::new(
            Failure::Refused,
            format!("the model declined: {}", crate::prompt::cut(reason, 500)),
        ));
    }
    match choice.get("finish_reason").and_then(Value::as_str) {
        Some("length") => {
            let message = "the answer was cut off at the limit of output tokens";
            return Err(Rejection::new(Failure::Truncated, message).with_answer(text));
        }
        Some("content_filter") => {
            return Err(Rejection::new(
                Failure::Refused,
                "the endpoint's content filter held the answer back",
            ));
        }
        _ => (),
    }
    if text.trim().is_empty() {
        return Err(Rejection::new(
            Failure::Empty,
            "the model's answer is empty",
        ));
    }
    let text = capped(text.to_owned(), request)?;
    Ok(Reply { text, usage })
}
