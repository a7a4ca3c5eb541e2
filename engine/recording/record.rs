//! Writes a recording while a run goes on.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use serde_json::Value;

use super::{Asked, Called, Came, End, Ended, Head, Line, Refusal, VERSION, Who, is_within};
use crate::{
    agent::{Agent, Agents, Answer, Request},
    compile::Workflow,
    endpoint::Secrets,
    prompt::Prompt,
    tool::{self, OwnCall, Recall, Tape, ToolError},
};

/// A recording under way. The file is there when it is finished; until then what was recorded is in its draft.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    draft: PathBuf,
    /// What may not be written: keys.
    secrets: Secrets,
    out: Mutex<Out>,
    /// Nothing that is recorded stands for other runs, nor others for it.
    nonce: [u8; 16],
}

#[derive(Debug)]
struct Out {
    file: File,
    broken: Option<io::Error>,
}

impl Recorder {
    /// Begins a recording of a run that was given `given`.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(
        path: &Path,
        secrets: Secrets,
        (workflow, given): (&str, Value),
    ) -> anyhow::Result<Arc<Recorder>> {
        let mut draft = path.as_os_str().to_owned();
        draft.push(".part");
        let draft = PathBuf::from(draft);
        let file =
            File::create(&draft).with_context(|| format!("cannot write `{}`", draft.display()))?;
        let recorder = Recorder {
            path: path.to_owned(),
            draft,
            secrets,
            out: Mutex::new(Out { file, broken: None }),
            nonce: fastrand::u128(..).to_ne_bytes(),
        };
        recorder.write(&Line::Recording(Head {
            version: VERSION,
            workflow: workflow.to_owned(),
            given,
        }));
        Ok(Arc::new(recorder))
    }

    /// The agents, with those that reach outside recorded.
    pub fn listen(self: &Arc<Recorder>, workflow: &Workflow, agents: Agents) -> Agents {
        let recorded = agents.into_iter().map(|(name, agent)| {
            let is_within = workflow.agents.get(&*name).is_some_and(is_within);
            let agent: Arc<dyn Agent> = match is_within {
                true => agent,
                false => Arc::new(Recorded {
                    agent,
                    recorder: Arc::clone(self),
                }),
            };
            (name, agent)
        });
        recorded.collect()
    }

    /// Says how the run ended, and puts the file where it is to be.
    ///
    /// # Errors
    /// What kept anything from being written.
    pub fn finish(&self, status: &str) -> anyhow::Result<()> {
        self.write(&Line::End(End {
            status: status.to_owned(),
        }));
        let done = self.out().broken.take().map_or(Ok(()), Err);
        done.and_then(|()| fs::rename(&self.draft, &self.path))
            .with_context(|| format!("cannot write the recording `{}`", self.path.display()))
    }

    fn write(&self, line: &Line) {
        let text = serde_json::to_string(line).expect("texts and numbers are JSON");
        let mut text = self.secrets.hide_in_answer(text);
        text.push('\n');
        let mut out = self.out();
        if out.broken.is_none() {
            out.broken = out.file.write_all(text.as_bytes()).err();
        }
    }

    fn out(&self) -> std::sync::MutexGuard<'_, Out> {
        // A line is written whole or the recording is broken.
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An agent whose answers are written down.
struct Recorded {
    agent: Arc<dyn Agent>,
    recorder: Arc<Recorder>,
}

impl Agent for Recorded {
    fn ask(&self, request: Request) -> Answer {
        let mut open = Open {
            recorder: Arc::clone(&self.recorder),
            who: Who::of(&request),
            prompt: request.prompt.clone(),
            begun: Instant::now(),
            is_open: true,
        };
        let answer = self.agent.ask(request);
        Box::pin(async move {
            let answer = answer.await;
            open.close(match &answer {
                Ok(reply) => Came::Reply(reply.clone()),
                Err(rejection) => Came::Rejection(Refusal::of(rejection)),
            });
            answer
        })
    }

    fn identity(&self) -> Vec<u8> {
        self.recorder.nonce.to_vec()
    }

    fn model(&self) -> Option<&str> {
        self.agent.model()
    }

    fn is_timed(&self) -> bool {
        self.agent.is_timed()
    }

    fn asks_leave(&self) -> bool {
        self.agent.asks_leave()
    }

    /// What it is told is what a recording is compared by.
    fn reads_prompt(&self) -> bool {
        true
    }

    fn reads_files(&self) -> bool {
        self.agent.reads_files()
    }

    fn close(&self) -> crate::agent::Closing {
        self.agent.close()
    }
}

/// A question that nothing came of yet.
struct Open {
    recorder: Arc<Recorder>,
    who: Who,
    prompt: Prompt,
    begun: Instant,
    is_open: bool,
}

impl Open {
    fn close(&mut self, came: Came) {
        self.is_open = false;
        let Prompt { system, user } = std::mem::take(&mut self.prompt);
        self.recorder.write(&Line::Asked(Asked {
            who: self.who.clone(),
            system: system.to_string(),
            user,
            came,
        }));
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.is_open {
            let millis = |it: Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
            let after = millis(self.begun.elapsed());
            self.close(Came::DroppedAfterMs(after));
        }
    }
}

impl Tape for Recorder {
    fn recall(&self, _: &OwnCall<'_>) -> Recall {
        Recall::Make
    }

    fn keep(&self, call: &OwnCall<'_>, came: &Result<tool::Called, ToolError>) {
        self.write(&Line::Called(Called {
            agent: call.whose.agent.to_owned(),
            task_id: call.whose.task_id.map(str::to_owned),
            tool: call.tool.to_owned(),
            arguments: call.arguments.clone(),
            came: match came {
                Ok(called) => Ended::Result(called.clone()),
                Err(ToolError(message)) => Ended::Error(message.clone()),
            },
        }));
    }
}
