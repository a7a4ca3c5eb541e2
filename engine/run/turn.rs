//! Asks an agent outside a batch, a few times if need be.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tokio::time::sleep;

use super::{Hear, Run, Spoken, Stop, calls::Ear};
use crate::{
    accept::{self, Failure, Rejection, Said},
    agent::{Leave, Request, Streams, Usage},
    compile::{Reads, USER},
    context::Json,
    event::RunEvent,
    prompt::{self, Prompt},
};

/// How often an agent outside a batch is asked in one turn.
const ATTEMPTS: u32 = 3;

/// A planner is asked again because of its plan.
pub(super) struct Again<'a> {
    pub(super) prompt: &'a Prompt,
    pub(super) report: &'a str,
    pub(super) answer: &'a str,
}

impl Run<'_> {
    /// Asks until an answer can be used.
    pub(super) async fn ask(
        &mut self,
        agent: &Arc<str>,
        again: Option<Again<'_>>,
        hear: Hear<'_>,
    ) -> Result<Spoken, Stop> {
        let spec = &self.workflow.agents[&**agent];
        let asked = &self.agents[&**agent];
        let view = self.context.view(&spec.sees);
        let first = match again {
            None => prompt::turn(&spec.instruction, &self.message(agent), &view),
            Some(again) => {
                let rejection = Rejection::new(Failure::WrongShape, again.report);
                prompt::after(again.prompt, &rejection.with_answer(again.answer))
            }
        };
        let recalled = self.log.recall_turn(self.turn, agent)?;
        self.count(agent, recalled.rejected_usage);
        if let Some((text, usage)) = recalled.answer {
            self.count(agent, usage);
            let said = self.read(agent, &text, &mut |_| ()).map_err(|rejection| {
                let message =
                    format!("the journal's answer of `{agent}` fits no more: {rejection}");
                Stop::Broken(anyhow::Error::msg(message))
            })?;
            self.take_calls(agent, recalled.calls, hear);
            return Ok(Spoken {
                value: Json::written(&said.value),
                prompt: first,
                text: String::from(&*text),
                model: None,
                read: said.read,
            });
        }
        // What is kept for a planner that is asked again is the prompt as it was before: it is rewritten anew.
        let told = match asked.reads_prompt() {
            true => self.rewritten(agent, first.clone(), hear).await?,
            false => first.clone(),
        };
        let done = recalled.rejections;
        let last_attempt = ATTEMPTS.max(done + 1);
        let mut prompt = told.clone();
        let mut last: Option<Rejection> = None;
        let mut failed = recalled.failed;
        let mut ear = Ear::new();
        let limits = &self.workflow.limits;
        for attempt in done + 1..=last_attempt {
            let request = Request {
                agent: Arc::clone(agent),
                task_id: None,
                attempt,
                idempotency_key: self.key(attempt),
                prompt: prompt.clone(),
                view: view.clone(),
                invocation: None,
                streams: Streams::default(),
                failed: failed.clone(),
                is_budgeted: false,
                shape: spec.shape.clone(),
                tools: self.tools.toolbox(agent, self.given(agent)),
                timeout: Duration::from_secs(limits.turn_timeout_seconds),
                max_output_bytes: limits.max_output_bytes,
                leave: Leave::default(),
                witness: ear.witness(attempt),
            };
            self.log.asked(self.turn, agent, attempt, &prompt);
            self.log.flush()?;
            let meter = self.spending.meter(agent);
            let witness = request.witness.clone();
            let mut asking = Box::pin(meter.ask(&**asked, request));
            let answer = loop {
                tokio::select! {
                    biased;
                    () = self.cancel.cancelled() => {
                        // What was under way says now what it used.
                        drop(asking);
                        let usage = witness.used();
                        if usage != Usage::default() || witness.has_told() {
                            self.count(agent, usage);
                            self.log.turn_cut_short(self.turn, agent, usage);
                        }
                        return Err(Stop::Cancelled);
                    }
                    (_, word) = ear.next() => self.heard(agent, attempt, word, hear)?,
                    answer = &mut asking => break answer,
                    () = self.spending.changed() => {
                        for it in self.spending.news() {
                            self.log.held_up(&it);
                            hear(&it);
                        }
                        self.log.flush()?;
                    }
                }
            };
            while let Some((_, word)) = ear.try_next() {
                self.heard(agent, attempt, word, hear)?;
            }
            self.spending.warnings().for_each(|it| hear(&it));
            let rejection = match answer {
                Err(rejection) if rejection.failure == Failure::Budget => {
                    self.count(agent, rejection.usage);
                    self.log.turn_withheld(self.turn, agent, rejection.usage);
                    return Err(Stop::Budget(rejection.message));
                }
                // Nothing came of it, so nothing of it is written down.
                Err(rejection) if rejection.failure == Failure::Unattended => {
                    return Err(self.waits(rejection));
                }
                Err(rejection) => {
                    self.count(agent, rejection.usage);
                    rejection
                }
                Ok(reply) => {
                    self.count(agent, reply.usage);
                    match self.read(agent, &reply.text, hear) {
                        Ok(said) => {
                            self.log.answered(self.turn, agent, &reply, said.read)?;
                            self.take_calls(agent, reply.calls, hear);
                            return Ok(Spoken {
                                value: Json::written(&said.value),
                                prompt: first,
                                text: reply.text,
                                model: reply.model,
                                read: said.read,
                            });
                        }
                        Err(rejection) => Rejection {
                            usage: reply.usage,
                            ..rejection
                        },
                    }
                }
            };
            rejection.note(&mut failed);
            let is_same = last
                .as_ref()
                .is_some_and(|it| it.answer.is_some() && it.answer == rejection.answer);
            let is_last = attempt == last_attempt || is_same || !rejection.is_worth_a_retry();
            let floor = rejection.retry_after.unwrap_or_default();
            let span = self.workflow.turn_backoff.span(attempt);
            let wait = floor + span.mul_f64(fastrand::f64());
            self.log
                .turn_rejected(self.turn, agent, attempt, &rejection);
            self.log.flush()?;
            hear(&RunEvent::TurnRejected {
                turn: self.turn,
                agent: Arc::clone(agent),
                attempt,
                failure: rejection.failure.as_str(),
                message: rejection.message.clone(),
                retry_in_ms: (!is_last).then_some(wait.as_millis() as u64),
            });
            if is_last {
                return Err(Stop::Failed(format!(
                    "`{agent}` gave no answer that can be used: {rejection}"
                )));
            }
            tokio::select! {
                () = self.cancel.cancelled() => return Err(Stop::Cancelled),
                () = sleep(wait) => (),
            }
            if rejection.failure.is_about_the_answer() {
                prompt = prompt::after(&told, &rejection);
            }
            last = Some(rejection);
        }
        unreachable!("the last attempt returns")
    }

    /// The same for the same attempt of the same round, in whatever session it is made.
    fn key(&self, attempt: u32) -> String {
        let (id, turn) = (&self.id, self.turn);
        match self.round {
            0 => format!("{id}/turn-{turn}/{attempt}"),
            round => format!("{id}/turn-{turn}/repair-{round}/{attempt}"),
        }
    }

    fn read(&self, agent: &str, text: &str, hear: Hear<'_>) -> Result<Said, Rejection> {
        let spec = &self.workflow.agents[agent];
        let shape = spec.shape.as_deref();
        if let Some(value) = spec.chosen(text).filter(|_| shape.is_none()) {
            return Ok(Said {
                value: value.clone(),
                dropped: Vec::new(),
                read: None,
            });
        }
        let said = match spec.reads {
            Reads::Model => accept::turn(text, shape)?,
            Reads::Plan => accept::json(text)?,
        };
        if !said.dropped.is_empty() {
            let message = format!(
                "`{agent}` answered with keys that its model does not have, left out: {}",
                said.dropped.join(", ")
            );
            hear(&RunEvent::Warning { message });
        }
        Ok(said)
    }

    /// What an agent is asked: the run's input, then what the agent before it said. The person in front of the program
    /// knows the input.
    fn message(&self, agent: &str) -> String {
        let input = match self.context.get("input").as_deref() {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        match &self.last_answer {
            None => input,
            Some((before, value)) => {
                let text = value.text();
                let text = match text.starts_with('"') {
                    true => &serde_json::from_str::<String>(&text).unwrap_or_default(),
                    false => &*text,
                };
                let text = prompt::cut(text, prompt::MAX_FEEDBACK_BYTES);
                if agent == USER {
                    return text;
                }
                format!("{input}\n\n[LAST TURN: {before}]\n{text}")
            }
        }
    }
}

#[cfg(test)]
mod tests;
