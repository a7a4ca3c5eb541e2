//! `--record` and `--replay`: what stands between a run and the world.

use std::{fs, path::Path, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{
    Faults,
    stop::{self, Stopped},
};
use crate::{
    agent::{Agents, build, human::People},
    compile::{First, Workflow},
    diagnostic::{Code, Diagnostic, File},
    lane::Limits,
    recording::{Recorder, Replay},
    schedule::Backoff,
    tool,
};

/// What becomes of the exchanges of a run.
#[derive(Debug, Clone, Default)]
pub(super) enum Tape {
    #[default]
    None,
    Record(Arc<Recorder>),
    Replay(Arc<Replay>),
}

impl Tape {
    /// Makes the agents of a workflow ready. What is replayed needs no key, and waits for nobody.
    pub(super) fn agents(
        &self,
        workflow: &mut Workflow,
        people: &Arc<dyn People>,
        has_plan: bool,
    ) -> Result<Agents, Faults> {
        let planner = workflow.sole_planner().filter(|_| has_plan).cloned();
        let planner = planner.as_deref();
        match self {
            Tape::None => build::all(workflow, people, planner),
            Tape::Record(recorder) => {
                let agents = build::all(workflow, people, planner)?;
                Ok(recorder.listen(workflow, agents))
            }
            Tape::Replay(replay) => {
                wait_for_nobody(workflow);
                build::all_but(workflow, people, replay.agents(workflow), planner)
            }
        }
    }

    /// Runs a future to its end: what is replayed waits for nobody.
    pub(super) fn on_runtime<T, F>(
        &self,
        make: impl FnOnce(CancellationToken) -> F,
    ) -> anyhow::Result<(T, Stopped)>
    where
        F: Future<Output = anyhow::Result<T>>,
    {
        match self {
            Tape::Replay(_) => stop::without_waits(make),
            _ => stop::on_runtime(make),
        }
    }

    /// A run that differs from its recording ends so.
    pub(super) fn end_with(&self, cancel: &CancellationToken) {
        if let Tape::Replay(replay) = self {
            replay.end_with(cancel.clone());
        }
    }

    /// How long what is under way may go on when the run is told to stop. What is recorded of it is there at once.
    pub(super) fn grace(&self, wanted: Duration) -> Duration {
        match self {
            Tape::Replay(_) => Duration::from_secs(1),
            _ => wanted,
        }
    }

    /// Whether the recorded run was stopped.
    pub(super) fn is_stopped(&self) -> bool {
        matches!(self, Tape::Replay(replay) if replay.is_stopped())
    }

    pub(super) fn differs(&self) -> bool {
        matches!(self, Tape::Replay(replay) if replay.differs())
    }

    /// In what a run differs from its recording.
    pub(super) fn difference(&self) -> Option<Diagnostic> {
        match self {
            Tape::Replay(replay) => replay.difference(),
            _ => None,
        }
    }

    pub(super) fn of_tools(&self) -> Option<Arc<dyn tool::Tape>> {
        match self {
            Tape::None => None,
            Tape::Record(recorder) => Some(Arc::<Recorder>::clone(recorder)),
            Tape::Replay(replay) => Some(Arc::<Replay>::clone(replay)),
        }
    }
}

/// No attempt waits: nobody outside is spared by it.
pub(super) fn wait_for_nobody(workflow: &mut Workflow) {
    for provider in workflow.providers.values_mut() {
        provider.limits = Limits::default();
    }
    for batch in &mut workflow.batches {
        batch.policy.backoff = Backoff::NONE;
    }
    if let First::Dag(fixed) = &mut workflow.first {
        fixed.batch.policy.backoff = Backoff::NONE;
    }
    workflow.turn_backoff = Backoff::NONE;
}

/// Reads the recording of a workflow, which people name so.
pub(super) fn read(path: &Path, name: String, workflow: &str) -> Result<Arc<Replay>, Faults> {
    match fs::read_to_string(path) {
        Ok(text) => Replay::read(Arc::new(File { name, text }), workflow),
        Err(error) => {
            let message = format!("cannot read the recording `{name}`: {error}");
            Err(vec![Diagnostic::error(Code::BadInput, message)])
        }
    }
}
