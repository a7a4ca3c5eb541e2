//! One question, to its answer: the model is asked, its calls of tools are made, and it is asked again.
//!
//! **Invariant:** whatever a model calls, however it writes that, is answered with a result; only the number of rounds
//! is limited.

use std::{collections::BTreeSet, mem, sync::Arc};

use serde_json::Value;

use super::{
    super::{Question, Reply, Request, Usage, capped},
    Model, answer,
};
use crate::{
    accept::{Failure, Rejection},
    endpoint::Secrets,
    prompt::cut,
    tool::{Bench, Definition},
};

/// How many calls one answer may ask for.
pub(super) const MAX_CALLS: usize = 64;
/// How much all results together may be, in bytes.
const MAX_RESULTS: usize = 8 << 20;
/// The longest name of a function that OpenAI takes.
const MAX_NAME: usize = 64;

/// A question, and what was said on it so far.
pub(super) struct Talk<'a> {
    pub(super) request: &'a Request,
    /// What the model may call, each by a name that endpoints take.
    pub(super) tools: Vec<(String, Definition)>,
    pub(super) rounds: Vec<Round>,
}

/// A model called tools, and was given their results.
pub(super) struct Round {
    pub(super) heard: Heard,
    pub(super) results: Vec<String>,
}

/// What a model said, in one response.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) text: String,
    pub(super) calls: Vec<Wanted>,
    /// As the endpoint sent it, where that is to go back.
    pub(super) items: Vec<Value>,
    /// How long what it thought before is, where that is known.
    pub(super) thought: usize,
}

impl Talk<'_> {
    /// About how long what a model is sent is, without what its answer has to fit.
    fn bytes(&self) -> usize {
        let prompt = &self.request.prompt;
        let tools = self.tools.iter();
        let tools = tools.map(|(name, it)| name.len() + it.bytes());
        let rounds = self.rounds.iter();
        let rounds = rounds.map(|it| {
            let results = it.results.iter().map(String::len);
            it.heard.bytes() + results.sum::<usize>()
        });
        prompt.system.len() + prompt.user.len() + tools.chain(rounds).sum::<usize>()
    }
}

impl Heard {
    /// How long what it said is.
    fn bytes(&self) -> usize {
        let calls = self.calls.iter();
        let calls = calls.map(|it| it.name.len() + it.arguments.len());
        self.text.len() + calls.sum::<usize>()
    }

    /// Without what must not be shown.
    pub(super) fn without(mut self, secrets: &Secrets) -> Heard {
        self.text = secrets.hide_in_answer(self.text);
        for call in &mut self.calls {
            call.arguments = secrets.hide_in_answer(mem::take(&mut call.arguments));
        }
        self
    }
}

/// A call that a model asks for.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    pub(super) id: String,
    /// As it was sent to the model.
    pub(super) name: String,
    /// As the model wrote them.
    pub(super) arguments: String,
}

impl Wanted {
    /// Arguments as the model is shown them again: some endpoints refuse what is no JSON object, also if their model wrote it.
    pub(super) fn arguments_as_sent(&self) -> &str {
        let value = serde_json::from_str::<Value>(&self.arguments);
        match value.is_ok_and(|it| it.is_object()) {
            true => &self.arguments,
            false => "{}",
        }
    }
}

/// Whose trouble another endpoint, or another model, may not have.
const ELSEWHERE: [Failure; 8] = [
    Failure::RateLimited,
    Failure::Quota,
    Failure::Overloaded,
    Failure::Timeout,
    Failure::IdleTimeout,
    Failure::Connection,
    Failure::Authentication,
    Failure::NotFound,
];

/// Asks to the end: the first model, and where its endpoint is the trouble, the next goes on.
pub(super) async fn hold(models: &[Model], request: &Request) -> Result<Reply, Rejection> {
    let mut used = Usage::default();
    match talk(models, request, &mut used).await {
        Ok(reply) => Ok(Reply {
            usage: used,
            ..reply
        }),
        Err(rejection) => Err(Rejection {
            usage: used,
            ..rejection
        }),
    }
}

