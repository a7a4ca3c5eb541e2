//! What a task takes at providers, as far as anybody can know.

use std::{mem, sync::Arc};

use serde_json::Value;

use super::super::{Usage, Witness};
use crate::{
    acmp::buyer::{Course, Failed},
    usage::Cost,
};

/// What a task takes: what its providers say. One that was given it, and of which nothing was heard any more, may take
/// as much as was offered.
pub(super) struct Bill {
    most: Option<f64>,
    /// Whether a provider has the task.
    course: Arc<Course>,
    taken: Usage,
    /// Who is told where nobody waits for the end.
    witness: Witness,
}

impl Bill {
    pub(super) fn new(most: Option<f64>, course: &Arc<Course>, witness: &Witness) -> Bill {
        Bill {
            most,
            course: Arc::clone(course),
            taken: Usage::default(),
            witness: witness.clone(),
        }
    }

    /// A provider takes what its result says, whatever else is wrong with that; but no more than was offered.
    pub(super) fn took(&mut self, result: &Value) {
        self.taken.add(Usage {
            output_tokens: tokens(result).unwrap_or(0),
            ..Usage::default()
        });
        match price(result) {
            Some(price) => {
                self.course.ends();
                let most = self.most.unwrap_or(f64::INFINITY);
                self.taken.add(Usage {
                    cu: Some(Cost::new(price.min(most))),
                    ..Usage::default()
                });
            }
            None => self.may_have_taken(),
        }
    }

    /// Nobody says what a provider takes.
    pub(super) fn may_have_taken(&mut self) {
        self.course.ends();
        self.taken.add(Usage {
            cu: self.most.map(Cost::new),
            cu_estimated: self.most.is_some(),
            ..Usage::default()
        });
    }

    pub(super) fn failed(&mut self, failed: &Failed) {
        match failed {
            Failed::Spoiled { result, .. } => self.took(result),
            Failed::Lost(_)
            | Failed::Unreadable(_)
            | Failed::Silent(_)
            | Failed::Malformed(_)
            | Failed::OutOfOrder(_)
            | Failed::TooMuch(_)
                if self.course.is_given() =>
            {
                self.may_have_taken();
            }
            // What says that it failed takes nothing.
            _ => self.course.ends(),
        }
    }

    /// Whether anybody took anything, or may have.
    pub(super) fn has_taken(&self) -> bool {
        self.taken.cu.is_some_and(|it| it > Cost::default())
    }

    pub(super) fn ended(&mut self) -> Usage {
        if self.course.is_given() {
            self.may_have_taken();
        }
        mem::take(&mut self.taken)
    }
}

impl Drop for Bill {
    fn drop(&mut self) {
        let taken = self.ended();
        self.witness.uses(taken);
    }
}

/// What a result says that its task costs, if it can be a price.
pub(super) fn price(result: &Value) -> Option<f64> {
    /// Above this it is no price: sums of such would stop at the largest that there is.
    const MOST: f64 = 1e9;
    let price = result["cost_cu"].as_f64();
    price.filter(|it| (0.0..=MOST).contains(it))
}

/// How many tokens it says, if it can be so many.
pub(super) fn tokens(result: &Value) -> Option<u64> {
    /// Above this not every reader of JSON can tell a number from the next.
    const MOST: u64 = 1 << 53;
    result["tokens_used"].as_u64().filter(|it| *it <= MOST)
}
