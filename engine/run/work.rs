//! A batch under way: what its attempts bring, judged, written down and published.
//!
//! **Invariant:** an output is in the journal before it is anywhere else.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    io::Write,
    mem,
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::{
    Hear,
    around::{self, Note, Rewritten, Shared},
    aside::Aside,
    attempt::{Answer, Asking},
    calls::Ear,
    drive::{Broken, Ended, Recalled, Verdict, Work},
    log::{self, Log},
    past,
    queue::Queue,
    results::{self, Fate},
    spending::Spending,
    store::Store,
    streams::{self, Streams},
    withdrawal::{self, Withdrawals},
};
use crate::{
    accept::{EmittedFile, Failure, How, Output, Rejection},
    agent::{Agents, Usage, Witness},
    compile::{AgentSpec, Batch},
    context::{Json, Outputs, TaskFiles, View},
    contract::runtime::Runtime,
    event::{RunEvent, TaskEnd},
    graph::TaskIx,
    ownership::Ledger,
    plan::Plan,
    prompt,
    schedule::{Cause, Command, End, Event, Retry},
    tool::Tools,
};

/// Files for programs, one of which grows with every output.
pub(super) struct HandedOut {
    pub(super) named: Arc<TaskFiles>,
    pub(super) outputs: File,
}

/// A batch under way.
pub(super) struct Performance<'a> {
    pub(super) run: Arc<str>,
    pub(super) workflow: &'a str,
    pub(super) batch: &'a Batch,
    pub(super) plan: &'a Plan,
    pub(super) specs: &'a BTreeMap<String, AgentSpec>,
    pub(super) tools: &'a Arc<Tools>,
    pub(super) agents: &'a Agents,
    pub(super) spending: &'a mut Spending,
    /// The context as it was when the batch began.
    pub(super) view: View,
    pub(super) outputs: Arc<Outputs>,
    pub(super) completed: usize,
    /// How many tasks that depend on this one have not ended.
    pub(super) open_needs: Vec<usize>,
    pub(super) aside: &'a mut Aside,
    pub(super) ledger: Shared<Ledger>,
    /// The ids of all tasks.
    pub(super) ids: Arc<[Arc<str>]>,
    pub(super) store: &'a mut Store,
    pub(super) fates: Vec<Fate>,
    pub(super) used: Vec<Usage>,
    pub(super) n_files: Vec<usize>,
    pub(super) files: Option<HandedOut>,
    /// The world failed. No more is accepted, and the run ends with it.
    pub(super) broken: Option<anyhow::Error>,
    pub(super) ear: Ear<(TaskIx, u32)>,
    /// A person has to answer before the batch can go on.
    pub(super) waiting: Option<Rejection>,
    pub(super) max_output_bytes: usize,
    pub(super) max_file_bytes: usize,
    pub(super) max_input_bytes: usize,
    pub(super) hear: Hear<'a>,
    pub(super) log: &'a mut Log,
    pub(super) turn: u32,
    /// Tasks that people cancel.
    pub(super) withdrawals: &'a mut Option<Withdrawals>,
    /// What earlier sessions saw, which is still to be recalled.
    pub(super) past: VecDeque<past::Attempt>,
    pub(super) is_recalling: bool,
    /// The hashes of what agents are, as far as somebody asked.
    pub(super) identities: BTreeMap<Arc<str>, String>,
    /// What was accepted and is not published.
    pub(super) judged: Vec<Judged>,
    /// What goes in chunks.
    pub(super) streams: Streams,
    /// For each task, the attempt under way, and what is known of it; 0 for one that goes ahead.
    pub(super) under_way: Vec<Option<(u32, Witness)>>,
    /// What went ahead and was given up.
    pub(super) given_up: Vec<(TaskIx, u32, Witness)>,
    /// Each task's instruction as functions left it.
    pub(super) rewritten: Vec<Rewritten>,
    pub(super) notes: (UnboundedSender<Note>, UnboundedReceiver<Note>),
    /// Tasks that people have to answer.
    pub(super) queue: Queue,
}

/// An output that was accepted.
pub(super) struct Judged {
    pub(super) ix: TaskIx,
    pub(super) output: Json,
    pub(super) files: Vec<EmittedFile>,
}

