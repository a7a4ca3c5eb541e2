//! The providers of a capability: asked one after the other until one can, and held to what they were asked.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Agent, Answer, Reply, Request};
use crate::{
    accept::{Asked, Failure, Rejection},
    acmp::{
        buyer::{Course, Failed, Provider},
        proof, wire,
    },
    context::Json,
    dag::Invocation,
    prompt,
};

mod bill;

use bill::Bill;

/// How much of what a provider says is told.
const SHOWN: usize = 500;

/// The providers of one capability.
pub struct Acmp {
    pub capability: Arc<str>,
    /// In the order in which they are asked.
    pub providers: Vec<Arc<Provider>>,
}

impl Agent for Acmp {
    fn ask(&self, request: Request) -> Answer {
        let capability = Arc::clone(&self.capability);
        let providers = in_turn(&self.providers, &request.failed);
        Box::pin(async move {
            let course = Arc::new(Course::default());
            let most = request.invocation.as_ref();
            let most = most.and_then(|it| it.task.max_price_cu);
            let bill = Bill::new(most, &course, &request.witness);
            let limit = request.timeout;
            let mut inquiry = Inquiry {
                request,
                providers,
                course,
                bill,
                asked: 0,
            };
            let made = timeout(limit, inquiry.make(&capability)).await;
            let mut made = made.unwrap_or_else(|_| Err(inquiry.late()));
            let usage = inquiry.bill.ended();
            match &mut made {
                Ok(reply) => reply.usage = usage,
                Err(rejection) => rejection.usage = usage,
            }
            made
        })
    }

    /// It knows who was asked when the time is up, and what they said.
    fn is_timed(&self) -> bool {
        false
    }

    fn takes_chunks(&self) -> super::Ready {
        let first = self.providers.first().cloned();
        Box::pin(async move {
            match first {
                Some(first) => first.takes_chunks().await,
                None => false,
            }
        })
    }

    fn close(&self) -> super::Closing {
        let providers = self.providers.clone();
        Box::pin(async move {
            for provider in providers {
                provider.close().await;
            }
        })
    }
}

/// Who is asked first, who next, and so on: those that failed the task come after the others, the last one last.
fn in_turn(providers: &[Arc<Provider>], failed: &[Arc<str>]) -> Vec<Arc<Provider>> {
    let mut providers = providers.to_vec();
    let failed_as = |it: &Arc<Provider>| failed.iter().position(|name| *name == it.name);
    providers.sort_by_key(failed_as);
    providers
}

/// A question on its way through providers.
struct Inquiry {
    request: Request,
    providers: Vec<Arc<Provider>>,
    course: Arc<Course>,
    bill: Bill,
    /// The place of the one that is asked.
    asked: usize,
}

impl Inquiry {
    async fn make(&mut self, capability: &str) -> Result<Reply, Rejection> {
        let (mut task_id, mut params) = match &self.request.invocation {
            Some(invocation) => (invocation.task_id.clone(), invocation.params()),
            None => by_prompt(capability, &self.request),
        };
        let max_price = params["max_price_cu"].as_f64();
        let proof = params["proof_method"].as_str().map(str::to_owned);
        let mut streams = self.request.streams.clone();
        let mut last = None;
        // Whoever has a part of the input is the only one that gets it.
        let n_asked = match streams.input {
            Some(_) => 1,
            None => self.providers.len(),
        };
        for at in 0..n_asked.min(self.providers.len()) {
            self.asked = at;
            let provider = Arc::clone(&self.providers[at]);
            let invoked = provider.invoke(&task_id, &params, &streams, &self.course);
            let mut invoked = invoked.await;
            if let (Some(chunks), Err(failed)) = (&streams.output, &invoked) {
                let is_refused = streams.input.is_none() && wants_it_whole(failed);
                if is_refused || chunks.has_begun() {
                    // Whoever is asked from now on gives it whole.
                    chunks.settle(None);
                    streams.output = None;
                }
                if is_refused {
                    // What was said of the first id may be said of it again.
                    task_id = Invocation::id_of(&format!("{task_id}/whole"));
                    params["task_id"] = json!(task_id);
                    let whole = provider.invoke(&task_id, &params, &streams, &self.course);
                    invoked = whole.await;
                }
            }
            match invoked {
                Ok(result) => {
                    let terms = Terms {
                        task_id: &task_id,
                        max_price,
                        proof: proof.as_deref(),
                        max_bytes: self.request.max_output_bytes,
                    };
                    self.bill.took(&result);
                    let mut reply = terms.read(&result).map_err(|it| self.by(it))?;
                    if self.request.invocation.is_none() {
                        reply.text = data(&reply.text);
                    }
                    return Ok(reply);
                }
                Err(failed) => {
                    self.bill.failed(&failed);
                    last = Some(self.by(refused(&failed)));
                    // What is reserved is enough for one.
                    let is_spent = self.request.is_budgeted && self.bill.has_taken();
                    if !another_may(&failed) || is_spent {
                        break;
                    }
                }
            }
        }
        Err(last.unwrap_or_else(|| {
            let message = format!("no provider serves the capability `{capability}`");
            Rejection::new(Failure::NotFound, message)
        }))
    }

