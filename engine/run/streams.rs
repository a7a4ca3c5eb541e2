//! Tasks that begin with what a need of theirs has put out so far (Task Decomposition Format, *Streaming Within DAGs*).
//!
//! **Invariant:** what comes of going ahead is accepted only after what it was made of is in the journal, and is what came of the need. Else there was no attempt, and the task waits as if nothing had happened.

use std::{collections::BTreeMap, pin::pin, sync::Arc, time::Duration};

use serde_json::Value;
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::timeout,
};

use super::{
    attempt::{Answer, Asking},
    drive::Verdict,
    work::Performance,
};
use crate::{
    accept::{Failure, Rejection},
    agent::{Agent, Chunks, Usage},
    context::Json,
    contract::runtime::Runtime,
    dag::Invocation,
    graph::TaskIx,
    schedule::Retry,
};

/// How long a task waits, at most, to learn whether others can take its output in chunks.
const ASKING: Duration = Duration::from_secs(10);

/// What goes in chunks in a batch.
pub(super) struct Streams {
    /// For each task, what the attempt under way has put out so far, if somebody may take it so.
    of: Vec<Option<Arc<Chunks>>>,
    /// Tasks that can go ahead.
    said: UnboundedSender<TaskIx>,
    heard: UnboundedReceiver<TaskIx>,
}

/// Agents by their names, each with its tasks that may take an output in chunks.
type Takers = BTreeMap<Arc<str>, (Arc<dyn Agent>, Vec<TaskIx>)>;

/// An attempt's output for those who may take it in chunks.
pub(super) struct Offer {
    chunks: Arc<Chunks>,
    takers: Takers,
    said: UnboundedSender<TaskIx>,
}

/// An attempt that goes ahead.
pub(super) struct Ahead {
    asking: Asking,
    agent: Arc<dyn Agent>,
    input: Arc<Chunks>,
    offer: Option<Offer>,
}

impl Streams {
    pub(super) fn new(n_tasks: usize) -> Streams {
        let (said, heard) = unbounded_channel();
        Streams {
            of: vec![None; n_tasks],
            said,
            heard,
        }
    }

    /// Waits for the next task that can go ahead. Nothing is lost if the wait is given up.
    pub(super) async fn next(&mut self) -> TaskIx {
        match self.heard.recv().await {
            Some(task) => task,
            None => std::future::pending().await,
        }
    }

    /// Nothing came of the attempt under way.
    pub(super) fn end(&mut self, ix: TaskIx) {
        if let Some(chunks) = self.of[ix.at()].take() {
            chunks.settle(None);
        }
    }

    /// This came of the task.
    pub(super) fn settle(&mut self, ix: TaskIx, output: &Json) {
        if let Some(chunks) = self.of[ix.at()].take().filter(|it| it.has_begun()) {
            chunks.settle(Some(&output.value()));
        }
    }
}

impl Offer {
    /// Those who can go ahead with the output.
    async fn takers(&mut self) -> Vec<TaskIx> {
        let mut able = Vec::new();
        for (agent, tasks) in std::mem::take(&mut self.takers).into_values() {
            if agent.takes_chunks().await {
                able.extend(tasks);
            }
        }
        able
    }
}

/// Makes an attempt. If somebody can take its output in chunks, it is asked for so.
pub(super) async fn make(
    mut asking: Asking,
    agent: Arc<dyn Agent>,
    offer: Option<Offer>,
) -> Answer {
    let Some(mut offer) = offer else {
        return asking.make(agent).await;
    };
    let takers = timeout(ASKING, offer.takers()).await.unwrap_or_default();
    if takers.is_empty() {
        return asking.make(agent).await;
    }
    asking.request.streams.output = Some(Arc::clone(&offer.chunks));
    let mut made = pin!(asking.make(agent));
    tokio::select! {
        biased;
        answer = &mut made => return answer,
        () = offer.chunks.begun() => (),
    }
    for task in takers {
        // Where nobody listens any more, nothing begins.
        let _ = offer.said.send(task);
    }
    made.await
}

impl Ahead {
    /// As any other attempt; but its output is there when it is known that its input was the right one.
    pub(super) async fn make(self) -> Answer {
        let witness = self.asking.request.witness.clone();
        let mut answer = make(self.asking, self.agent, self.offer).await;
        // It may be given up before anybody judges it.
        witness.uses(answer.usage);
        if answer.output.is_ok() && !self.input.hold().await {
            let message = "what it began with is not what came of it";
            answer.output = Err(Rejection::new(Failure::Unresolved, message));
        }
        answer
    }
}

