//! A person: one question, and what they answer, however long they take.
//!
//! **Invariant:** an answer is checked while the person is still there. What cannot be taken is asked for again, and no attempt is spent on it.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use serde_json::Value;
use tokio::time::timeout;

use super::{Agent, Answer, Reply, Request, build::BuildError, capped, template::Template};
use crate::{
    accept::{self, Failure, Rejection},
    contract::runtime::{Choice, TemplateOutput},
    prompt::cut,
    shape::Shape,
};

/// How much is shown of an answer that is not taken, in bytes.
const MAX_SHOWN: usize = 120;
/// The most steps it takes to render a question.
const FUEL: u64 = 50_000_000;

/// Whoever passes questions on to people.
pub trait People: Send + Sync {
    /// Puts a question to a person, and again until the answer can be taken. Dropping it takes the question back.
    fn ask(&self, question: Question) -> Asked;
}

pub type Asked = Pin<Box<dyn Future<Output = Result<String, Absent>> + Send>>;

/// Why nobody answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// There is no way to ask anybody here.
    Unreachable,
    /// They were asked, and left.
    Left,
    /// They were asked, and their time is up.
    Late,
}

/// Where nobody can be asked.
#[derive(Debug)]
pub struct Nobody;

impl People for Nobody {
    fn ask(&self, _: Question) -> Asked {
        Box::pin(async { Err(Absent::Unreachable) })
    }
}

/// One question to a person.
#[derive(Debug, Clone)]
pub struct Question {
    pub agent: Arc<str>,
    /// The task, inside a batch.
    pub task_id: Option<Arc<str>>,
    /// Written by others, as a rule: it may hold anything.
    pub text: String,
    /// How long they may take from when it is put.
    pub timeout: Option<Duration>,
    terms: Arc<Terms>,
    shape: Option<Arc<Shape>>,
}

/// What was typed, judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// This is the answer.
    Answer(String),
    /// A value that goes on in the next line.
    Unfinished,
    /// Why it cannot be taken.
    Refused(String),
}

#[derive(Debug)]
struct Terms {
    choices: Vec<Choice>,
    default: Option<String>,
}

impl Question {
    /// What is shown of each choice.
    pub fn choices(&self) -> impl Iterator<Item = &str> {
        self.terms.choices.iter().map(Choice::text)
    }

    /// What an empty line stands for.
    pub fn default(&self) -> Option<&str> {
        self.terms.default.as_deref()
    }

    /// The model that the answer has to fit: its name, and its JSON Schema. A choice fits as its author wrote it.
    pub fn model(&self) -> Option<(&str, Value)> {
        let shape = self
            .shape
            .as_deref()
            .filter(|_| self.terms.choices.is_empty());
        shape.map(|it| (it.name(), it.json_schema()))
    }

    /// Judges what a person typed.
    pub fn hear(&self, typed: &str) -> Heard {
        let typed = typed.trim();
        let meant = match self.default() {
            Some(default) if typed.is_empty() => default,
            _ => typed,
        };
        if meant.is_empty() {
            return Heard::Refused("there is no answer without a text".to_owned());
        }
        let answer = match self.terms.choices.is_empty() {
            true => meant.to_owned(),
            false => match self.chosen(meant) {
                Some(choice) => choice.answer(),
                None => {
                    let n = self.terms.choices.len();
                    let why = format!("choose by a number from 1 to {n}, or by the text beside it");
                    return Heard::Refused(why);
                }
            },
        };
        match accept::turn(&answer, self.shape.as_deref()) {
            Ok(_) => Heard::Answer(answer),
            Err(rejection) if rejection.failure == Failure::Truncated => Heard::Unfinished,
            Err(rejection) => Heard::Refused(rejection.message),
        }
    }

    /// A choice by its text, else by its text in whatever case, else by its number.
    fn chosen(&self, meant: &str) -> Option<&Choice> {
        let choices = &self.terms.choices;
        let by_number = || {
            let number: usize = meant.trim_end_matches(['.', ')']).parse().ok()?;
            choices.get(number.checked_sub(1)?)
        };
        let by_letters = || {
            let lower = meant.to_lowercase();
            choices.iter().find(|it| it.text().to_lowercase() == lower)
        };
        let exact = choices.iter().find(|it| it.text() == meant);
        exact.or_else(by_letters).or_else(by_number)
    }
}

/// A person who can be asked.
pub struct Human {
    people: Arc<dyn People>,
    question: Option<Template>,
    terms: Arc<Terms>,
    timeout: Option<Duration>,
    identity: Vec<u8>,
}

