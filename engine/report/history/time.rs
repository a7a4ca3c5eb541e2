//! Times of a journal, for people: a point in UTC, and how long something took.

use std::time::{Duration, UNIX_EPOCH};

/// The last second that has a year of four digits.
const LAST_MS: i64 = 253_402_300_799_000;

/// `2026-12-01 05:26:22`, in UTC.
pub(super) fn utc(at_ms: i64) -> String {
    let text = rfc_3339(at_ms);
    text.trim_end_matches('Z').replace('T', " ")
}

/// `2026-12-01T05:26:22Z`.
pub(super) fn rfc_3339(at_ms: i64) -> String {
    let since = at_ms.clamp(0, LAST_MS).unsigned_abs();
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(since)).to_string()
}

/// `0.3s`, `4m 05s`, `2h 07m`, `3d 04h`.
pub(super) fn span(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds}.{}s", ms.max(0) % 1000 / 100),
        60..3600 => format!("{minutes}m {:02}s", seconds % 60),
        3600..86_400 => format!("{hours}h {:02}m", minutes % 60),
        _ => format!("{days}d {:02}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(times: &[i64], expect: Expect) {
        let shown = times
            .iter()
            .map(|it| format!("{} / {}", utc(*it), span(*it)));
        expect.assert_eq(&shown.collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn points_and_spans() {
        check(
            &[
                i64::MIN,
                -1,
                0,
                59_999,
                60_000,
                3_599_999,
                7_620_000,
                1_796_102_984_512,
                i64::MAX,
            ],
            expect![[r#"
                1970-01-01 00:00:00 / 0.0s
                1970-01-01 00:00:00 / 0.0s
                1970-01-01 00:00:00 / 0.0s
                1970-01-01 00:00:59 / 59.9s
                1970-01-01 00:01:00 / 1m 00s
                1970-01-01 00:59:59 / 59m 59s
                1970-01-01 02:07:00 / 2h 07m
                2026-12-01 05:29:44 / 20788d 05h
                9999-12-31 23:59:59 / 106751991167d 07h"#]],
        );
    }
}
