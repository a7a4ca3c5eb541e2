//! Runs an agent's tools on its output, and functions at certain points of a run.
//!
//! **Invariant:** what came of a call is in the journal before it changes anything; a call that is there is not made again.

use std::{sync::Arc, time::Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{FailedTool, Hear, Run, Stop};
use crate::{
    context::Json,
    contract::tools::{LifecycleTrigger, Outcome},
    event::RunEvent,
    prompt::{Prompt, cut},
    tool::{Given, Made, Tool, ToolError, Whose},
};

/// How much is shown of a result that says no outcome, in bytes.
const SHOWN: usize = 500;

/// What came of a call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) ok: bool,
    /// The result, or what went wrong.
    pub(super) text: String,
    /// One of the outcomes that the tool's author named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outcome: Option<String>,
    /// The variables that it set.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    changed: Map<String, Value>,
    /// What it printed beside its result.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) printed: String,
}

impl Done {
    /// What a tool with an outcome says.
    pub(super) fn outcome<'a>(&'a self, terms: &'a Outcome) -> &'a str {
        self.outcome.as_deref().unwrap_or(&terms.error_value)
    }
}

impl Run<'_> {
    /// Runs what runs on an agent's output, one after the other. Says whether the agent is to speak again because of an
    /// outcome.
    pub(super) async fn run_tools(
        &mut self,
        agent: &Arc<str>,
        output: &Value,
        hear: Hear<'_>,
    ) -> Result<bool, Stop> {
        for tool in self.tools.auto(agent) {
            let name = Arc::clone(&tool.spec.name);
            let done = self.call(&tool, agent, output, hear).await?;
            self.called.insert(name.to_string());
            let Some(terms) = &tool.spec.outcome else {
                if done.ok {
                    continue;
                }
                let message = format!("the tool `{name}` of `{agent}` failed: {}", done.text);
                return Err(Stop::Failed(message));
            };
            if self.take_outcome(terms, &done) {
                // What it is told next is what the tool said of its answer.
                let told = Json::written(&Value::from(done.text));
                self.last_answer = Some((format!("{agent}, tool {name}").into(), told));
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Runs what the workflow has run at a point of a run.
    pub(super) async fn at(
        &mut self,
        trigger: LifecycleTrigger,
        agent: Option<&Arc<str>>,
        hear: Hear<'_>,
    ) -> Result<(), Stop> {
        for tool in self.tools.at(trigger, agent.map(|it| &**it)) {
            let agent = agent.map_or_else(|| "".into(), Arc::clone);
            let nothing = Value::Object(Map::new());
            let done = self.call(&tool, &agent, &nothing, hear).await?;
            if !done.ok {
                let name = &tool.spec.name;
                let message = format!("the lifecycle tool `{name}` failed: {}", done.text);
                return Err(Stop::Failed(message));
            }
        }
        Ok(())
    }

    /// The prompt as the workflow's prompt functions leave it.
    pub(super) async fn rewritten(
        &self,
        agent: &str,
        prompt: Prompt,
        hear: Hear<'_>,
    ) -> Result<Prompt, Stop> {
        let Prompt { system, user } = prompt;
        let rewritten = self
            .tools
            .rewrite(Whose::in_turn(agent), (system, &user), || {
                self.given(agent)()
            });
        let (system, faults) = tokio::select! {
            () = self.cancel.cancelled() => return Err(Stop::Cancelled),
            rewritten = rewritten => rewritten,
        };
        for message in faults {
            hear(&RunEvent::Warning { message });
        }
        Ok(Prompt { system, user })
    }

    /// Calls a tool, unless that was done before, and sets the variables that it set.
    async fn call(
        &mut self,
        tool: &Tool,
        agent: &Arc<str>,
        output: &Value,
        hear: Hear<'_>,
    ) -> Result<Done, Stop> {
        let name = &tool.spec.name;
        let done = match self.log.recall_tool(self.turn, name)? {
            Some(done) => done,
            None => {
                let given = self.given(agent)();
                let begun = Instant::now();
                let made = tokio::select! {
                    () = self.cancel.cancelled() => return Err(Stop::Cancelled),
                    made = self.tools.run(tool, (Whose::in_turn(agent), output), &given) => made,
                };
                let done = judge(tool, made);
                let took = begun.elapsed();
                self.log.called(self.turn, agent, name, took, &done)?;
                hear(&RunEvent::ToolRan {
                    turn: self.turn,
                    agent: Arc::clone(agent),
                    tool: Arc::clone(name),
                    ok: done.ok,
                    ms: took.as_millis() as u64,
                    outcome: done.outcome.clone(),
                    message: (!done.ok).then(|| done.text.clone()),
                    printed: done.printed.clone(),
                });
                done
            }
        };
        if let (false, Some(outcome)) = (done.ok, &done.outcome) {
            self.failed_tools.push(FailedTool {
                turn: self.turn,
                agent: Arc::clone(agent),
                tool: Arc::clone(name),
                message: done.text.clone(),
                outcome: outcome.clone(),
            });
        }
        let whose = match agent.is_empty() {
            true => String::new(),
            false => format!(" of `{agent}`"),
        };
        for (variable, value) in &done.changed {
            let writer = format!("the tool `{name}`{whose}");
            self.set(&writer, (variable, value.clone()), hear);
        }
        Ok(done)
    }

    /// Sets a variable. Its type is not enforced, but somebody should know.
    pub(super) fn set(&mut self, writer: &str, (name, value): (&str, Value), hear: Hear<'_>) {
        if let Some(doubt) = self.workflow.doubt(name, &value) {
            let message = format!("{writer} sets the variable `{name}`, {doubt}");
            if self.doubted.insert(message.clone()) {
                hear(&RunEvent::Warning { message });
            }
        }
        self.context.set(name, value);
    }

    /// What functions are given, as it is now; made when it is called.
    pub(super) fn given(&self, agent: &str) -> impl FnOnce() -> Given + Send + use<> {
        let context = self.context.clone();
        let runtime = [
            ("agent", Value::from(agent)),
            ("workflow_name", Value::from(&*self.workflow.name)),
            ("run_id", Value::from(&*self.id)),
            ("turn", Value::from(self.turn)),
        ];
        let runtime = runtime.map(|(name, it)| (name.to_owned(), it));
        move || Given {
            variables: match context.to_value() {
                Value::Object(variables) => variables,
                _ => Map::new(),
            },
            runtime: runtime.into_iter().collect(),
        }
    }

    /// Sets the variables of an outcome. Says whether the agent is to speak again.
    fn take_outcome(&mut self, terms: &Outcome, done: &Done) -> bool {
        let outcome = done.outcome(terms);
        let before = self
            .context
            .get(&terms.attempts_key)
            .and_then(|it| it.as_u64());
        let attempts = before.unwrap_or(0).saturating_add(1);
        self.context.set(&terms.attempts_key, Value::from(attempts));
        self.context.set(&terms.context_key, Value::from(outcome));
        let is_tried_again = terms.retry_on.iter().any(|it| it.as_str() == outcome);
        is_tried_again && attempts < u64::from(terms.max_attempts)
    }
}

/// The outcome that a result says, or why it says none.
fn outcome(terms: &Outcome, result: &Value) -> Result<String, String> {
    let field = terms.result_field.as_str();
    let found = match result.get(field) {
        Some(Value::String(found)) => found,
        Some(other) => {
            let other = cut(&other.to_string(), SHOWN);
            return Err(format!("it says {other} under `{field}`, and no text"));
        }
        None => return Err(format!("it says nothing under `{field}`")),
    };
    let known: Vec<&str> = terms.values.iter().map(|it| it.as_str()).collect();
    match known.contains(&found.as_str()) || *found == *terms.error_value {
        true => Ok(found.clone()),
        false => Err(format!(
            "it says `{}` under `{field}`, which is none of `{}`",
            cut(found, SHOWN),
            known.join("`, `")
        )),
    }
}

/// What a result means.
pub(super) fn judge(tool: &Tool, made: Made) -> Done {
    let terms = tool.spec.outcome.as_ref();
    let printed = made.printed;
    match made.came {
        Ok(called) => {
            let outcome = terms.map(|terms| outcome(terms, &called.value));
            let (outcome, fault) = match outcome {
                Some(Err(fault)) => (terms.map(|it| it.error_value.to_string()), Some(fault)),
                known => (known.and_then(Result::ok), None),
            };
            Done {
                ok: fault.is_none(),
                outcome,
                text: match fault {
                    Some(fault) => format!("{fault}; its result is {}", cut(&called.text, SHOWN)),
                    None => called.text,
                },
                changed: called.changed,
                printed,
            }
        }
        Err(ToolError(text)) => Done {
            outcome: terms.map(|it| it.error_value.to_string()),
            text,
            printed,
            ..Done::default()
        },
    }
}