async fn talk(models: &[Model], request: &Request, used: &mut Usage) -> Result<Reply, Rejection> {
    let toolbox = request.tools.as_deref();
    let mut bench = toolbox.map(Bench::new);
    let tools = match toolbox {
        None => Vec::new(),
        Some(toolbox) => {
            let definitions = toolbox.definitions().await;
            named(definitions.map_err(|it| {
                let failure = match it.may_come {
                    true => Failure::ToolUnavailable,
                    false => Failure::ToolMissing,
                };
                Rejection::new(failure, it.error.0)
            })?)
        }
    };
    let mut talk = Talk {
        request,
        tools,
        rounds: Vec::new(),
    };
    let mut left = MAX_RESULTS;
    let mut models = models.iter().enumerate();
    let mut failed = Failed::default();
    let (mut at, mut model) = models.next().ok_or_else(|| failed.rejection())?;
    loop {
        let question = Question {
            model: at,
            bytes: talk.bytes(),
        };
        let call = request.leave.ask(question).await?;
        let said = model.ask(&talk, &call.so_far()).await;
        let came = said.as_ref().map(|it| (it.1, it.0.bytes() + it.0.thought));
        let usage = call.ended(came);
        used.add(usage);
        request.witness.uses(usage);
        let heard = match said {
            Ok((heard, _)) => heard,
            Err(rejection) if ELSEWHERE.contains(&rejection.failure) => {
                failed.add(&model.name, rejection);
                (at, model) = models.next().ok_or_else(|| failed.rejection())?;
                continue;
            }
            Err(rejection) => return Err(rejection),
        };
        let Some(bench) = bench.as_mut().filter(|_| !heard.calls.is_empty()) else {
            if heard.text.trim().is_empty() {
                return Err(match heard.calls.is_empty() {
                    true => answer::empty(),
                    false => {
                        let message =
                            "the model called a tool, but it is offered none, and it said nothing";
                        Rejection::new(Failure::Empty, message)
                    }
                });
            }
            return Ok(Reply {
                text: capped(heard.text, request)?,
                model: Some(Arc::clone(&model.name)),
                calls: bench.map(|it| it.calls).unwrap_or_default(),
                ..Reply::default()
            });
        };
        if talk.rounds.len() >= model.max_tool_rounds {
            let message = format!(
                "the model called tools in {} rounds and went on to call them; answer from what they said",
                model.max_tool_rounds
            );
            return Err(Rejection::new(Failure::TooManyCalls, message));
        }
        if heard.calls.len() > MAX_CALLS {
            // Of a stream no more are kept than tell that there were more.
            let message = format!("the model called more than {MAX_CALLS} tools at once");
            return Err(Rejection::new(Failure::TooManyCalls, message));
        }
        request.witness.keep(Usage::default()).await;
        let mut results = Vec::new();
        for call in &heard.calls {
            let tool = talk.tools.iter().find(|(name, _)| *name == call.name);
            let tool = tool.map_or(&*call.name, |(_, it)| &*it.name);
            let made = bench.call(tool, &call.arguments).await;
            let result = match made.ok {
                true => made.result.clone(),
                false => format!("error: {}", made.result),
            };
            request.witness.calls(made);
            let result = cut(&result, left);
            left = left.saturating_sub(result.len());
            results.push(result);
        }
        talk.rounds.push(Round { heard, results });
    }
}

/// What came of asking those who did not answer.
#[derive(Default)]
struct Failed(Vec<(Arc<str>, Rejection)>);

impl Failed {
    fn add(&mut self, model: &Arc<str>, rejection: Rejection) {
        self.0.push((Arc::clone(model), rejection));
    }

    /// As long as one of them may answer another time, it is worth another attempt.
    fn rejection(&mut self) -> Rejection {
        let all: Vec<String> = self
            .0
            .iter()
            .map(|(name, it)| format!("`{name}`: {it}"))
            .collect();
        let is_worth_it = |it: &&(Arc<str>, Rejection)| it.1.failure.is_worth_a_retry();
        let chosen = self.0.iter().find(is_worth_it).or(self.0.last());
        let chosen = chosen.map(|it| it.1.clone());
        let chosen =
            chosen.unwrap_or_else(|| Rejection::new(Failure::NotFound, "there is no model"));
        match all.len() {
            0 | 1 => chosen,
            _ => Rejection {
                message: all.join("; "),
                ..chosen
            },
        }
    }
}

/// Gives each tool a name that endpoints take, unlike that of any other.
fn named(definitions: Vec<Definition>) -> Vec<(String, Definition)> {
    let mut taken = BTreeSet::new();
    let named = definitions.into_iter().map(|it| {
        let plain = plain(&it.name, MAX_NAME);
        let numbered = (2..).map(|n| format!("{}_{n}", &plain[..plain.len().min(MAX_NAME - 8)]));
        let mut names = [plain.clone()].into_iter().chain(numbered);
        let name = names.find(|name| taken.insert(name.clone()));
        (name.unwrap_or_default(), it)
    });
    named.collect()
}

/// A name of characters that OpenAI takes, at most so many.
pub(super) fn plain(name: &str, most: usize) -> String {
    let allowed = |it: char| it.is_ascii_alphanumeric() || it == '_' || it == '-';
    let name = name.chars().take(most);
    name.map(|it| if allowed(it) { it } else { '_' }).collect()
}
