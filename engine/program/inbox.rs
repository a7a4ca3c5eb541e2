//! What people want of a run that another process works on: a file each in the run's folder, until it is taken in.
//!
//! **Invariant:** a file is there until what it asks for is in the run's journal, whoever works on the run then.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};

use crate::run::{Withdrawal, now_ms};

/// How often it is looked into.
const POLL: Duration = Duration::from_millis(200);
/// How much of a file is looked at.
const MAX_BYTES: u64 = 1 << 20;

/// That a task is to be cancelled.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Wish {
    pub(super) turn: u32,
    pub(super) batch: String,
    pub(super) task: String,
}

fn folder(run: &Path) -> PathBuf {
    run.join("inbox")
}

/// Leaves a wish for whoever works on the run of a folder.
///
/// # Errors
/// It cannot be written there.
pub(super) fn put(run: &Path, wish: &Wish) -> anyhow::Result<()> {
    let name = format!("{}-{}", now_ms(), std::process::id());
    let (draft, path) = (
        folder(run).join(format!("{name}.part")),
        folder(run).join(format!("{name}.json")),
    );
    let written = fs::create_dir_all(folder(run))
        .and_then(|()| fs::write(&draft, serde_json::to_string(wish)?))
        .and_then(|()| fs::rename(&draft, &path));
    written.with_context(|| format!("cannot write `{}`", path.display()))
}

/// Hands on what is wanted of the run of a folder, as long as somebody takes it.
pub(super) async fn watch(run: PathBuf, wanted: mpsc::Sender<Withdrawal>) {
    loop {
        for path in files(&folder(&run)) {
            if let Some(wish) = read(&path) {
                let (taken, is_taken) = oneshot::channel();
                let withdrawal = Withdrawal {
                    turn: wish.turn,
                    batch: wish.batch.into(),
                    task: wish.task,
                    taken,
                };
                if wanted.send(withdrawal).await.is_err() || is_taken.await.is_err() {
                    return;
                }
            }
            // Where it cannot be removed it comes again, which changes nothing.
            let _ = fs::remove_file(&path);
        }
        sleep(POLL).await;
    }
}

/// The oldest first.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|it| it.path());
    let mut paths: Vec<_> = paths
        .filter(|it| it.extension().is_some_and(|it| it == "json"))
        .collect();
    paths.sort();
    paths
}

/// A wish, if it is one.
fn read(path: &Path) -> Option<Wish> {
    let size = fs::metadata(path).ok()?.len();
    let text = (size <= MAX_BYTES).then(|| fs::read_to_string(path));
    let text: io::Result<String> = text?;
    serde_json::from_str(&text.ok()?).ok()
}
