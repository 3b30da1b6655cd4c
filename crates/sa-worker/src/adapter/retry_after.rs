//! How long a provider asks to be left alone.

use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// Above a day the wait says "not today" and nothing more exact.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// "At once" and "in 20 ms" come from servers that are overloaded right now.
const SHORTEST: Duration = Duration::from_secs(1);

/// The wait the headers ask for: `retry-after-ms`, else `Retry-After` in seconds (whole or not) or as an HTTP date.
///
/// What is no wait (negative, NaN, infinite, prose) is ignored, as if the header were not there.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let milliseconds = text("retry-after-ms").and_then(|value| positive(value, 1000.0));
    let wait = milliseconds.or_else(|| {
        let value = text(RETRY_AFTER.as_str())?;
        positive(value, 1.0).or_else(|| until(value, text(DATE.as_str())?))
    })?;
    Some(wait.clamp(SHORTEST, LONGEST))
}

fn positive(value: &str, per_second: f64) -> Option<Duration> {
    let seconds: f64 = value.parse().ok()?;
    // Too large for a Duration is still a wish for a very long wait; infinity is none at all.
    let wished = seconds.is_finite() && seconds >= 0.0;
    wished.then(|| Duration::try_from_secs_f64(seconds / per_second).unwrap_or(LONGEST))
}

/// From the response's own `Date`, because our clock and the provider's may differ. Without it a date says nothing.
fn until(date: &str, now: &str) -> Option<Duration> {
    let parse = |text| -> Option<SystemTime> { httpdate::parse_http_date(text).ok() };
    Some(parse(date)?.duration_since(parse(now)?).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::{HeaderName, HeaderValue};

    const NOW: (&str, &str) = ("date", "Tue, 01 Dec 2026 08:00:00 GMT");

    fn wait(headers: &[(&str, &str)]) -> Option<Duration> {
        let headers = headers.iter().map(|&(name, value)| {
            (HeaderName::try_from(name).unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
        });
        retry_after(&headers.collect())
    }

    #[test]
    fn waits_are_read_in_every_form_and_nonsense_is_ignored() {
        let secs = |n| Some(Duration::from_secs(n));
        let cases = [
            ("90", secs(90)),
            (" 7 ", secs(7)),
            ("1.5", Some(Duration::from_millis(1500))),
            ("0", secs(1)),
            ("99999999999", secs(86_400)),
            ("1e300", secs(86_400)),
            ("Tue, 01 Dec 2026 08:00:42 GMT", secs(42)),
            ("Tue, 01 Dec 2026 07:59:00 GMT", secs(1)),
            ("Wed, 01 Dec 2027 08:00:00 GMT", secs(86_400)),
            ("-5", None),
            ("inf", None),
            ("Infinity", None),
            ("1e400", None),
            ("nan", None),
            ("soon", None),
            ("", None),
        ];
        for (value, expected) in cases {
            assert_eq!(wait(&[NOW, ("retry-after", value)]), expected, "Retry-After: {value}");
        }
    }

    #[test]
    fn milliseconds_come_first_unless_they_are_nonsense() {
        assert_eq!(wait(&[("retry-after", "60"), ("retry-after-ms", "2500")]), Some(Duration::from_millis(2500)));
        assert_eq!(wait(&[("retry-after", "60"), ("retry-after-ms", "-1")]), Some(Duration::from_secs(60)));
        assert_eq!(wait(&[("retry-after-ms", "20")]), Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_date_without_the_responses_own_date_is_ignored() {
        assert_eq!(wait(&[("retry-after", "Tue, 01 Dec 2026 08:00:42 GMT")]), None);
        assert_eq!(wait(&[]), None);
    }
}
