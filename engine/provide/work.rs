//! Carries out one task: the params of an invocation become a question to an agent, and its answer a result.

use std::{mem, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::{
    Provider, Served,
    tasks::{Mark, Outcome, Tasks},
};
use crate::{
    accept::{self, Failure, Rejection},
    acmp::{
        chunks::{Chunk, Chunks},
        proof,
        wire::{self, Error},
    },
    agent::{Leave, Request, Streams, Witness},
    context::{Context, Json},
    prompt::{self, Prompt},
    tool::{Given, Toolbox, Whose},
};

/// One task, as it was asked for.
pub(super) struct Task {
    id: String,
    capability: String,
    input: Value,
    /// Whether it comes in chunks; then what came with the invocation is its beginning.
    in_chunks: bool,
    /// How long its buyer waits, as far as it may.
    timeout: Duration,
    output_type: String,
    proof: bool,
}

impl Task {
    /// Reads the params of an invocation.
    ///
    /// # Errors
    /// What keeps it from being carried out.
    pub(super) fn read(provider: &Provider, params: &Value) -> Result<Task, Error> {
        let id = params["task_id"].as_str().filter(|it| !it.is_empty());
        let id = id.ok_or_else(|| Error::new(wire::BAD_PARAMS, "`task_id` is missing"))?;
        let refuse = |code, what: &str| Err(Error::new(code, what).about(id));
        let Some(capability) = params["capability"].as_str() else {
            return refuse(wire::BAD_PARAMS, "`capability` is missing");
        };
        if !provider.served.contains_key(capability) {
            let what = format!("nobody here serves `{}`", prompt::cut(capability, 200));
            return refuse(wire::CAPABILITY_NOT_FOUND, &what);
        }
        let (in_chunks, input) = (params["input_stream"] == true, &params["input"]);
        let is_literal = input["type"].is_string() && input.get("data").is_some();
        let is_to_come = in_chunks && input.is_null();
        if !is_literal && !is_to_come {
            return refuse(wire::BAD_PARAMS, "`input` has no `type` and `data`");
        }
        let proof = match params["proof_method"].as_str() {
            None => false,
            Some(proof::RESULT_HASH) => true,
            Some(_) => {
                let what = "the only proof there is is `result-hash`";
                return refuse(wire::PROOF_UNSUPPORTED, what);
            }
        };
        if let Some(what) = wrong(params) {
            return refuse(wire::BAD_PARAMS, what);
        }
        let price = provider.served[capability].price_cu;
        if params["max_price_cu"].as_f64().is_some_and(|it| it < price) {
            let what = format!("`{}` takes {price} CU", prompt::cut(capability, 200));
            let data = json!({ "task_id": id, "min_price_cu": price, "detail": what });
            return Err(Error {
                data,
                ..Error::new(wire::BUDGET_EXCEEDED, what)
            });
        }
        let (timeout, most) = (params["timeout_ms"].as_u64(), provider.limits.timeout);
        Ok(Task {
            id: id.to_owned(),
            capability: capability.to_owned(),
            input: json!({ "type": input["type"], "data": input["data"] }),
            in_chunks,
            timeout: timeout.map_or(most, |it| Duration::from_millis(it).min(most)),
            output_type: params["output_type"].as_str().unwrap_or("json").to_owned(),
            proof,
        })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// When its buyer waits for it no longer, if it is asked for now.
    pub(super) fn until(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// What tells it from another task that is given its id.
    pub(super) fn mark(&self, tasks: &Tasks) -> Mark {
        let what = (&self.capability, &self.output_type, self.proof);
        tasks.mark(what, (!self.in_chunks).then_some(&self.input))
    }

    /// Waits until its input is whole. Nobody is asked before.
    pub(super) async fn take_in(&mut self, chunks: &Chunks) {
        let head = Chunk::new(&self.input, false);
        self.input = chunks.all(head.as_ref()).await;
    }

    /// Asks the agent that serves it.
    pub(super) async fn carry_out(self, provider: &Provider) -> Outcome {
        let slot = provider.running.acquire().await;
        let _slot = slot.expect("the slots are never closed");
        let served = &provider.served[&self.capability];
        let mut request = self.request(provider, served);
        let failed = |it: Rejection| {
            let id = prompt::cut(&self.id, 100);
            (provider.tell)(&format!(
                "task {id:?} of `{}` failed: {it}",
                self.capability
            ));
            said(&it).about(&self.id)
        };
        self.rewrite(provider, served, &mut request)
            .await
            .map_err(failed)?;
        let asked = timeout(request.timeout, served.agent.ask(request)).await;
        let reply = match asked {
            Ok(reply) => reply.map_err(failed)?,
            Err(_) => return Err(Error::new(wire::TIMEOUT, "it took too long").about(&self.id)),
        };
        let shape = served.spec.shape.as_deref();
        let output = accept::data(&reply.text, shape, &self.output_type).map_err(failed)?;
        self.run_tools(provider, served, &output.value["data"])
            .await
            .map_err(failed)?;
        let used = reply
            .usage
            .input_tokens
            .saturating_add(reply.usage.output_tokens);
        let mut result = json!({
            "task_id": self.id,
            "output": output.value,
            "tokens_used": used,
            "cost_cu": served.price_cu,
        });
        if self.proof {
            let hash = proof::result_hash(&result["output"]);
            let none = || Error::new(wire::PROOF_UNSUPPORTED, "the output has no canonical form");
            let hash = hash.ok_or_else(none)?;
            result["proof"] = json!({ "method": proof::RESULT_HASH, "hash": hash });
        }
        Ok(result)
    }

    fn request(&self, provider: &Provider, served: &Served) -> Request {
        let mut context = Context::default();
        context.set("input", self.input.clone());
        let view = context.view(&served.spec.sees);
        let prompt = match served.agent.reads_prompt() {
            false => Prompt::default(),
            true => {
                let input = Json::from(self.input.clone());
                prompt::input(&served.spec.instruction, &input, &view)
            }
        };
        Request {
            agent: Arc::clone(&served.spec.name),
            task_id: Some(self.id.as_str().into()),
            attempt: 1,
            idempotency_key: self.id.clone(),
            prompt,
            view,
            invocation: None,
            streams: Streams::default(),
            failed: Vec::new(),
            is_budgeted: false,
            shape: served.spec.shape.clone(),
            tools: self.toolbox(provider, served),
            timeout: provider.limits.timeout,
            max_output_bytes: provider.max_output_bytes,
            leave: Leave::default(),
            witness: Witness::default(),
        }
    }

    /// Lets functions rewrite the prompt. Nobody is there who could be warned of one that fails, so the task fails with it.
    async fn rewrite(
        &self,
        provider: &Provider,
        served: &Served,
        request: &mut Request,
    ) -> Result<(), Rejection> {
        let tools = &provider.tools;
        if !served.agent.reads_prompt() || !tools.rewrites(&served.spec.name) {
            return Ok(());
        }
        let Prompt { system, user } = &mut request.prompt;
        let given = || self.given(provider, served)();
        let rewriting = tools.rewrite(self.whose(served), (mem::take(system), user), given);
        let (rewritten, faults) = rewriting.await;
        *system = rewritten;
        match faults.first() {
            None => Ok(()),
            Some(fault) => Err(Rejection::new(Failure::ToolFailed, fault.clone())),
        }
    }

    /// Runs what runs on the agent's output. There is one attempt: what a tool with an outcome says changes nothing.
    async fn run_tools(
        &self,
        provider: &Provider,
        served: &Served,
        output: &Value,
    ) -> Result<(), Rejection> {
        for tool in provider.tools.auto(&served.spec.name) {
            let given = self.given(provider, served)();
            let whose = self.whose(served);
            let made = provider.tools.run(&tool, (whose, output), &given).await;
            if let (Err(error), None) = (made.came, &tool.spec.outcome) {
                let message = format!("the tool `{}` failed: {error}", tool.spec.name);
                return Err(Rejection::new(Failure::ToolFailed, message));
            }
        }
        Ok(())
    }

    fn whose<'a>(&'a self, served: &'a Served) -> Whose<'a> {
        Whose {
            agent: &served.spec.name,
            task_id: Some(&self.id),
        }
    }

    /// What the agent's model may call.
    fn toolbox(&self, provider: &Provider, served: &Served) -> Option<Arc<Toolbox>> {
        let given = self.given(provider, served);
        provider.tools.toolbox(&served.spec.name, given)
    }

    /// What functions are given. There are no variables but the task's input.
    fn given(&self, provider: &Provider, served: &Served) -> impl FnOnce() -> Given + Send + use<> {
        let variables = [("input", self.input.clone())];
        let runtime = [
            ("agent", Value::from(&*served.spec.name)),
            ("workflow_name", Value::from(&*provider.workflow)),
            ("task_id", Value::from(&*self.id)),
            ("attempt", Value::from(1)),
        ];
        move || Given {
            variables: variables
                .map(|(name, it)| (name.to_owned(), it))
                .into_iter()
                .collect(),
            runtime: runtime
                .map(|(name, it)| (name.to_owned(), it))
                .into_iter()
                .collect(),
        }
    }
}

/// What a buyer is told of a failure. How it came about may tell more of this machine than concerns them.
fn said(rejection: &Rejection) -> Error {
    let failure = rejection.failure;
    let code = match failure {
        Failure::Timeout | Failure::IdleTimeout => wire::TIMEOUT,
        _ => wire::INTERNAL,
    };
    Error::new(code, format!("{}: {}", failure.as_str(), failure.meaning()))
}

/// What is wrong with the params that a task may have besides, if anything is.
fn wrong(params: &Value) -> Option<&'static str> {
    let is = |name: &str, fits: fn(&Value) -> bool| {
        let value = &params[name];
        value.is_null() || fits(value)
    };
    let rules = [
        (
            is("timeout_ms", |it| it.as_u64().is_some_and(|it| it > 0)),
            "`timeout_ms` is a whole number above 0",
        ),
        (
            is("max_price_cu", |it| it.as_f64().is_some_and(|it| it >= 0.0)),
            "`max_price_cu` is a number that is not negative",
        ),
        (
            is("output_type", Value::is_string),
            "`output_type` is a text",
        ),
        (is("stream", Value::is_boolean), "`stream` is true or false"),
        (
            is("input_stream", Value::is_boolean),
            "`input_stream` is true or false",
        ),
    ];
    rules.into_iter().find(|it| !it.0).map(|it| it.1)
}
