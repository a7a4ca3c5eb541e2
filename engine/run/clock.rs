//! The time of day, as it is written down; it may go back between two looks at it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = i64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(i64::MAX);
    now.saturating_add(ahead_ms())
}

/// From one time to another; nothing if the clock went back meanwhile.
pub(super) fn span(since_ms: i64, until_ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(until_ms.saturating_sub(since_ms)).unwrap_or(0))
}

/// How wrong the clock is: `MOZAIKS_CLOCK_AHEAD_MS` says it. Built for tests alone.
#[cfg(debug_assertions)]
fn ahead_ms() -> i64 {
    use std::sync::LazyLock;
    static AHEAD: LazyLock<Option<i64>> =
        LazyLock::new(|| std::env::var("MOZAIKS_CLOCK_AHEAD_MS").ok()?.parse().ok());
    AHEAD.unwrap_or(0)
}

#[cfg(not(debug_assertions))]
fn ahead_ms() -> i64 {
    0
}
