//! What was found out about endpoints and their models, for all who ask them.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU8, Ordering::Relaxed},
    },
};

/// By endpoint and model.
#[derive(Debug, Clone, Default)]
pub struct Known(Arc<Mutex<BTreeMap<String, Arc<Learnt>>>>);

/// What was found out about one model at one endpoint.
#[derive(Debug, Default)]
pub(super) struct Learnt {
    refuses_options: AtomicBool,
    way: AtomicU8,
}

/// How a structured output is asked for, from the one that binds the model most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// By a JSON Schema that the endpoint holds the model to.
    Strict,
    /// By `json_object`, the schema in words.
    JsonObject,
    /// In words alone.
    Prompt,
}

impl Way {
    const ALL: [Way; 3] = [Way::Strict, Way::JsonObject, Way::Prompt];

    /// The one that endpoints take which do not take this one.
    pub(super) fn next(self) -> Option<Way> {
        Way::ALL.get(self as usize + 1).copied()
    }
}

impl Known {
    pub(super) fn of(&self, endpoint: &str, model: &str) -> Arc<Learnt> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(format!("{endpoint} {model}")).or_default())
    }
}

impl Learnt {
    /// Whether it takes `stream_options`, as far as it is known.
    pub(super) fn takes_options(&self) -> bool {
        !self.refuses_options.load(Relaxed)
    }

    pub(super) fn refuses_options(&self) {
        self.refuses_options.store(true, Relaxed);
    }

    /// The most binding way that is not known to be of no use.
    pub(super) fn way(&self) -> Way {
        Way::ALL[usize::from(self.way.load(Relaxed)).min(2)]
    }

    /// Nothing that binds more than this is of use.
    pub(super) fn at_most(&self, way: Way) {
        self.way.fetch_max(way as u8, Relaxed);
    }
}