impl Work for Performance<'_> {
    type Answer = Answer;

    fn attempt(
        &mut self,
        ix: TaskIx,
        attempt: u32,
    ) -> impl Future<Output = Answer> + Send + 'static {
        let attempt = self.fates[ix.at()].before + attempt;
        self.fates[ix.at()].attempts = attempt;
        let invocation = self.invocation(ix, attempt);
        let refused = invocation.as_ref().err().cloned();
        let mut request = self.request(ix, attempt, invocation.ok().flatten());
        let task = &self.plan.tasks()[ix.at()];
        let agent = Arc::clone(&self.agents[&*task.agent]);
        let reused = match &refused {
            None => self.reuse(ix, &request).map(Ok),
            Some(rejection) => Some(Err(rejection.clone())),
        };
        let around = self.around((ix, attempt), &request);
        let feedback = self.fates[ix.at()].rejection.as_deref();
        if let Some(last) = feedback.filter(|it| it.failure.is_about_the_answer()) {
            request.prompt = prompt::after(&request.prompt, last);
        }
        let about = (&self.batch.id, ix.number(), attempt);
        self.log.started(about, &request.prompt);
        self.gets_under_way(ix, attempt, &request.witness);
        let asking = Asking {
            terms: self.terms(task),
            meter: self.spending.meter(&task.agent),
            is_output: matches!(self.specs[&*task.agent].runtime, Runtime::Acmp { .. }),
            request,
            around,
        };
        let offer = self.offer(ix, attempt == self.fates[ix.at()].before + 1);
        let is_human = matches!(self.specs[&*task.agent].runtime, Runtime::Human { .. });
        let place = (is_human && reused.is_none()).then(|| self.queue.place(ix));
        async move {
            if let Some(place) = &place {
                place.turn().await;
            }
            match reused {
                Some(known) => Answer::free(known),
                None => streams::make(asking, agent, offer).await,
            }
        }
    }

    fn ahead(&mut self, ix: TaskIx) -> impl Future<Output = Answer> + Send + 'static {
        let ahead = self.prepare_ahead(ix);
        async move {
            match ahead {
                Ok(ahead) => ahead.make().await,
                Err(rejection) => Answer::free(Err(rejection)),
            }
        }
    }

    fn recall(&mut self) -> Result<Option<Recalled>, Broken> {
        while let Some(attempt) = self.past.pop_front() {
            if let past::Came::CutShort = attempt.came {
                if let Some(used) = self.used.get_mut(attempt.task as usize) {
                    used.add(attempt.usage);
                }
                continue;
            }
            self.is_recalling = true;
            match self.take_back(attempt) {
                Ok(None) => (),
                Ok(recalled) => return Ok(recalled),
                Err(error) => return Err(self.breaks(error)),
            }
        }
        self.recalled();
        Ok(None)
    }

    async fn listen(&mut self) -> Option<Event> {
        tokio::select! {
            (about, word) = self.ear.next() => self.heard(about, word),
            note = self.notes.1.recv() => note.into_iter().for_each(|it| self.noted(it)),
            () = self.spending.changed() => {
                for it in self.spending.news() {
                    self.log.held_up(&it);
                    (self.hear)(&it);
                }
            }
            task = self.streams.next() => return Some(Event::Flows { task }),
            withdrawn = withdrawal::next(self.withdrawals.as_mut()) => {
                let task = self.withdraw(withdrawn);
                return task.map(|task| Event::TaskCancelled { task });
            }
        }
        None
    }

    fn judge(&mut self, ix: TaskIx, attempt: u32, answer: Ended<Answer>) -> Verdict {
        self.hear_all();
        let answer = match answer {
            Ended::Answered(answer) => answer,
            Ended::Panicked(message) => {
                let message = format!("the attempt broke inside the engine: {message}");
                let rejection = Rejection::new(Failure::Internal, message);
                Answer::free(Err(rejection))
            }
        };
        self.under_way[ix.at()] = None;
        let usage = answer.usage;
        self.used[ix.at()].add(usage);
        let warnings = self.spending.warnings();
        warnings.for_each(|it| (self.hear)(&it));
        if attempt == 0 {
            return self.judge_ahead(ix, answer);
        }
        let attempt = self.fates[ix.at()].before + attempt;
        let about = (&self.batch.id, ix.number(), attempt);
        let read = answer.output.as_ref().ok().and_then(|it| it.read);
        let claimed = answer.output.and_then(|output| self.claim(ix, output));
        if claimed.is_err() {
            self.streams.end(ix);
        }
        match claimed {
            Ok(judged) => {
                let origin = &mut self.fates[ix.at()].origin;
                origin.model = answer.model;
                origin.read = read;
                self.log
                    .accepted(about, &judged.output.text(), usage, origin);
                self.judged.push(judged);
                Verdict::Accepted
            }
            Err(rejection) if rejection.failure == Failure::Budget => {
                self.fates[ix.at()].attempts = attempt - 1;
                self.log.withheld(about, usage);
                Verdict::Withheld
            }
            Err(rejection) if rejection.failure == Failure::Unattended => {
                self.fates[ix.at()].attempts = attempt - 1;
                self.log.withheld(about, usage);
                self.waiting = Some(rejection);
                Verdict::Open
            }
            Err(rejection) => {
                around::lock(&self.ledger).release(ix.at());
                let retry = self.retry(ix, &rejection);
                self.log.rejected(about, &rejection, retry, usage);
                rejection.note(&mut self.fates[ix.at()].failed);
                self.fates[ix.at()].rejection = Some(Box::new(rejection));
                Verdict::Rejected(retry)
            }
        }
    }

    fn commit(&mut self) -> Result<(), Broken> {
        let committed = self.log.commit().and_then(|()| self.publish());
        committed.map_err(|error| self.breaks(error))
    }

    fn flush(&mut self) -> Result<(), Broken> {
        self.hear_all();
        match self.broken {
            Some(_) => Err(Broken),
            None => {
                let flushed = self.log.flush().map_err(|error| self.breaks(error));
                self.ear.has_kept();
                flushed
            }
        }
    }

    fn observe(&mut self, command: &Command, wait: Option<Duration>) {
        let event = match *command {
            Command::Start { task, attempt } => self.begins(task, attempt),
            Command::Ahead { task } => self.begins(task, 1),
            Command::Delay { .. } if self.is_recalling => return,
            Command::Delay { task, .. } => {
                let fate = &self.fates[task.at()];
                let about = (&self.batch.id, task.number(), fate.attempts);
                self.log.delayed(about, wait.unwrap_or_default());
                let rejection = fate.rejection.as_ref();
                RunEvent::AttemptRejected {
                    batch: Arc::clone(&self.batch.id),
                    task: Arc::clone(&self.plan.tasks()[task.at()].id),
                    attempt: fate.attempts,
                    failure: rejection.map_or("internal", |it| it.failure.as_str()),
                    message: rejection.map(|it| it.message.clone()).unwrap_or_default(),
                    retry_in_ms: wait.map(|it| it.as_millis() as u64),
                }
            }
            Command::Drop { task } => return self.streams.end(task),
            Command::Settle { task, end } => {
                self.fates[task.at()].end = Some(end);
                if end != End::Completed {
                    around::lock(&self.ledger).release(task.at());
                }
                self.put_aside(task);
                // Where the world failed, nobody was told to stop, and the run can be resumed.
                if self.is_recalling || self.broken.is_some() {
                    return;
                }
                self.note_end(task, end);
                self.ended(task, end)
            }
        };
        (self.hear)(&event);
    }
}

