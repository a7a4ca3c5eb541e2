//! A MiniJinja template over the context makes the answer.
//!
//! **Invariant:** a rendering is bounded by its fuel, and reads nothing but the request's view.

use std::sync::Arc;

use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, Value,
    value::{self, Enumerator, Object, ObjectRepr},
};
use regex::Regex;

use super::{Agent, Answer, Reply, Request, Usage, capped};
use crate::{
    accept::{Failure, Rejection},
    context::View,
    contract::runtime::TemplateOutput,
    diagnostic::closest,
};

const NAME: &str = "template";

pub struct Template {
    environment: Arc<Environment<'static>>,
    output: TemplateOutput,
}

impl Template {
    /// Compiles a template.
    ///
    /// # Errors
    /// Where it does not compile, and why.
    pub fn new(text: String, output: TemplateOutput, fuel: u64) -> Result<Template, String> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_fuel(Some(fuel));
        environment.add_filter("regex_findall", regex_findall);
        environment.add_filter("regex_replace", regex_replace);
        environment.add_filter("regex_split", regex_split);
        environment.add_filter("chunk_text", chunk_text);
        environment.add_filter("fromjson", fromjson);
        environment
            .add_template_owned(NAME, text)
            .map_err(|error| describe(&error))?;
        Ok(Template {
            environment: Arc::new(environment),
            output,
        })
    }

    fn render(environment: &Environment<'_>, view: View) -> Result<String, Rejection> {
        let names: Vec<String> = view.names().into_iter().map(str::to_owned).collect();
        let template = environment.get_template(NAME);
        let seen = Value::from_object(Seen(view));
        let rendered = template.and_then(|it| it.render(seen));
        rendered.map_err(|error| {
            let mut message = describe(&error);
            if error.kind() == ErrorKind::UndefinedError {
                message.push_str(&format!("; there are {}", names.join(", ")));
                let unknown = error
                    .detail()
                    .and_then(|it| it.split('\'').nth(1))
                    .unwrap_or_default();
                if let Some(near) = closest(unknown, &names) {
                    message.push_str(&format!("; did you mean `{near}`?"));
                }
            }
            Rejection::new(Failure::TemplateFailed, message)
        })
    }
}

impl Agent for Template {
    fn reads_prompt(&self) -> bool {
        false
    }

    fn ask(&self, request: Request) -> Answer {
        let environment = Arc::clone(&self.environment);
        let output = self.output;
        Box::pin(async move {
            // Bounded by its fuel, so it may hold its thread that long.
            let text = Template::render(&environment, request.view.clone())?;
            if output == TemplateOutput::Json {
                let read: Result<serde::de::IgnoredAny, _> = serde_json::from_str(&text);
                if let Err(error) = read {
                    let message = format!("the template did not make JSON: {error}");
                    return Err(Rejection::new(Failure::TemplateFailed, message));
                }
            }
            let usage = Usage::default();
            Ok(Reply {
                text: capped(text, &request)?,
                usage,
            })
        })
    }
}

/// The view as a template sees it: a variable costs something only when it is used.
#[derive(Debug)]
struct Seen(View);

impl Object for Seen {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        if key.as_str() == Some("variables") {
            let all = Arc::clone(self);
            return Some(Value::from_function(move || {
                Value::from_dyn_object(Arc::clone(&all))
            }));
        }
        let found = self.0.get(key.as_str()?)?;
        Some(Value::from(value::Serde(found.as_ref())))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let names = self.0.names().into_iter();
        Enumerator::Values(names.map(Value::from).collect())
    }
}

fn describe(error: &Error) -> String {
    let line = error
        .line()
        .map(|it| format!(" in line {it}"))
        .unwrap_or_default();
    match error.detail() {
        Some(detail) => format!("{}{line}: {detail}", error.kind()),
        None => format!("{}{line}", error.kind()),
    }
}

fn regex(pattern: &str) -> Result<Regex, Error> {
    let compiled = regex::RegexBuilder::new(pattern)
        .size_limit(1 << 20)
        .build();
    compiled.map_err(|error| {
        Error::new(
            ErrorKind::InvalidOperation,
            format!("`{pattern}` is no pattern: {error}"),
        )
    })
}

fn regex_findall(text: &str, pattern: &str) -> Result<Vec<String>, Error> {
    let regex = regex(pattern)?;
    Ok(regex
        .find_iter(text)
        .map(|it| it.as_str().to_owned())
        .collect())
}

fn regex_replace(text: &str, pattern: &str, with: &str) -> Result<String, Error> {
    Ok(regex(pattern)?.replace_all(text, with).into_owned())
}

fn regex_split(text: &str, pattern: &str) -> Result<Vec<String>, Error> {
    Ok(regex(pattern)?.split(text).map(str::to_owned).collect())
}

fn fromjson(text: &str) -> Result<Value, Error> {
    let value: Result<serde_json::Value, _> = serde_json::from_str(text);
    let value = value
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, format!("not JSON: {error}")))?;
    Ok(Value::from(value::Serde(&value)))
}

/// Cuts a text into pieces of about `size` characters, at a paragraph, a line, or a word where there is one.
fn chunk_text(text: &str, size: usize) -> Vec<String> {
    let size = size.max(1);
    let mut pieces = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let end = rest
            .char_indices()
            .nth(size)
            .map_or(rest.len(), |(at, _)| at);
        let head = &rest[..end];
        let cut = if end == rest.len() {
            end
        } else {
            let half = head.char_indices().nth(size / 2).map_or(0, |(at, _)| at);
            let after = |pattern: &str| head.rfind(pattern).map(|at| at + pattern.len());
            let cuts = [after("\n\n"), after("\n"), after(". "), after(" ")];
            cuts.into_iter()
                .flatten()
                .find(|it| *it > half)
                .unwrap_or(end)
        };
        let piece = rest[..cut].trim();
        if !piece.is_empty() {
            pieces.push(piece.to_owned());
        }
        rest = rest[cut..].trim_start();
    }
    pieces
}
