//! When somebody worked on a run.

use crate::journal::Entry;

/// The sessions of a run, made from its entries one after the other. Times are milliseconds.
#[derive(Debug, Default)]
pub struct Sessions {
    /// Those that are over.
    earlier: usize,
    earlier_ms: i64,
    /// The last one: from when to when.
    last: (i64, i64),
}

impl Sessions {
    /// Those of a run that started then.
    pub fn new(started_at_ms: i64) -> Sessions {
        Sessions {
            last: (started_at_ms, started_at_ms),
            ..Sessions::default()
        }
    }

    /// Takes in the next entry.
    pub fn take(&mut self, entry: &Entry) {
        let at_ms = entry.at_ms;
        match &*entry.kind {
            "resumed" => {
                *self = Sessions {
                    earlier: self.earlier + 1,
                    earlier_ms: self.worked_ms(None),
                    last: (at_ms, at_ms),
                };
            }
            // It stands before the session that it begins.
            "retried" => (),
            _ => self.last.1 = at_ms.max(self.last.1),
        }
    }

    /// When the last thing happened.
    pub(super) fn last_ms(&self) -> i64 {
        self.last.1
    }

    pub fn count(&self) -> usize {
        self.earlier + 1
    }

    /// For how long somebody worked on the run; the last session goes on until `now_ms`, if there is such a time.
    pub fn worked_ms(&self, now_ms: Option<i64>) -> i64 {
        let (from, until) = self.last;
        let since = now_ms.map_or(0, |it| it - until);
        self.earlier_ms + (until - from) + since.max(0)
    }
}