/// How a person is asked.
#[derive(Debug)]
pub struct Manner<'a> {
    /// A template. Without it, the prompt.
    pub question: Option<&'a str>,
    pub choices: &'a [Choice],
    pub default: Option<&'a str>,
    pub timeout: Option<Duration>,
}

impl Human {
    /// # Errors
    /// The question's template does not compile.
    pub fn new(manner: &Manner<'_>, people: Arc<dyn People>) -> Result<Human, BuildError> {
        let template = |it: &str| Template::new(it.to_owned(), TemplateOutput::Text, FUEL);
        Ok(Human {
            people,
            question: manner.question.map(template).transpose()?,
            terms: Arc::new(Terms {
                choices: manner.choices.to_vec(),
                default: manner.default.map(str::to_owned),
            }),
            timeout: manner.timeout,
            identity: format!("{manner:?}").into_bytes(),
        })
    }

    fn question(&self, request: &Request) -> Result<Question, Rejection> {
        let text = match &self.question {
            Some(template) => template.text(request)?,
            None => format!("{}\n\n{}", request.prompt.system, request.prompt.user),
        };
        Ok(Question {
            agent: Arc::clone(&request.agent),
            task_id: request.task_id.clone(),
            text: text.trim().to_owned(),
            timeout: self.timeout,
            terms: Arc::clone(&self.terms),
            shape: request.shape.clone(),
        })
    }
}

impl Agent for Human {
    fn identity(&self) -> Vec<u8> {
        self.identity.clone()
    }

    fn reads_prompt(&self) -> bool {
        self.question.is_none()
    }

    fn is_timed(&self) -> bool {
        false
    }

    fn ask(&self, request: Request) -> Answer {
        let people = Arc::clone(&self.people);
        let question = self.question(&request);
        Box::pin(async move {
            let question = question?;
            let text = match people.ask(question.clone()).await {
                Ok(text) => text,
                Err(absent) => without_them(&question, absent)?,
            };
            let text = capped(text, &request)?;
            Ok(Reply {
                text,
                ..Reply::default()
            })
        })
    }
}

/// A person whose answers were written down. They are judged as if they were typed.
pub struct Played {
    pub human: Human,
    pub answers: Arc<dyn Agent>,
}

impl Agent for Played {
    fn is_timed(&self) -> bool {
        false
    }

    fn reads_prompt(&self) -> bool {
        self.human.reads_prompt() || self.answers.reads_prompt()
    }

    fn ask(&self, request: Request) -> Answer {
        let question = self.human.question(&request);
        let answer = self.answers.ask(request);
        Box::pin(async move {
            let question = question?;
            let reply = match question.timeout {
                None => answer.await?,
                Some(limit) => match timeout(limit, answer).await {
                    Ok(reply) => reply?,
                    Err(_) => Reply {
                        text: without_them(&question, Absent::Late)?,
                        ..Reply::default()
                    },
                },
            };
            let is_value = question
                .terms
                .choices
                .iter()
                .any(|it| it.answer() == reply.text);
            let refused = match question.hear(&reply.text) {
                _ if is_value => return Ok(reply),
                Heard::Answer(text) => return Ok(Reply { text, ..reply }),
                Heard::Refused(why) => why,
                Heard::Unfinished => "the value is not complete".to_owned(),
            };
            let message = format!(
                "the answer `{}` is not taken: {refused}",
                cut(&reply.text, MAX_SHOWN)
            );
            Err(Rejection::new(Failure::WrongShape, message).with_answer(&reply.text))
        })
    }
}

/// What is taken where they do not answer.
fn without_them(question: &Question, absent: Absent) -> Result<String, Rejection> {
    match absent {
        Absent::Unreachable | Absent::Late if question.default().is_some() => by_default(question),
        _ => Err(unanswered(question, absent)),
    }
}

fn by_default(question: &Question) -> Result<String, Rejection> {
    match question.hear("") {
        Heard::Answer(text) => Ok(text),
        Heard::Refused(why) => Err(Rejection::new(Failure::WrongShape, why)),
        Heard::Unfinished => {
            let message = "the default is half a value";
            Err(Rejection::new(Failure::NotJson, message))
        }
    }
}

fn unanswered(question: &Question, absent: Absent) -> Rejection {
    let agent = &question.agent;
    let whom = match &question.task_id {
        Some(task) => format!("`{agent}` has to answer for task `{task}`"),
        None => format!("`{agent}` has to answer"),
    };
    let (failure, why) = match absent {
        Absent::Unreachable => (Failure::Unattended, "and nobody can be asked here"),
        Absent::Left => (Failure::Unattended, "and has not"),
        Absent::Late => (Failure::Timeout, "and has not in time"),
    };
    Rejection::new(failure, format!("{whom}, {why}"))
}

#[cfg(test)]
mod tests;