impl Performance<'_> {
    /// Takes an output in, if its files can get this task as their owner.
    pub(super) fn claim(&mut self, ix: TaskIx, output: Output) -> Result<Judged, Rejection> {
        around::claim(&mut around::lock(&self.ledger), (ix, &self.ids), &output)?;
        if !output.dropped.is_empty() {
            let id = &self.plan.tasks()[ix.at()].id;
            let message = format!(
                "task `{id}` answered with keys that its model does not have, left out: {}",
                output.dropped.join(", ")
            );
            (self.hear)(&RunEvent::Warning { message });
        }
        Ok(Judged {
            ix,
            output: Json::written(&output.value),
            files: output.files,
        })
    }

    /// Makes what is in the journal visible: files, and outputs to whoever needs them.
    fn publish(&mut self) -> anyhow::Result<()> {
        for judged in mem::take(&mut self.judged) {
            log::boundary();
            self.store.write(&judged.files)?;
            self.hand_out(judged)?;
        }
        Ok(())
    }

    pub(super) fn hand_out(&mut self, judged: Judged) -> anyhow::Result<()> {
        let Judged { ix, output, files } = judged;
        if let Some(files) = &mut self.files {
            let id = json!(&*self.plan.tasks()[ix.at()].id);
            writeln!(files.outputs, "{{\"task_id\":{id},\"output\":{output}}}")
                .with_context(|| format!("cannot write `{}`", files.named.outputs))?;
        }
        self.n_files[ix.at()] = files.len();
        self.streams.settle(ix, &output);
        self.outputs.put(ix.at(), self.completed, output);
        self.completed += 1;
        self.fates[ix.at()].rejection = None;
        Ok(())
    }

    /// Outputs that no task of this batch needs any more leave the memory.
    fn put_aside(&mut self, ended: TaskIx) {
        let graph = self.plan.graph();
        for needed in graph.needs(ended) {
            self.open_needs[needed.at()] -= 1;
        }
        for ix in graph.needs(ended).iter().chain([&ended]) {
            if self.open_needs[ix.at()] == 0 {
                self.outputs.hold(ix.at(), |it| self.aside.put(it));
            }
        }
    }

    /// An attempt is prepared. What went ahead of the task, if anything did, was given up.
    pub(super) fn gets_under_way(&mut self, ix: TaskIx, attempt: u32, witness: &Witness) {
        let before = self.under_way[ix.at()].replace((attempt, witness.clone()));
        let before = before.map(|(attempt, witness)| (ix, attempt, witness));
        self.given_up.extend(before);
    }

    /// Counts what attempts used that nobody waited for any more.
    pub(super) fn count_cut_short(&mut self) -> anyhow::Result<()> {
        let under_way = mem::take(&mut self.under_way).into_iter().enumerate();
        let under_way = under_way.filter_map(|(at, it)| {
            let (attempt, witness) = it?;
            Some((TaskIx::new(at), attempt, witness))
        });
        let given_up = mem::take(&mut self.given_up).into_iter();
        for (ix, attempt, witness) in given_up.chain(under_way) {
            let usage = witness.used();
            if usage == Usage::default() && !witness.has_told() {
                continue;
            }
            self.used[ix.at()].add(usage);
            let about = (&self.batch.id, ix.number(), attempt);
            match attempt {
                0 => self.log.in_vain(about, usage),
                _ => self.log.cut_short(about, usage),
            }
        }
        self.log.flush()
    }

    pub(super) fn breaks(&mut self, error: anyhow::Error) -> Broken {
        self.broken.get_or_insert(error);
        Broken
    }

    /// What stopped because somebody stopped the run is not at its end.
    fn note_end(&mut self, ix: TaskIx, end: End) {
        let data = match end {
            // That it was withdrawn is in the journal since before it ended.
            End::Completed
            | End::Cancelled(
                Cause::Requested | Cause::Deadline | Cause::Budget | Cause::Withdrawn,
            ) => {
                return;
            }
            End::Failed => json!({ "end": "failed" }),
            End::Cancelled(cause) => {
                json!({ "end": "cancelled", "because": results::because(self.plan, cause) })
            }
        };
        let about = (&self.batch.id, ix.number(), self.fates[ix.at()].attempts);
        self.log.ended(about, data);
    }

    /// Whether another attempt can help.
    fn retry(&self, ix: TaskIx, rejection: &Rejection) -> Retry {
        let last = self.fates[ix.at()].rejection.as_ref();
        let is_same_answer =
            last.is_some_and(|it| it.answer.is_some() && it.answer == rejection.answer);
        match rejection.retry_after {
            _ if is_same_answer || !rejection.is_worth_a_retry() => Retry::Never,
            Some(floor) => Retry::NotBefore(floor),
            None => Retry::Backoff,
        }
    }

    fn begins(&self, ix: TaskIx, attempt: u32) -> RunEvent {
        let task = &self.plan.tasks()[ix.at()];
        RunEvent::TaskStarted {
            batch: Arc::clone(&self.batch.id),
            task: Arc::clone(&task.id),
            agent: Arc::clone(&task.agent),
            attempt: self.fates[ix.at()].before + attempt,
        }
    }

    fn ended(&self, ix: TaskIx, end: End) -> RunEvent {
        let fate = &self.fates[ix.at()];
        RunEvent::TaskEnded {
            batch: Arc::clone(&self.batch.id),
            task: Arc::clone(&self.plan.tasks()[ix.at()].id),
            end: match end {
                End::Completed => TaskEnd::Completed,
                End::Failed => TaskEnd::Failed {
                    failure: fate
                        .rejection
                        .as_ref()
                        .map_or("internal", |it| it.failure.as_str()),
                    message: fate
                        .rejection
                        .as_ref()
                        .map(|it| it.message.clone())
                        .unwrap_or_default(),
                },
                End::Cancelled(Cause::Requested) if self.waiting.is_some() => TaskEnd::Cancelled {
                    because: "a person has to answer before the run goes on".to_owned(),
                },
                End::Cancelled(cause) => TaskEnd::Cancelled {
                    because: results::because(self.plan, cause),
                },
            },
            attempts: fate.attempts,
            reused: fate.origin.run.clone(),
            model: fate.origin.model.clone(),
            read: fate.origin.read.map(How::as_str),
            usage: self.used[ix.at()],
            files: self.n_files[ix.at()],
        }
    }
}
