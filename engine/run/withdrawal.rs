//! People cancel a task while its batch is under way.
//!
//! **Invariant:** a task that was cancelled is in the journal, and on the disk, before it ends.

use std::{future::pending, sync::Arc};

use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::{results, work::Performance};
use crate::{graph::TaskIx, schedule::Cause};

/// A task that somebody cancels.
#[derive(Debug)]
pub struct Withdrawal {
    /// The turn of its batch.
    pub turn: u32,
    pub batch: Arc<str>,
    pub task: String,
    /// Told when it is in the journal, or came too late. Dropped, it was not taken in.
    pub taken: oneshot::Sender<()>,
}

pub type Withdrawals = mpsc::Receiver<Withdrawal>;

/// The next of them, which may never come.
pub(super) async fn next(withdrawals: Option<&mut Withdrawals>) -> Withdrawal {
    let next = match withdrawals {
        Some(withdrawals) => withdrawals.recv().await,
        None => None,
    };
    match next {
        Some(withdrawal) => withdrawal,
        None => pending().await,
    }
}

impl Performance<'_> {
    /// Writes down that a task is cancelled. Gives it, if it is one of this batch and has not ended.
    pub(super) fn withdraw(&mut self, withdrawal: Withdrawal) -> Option<TaskIx> {
        let written = match self.open_task(&withdrawal) {
            Some(ix) => self.write_withdrawal(ix).then_some(ix),
            None => None,
        };
        if self.broken.is_none() {
            let _ = withdrawal.taken.send(());
        }
        written
    }

    fn open_task(&self, withdrawal: &Withdrawal) -> Option<TaskIx> {
        let is_ours = withdrawal.turn == self.turn && withdrawal.batch == self.batch.id;
        let mut tasks = self.plan.tasks().iter();
        let at = tasks.position(|it| is_ours && *it.id == *withdrawal.task)?;
        self.fates[at].end.is_none().then(|| TaskIx::new(at))
    }

    /// Whether that was possible.
    fn write_withdrawal(&mut self, ix: TaskIx) -> bool {
        let because = results::because(self.plan, Cause::Withdrawn);
        let end = json!({ "end": "cancelled", "because": because, "is_withdrawn": true });
        let about = (&self.batch.id, ix.number(), self.fates[ix.at()].attempts);
        self.log.ended(about, end);
        let committed = self.log.commit();
        committed.map_err(|it| self.breaks(it)).is_ok()
    }
}
