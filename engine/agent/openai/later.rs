//! When an endpoint wants to be asked again.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value;

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// The header `Retry-After`, in seconds or as a date.
pub(super) fn in_headers(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => Some(date(text)?.duration_since(now).unwrap_or_default()),
    }
}

/// `retry_after` in a body, in seconds, at the top or beside the message.
pub(super) fn in_body(body: &Value) -> Option<Duration> {
    let places = ["/retry_after", "/error/retry_after"];
    let seconds = places.iter().find_map(|it| body.pointer(it)?.as_f64())?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// A date as HTTP writes it, such as `Sun, 06 Nov 1994 08:49:37 GMT`. The two older forms are not read.
fn date(text: &str) -> Option<SystemTime> {
    let (_, text) = text.split_once(", ")?;
    let parts: Vec<&str> = text.split([' ', ':']).collect();
    let [day, month, year, hour, minute, second, "GMT"] = parts.as_slice() else {
        return None;
    };
    let month = 1 + MONTHS.iter().position(|it| it == month)? as u64;
    let number = |it: &str, most: u64| it.parse().ok().filter(|it: &u64| *it <= most);
    let days = days(number(year, 9999)?, month, number(day, 31)?)?;
    let hours = days * 24 + number(hour, 23)?;
    let seconds = (hours * 60 + number(minute, 59)?) * 60 + number(second, 60)?;
    Some(UNIX_EPOCH + Duration::from_secs(seconds))
}

/// Days since 1970-01-01, none before it. Years are counted from March, so that a leap day comes last.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let (year, month) = match month {
        1 | 2 => (year.checked_sub(1)?, month + 9),
        _ => (year, month - 3),
    };
    let leap_days = year / 4 - year / 100 + year / 400;
    let in_year = (153 * month + 2) / 5 + day;
    (365 * year + leap_days + in_year).checked_sub(719_469)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use reqwest::header::HeaderValue;

    use super::*;

    fn check(header: &'static str, expected: Expect) {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(header))]);
        // Sun, 06 Nov 1994 08:49:37 GMT
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
        expected.assert_eq(&format!("{:?}", in_headers(&headers, now)));
    }

    #[test]
    fn headers() {
        check("2", expect!["Some(2s)"]);
        check(" 0.5 ", expect!["Some(500ms)"]);
        check("-1", expect!["None"]);
        check("NaN", expect!["None"]);
        check("1e300", expect!["None"]);
        check("soon", expect!["None"]);
        check("Sun, 06 Nov 1994 08:49:47 GMT", expect!["Some(10s)"]);
        check("Sun, 06 Nov 1994 08:49:27 GMT", expect!["Some(0ns)"]);
        check("Wed, 06 Nov 1996 08:49:37 GMT", expect!["Some(63158400s)"]);
        check("Sun, 06 Nov 1994 08:49:47 CET", expect!["None"]);
        check("Sun, 06 Nov 1954 08:49:47 GMT", expect!["None"]);
        check("Sun, 99 Nov 1994 08:49:47 GMT", expect!["None"]);
    }

    #[test]
    fn bodies() {
        let after = |body| in_body(&body);
        assert_eq!(
            after(serde_json::json!({ "retry_after": 3 })),
            Some(Duration::from_secs(3))
        );
        let beside = serde_json::json!({ "error": { "retry_after": 0.25 } });
        assert_eq!(after(beside), Some(Duration::from_millis(250)));
        assert_eq!(after(serde_json::json!({ "retry_after": "3" })), None);
        assert_eq!(after(serde_json::json!([])), None);
    }
}
