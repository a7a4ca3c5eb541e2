//! What answers cost, in tokens.

use serde::{Deserialize, Serialize};

/// What an answer used, as far as whoever gave it says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
}

impl Usage {
    /// An endpoint may say any number: a sum stops at the largest.
    pub fn add(&mut self, more: Usage) {
        self.input_tokens = self.input_tokens.saturating_add(more.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(more.output_tokens);
    }

    /// What was used after `earlier`.
    pub fn since(self, earlier: Usage) -> Usage {
        Usage {
            input_tokens: self.input_tokens.saturating_sub(earlier.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(earlier.output_tokens),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_is_too_large() {
        let most = Usage {
            input_tokens: u64::MAX,
            output_tokens: 2,
        };
        let mut sum = most;
        sum.add(most);
        assert_eq!((sum.input_tokens, sum.output_tokens), (u64::MAX, 4));
        assert_eq!(most.since(sum), Usage::default());
    }
}
