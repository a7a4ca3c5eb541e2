//! A batch under way takes in what earlier sessions of its run saw.

use std::{mem, sync::Arc};

use anyhow::Context as _;

use super::{
    around, clock,
    drive::{Recalled, Verdict},
    past,
    work::{Judged, Performance},
};
use crate::{
    accept::{EmittedFile, Output},
    context::Json,
    event::RunEvent,
    graph::TaskIx,
    ownership::FilePath,
    schedule::{End, Retry},
};

impl Performance<'_> {
    /// Takes in what an earlier session saw. Files that it could not publish any more, or that are gone, are published.
    pub(super) fn take_back(&mut self, attempt: past::Attempt) -> anyhow::Result<Option<Recalled>> {
        let at = attempt.task as usize;
        let is_open = self.fates.get(at).is_some_and(|it| it.end.is_none());
        let ix = is_open.then(|| TaskIx::new(at));
        let ix =
            ix.context("the journal of this run has an attempt on a task that its plan has not")?;
        self.used[ix.at()].add(attempt.usage);
        self.fates[ix.at()].attempts = attempt.number;
        self.fates[ix.at()].origin.run = attempt.reused;
        let (verdict, wait) = match attempt.came {
            past::Came::Output(output) => {
                let output = match self.open_needs[ix.at()] {
                    0 => output,
                    _ => Json::of_text(output.text().into_owned()),
                };
                let files = self.files_of(ix, &output)?;
                let paths: Vec<FilePath> = files.iter().map(|it| it.path.clone()).collect();
                let claimed = around::lock(&self.ledger).claim(ix.at(), &paths);
                claimed
                    .ok()
                    .context("two outputs in the journal of this run have one file")?;
                self.store.restore(&files)?;
                self.hand_out(Judged { ix, output, files })?;
                (Verdict::Accepted, None)
            }
            past::Came::Cancelled => {
                return Ok(Some(Recalled {
                    task: ix,
                    attempt: attempt.number,
                    verdict: Verdict::Cancelled,
                    wait: None,
                }));
            }
            past::Came::CutShort => return Ok(None),
            past::Came::Feedback(rejection) => {
                let fate = &mut self.fates[ix.at()];
                fate.before = attempt.number;
                if let Some(rejection) = &rejection {
                    rejection.note(&mut fate.failed);
                }
                fate.rejection = rejection.map(Box::new);
                return Ok(None);
            }
            past::Came::Rejection {
                rejection,
                retry,
                until_ms,
            } => {
                let fate = &mut self.fates[ix.at()];
                rejection.note(&mut fate.failed);
                fate.rejection = Some(Box::new(rejection));
                let wait = until_ms.map(|it| clock::span(clock::now_ms(), it));
                // A clock that went back makes no wait longer than it could have been.
                let longest = self.batch.policy.backoff.max;
                let longest = match retry {
                    Retry::NotBefore(floor) => longest + floor,
                    _ => longest,
                };
                (Verdict::Rejected(retry), wait.map(|it| it.min(longest)))
            }
        };
        Ok(Some(Recalled {
            task: ix,
            attempt: attempt.number - self.fates[ix.at()].before.min(attempt.number - 1),
            verdict,
            wait,
        }))
    }

    pub(super) fn files_of(&self, ix: TaskIx, output: &Json) -> anyhow::Result<Vec<EmittedFile>> {
        // The output of a task of a DAG is data, whatever is in it. Else, where there is no file there is no need to look
        // into it.
        let is_data = self.plan.tasks()[ix.at()].invoke.is_some();
        if is_data || !output.text().contains("\"code_files\"") {
            return Ok(Vec::new());
        }
        let files = Output::files_of(&output.to_value(), self.max_file_bytes);
        files.map_err(|it| anyhow::anyhow!("an output in the journal of this run: {it}"))
    }

    /// All of the past was recalled.
    pub(super) fn recalled(&mut self) {
        if !mem::replace(&mut self.is_recalling, false) {
            return;
        }
        let count = |wanted: End| {
            self.fates
                .iter()
                .filter(|it| it.end == Some(wanted))
                .count()
        };
        (self.hear)(&RunEvent::BatchRecalled {
            batch: Arc::clone(&self.batch.id),
            completed: count(End::Completed),
            failed: count(End::Failed),
        });
    }
}
