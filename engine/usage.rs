//! What answers cost, in tokens, in money and in CU.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What an answer used, as far as whoever gave it says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// Those of `input_tokens` that the endpoint had read before.
    pub cached_input_tokens: u64,
    /// As far as there was a price when it was used.
    pub cost: Option<Cost>,
    /// What providers took that say so themselves, in CU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cu: Option<Cost>,
    /// Whether some of it is what nobody said, estimated from what was sent and received.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
    /// Whether some of the CU are what nobody said, and the most that was offered.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cu_estimated: bool,
}

impl Usage {
    /// An endpoint may say any number: a sum stops at the largest.
    pub fn add(&mut self, more: Usage) {
        self.input_tokens = self.input_tokens.saturating_add(more.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(more.output_tokens);
        self.cached_input_tokens = self
            .cached_input_tokens
            .saturating_add(more.cached_input_tokens);
        let both = |one: Option<Cost>, other: Option<Cost>| match (one, other) {
            (Some(one), Some(other)) => Some(one.plus(other)),
            (one, other) => one.or(other),
        };
        self.cost = both(self.cost, more.cost);
        self.cu = both(self.cu, more.cu);
        self.estimated |= more.estimated;
        self.cu_estimated |= more.cu_estimated;
    }

    /// What was used after `earlier`.
    pub fn since(self, earlier: Usage) -> Usage {
        let after = |it: Option<Cost>, earlier: Option<Cost>| {
            it.map(|it| it.minus(earlier.unwrap_or_default()))
        };
        Usage {
            input_tokens: self.input_tokens.saturating_sub(earlier.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(earlier.output_tokens),
            cached_input_tokens: self
                .cached_input_tokens
                .saturating_sub(earlier.cached_input_tokens),
            cost: after(self.cost, earlier.cost),
            cu: after(self.cu, earlier.cu),
            estimated: self.estimated,
            cu_estimated: self.cu_estimated,
        }
    }

    /// Without what providers took, which is given.
    pub fn take_cu(&mut self) -> Usage {
        Usage {
            cu: std::mem::take(&mut self.cu),
            cu_estimated: std::mem::take(&mut self.cu_estimated),
            ..Usage::default()
        }
    }

    /// Asked and answered together.
    pub fn tokens(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

/// An amount of money, or of CU, whatever the currency: exact to a billionth, so that sums do not depend on their order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost(u64);

const BILLIONTHS: f64 = 1e9;

impl Cost {
    /// The least that something can cost which does not cost nothing.
    pub const LEAST: Cost = Cost(1);

    /// What is negative or no number is nothing; what is too large is the largest there is.
    pub fn new(amount: f64) -> Cost {
        Cost((amount * BILLIONTHS).round() as u64)
    }

    pub fn amount(self) -> f64 {
        self.0 as f64 / BILLIONTHS
    }

    pub fn plus(self, more: Cost) -> Cost {
        Cost(self.0.saturating_add(more.0))
    }

    pub fn minus(self, less: Cost) -> Cost {
        Cost(self.0.saturating_sub(less.0))
    }
}

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.amount())
    }
}

impl<'de> Deserialize<'de> for Cost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Cost, D::Error> {
        Ok(Cost::new(f64::deserialize(deserializer)?))
    }
}

/// What a million tokens of a model cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    pub input: f64,
    pub output: f64,
    pub cached_input: f64,
}

impl Price {
    pub fn of(&self, used: Usage) -> Cost {
        const MILLION: f64 = 1e6;
        // No more can have been read before than was asked, whatever an endpoint says.
        let cached = used.cached_input_tokens.min(used.input_tokens);
        let fresh = used.input_tokens - cached;
        let parts = [
            (fresh, self.input),
            (cached, self.cached_input),
            (used.output_tokens, self.output),
        ];
        let sum: f64 = parts.iter().map(|(n, price)| *n as f64 * price).sum();
        Cost::new(sum / MILLION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(input_tokens: u64, cached_input_tokens: u64, output_tokens: u64) -> Usage {
        Usage {
            input_tokens,
            output_tokens,
            cached_input_tokens,
            ..Usage::default()
        }
    }

    #[test]
    fn no_number_is_too_large() {
        let most = Usage {
            cost: Some(Cost::new(f64::INFINITY)),
            ..used(u64::MAX, u64::MAX, 2)
        };
        let mut sum = most;
        sum.add(most);
        let expected = Usage {
            output_tokens: 4,
            ..most
        };
        assert_eq!(sum, expected);
        let nothing = Usage {
            cost: Some(Cost::default()),
            ..Usage::default()
        };
        assert_eq!(most.since(sum), nothing);
        assert_eq!(sum.tokens(), u64::MAX);
        assert_eq!(Cost::new(f64::NAN), Cost::new(-1.0));
    }

    #[test]
    fn what_was_read_before_has_its_own_price() {
        let price = Price {
            input: 2.0,
            output: 8.0,
            cached_input: 0.5,
        };
        let cases = [
            (used(1_000_000, 0, 0), 2.0),
            (used(1_000_000, 400_000, 0), 1.4),
            (used(0, 0, 500_000), 4.0),
            (used(10, 20, 0), 0.000_005),
            (used(1, 0, 1), 0.000_01),
        ];
        for (used, cost) in cases {
            assert_eq!(price.of(used).amount(), cost, "{used:?}");
        }
    }

    #[test]
    fn what_was_written_down_before_there_were_prices_is_read() {
        let usage: Usage =
            serde_json::from_str(r#"{"input_tokens": 3, "output_tokens": 4}"#).expect("it is read");
        assert_eq!(usage, used(3, 0, 4));
        let priced = Usage {
            cost: Some(Cost::new(0.123_456_789)),
            cu: Some(Cost::new(0.5)),
            ..usage
        };
        let text = serde_json::to_string(&priced).expect("it is JSON");
        assert_eq!(serde_json::from_str::<Usage>(&text).ok(), Some(priced));
    }
}
