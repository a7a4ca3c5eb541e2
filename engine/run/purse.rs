//! The ledger of a run, shared by all who spend.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    accept::{Failure, Rejection},
    agent::Usage,
    budget::{Amount, Answer, Hold, Ledger, Limit, Message, Share},
};

/// One ledger for all who spend.
pub(super) struct Purse {
    ledger: Mutex<Ledger>,
    /// A call has ended.
    freed: Notify,
    reached: CancellationToken,
}

impl Purse {
    /// What may be spent, and what was.
    pub(super) fn new(limit: Limit, spent: Usage) -> Purse {
        Purse {
            ledger: Mutex::new(Ledger::new(limit, Amount::of(spent))),
            freed: Notify::new(),
            reached: CancellationToken::new(),
        }
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // Every entry of a ledger is whole before the lock ends.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is nothing left.
    pub(super) async fn reached(&self) -> Rejection {
        self.reached.cancelled().await;
        self.refusal()
    }

    /// Reserves so much for a call, as soon as it is there.
    pub(super) async fn reserve(self: &Arc<Purse>, amount: Amount) -> Result<Held, Rejection> {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            // From here on it hears of every call that ends.
            freed.as_mut().enable();
            let answer = self.ledger().reserve(amount);
            match answer {
                Answer::Go(hold) => {
                    return Ok(Held {
                        purse: Arc::clone(self),
                        hold: Some(hold),
                    });
                }
                Answer::Wait => freed.await,
                Answer::Never => {
                    self.reached.cancel();
                    self.freed.notify_waiters();
                    return Err(self.refusal());
                }
            }
        }
    }

    fn refusal(&self) -> Rejection {
        let message = self.ledger().reached().map(Message::to_string);
        Rejection::new(Failure::Budget, message.unwrap_or_default())
    }
}

/// What is held for a call under way. Dropped, it used nothing that anybody knows of.
pub(super) struct Held {
    purse: Arc<Purse>,
    hold: Option<Hold>,
}

impl Held {
    /// How much is held, until it is settled.
    pub(super) fn share(&self) -> Option<Share> {
        self.hold.as_ref().map(Hold::share)
    }

    pub(super) fn settle(&mut self, used: Usage) {
        if let Some(hold) = self.hold.take() {
            self.purse.ledger().settle(hold, Amount::of(used));
            self.purse.freed.notify_waiters();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.settle(Usage::default());
    }
}
