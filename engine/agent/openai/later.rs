//! When an endpoint wants to be asked again.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value;

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// The longest wait that an endpoint can ask for.
pub(super) const LONGEST: Duration = Duration::from_secs(600);

/// What stands before a wait in a message.
const PHRASES: [&str; 3] = ["try again in ", "retry in ", "retry after "];

/// The header `retry-after-ms`, which some endpoints send for more precision; else `Retry-After`, in seconds or as a date.
pub(super) fn in_headers(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name| Some(headers.get(name)?.to_str().ok()?.trim());
    let number = |text: &str| text.parse::<f64>().ok();
    let precise = text("retry-after-ms").and_then(number);
    if let Some(wait) = precise.and_then(|it| seconds(it / 1000.0)) {
        return Some(wait);
    }
    let text = text(RETRY_AFTER.as_str())?;
    match number(text) {
        Some(number) => seconds(number),
        None => Some(date(text)?.duration_since(now).unwrap_or_default()),
    }
}

/// `retry_after` in a body, in seconds, at the top or beside the message; Google's `retryDelay`; or what the message says.
pub(super) fn in_body(body: &Value, said: &str) -> Option<Duration> {
    let mut places = ["/retry_after", "/error/retry_after"].iter();
    let stated = places.find_map(|it| body.pointer(it)?.as_f64());
    let details = body.pointer("/error/details").and_then(Value::as_array);
    let mut details = details.into_iter().flatten();
    let delay = || details.find_map(|it| span(it.get("retryDelay")?.as_str()?));
    stated
        .and_then(seconds)
        .or_else(delay)
        .or_else(|| in_words(said))
}

/// No wait is negative; one without end is the longest there can be.
fn seconds(number: f64) -> Option<Duration> {
    match Duration::try_from_secs_f64(number) {
        Ok(wait) => Some(wait),
        Err(_) => (number > 0.0).then_some(Duration::MAX),
    }
}

/// The wait in a sentence, such as `Please try again in 1m2.5s.`
fn in_words(said: &str) -> Option<Duration> {
    let said = said.to_ascii_lowercase();
    let mut waits = PHRASES.iter();
    waits.find_map(|it| span(said.split_once(it)?.1))
}

/// The span a text begins with, such as `1h2m`, `1.5s`, `20ms` or `20 seconds`.
fn span(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = None;
    loop {
        let is_number = |it: char| it.is_ascii_digit() || it == '.';
        let (number, after) = rest.split_at(rest.find(|it| !is_number(it)).unwrap_or(rest.len()));
        let after = after.trim_start_matches(' ');
        let is_word = |it: char| it.is_ascii_alphabetic();
        let (unit, after) = after.split_at(after.find(|it| !is_word(it)).unwrap_or(after.len()));
        let unit = match unit {
            "ms" | "millisecond" | "milliseconds" => 0.001,
            "s" | "sec" | "second" | "seconds" => 1.0,
            "m" | "min" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            _ => break,
        };
        let Ok(number) = number.parse::<f64>() else {
            break;
        };
        total = Some(total.unwrap_or(0.0) + number * unit);
        rest = after;
    }
    total.and_then(seconds)
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
    use serde_json::json;

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
        check("1e9", expect!["Some(1000000000s)"]);
        check("1e300", expect!["Some(18446744073709551615.999999999s)"]);
        check("inf", expect!["Some(18446744073709551615.999999999s)"]);
        check("soon", expect!["None"]);
        check("Sun, 06 Nov 1994 08:49:47 GMT", expect!["Some(10s)"]);
        check("Sun, 06 Nov 1994 08:49:27 GMT", expect!["Some(0ns)"]);
        check("Wed, 06 Nov 1996 08:49:37 GMT", expect!["Some(63158400s)"]);
        check("Sun, 06 Nov 1994 08:49:47 CET", expect!["None"]);
        check("Sun, 06 Nov 1954 08:49:47 GMT", expect!["None"]);
        check("Sun, 99 Nov 1994 08:49:47 GMT", expect!["None"]);
    }

    #[test]
    fn milliseconds_come_first() {
        let after = |precise: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("retry-after-ms", HeaderValue::from_static(precise));
            headers.insert(RETRY_AFTER, HeaderValue::from_static("2"));
            in_headers(&headers, UNIX_EPOCH)
        };
        assert_eq!(after("1500"), Some(Duration::from_millis(1500)));
        assert_eq!(after("NaN"), Some(Duration::from_secs(2)));
        assert_eq!(after("-5"), Some(Duration::from_secs(2)));
    }

    #[test]
    fn bodies() {
        let delay = |text: &str| json!({ "error": { "details": [{}, { "retryDelay": text }] } });
        let cases = [
            (json!({ "retry_after": 3 }), Some(3_000)),
            (json!({ "error": { "retry_after": 0.25 } }), Some(250)),
            (json!({ "retry_after": "3" }), None),
            (json!({ "retry_after": -3 }), None),
            (json!([]), None),
            (delay("13.5s"), Some(13_500)),
            (delay("soon"), None),
            (delay(""), None),
        ];
        for (body, millis) in cases {
            let expected = millis.map(Duration::from_millis);
            assert_eq!(in_body(&body, ""), expected, "{body}");
        }
    }

    #[test]
    fn sentences() {
        let cases = [
            (
                "Limit 3, used 3. Please try again in 1.5s. Visit",
                Some(1_500),
            ),
            ("Please try again in 20ms.", Some(20)),
            ("please TRY AGAIN IN 1h2m3s", Some(3_723_000)),
            ("Please retry after 20 seconds.", Some(20_000)),
            ("try again in a while", None),
            ("try again in 5", None),
            ("try again in 1.2.3s", None),
            ("try again in \u{fc}", None),
            ("it took 5s", None),
        ];
        for (said, millis) in cases {
            let expected = millis.map(Duration::from_millis);
            assert_eq!(in_body(&json!({}), said), expected, "{said}");
        }
    }
}
