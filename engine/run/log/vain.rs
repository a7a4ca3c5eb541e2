//! Attempts that came to no end, as a run writes down what they used.

use serde_json::json;

use super::{About, Log};
use crate::agent::Usage;

impl Log {
    /// An attempt was not made after all, or not to its end.
    pub(in crate::run) fn withheld(&mut self, about: About<'_>, usage: Usage) {
        self.about("withheld", about, json!({ "usage": usage }), None);
    }

    /// The same outside a batch.
    pub(in crate::run) fn turn_withheld(&mut self, turn: u32, agent: &str, usage: Usage) {
        let data = json!({ "turn": turn, "agent": agent, "usage": usage });
        self.push("withheld", data, |_| ());
    }

    /// What an attempt is to be counted as, should nothing more be heard of it.
    pub(in crate::run) fn using(&mut self, about: About<'_>, usage: Usage) {
        self.about("using", about, json!({ "usage": usage }), None);
    }

    /// An attempt was given up, which used so much up to then.
    pub(in crate::run) fn cut_short(&mut self, about: About<'_>, usage: Usage) {
        self.about("cut_short", about, json!({ "usage": usage }), None);
    }

    /// So was what went ahead of the first attempt, which is none.
    pub(in crate::run) fn in_vain(&mut self, about: About<'_>, usage: Usage) {
        let data = json!({ "usage": usage, "ahead": true });
        self.about("cut_short", about, data, None);
    }

    /// The same outside a batch.
    pub(in crate::run) fn turn_cut_short(&mut self, turn: u32, agent: &str, usage: Usage) {
        let data = json!({ "turn": turn, "agent": agent, "usage": usage });
        self.push("cut_short", data, |_| ());
    }
}
