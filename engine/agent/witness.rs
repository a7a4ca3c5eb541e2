//! What is known of an attempt before it is over: it may never come to its end.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use super::Usage;
use crate::tool::Call;

/// Sees what an attempt does.
#[derive(Clone, Default)]
pub struct Witness {
    used: Arc<Mutex<Usage>>,
    told: Option<Arc<dyn Fn(Call) + Send + Sync>>,
}

impl Witness {
    /// One that passes on each call of a tool.
    pub fn new(told: impl Fn(Call) + Send + Sync + 'static) -> Witness {
        Witness {
            used: Arc::default(),
            told: Some(Arc::new(told)),
        }
    }

    /// A model was asked, and used so much.
    pub fn uses(&self, usage: Usage) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.add(usage);
    }

    /// What was used so far.
    pub fn used(&self) -> Usage {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A model called a tool.
    pub fn calls(&self, call: Call) {
        if let Some(told) = &self.told {
            told(call);
        }
    }
}

impl fmt::Debug for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Witness").field(&self.used()).finish()
    }
}
