//! Makes the agents of a workflow ready to be asked.

use std::{
    fs,
    num::NonZeroU64,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{
    Agent, Agents, Answer, Request,
    a2a::{self, A2a},
    acmp::Acmp,
    command::{Command, Invocation},
    discreet,
    env::Env,
    human::{Human, Manner, Nobody, People, Played},
    openai::{Known, OPENAI_KEY, OpenAi, Settings},
    scripted::Scripted,
    template::Template,
};
use crate::{
    accept::{Failure, Rejection},
    acmp::buyer::{Provider, Unusable},
    compile::{AgentSpec, Workflow},
    contract::{
        name::Name,
        runtime::{Choice, Fallback, Runtime},
    },
    diagnostic::{Code, Diagnostic},
    endpoint::{BadHeader, BadUrl, Secrets},
};

mod check;

pub use check::{check, check_programs, check_providers};

/// What keeps an agent from being asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BuildError {
    /// A template that does not compile, and the line of it, from 1.
    Template {
        message: String,
        line: Option<usize>,
    },
    /// A file that cannot be read, and why.
    MissingFile { path: PathBuf, why: String },
    /// The environment variable that would hold the key is not set.
    MissingKey { variable: String },
    /// The key of a model that stands in would be that of the first, which is for another endpoint.
    KeyOfAnother,
    /// The environment variable holds what cannot be a key.
    BadKey { variable: String },
    /// No model is named.
    MissingModel,
    /// An endpoint's address that cannot be used.
    BadUrl(BadUrl),
    /// A header that cannot be sent.
    BadHeader(BadHeader),
}

impl From<BadHeader> for BuildError {
    fn from(bad: BadHeader) -> BuildError {
        BuildError::BadHeader(bad)
    }
}

impl From<BadUrl> for BuildError {
    fn from(bad: BadUrl) -> BuildError {
        BuildError::BadUrl(bad)
    }
}

/// Every agent of a workflow.
///
/// # Errors
/// What keeps agents from being asked, all of it.
pub fn all(
    workflow: &Workflow,
    people: &Arc<dyn People>,
    unasked: Option<&str>,
) -> Result<Agents, Vec<Diagnostic>> {
    all_but(workflow, people, Agents::new(), unasked)
}

/// Every agent of a workflow that is not there yet. Nobody means to ask the one that is `unasked`, so it may lack a key.
///
/// # Errors
/// What keeps agents from being asked, all of it.
pub fn all_but(
    workflow: &Workflow,
    people: &Arc<dyn People>,
    mut agents: Agents,
    unasked: Option<&str>,
) -> Result<Agents, Vec<Diagnostic>> {
    let (providers, mut faults) = providers(workflow);
    let known = Known::default();
    for spec in workflow.agents.values() {
        if agents.contains_key(&*spec.name) {
            continue;
        }
        let built = match &spec.runtime {
            Runtime::Acmp { capability } => by_providers(capability, workflow, &providers),
            Runtime::Scripted { replies, .. } => {
                Ok(Arc::new(Scripted::new(replies, &spec.at)) as Arc<dyn Agent>)
            }
            runtime => build(runtime, &spec.home, &Env::Process, &known, people),
        };
        match built {
            Ok(agent) => {
                agents.insert(spec.name.to_string(), agent);
            }
            Err(error) if error.is_about_the_environment() && unasked == Some(&*spec.name) => {
                let lacks = error.of(spec).message;
                agents.insert(spec.name.to_string(), Arc::new(Keyless(lacks)));
            }
            Err(error) => faults.push(error.of(spec)),
        }
    }
    match faults.is_empty() {
        true => Ok(discreet::all(
            agents,
            Secrets::of(workflow.keys(), &Env::Process),
        )),
        false => Err(faults),
    }
}

/// The providers that a workflow's `acmp.yaml` names, in its order. None of them is asked anything yet.
fn providers(workflow: &Workflow) -> (Vec<Arc<Provider>>, Vec<Diagnostic>) {
    let home = home_of(workflow);
    let mut faults = Vec::new();
    let written = workflow.acmp.providers.iter();
    let providers = written.filter_map(|it| match Provider::new(it, &home, &Env::Process) {
        Ok(provider) => Some(Arc::new(provider)),
        Err(unusable) => {
            faults.push(cannot_be_asked(&it.name, unusable));
            None
        }
    });
    (providers.collect(), faults)
}

/// The folder that programs of a workflow's providers start at.
fn home_of(workflow: &Workflow) -> PathBuf {
    let home = workflow.project.workflows.join(&*workflow.name);
    match home.is_dir() {
        true => home,
        false => workflow.project.root.clone(),
    }
}

