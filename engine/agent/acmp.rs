//! The providers of a capability: asked one after the other until one can, and held to what they were asked.

use std::{
    mem,
    sync::{Arc, atomic::AtomicBool},
};

use serde_json::{Value, json};

use super::{Agent, Answer, Reply, Request, Usage, Witness};
use crate::{
    accept::{Failure, Rejection},
    acmp::{
        buyer::{Failed, Provider},
        proof, wire,
    },
    context::Json,
    dag::Invocation,
    prompt,
    usage::Cost,
};

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
        let (capability, providers) = (Arc::clone(&self.capability), self.providers.clone());
        Box::pin(async move {
            let (mut task_id, mut params) = match &request.invocation {
                Some(invocation) => (invocation.task_id.clone(), invocation.params()),
                None => by_prompt(&capability, &request),
            };
            let max_price = params["max_price_cu"].as_f64();
            let proof = params["proof_method"].as_str().map(str::to_owned);
            let mut bill = Bill::new(max_price, &request.witness);
            let mut streams = request.streams.clone();
            let mut last = None;
            // Whoever has a part of the input is the only one that gets it.
            let n_asked = match streams.input {
                Some(_) => 1,
                None => providers.len(),
            };
            for provider in providers.iter().take(n_asked) {
                let invoked = provider.invoke(&task_id, &params, &streams, &bill.is_open);
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
                        let whole = provider.invoke(&task_id, &params, &streams, &bill.is_open);
                        invoked = whole.await;
                    }
                }
                match invoked {
                    Ok(result) => {
                        let terms = Terms {
                            task_id: &task_id,
                            max_price,
                            proof: proof.as_deref(),
                            max_bytes: request.max_output_bytes,
                        };
                        bill.settle(result["cost_cu"].as_f64());
                        let reply = terms.read(&result);
                        let cu = bill.ended();
                        let mut reply = reply.map_err(|mut it| {
                            it.usage.cu = cu;
                            by(provider, it)
                        })?;
                        reply.usage.cu = cu;
                        if request.invocation.is_none() {
                            reply.text = data(&reply.text);
                        }
                        return Ok(reply);
                    }
                    Err(failed) => {
                        bill.failed(&failed);
                        let rejection = by(provider, refused(&failed));
                        last = Some(rejection);
                        if !another_may(&failed) {
                            break;
                        }
                    }
                }
            }
            let mut last = last.unwrap_or_else(|| {
                let message = format!("no provider serves the capability `{capability}`");
                Rejection::new(Failure::NotFound, message)
            });
            last.usage.cu = bill.ended();
            Err(last)
        })
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

/// What a task takes, as far as anybody can know: a provider that was given it and of which nothing was heard any more
/// may take as much as was offered.
struct Bill {
    most: Option<f64>,
    /// Whether a provider has the task.
    is_open: AtomicBool,
    taken: Usage,
    /// Who is told where nobody waits for the end.
    witness: Witness,
}

impl Bill {
    fn new(most: Option<f64>, witness: &Witness) -> Bill {
        Bill {
            most,
            is_open: AtomicBool::new(false),
            taken: Usage::default(),
            witness: witness.clone(),
        }
    }

    /// A provider takes so much. Where that is no price, or more than was offered, it takes no more than that.
    fn settle(&mut self, price: Option<f64>) {
        *self.is_open.get_mut() = false;
        let price = price.filter(|it| *it >= 0.0).or(self.most);
        let most = self.most.unwrap_or(f64::INFINITY);
        self.taken.add(Usage {
            cu: price.map(|it| Cost::new(it.min(most))),
            ..Usage::default()
        });
    }

    fn failed(&mut self, failed: &Failed) {
        match failed {
            Failed::Lost(_) | Failed::Silent(_) | Failed::Malformed(_)
                if *self.is_open.get_mut() =>
            {
                self.settle(None)
            }
            // What says that it failed takes nothing.
            _ => *self.is_open.get_mut() = false,
        }
    }

    fn ended(&mut self) -> Option<Cost> {
        mem::take(&mut self.taken).cu
    }
}

impl Drop for Bill {
    fn drop(&mut self) {
        if *self.is_open.get_mut() {
            self.settle(None);
        }
        self.witness.uses(self.taken);
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
        let cost = &result["cost_cu"];
        match cost.as_f64() {
            Some(cost) if cost >= 0.0 && self.max_price.is_none_or(|it| cost <= it) => (),
            Some(cost) if cost >= 0.0 => {
                let most = self.max_price.unwrap_or_default();
                let message = format!("the result costs {cost} CU; {most} are allowed");
                return reject(Failure::BudgetExceeded, message);
            }
            _ => {
                let cost = prompt::cut(&cost.to_string(), SHOWN);
                let message = format!("`cost_cu` is {cost}, which is no price");
                return reject(Failure::WrongShape, message);
            }
        }
        let Some(tokens) = result["tokens_used"].as_u64() else {
            let message = "`tokens_used` is no number of tokens".to_owned();
            return reject(Failure::WrongShape, message);
        };
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
            usage: Usage {
                output_tokens: tokens,
                ..Usage::default()
            },
            ..Reply::default()
        })
    }
}

/// Names the provider a rejection is about.
fn by(provider: &Provider, mut rejection: Rejection) -> Rejection {
    rejection.message = format!("provider `{}`: {}", provider.name, rejection.message);
    rejection
}

/// Whether the next provider may be able to do it.
fn another_may(failed: &Failed) -> bool {
    match failed {
        Failed::Lost(_) | Failed::Foreign(_) | Failed::Refused(_) | Failed::Malformed(_) => true,
        Failed::Error(error) => {
            [wire::CAPABILITY_NOT_FOUND, wire::BUDGET_EXCEEDED].contains(&error.code)
        }
        Failed::Silent(_) | Failed::TooLong { .. } | Failed::OutOfOrder(_) | Failed::TooMuch(_) => {
            false
        }
    }
}

/// Whether the same can be asked for without chunks.
fn wants_it_whole(failed: &Failed) -> bool {
    matches!(failed, Failed::Error(error) if error.code == wire::FEATURE_UNSUPPORTED)
}

/// What a failure means for the attempt.
fn refused(failed: &Failed) -> Rejection {
    let (failure, message) = match failed {
        Failed::Lost(why) => (Failure::Connection, why.clone()),
        Failed::Foreign(what) => (Failure::NotFound, what.clone()),
        Failed::Refused(why) => (Failure::Authentication, why.clone()),
        Failed::OutOfOrder(what) => (Failure::WrongShape, what.clone()),
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
