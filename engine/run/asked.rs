//! What is asked in an attempt on a task of a batch.

use std::{collections::BTreeMap, sync::Arc};

use super::{reuse, work::Performance};
use crate::{
    accept::{Failure, Output, Rejection, Terms},
    agent::{Leave, Request, Streams},
    context::{Json, TaskView},
    dag::Invocation,
    graph::TaskIx,
    journal,
    ownership::Require,
    plan::Task,
    prompt::{self, Prompt},
};

impl Performance<'_> {
    /// The same for the same attempt, in whatever session it is made.
    pub(super) fn key(&self, ix: TaskIx, attempt: u32) -> String {
        let id = &self.plan.tasks()[ix.at()].id;
        format!("{}/{}/{id}/{attempt}", self.run, self.batch.id)
    }

    /// For the task of a DAG, its input as a literal and an id of the attempt's own.
    pub(super) fn invocation(
        &self,
        ix: TaskIx,
        attempt: u32,
    ) -> Result<Option<Arc<Invocation>>, Rejection> {
        let Some(task) = &self.plan.tasks()[ix.at()].invoke else {
            return Ok(None);
        };
        let output = |it: TaskIx| {
            let output = self.outputs.get(it.at());
            output.expect("a task starts when all it depends on is completed")
        };
        let input = task.input.resolve(output, self.max_input_bytes);
        let input = input.map_err(|it| Rejection::new(Failure::Unresolved, it.to_string()))?;
        Ok(Some(Arc::new(Invocation {
            task_id: Invocation::id_of(&self.key(ix, attempt)),
            task: Arc::clone(task),
            input,
            timeout: task.timeout.unwrap_or(self.batch.timeout),
        })))
    }

    /// What is asked in an attempt, whatever came of those before.
    pub(super) fn request(
        &self,
        ix: TaskIx,
        attempt: u32,
        invocation: Option<Arc<Invocation>>,
    ) -> Request {
        let task = &self.plan.tasks()[ix.at()];
        let spec = &self.specs[&*task.agent];
        let needs = self.plan.graph().needs(ix);
        let view = self.view.seen_by(&spec.sees).in_task(TaskView {
            batch_id: Arc::clone(&self.batch.id),
            task_id: Arc::clone(&task.id),
            ix: ix.at(),
            own: match &invocation {
                Some(it) => BTreeMap::from([("input".to_owned(), Arc::new(it.input.to_value()))]),
                None => task.own.clone(),
            },
            plan: Arc::clone(self.plan.decomposition()),
            dependencies: needs.iter().map(|it| it.at()).collect(),
            outputs: Arc::clone(&self.outputs),
            completed: self.completed,
            context_key: Arc::clone(&self.batch.context_key),
            status_key: Arc::clone(&self.batch.status_key),
            files: self.files.as_ref().map(|it| Arc::clone(&it.named)),
        });
        let prompt = match (self.agents[&*task.agent].reads_prompt(), &invocation) {
            (false, _) => Prompt::default(),
            (true, None) => prompt::task(&spec.instruction, &task.prompt, &view),
            (true, Some(it)) => prompt::input(&spec.instruction, &it.input, &view),
        };
        Request {
            agent: Arc::clone(&task.agent),
            task_id: Some(Arc::clone(&task.id)),
            attempt,
            idempotency_key: self.key(ix, attempt),
            prompt,
            shape: spec.shape.clone(),
            tools: self.toolbox(ix, attempt, &view),
            timeout: invocation
                .as_ref()
                .map_or(self.batch.timeout, |it| it.timeout),
            view,
            invocation,
            streams: Streams::default(),
            failed: self.fates[ix.at()].failed.clone(),
            is_budgeted: false,
            leave: Leave::default(),
            witness: self.ear.witness((ix, attempt)),
            max_output_bytes: self.max_output_bytes,
        }
    }

    /// The output of equal work, if the agent allows that it is taken again and nothing came of this task so far. What
    /// tools say may change.
    pub(super) fn reuse(&mut self, ix: TaskIx, request: &Request) -> Option<Output> {
        let spec = &self.specs[&*request.agent];
        let is_asked_anew = self.fates[ix.at()].attempts > 1 || request.tools.is_some();
        let has_functions =
            self.tools.rewrites(&request.agent) || !self.tools.auto(&request.agent).is_empty();
        let is_asked_anew = is_asked_anew || has_functions;
        if !spec.cache || is_asked_anew {
            return None;
        }
        let terms = self.terms(&self.plan.tasks()[ix.at()]);
        let agent = &self.agents[&*request.agent];
        let identity = self.identities.entry(Arc::clone(&request.agent));
        let identity = identity.or_insert_with(|| journal::hash(agent.identity()));
        let key = reuse::key(request, &terms, spec, identity)?;
        let found = self.log.equal_work(&key);
        self.fates[ix.at()].origin.key = Some(key);
        let (run, text) = found.ok().flatten()?;
        let output = Json::of_text(String::from(&*text));
        let files = self.files_of(ix, &output).ok()?;
        self.fates[ix.at()].origin.run = Some(run.into());
        Some(Output {
            value: output.to_value(),
            files,
            dropped: Vec::new(),
            read: None,
        })
    }

    pub(super) fn terms(&self, task: &Task) -> Terms {
        Terms {
            task_id: Arc::clone(&task.id),
            agent: Arc::clone(&task.agent),
            kind: task.kind.clone(),
            owned: Arc::clone(&task.owned),
            owned_as_written: task.owned_as_written.clone(),
            require: match self.batch.require_owned_paths {
                true => Require::Declared,
                false => Require::Nothing,
            },
            max_file_bytes: self.max_file_bytes,
        }
    }
}
