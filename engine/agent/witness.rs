//! What is known of an attempt before it is over: it may never come to its end.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::oneshot;

use super::Usage;
use crate::tool::Call;

/// Sees what an attempt does.
#[derive(Clone, Default)]
pub struct Witness {
    seen: Arc<Mutex<Seen>>,
    told: Option<Arc<dyn Fn(Word) + Send + Sync>>,
}

#[derive(Debug, Default)]
struct Seen {
    used: Usage,
    has_told: bool,
}

/// What is told of an attempt while it goes on.
pub enum Word {
    /// A model called a tool.
    Called(Call),
    /// What it is to be counted as, should nothing more be heard of it.
    Used(Usage, Kept),
}

/// To be dropped when what came with it is written down: somebody waits for that.
pub struct Kept(#[expect(dead_code, reason = "it is dropped")] oneshot::Sender<()>);

impl Witness {
    /// One that passes on what happens.
    pub fn new(told: impl Fn(Word) + Send + Sync + 'static) -> Witness {
        Witness {
            seen: Arc::default(),
            told: Some(Arc::new(told)),
        }
    }

    /// A model was asked, and used so much.
    pub fn uses(&self, usage: Usage) {
        self.with(|it| it.used.add(usage));
    }

    /// What was used so far.
    pub fn used(&self) -> Usage {
        self.with(|it| it.used)
    }

    /// Whether it was told what the attempt is to be counted as: then it has to be told how it ended.
    pub fn has_told(&self) -> bool {
        self.with(|it| it.has_told)
    }

    /// Waits until what was used so far is written down, and what a call is to be counted as that is made now.
    pub async fn keep(&self, call: Usage) {
        let mut used = self.used();
        used.add(call);
        let Some(told) = self.told.as_ref().filter(|_| used != Usage::default()) else {
            return;
        };
        self.with(|it| it.has_told = true);
        let (kept, is_kept) = oneshot::channel();
        told(Word::Used(used, Kept(kept)));
        // It is dropped, never sent.
        let _ = is_kept.await;
    }

    /// A model called a tool.
    pub fn calls(&self, call: Call) {
        if let Some(told) = &self.told {
            told(Word::Called(call));
        }
    }

    fn with<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Witness").field(&self.used()).finish()
    }
}
