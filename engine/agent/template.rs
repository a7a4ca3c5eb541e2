//! A MiniJinja template over the context makes the answer.
//!
//! **Invariant:** a rendering is bounded by its fuel and by the longest answer, and reads nothing but the request's view.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, PoisonError},
};

use minijinja::{
    AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, Value,
    value::{self, Enumerator, Object, ObjectRepr},
};
use serde::de::IgnoredAny;

use super::{Agent, Answer, Reply, Request, build::BuildError};
use crate::{
    accept::{Failure, Rejection},
    context::View,
    contract::runtime::TemplateOutput,
    diagnostic::closest,
    prompt,
};

mod filters;

const NAME: &str = "template";
/// The function that gives all variables by name.
const ALL: &str = "variables";
/// How much of a text that is not JSON is shown, in bytes.
const SHOWN: usize = 60;

/// A template that can be rendered.
#[derive(Debug)]
pub struct Template {
    environment: Arc<Environment<'static>>,
    output: TemplateOutput,
}

impl Template {
    /// Compiles a template. A rendering of it takes at most `fuel` steps.
    ///
    /// # Errors
    /// [`BuildError::Template`]: it does not compile.
    pub fn new(text: String, output: TemplateOutput, fuel: u64) -> Result<Template, BuildError> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_fuel(Some(fuel));
        filters::add_to(&mut environment);
        let added = environment.add_template_owned(NAME, text);
        added.map_err(|error| BuildError::Template {
            message: what(&error),
            line: error.line(),
        })?;
        Ok(Template {
            environment: Arc::new(environment),
            output,
        })
    }

    /// What the template makes of a request's view, as text.
    ///
    /// # Errors
    /// It cannot be rendered, or makes more than the request allows.
    pub(super) fn text(&self, request: &Request) -> Result<String, Rejection> {
        let view = request.view.clone();
        render(&self.environment, view, request.max_output_bytes)
    }
}

impl Agent for Template {
    fn identity(&self) -> Vec<u8> {
        let template = self.environment.get_template(NAME);
        template.map_or_else(|_| Vec::new(), |it| it.source().as_bytes().to_vec())
    }

    fn reads_prompt(&self) -> bool {
        false
    }

    fn ask(&self, request: Request) -> Answer {
        let environment = Arc::clone(&self.environment);
        let output = self.output;
        Box::pin(async move {
            // Bounded, and mostly shorter than a change of threads: it may hold its thread that long.
            let text = render(&environment, request.view, request.max_output_bytes)?;
            if output == TemplateOutput::Json {
                check_json(&text)?;
            }
            Ok(Reply {
                text,
                ..Reply::default()
            })
        })
    }
}

fn render(environment: &Environment<'_>, view: View, limit: usize) -> Result<String, Rejection> {
    let names: Vec<String> = view.names().into_iter().map(str::to_owned).collect();
    let mut page = Page::up_to(limit);
    let template = environment.get_template(NAME);
    let seen = Value::from_object(Seen::new(view));
    let rendered = template.and_then(|it| it.render_captured_to(seen, &mut page).map(|_| ()));
    if page.is_full {
        let message = format!("the template makes more than the {limit} bytes that are allowed");
        return Err(Rejection::new(Failure::TooLong, message));
    }
    let text = String::from_utf8(page.bytes);
    match (rendered, text) {
        (Ok(()), Ok(text)) => Ok(text),
        (Err(error), _) => Err(failed(&error, &names)),
        (Ok(()), Err(error)) => Err(Rejection::new(Failure::TemplateFailed, error.to_string())),
    }
}

fn failed(error: &Error, names: &[String]) -> Rejection {
    let line = error.line().map(|it| format!("line {it}: "));
    let mut message = format!("{}{}", line.unwrap_or_default(), what(error));
    if error.kind() == ErrorKind::UndefinedError {
        let detail = error.detail().unwrap_or_default();
        let unknown = detail.split('`').nth(1).unwrap_or_default();
        // What a value lacks is none of the variables.
        if !unknown.contains(['.', '[']) {
            if let Some(near) = closest(unknown, names) {
                message.push_str(&format!("; did you mean `{near}`?"));
            }
            let names: Vec<String> = names.iter().map(|it| format!("`{it}`")).collect();
            message.push_str(&format!("; there are {}", names.join(", ")));
        }
    }
    Rejection::new(Failure::TemplateFailed, message)
}

/// An error without its place.
fn what(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

fn check_json(text: &str) -> Result<(), Rejection> {
    let read: Result<IgnoredAny, _> = serde_json::from_str(text);
    read.map(|_| ()).map_err(|error| {
        let line = text.lines().nth(error.line().saturating_sub(1));
        let line = prompt::cut(line.unwrap_or_default(), SHOWN);
        let message = format!("the template did not make JSON: {error}: `{line}`");
        Rejection::new(Failure::TemplateFailed, message)
    })
}

/// The view as a template sees it: a variable costs something only when it is used, and only once.
#[derive(Debug)]
struct Seen {
    view: View,
    used: Mutex<BTreeMap<String, Value>>,
}

impl Seen {
    fn new(view: View) -> Seen {
        let used = Mutex::default();
        Seen { view, used }
    }
}

impl Object for Seen {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let name = key.as_str()?;
        if name == ALL {
            // Made anew each time: kept, it would keep itself alive.
            let all = Arc::clone(self);
            let all = move || Value::from_dyn_object(Arc::clone(&all));
            return Some(Value::from_function(all));
        }
        // A value is put there whole or not at all.
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = used.get(name) {
            return Some(value.clone());
        }
        let found = self.view.get(name)?;
        let value = Value::from(value::Serde(found.as_ref()));
        used.insert(name.to_owned(), value.clone());
        Some(value)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let names = self.view.names().into_iter();
        Enumerator::Values(names.map(Value::from).collect())
    }
}

/// A text that takes no more than its limit.
struct Page {
    bytes: Vec<u8>,
    limit: usize,
    is_full: bool,
}

impl Page {
    fn up_to(limit: usize) -> Page {
        Page {
            bytes: Vec::new(),
            limit,
            is_full: false,
        }
    }
}

impl io::Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.limit - self.bytes.len() {
            self.is_full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
