//! Performs one batch, and says what is published of it.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    sync::{Arc, Mutex},
};

use anyhow::Context as _;
use tokio::sync::mpsc::unbounded_channel;

use super::{
    Hear, Run, Status, Stop,
    around::Rewritten,
    calls::Ear,
    drive::{self, Limits},
    queue::Queue,
    results::{self, Fate},
    streams::Streams,
    work::{HandedOut, Performance},
};
use crate::{
    agent::Usage,
    compile::Batch,
    context::{Json, Outputs, Sees, TaskFiles},
    event::RunEvent,
    ownership::Ledger,
    plan::{Plan, Task},
    schedule::End,
};

/// How a batch ended.
pub(super) struct Done {
    /// What goes under its context key.
    pub(super) results: Json,
    pub(super) status: Status,
    /// Why the run cannot go on, if it cannot.
    pub(super) stop: Option<Stop>,
    /// What went wrong in it, if anything did.
    pub(super) why: Option<String>,
}

impl Run<'_> {
    /// Runs a plan.
    pub(super) async fn batch(
        &mut self,
        batch: &Batch,
        plan: Plan,
        hear: Hear<'_>,
    ) -> anyhow::Result<Done> {
        let recalled = self.log.recall_batch(self.turn, &batch.id)?;
        if !recalled.has_begun {
            let plan = plan.decomposition().text();
            self.log.batch_begun(self.turn, &batch.id, plan)?;
        }
        hear(&RunEvent::BatchStarted {
            batch: Arc::clone(&batch.id),
            tasks: plan.tasks().len(),
            concurrency: batch.policy.concurrency,
        });
        let ids = plan.tasks().iter().map(|it| Arc::clone(&it.id)).collect();
        let files = self.files(batch, &plan)?;
        let mut spent = Usage::default();
        recalled.attempts.iter().for_each(|it| spent.add(it.usage));
        let budget = batch.budget.at_least(self.log.raised());
        self.spending.begin_batch(&batch.id, budget, spent);
        let n_tasks = plan.tasks().len();
        let mut work = Performance {
            batch,
            ledger: Arc::new(Mutex::new(Ledger::new(plan.claims()))),
            ids: plan.tasks().iter().map(|it| Arc::clone(&it.id)).collect(),
            outputs: Arc::new(Outputs::new(ids)),
            completed: 0,
            fates: vec![Fate::default(); n_tasks],
            used: vec![Usage::default(); n_tasks],
            n_files: vec![0; n_tasks],
            open_needs: plan
                .graph()
                .tasks()
                .map(|it| plan.graph().feeds(it).len())
                .collect(),
            aside: &mut self.aside,
            files,
            broken: None,
            waiting: None,
            hear,
            plan: &plan,
            run: self.id.clone(),
            workflow: &self.workflow.name,
            view: self.context.view(&Sees::All),
            ear: Ear::new(),
            max_output_bytes: self.workflow.limits.max_output_bytes,
            max_file_bytes: self.workflow.limits.max_file_bytes,
            max_input_bytes: self.workflow.acmp.limits.max_input_bytes,
            specs: &self.workflow.agents,
            tools: &self.tools,
            rewritten: (0..n_tasks).map(|_| Rewritten::default()).collect(),
            notes: unbounded_channel(),
            agents: self.agents,
            spending: &mut self.spending,
            store: &mut self.store,
            log: &mut self.log,
            turn: self.turn,
            withdrawals: &mut self.withdrawals,
            past: recalled.attempts,
            is_recalling: false,
            identities: BTreeMap::new(),
            judged: Vec::new(),
            streams: Streams::new(n_tasks),
            under_way: vec![None; n_tasks],
            given_up: Vec::new(),
            queue: Queue::default(),
        };
        let driven = drive::Batch {
            graph: plan.graph(),
            policy: &batch.policy,
            limits: Limits {
                deadline: batch.deadline.map(|it| it.saturating_sub(recalled.took)),
                grace: self.grace,
                seed: fastrand::u64(..),
            },
        };
        drive::drive(driven, &mut work, self.cancel.cancelled()).await;
        work.spending.end_batch();
        if let Some(error) = work.broken.take() {
            return Err(error);
        }
        work.count_cut_short()?;
        let waiting = work.waiting.take();
        let status = results::status(batch, &work.fates);
        let why = results::why(&plan, &work.fates);
        let results = results::merge(batch, &plan, &work.outputs, &work.fates);
        let count = |wanted: fn(&End) -> bool| {
            work.fates
                .iter()
                .filter_map(|it| it.end.as_ref())
                .filter(|it| wanted(it))
                .count()
        };
        let completed = count(|it| *it == End::Completed);
        self.done.0 += completed;
        self.done.1 += work.fates.len();
        let ended = RunEvent::BatchEnded {
            batch: Arc::clone(&batch.id),
            status: match (status, &waiting) {
                (Status::Cancelled, Some(_)) => Status::Waiting.as_str(),
                (it, _) => it.as_str(),
            },
            completed,
            failed: count(|it| *it == End::Failed),
            cancelled: count(|it| matches!(it, End::Cancelled(_))),
        };
        // What was cut short goes on when the run is resumed.
        if !recalled.has_ended && !status.can_go_on() {
            work.log
                .batch_ended(&batch.id, serde_json::to_value(&ended)?)?;
        }
        (work.hear)(&ended);
        let used = work.used;
        for (task, used) in plan.tasks().iter().zip(used) {
            self.count(&task.agent, used);
        }
        let stop = match status {
            Status::Cancelled => Some(match waiting {
                Some(rejection) => self.waits(rejection),
                None => Stop::Cancelled,
            }),
            Status::Deadline => {
                let seconds = batch.deadline.unwrap_or_default().as_secs();
                Some(Stop::Deadline(format!(
                    "batch `{}` was not done within {seconds} seconds",
                    batch.id
                )))
            }
            Status::Budget => Some(Stop::Budget(self.spending.reached().unwrap_or_default())),
            _ => None,
        };
        let status = match stop {
            Some(_) => Status::Failed,
            None => status,
        };
        Ok(Done {
            results,
            status,
            stop,
            why,
        })
    }

    /// What programs read instead of finding it in their request, if any agent of the plan is one.
    fn files(&self, batch: &Batch, plan: &Plan) -> anyhow::Result<Option<HandedOut>> {
        let reads = |it: &Task| self.agents[&*it.agent].reads_files();
        if !plan.tasks().iter().any(reads) {
            return Ok(None);
        }
        // A batch id is any text, so it cannot name a folder.
        let number = self
            .workflow
            .batches
            .iter()
            .position(|it| it.id == batch.id)
            .unwrap_or_default();
        let folder = self
            .store
            .beside(&format!("batches/{}-turn-{}", number + 1, self.turn));
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make `{}`", folder.display()))?;
        let folder = fs::canonicalize(&folder)
            .with_context(|| format!("cannot find `{}`", folder.display()))?;
        let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let named = TaskFiles {
            plan: path("decomposition_plan.json"),
            outputs: path("completed_task_outputs.ndjson"),
        };
        fs::write(&named.plan, plan.decomposition().text())
            .with_context(|| format!("cannot write `{}`", named.plan))?;
        let outputs = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(true)
            .open(&named.outputs);
        let outputs = outputs.with_context(|| format!("cannot write `{}`", named.outputs))?;
        let named = Arc::new(named);
        Ok(Some(HandedOut { named, outputs }))
    }
}