impl Performance<'_> {
    /// The output of an attempt for those who may take it in chunks, if there are any. Only a first attempt is offered:
    /// what went wrong with chunks does not go wrong again. Where there is a budget, nothing is: who goes ahead in vain
    /// is asked twice, which nobody has allowed.
    pub(super) fn offer(&mut self, ix: TaskIx, is_first: bool) -> Option<Offer> {
        self.streams.end(ix);
        let is_acmp = |it: TaskIx| {
            let agent = &self.plan.tasks()[it.at()].agent;
            matches!(self.specs[&**agent].runtime, Runtime::Acmp { .. })
        };
        if !is_first || !is_acmp(ix) || self.spending.is_limited() {
            return None;
        }
        let mut takers = Takers::new();
        for it in self.plan.graph().streamed_by(ix) {
            let name = &self.plan.tasks()[it.at()].agent;
            if is_acmp(it) && !self.specs[&**name].cache && self.tools.auto(name).is_empty() {
                let agent = || (Arc::clone(&self.agents[&**name]), Vec::new());
                let (_, tasks) = takers.entry(Arc::clone(name)).or_insert_with(agent);
                tasks.push(it);
            }
        }
        if takers.is_empty() {
            return None;
        }
        let chunks = Arc::new(Chunks::new(self.max_output_bytes));
        self.streams.of[ix.at()] = Some(Arc::clone(&chunks));
        Some(Offer {
            chunks,
            takers,
            said: self.streams.said.clone(),
        })
    }

    /// An attempt whose input is still to come.
    pub(super) fn prepare_ahead(&mut self, ix: TaskIx) -> Result<Ahead, Rejection> {
        let none = || Rejection::new(Failure::Unresolved, "nothing comes any more");
        let of = self.plan.graph().stream(ix).ok_or_else(none)?;
        let input = self.streams.of[of.at()].clone().ok_or_else(none)?;
        let attempt = self.fates[ix.at()].before + 1;
        let task = &self.plan.tasks()[ix.at()];
        let invoked = task.invoke.as_ref().ok_or_else(none)?;
        // Its id is nobody else's: what was sent with it cannot be sent again.
        let key = format!("{}/ahead/{:x}", self.key(ix, attempt), fastrand::u128(..));
        let invocation = Invocation {
            task_id: Invocation::id_of(&key),
            task: Arc::clone(invoked),
            input: Json::from(Value::Null),
            timeout: invoked.timeout.unwrap_or(self.batch.timeout),
        };
        let mut request = self.request(ix, attempt, Some(Arc::new(invocation)));
        request.streams.input = Some(Arc::clone(&input));
        self.gets_under_way(ix, 0, &request.witness);
        Ok(Ahead {
            asking: Asking {
                terms: self.terms(task),
                meter: self.spending.meter(&task.agent),
                is_output: matches!(self.specs[&*task.agent].runtime, Runtime::Acmp { .. }),
                // Whoever goes ahead reads no prompt and has no tools.
                around: None,
                request,
            },
            agent: Arc::clone(&self.agents[&*task.agent]),
            input,
            offer: self.offer(ix, true),
        })
    }

    /// Judges how going ahead ended. Accepted, it is a first attempt like any other.
    pub(super) fn judge_ahead(&mut self, ix: TaskIx, answer: Answer) -> Verdict {
        let (attempt, usage) = (self.fates[ix.at()].before + 1, answer.usage);
        let about = (&self.batch.id, ix.number(), attempt);
        let output = answer.output.and_then(|output| {
            let invocation = self.invocation(ix, attempt)?;
            Ok((self.claim(ix, output)?, invocation))
        });
        let Ok((judged, invocation)) = output else {
            if usage != Usage::default() {
                self.log.in_vain(about, usage);
            }
            return Verdict::Rejected(Retry::Never);
        };
        self.fates[ix.at()].attempts = attempt;
        let request = self.request(ix, attempt, invocation);
        self.log.started(about, &request.prompt);
        let origin = &mut self.fates[ix.at()].origin;
        origin.model = answer.model;
        self.log
            .accepted(about, &judged.output.text(), usage, origin);
        self.judged.push(judged);
        Verdict::Accepted
    }
}

#[cfg(test)]
mod tests;