fn cannot_be_asked(name: &str, unusable: Unusable) -> Diagnostic {
    let (code, message) = match unusable {
        Unusable::NoToken { variable } => (
            Code::NoKey,
            format!(
                "the token of the provider `{name}` is in the environment variable `{variable}`, which is not set"
            ),
        ),
        Unusable::BadToken { variable } => (
            Code::NoKey,
            format!(
                "the environment variable `{variable}` holds characters that no token of the provider `{name}` can have"
            ),
        ),
        Unusable::BadUrl(BadUrl { url, why }) => (
            Code::BadInput,
            format!("the provider `{name}` cannot be asked: `{url}`: {why}"),
        ),
        Unusable::NoCertificates(why) => (
            Code::BadInput,
            format!("the provider `{name}` cannot be asked: {why}"),
        ),
    };
    Diagnostic::error(code, message)
}

fn by_providers(
    capability: &str,
    workflow: &Workflow,
    providers: &[Arc<Provider>],
) -> Result<Arc<dyn Agent>, BuildError> {
    let written = &workflow.acmp.providers;
    let serves = |name: &str| {
        let mut named = written.iter().filter(|it| it.name.as_str() == name);
        named.any(|it| it.capabilities.iter().any(|it| it.as_str() == capability))
    };
    let providers = providers.iter().filter(|it| serves(&it.name));
    Ok(Arc::new(Acmp {
        capability: capability.into(),
        providers: providers.cloned().collect(),
    }))
}

/// One agent. Relative paths of its runtime start at `home`. What it finds out of endpoints is added to `known`.
///
/// # Errors
/// What keeps it from being asked.
pub fn build(
    runtime: &Runtime,
    home: &Path,
    env: &Env,
    known: &Known,
    people: &Arc<dyn People>,
) -> Result<Arc<dyn Agent>, BuildError> {
    match runtime {
        Runtime::Openai {
            provider: _,
            model,
            base_url,
            api_key_env,
            api,
            headers,
            allow_plain_http,
            fallback,
            temperature,
            max_output_tokens,
            structured,
            stream,
            idle_timeout_seconds,
            max_tool_rounds,
            extra_body,
        } => {
            let first = Settings {
                model: model.as_deref(),
                base_url: base_url.as_deref(),
                api_key_env: api_key_env.as_deref(),
                is_keyless: false,
                api: *api,
                headers,
                allow_plain_http: *allow_plain_http,
                temperature: *temperature,
                max_output_tokens: *max_output_tokens,
                structured: *structured,
                stream: *stream,
                idle_timeout: Duration::from_secs(idle_timeout_seconds.get()),
                max_tool_rounds: *max_tool_rounds as usize,
                extra_body,
            };
            let others = fallback.iter().map(|it| instead(&first, it));
            let all: Vec<Settings<'_>> = [first.clone()].into_iter().chain(others).collect();
            Ok(Arc::new(OpenAi::new(&all, env, known)?))
        }
        Runtime::Command {
            provider: _,
            argv,
            env: allowed,
            cwd,
            inline,
        } => {
            let invocation = Invocation {
                argv,
                allowed,
                cwd: cwd.as_deref(),
                inline: *inline,
            };
            Ok(Arc::new(Command::new(&invocation, home, env)))
        }
        Runtime::Template {
            template,
            template_file,
            output,
            fuel,
        } => {
            let text = match template_file {
                Some(file) => read(home.join(file.as_str()))?,
                None => template.clone().unwrap_or_default(),
            };
            Ok(Arc::new(Template::new(text, *output, fuel.get())?))
        }
        Runtime::A2a {
            url,
            endpoint,
            api_key_env,
            headers,
            allow_plain_http,
            idle_timeout_seconds,
            ..
        } => {
            let place = a2a::Place {
                url,
                endpoint: endpoint.as_deref(),
                api_key_env: api_key_env.as_deref(),
                headers,
                allow_plain_http: *allow_plain_http,
                idle_timeout: Duration::from_secs(idle_timeout_seconds.get()),
            };
            Ok(Arc::new(A2a::new(&place, env)?))
        }
        Runtime::Human {
            question,
            choices,
            default,
            timeout_seconds,
        } => {
            let manner = manner(
                question.as_deref(),
                choices,
                default.as_ref(),
                *timeout_seconds,
            );
            Ok(Arc::new(Human::new(&manner, Arc::clone(people))?))
        }
        Runtime::Scripted { replies, .. } => Ok(Arc::new(Scripted::new(replies, "its definition"))),
        // Providers are the workflow's.
        Runtime::Acmp { capability } => Ok(Arc::new(Acmp {
            capability: capability.as_str().into(),
            providers: Vec::new(),
        })),
    }
}

fn manner<'a>(
    question: Option<&'a str>,
    choices: &'a [Choice],
    default: Option<&'a Name>,
    seconds: Option<NonZeroU64>,
) -> Manner<'a> {
    Manner {
        question,
        choices,
        default: default.map(|it| it.as_str()),
        timeout: seconds.map(|it| Duration::from_secs(it.get())),
    }
}