    /// The time is up.
    fn late(&self) -> Rejection {
        let mut late = Rejection::late(self.request.timeout);
        late.asked = self.asked();
        if let (Some(stray), Some(asked)) = (self.course.stray(), &late.asked) {
            let heard = format!("; provider `{}` {stray}", asked.provider);
            late.message.push_str(&heard);
        }
        late
    }

    /// Names the provider that a rejection is about.
    fn by(&self, mut rejection: Rejection) -> Rejection {
        rejection.asked = self.asked();
        if let Some(asked) = &rejection.asked {
            rejection.message = format!("provider `{}`: {}", asked.provider, rejection.message);
        }
        rejection
    }

    fn asked(&self) -> Option<Asked> {
        let asked = self.providers.get(self.asked)?;
        let has_failed = |it: &&Arc<Provider>| self.request.failed.contains(&it.name);
        let others = self.providers.iter().filter(|it| it.name != asked.name);
        Some(Asked {
            provider: Arc::clone(&asked.name),
            has_others: others.filter(|it| !has_failed(it)).count() > 0,
        })
    }
}

/// What is asked where the task is none of a DAG: the prompt is the input.
fn by_prompt(capability: &str, request: &Request) -> (String, Value) {
    let task_id = Invocation::id_of(&request.idempotency_key);
    let prompt = [&*request.prompt.system, &*request.prompt.user];
    let prompt: Vec<&str> = prompt.into_iter().filter(|it| !it.is_empty()).collect();
    let params = json!({
        "task_id": task_id,
        "capability": capability,
        "input": { "type": "text", "data": prompt.join("\n\n") },
        "output_type": "json",
        "timeout_ms": u64::try_from(request.timeout.as_millis()).unwrap_or(u64::MAX),
        "stream": false,
        "input_stream": false,
    });
    (task_id, params)
}

/// The payload of an output, as an agent would answer with it.
fn data(output: &str) -> String {
    let output: Value = serde_json::from_str(output).unwrap_or_default();
    match &output["data"] {
        Value::String(text) => text.clone(),
        data => data.to_string(),
    }
}

/// What a result has to be.
struct Terms<'a> {
    task_id: &'a str,
    max_price: Option<f64>,
    proof: Option<&'a str>,
    max_bytes: usize,
}

