//! What the entries of a journal say, one thing after the other.

use serde_json::Value;

use crate::{accept::Asked, agent::Usage, tool::Calls};

/// Whether an entry says what was used, and not how much all together.
pub(super) fn is_spent(kind: &str) -> bool {
    matches!(
        kind,
        "answered" | "turn_rejected" | "accepted" | "rejected" | "withheld" | "cut_short"
    )
}

/// Who failed, where that was written down.
pub(super) fn asked(data: &Value) -> Option<Asked> {
    Some(Asked {
        provider: data["provider"].as_str()?.into(),
        // Whether there is another attempt was decided when it was.
        has_others: false,
    })
}

pub(super) fn calls(data: &Value) -> anyhow::Result<Calls> {
    match data.get("called") {
        None => Ok(Calls::default()),
        Some(tools) => Ok(Calls {
            tools: serde_json::from_value(tools.clone())?,
            changed: serde_json::from_value(data["set"].clone())?,
        }),
    }
}

pub(super) fn usage(data: &Value) -> anyhow::Result<Usage> {
    match data.get("usage") {
        None => Ok(Usage::default()),
        Some(usage) => Ok(serde_json::from_value(usage.clone())?),
    }
}