/// Somebody who gives the answers of an agent. Those of a person are judged as theirs are.
///
/// # Errors
/// The question's template does not compile.
pub fn played(spec: &AgentSpec, answers: Arc<dyn Agent>) -> Result<Arc<dyn Agent>, Diagnostic> {
    let Runtime::Human {
        question,
        choices,
        default,
        timeout_seconds,
    } = &spec.runtime
    else {
        return Ok(answers);
    };
    let manner = manner(
        question.as_deref(),
        choices,
        default.as_ref(),
        *timeout_seconds,
    );
    let human = Human::new(&manner, Arc::new(Nobody));
    let human = human.map_err(|error| error.of(spec))?;
    Ok(Arc::new(Played { human, answers }))
}

/// A model in place of another.
fn instead<'a>(first: &Settings<'a>, fallback: &'a Fallback) -> Settings<'a> {
    let settings = Settings {
        model: Some(&fallback.model),
        ..first.clone()
    };
    match &fallback.base_url {
        None => Settings {
            api_key_env: fallback.api_key_env.as_deref().or(first.api_key_env),
            headers: match fallback.headers.is_empty() {
                true => first.headers,
                false => &fallback.headers,
            },
            ..settings
        },
        // A key is for the endpoint it was given to.
        Some(url) => Settings {
            base_url: Some(url),
            api_key_env: fallback.api_key_env.as_deref(),
            is_keyless: has_no_key(fallback, (first.base_url, first.api_key_env)),
            headers: &fallback.headers,
            allow_plain_http: fallback.allow_plain_http,
            ..settings
        },
    }
}

/// Whether the key of a model at another endpoint would be that of the first, which names it.
fn has_no_key(fallback: &Fallback, (url, key): (Option<&str>, Option<&str>)) -> bool {
    let is_elsewhere = fallback.base_url.is_some() && fallback.base_url.as_deref() != url;
    is_elsewhere && fallback.api_key_env.is_none() && key == Some(OPENAI_KEY)
}

fn read(path: PathBuf) -> Result<String, BuildError> {
    fs::read_to_string(&path).map_err(|error| {
        let why = error.to_string();
        BuildError::MissingFile { path, why }
    })
}

/// One who cannot be asked, for what it lacks.
struct Keyless(String);

impl Agent for Keyless {
    fn ask(&self, _: Request) -> Answer {
        let rejection = Rejection::new(Failure::Authentication, self.0.clone());
        Box::pin(async { Err(rejection) })
    }
}

impl BuildError {
    fn is_about_the_environment(&self) -> bool {
        matches!(
            self,
            BuildError::MissingKey { .. }
                | BuildError::MissingModel
                | BuildError::BadHeader(BadHeader::Missing { .. })
        )
    }

    fn of(self, spec: &AgentSpec) -> Diagnostic {
        let name = &spec.name;
        let (code, message, help) = match self {
            BuildError::Template { message, line } => {
                let line = line.map(|it| format!(" in line {it}")).unwrap_or_default();
                let message = format!("the template of `{name}` does not compile{line}: {message}");
                (Code::Template, message, None)
            }
            BuildError::MissingFile { path, why } => {
                let path = path.display();
                let message = format!("the template of `{name}` cannot be read: `{path}`: {why}");
                (Code::MissingFile, message, None)
            }
            BuildError::MissingKey { variable } => {
                let how = match spec.runtime {
                    Runtime::A2a { .. } => "is asked with a key",
                    _ => "is asked through a model",
                };
                let message =
                    format!("`{name}` {how}, but the environment variable `{variable}` is not set");
                let help = format!(
                    "set `{variable}`; the runtimes `template`, `command` and `scripted` need no key, nor does an endpoint on this machine"
                );
                (Code::NoKey, message, Some(help))
            }
            BuildError::KeyOfAnother => {
                let message = format!(
                    "a `fallback` of `{name}` is at another endpoint and does not say where its key is; the one in `{OPENAI_KEY}` is for the first"
                );
                let help = format!(
                    "give the `fallback` its `api_key_env`, also where it is `{OPENAI_KEY}`"
                );
                (Code::NoKey, message, Some(help))
            }
            BuildError::BadKey { variable } => {
                let message = format!(
                    "the environment variable `{variable}` holds characters that no key of `{name}` can have"
                );
                (Code::NoKey, message, None)
            }
            BuildError::MissingModel => {
                let message = format!("no model is named for `{name}`");
                let help = "set `runtime.model`, or the environment variable `MOZAIKS_MODEL`";
                (Code::NoKey, message, Some(help.to_owned()))
            }
            BuildError::BadHeader(bad) => {
                let code = match bad {
                    BadHeader::Malformed { .. } | BadHeader::Written { .. } => Code::NotAllowed,
                    BadHeader::Missing { .. } | BadHeader::Unsendable { .. } => Code::NoKey,
                };
                (
                    code,
                    format!("the headers of `{name}` cannot be sent: {bad}"),
                    None,
                )
            }
            BuildError::BadUrl(BadUrl { url, why }) => {
                let message = format!("the endpoint of `{name}` cannot be used: `{url}`: {why}");
                (Code::BadInput, message, None)
            }
        };
        let diagnostic = Diagnostic::error(code, message).at(spec.at.clone());
        match help {
            Some(help) => diagnostic.help(help),
            None => diagnostic,
        }
    }
}

#[cfg(test)]
mod tests;