impl Terms<'_> {
    fn read(&self, result: &Value) -> Result<Reply, Rejection> {
        let reject = |failure, message: String| Err(Rejection::new(failure, message));
        if result["task_id"].as_str() != Some(self.task_id) {
            let message = format!(
                "the result is for the task {}, not for `{}`",
                prompt::cut(&result["task_id"].to_string(), SHOWN),
                self.task_id
            );
            return reject(Failure::WrongTask, message);
        }
        let shown = |key: &str| match result.get(key) {
            Some(it) => format!("`{key}` is {}", prompt::cut(&it.to_string(), SHOWN)),
            None => format!("there is no `{key}`"),
        };
        let Some(cost) = bill::price(result) else {
            let message = format!("{}, which is no price", shown("cost_cu"));
            return reject(Failure::WrongShape, message);
        };
        if let Some(most) = self.max_price.filter(|it| cost > *it) {
            let message = format!("the result costs {cost} CU; {most} are allowed");
            return reject(Failure::BudgetExceeded, message);
        }
        if bill::tokens(result).is_none() {
            let message = format!("{}, which is no number of tokens", shown("tokens_used"));
            return reject(Failure::WrongShape, message);
        }
        let output = &result["output"];
        if !output["type"].is_string() || output.get("data").is_none() {
            let message = match result["output_streamed"] == true {
                true => "the output was streamed, which nobody asked for",
                false => "the result has no `output` of `type` and `data`",
            };
            return reject(Failure::WrongShape, message.to_owned());
        }
        if let Err(message) = proof::verify(self.proof, result) {
            return reject(Failure::WrongShape, message);
        }
        let output = json!({ "type": output["type"], "data": output["data"] });
        let text = output.to_string();
        if text.len() > self.max_bytes {
            let (bytes, limit) = (text.len(), self.max_bytes);
            let message = format!("the output is {bytes} bytes long; {limit} are allowed");
            return reject(Failure::TooLong, message);
        }
        Ok(Reply {
            text: Json::of_text(text).text().into_owned(),
            ..Reply::default()
        })
    }
}

/// Whether the next provider may be able to do it.
fn another_may(failed: &Failed) -> bool {
    match failed {
        Failed::Lost(_)
        | Failed::Unreadable(_)
        | Failed::Foreign(_)
        | Failed::Refused(_)
        | Failed::Malformed(_) => true,
        Failed::Error(error) => {
            let cannot = [
                wire::CAPABILITY_NOT_FOUND,
                wire::BUDGET_EXCEEDED,
                wire::PROOF_UNSUPPORTED,
                wire::FEATURE_UNSUPPORTED,
            ];
            cannot.contains(&error.code)
        }
        Failed::Silent(_)
        | Failed::TooLong { .. }
        | Failed::OutOfOrder(_)
        | Failed::TooMuch(_)
        | Failed::Spoiled { .. } => false,
    }
}

/// Whether the same can be asked for without chunks.
fn wants_it_whole(failed: &Failed) -> bool {
    matches!(failed, Failed::Error(error) if error.code == wire::FEATURE_UNSUPPORTED)
}

/// What a failure means for the attempt.
fn refused(failed: &Failed) -> Rejection {
    let (failure, message) = match failed {
        Failed::Lost(why) | Failed::Unreadable(why) => (Failure::Connection, why.clone()),
        Failed::Foreign(what) => (Failure::NotFound, what.clone()),
        Failed::Refused(why) => (Failure::Authentication, why.clone()),
        Failed::OutOfOrder(what) | Failed::Spoiled { what, .. } => {
            (Failure::WrongShape, what.clone())
        }
        Failed::TooMuch(what) => (Failure::TooLong, what.clone()),
        Failed::Silent(span) => {
            let message = format!("it was silent for {} seconds", span.as_secs_f64());
            (Failure::IdleTimeout, message)
        }
        Failed::Malformed(error) => {
            let failure = match error.code {
                wire::NOT_JSON => Failure::NotJson,
                _ => Failure::WrongShape,
            };
            (
                failure,
                format!("what it sent is no message: {}", error.message),
            )
        }
        Failed::TooLong { bytes, limit } => {
            let message = format!("the task is {bytes} bytes long; {limit} are allowed");
            (Failure::BadRequest, message)
        }
        Failed::Error(error) => {
            let failure = match error.code {
                wire::BUDGET_EXCEEDED => Failure::BudgetExceeded,
                wire::CAPABILITY_NOT_FOUND => Failure::NotFound,
                wire::TIMEOUT => Failure::Timeout,
                wire::CANCELLED => Failure::Refused,
                wire::ESCROW_INVALID
                | wire::PROOF_UNSUPPORTED
                | wire::FEATURE_UNSUPPORTED
                | wire::NOT_JSON
                | wire::BAD_REQUEST
                | wire::NO_METHOD
                | wire::BAD_PARAMS => Failure::BadRequest,
                _ => Failure::ProgramFailed,
            };
            let said = prompt::cut(&error.message, SHOWN);
            (failure, format!("error {}: {said}", error.code))
        }
    };
    Rejection::new(failure, message)
}
