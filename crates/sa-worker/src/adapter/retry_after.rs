//! How long a provider asks to be left alone.

use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// Above a day the wait says "not today" and nothing more exact.
pub(super) const LONGEST: Duration = Duration::from_secs(24 * 3600);
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

/// The wait until what is used up comes back, where a rate limit's answer asks for no wait in so many words: the latest
/// reset of those limits of which nothing remains.
pub(super) fn until_reset(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let now = text(DATE.as_str());
    let reset = |(prefix, limit): (&str, &str)| {
        let (remaining, reset) = if prefix == OPENAI {
            (format!("{prefix}-remaining-{limit}"), format!("{prefix}-reset-{limit}"))
        } else {
            (format!("{prefix}-{limit}-remaining"), format!("{prefix}-{limit}-reset"))
        };
        let reset = text(&reset).filter(|_| text(&remaining) == Some("0"))?;
        spelt(reset).or_else(|| until(reset, now?))
    };
    let wait = LIMITS.into_iter().filter_map(reset).max()?;
    Some(wait.clamp(SHORTEST, LONGEST))
}

const OPENAI: &str = "x-ratelimit";
const LIMITS: [(&str, &str); 6] = [
    (OPENAI, "requests"),
    (OPENAI, "tokens"),
    ("anthropic-ratelimit", "requests"),
    ("anthropic-ratelimit", "tokens"),
    ("anthropic-ratelimit", "input-tokens"),
    ("anthropic-ratelimit", "output-tokens"),
];

fn positive(value: &str, per_second: f64) -> Option<Duration> {
    let seconds: f64 = value.parse().ok()?;
    // Too large for a Duration is still a wish for a very long wait; infinity is none at all.
    let wished = seconds.is_finite() && seconds >= 0.0;
    wished.then(|| Duration::try_from_secs_f64(seconds / per_second).unwrap_or(LONGEST))
}

/// A duration in the spelling of these headers: `1s`, `6m0s`, `1h2m3.5s`, `20ms`, or plain seconds.
fn spelt(value: &str) -> Option<Duration> {
    if let Some(seconds) = positive(value, 1.0) {
        return Some(seconds);
    }
    let (mut rest, mut sum) = (value, Duration::ZERO);
    while !rest.is_empty() {
        let (number, unit) = rest.split_at(rest.find(|c: char| c.is_ascii_alphabetic())?);
        let (unit, later) = unit.split_at(unit.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(unit.len()));
        let per_second = match unit {
            "d" => 1.0 / 86_400.0,
            "h" => 1.0 / 3600.0,
            "m" => 1.0 / 60.0,
            "s" => 1.0,
            "ms" => 1000.0,
            "us" => 1e6,
            "ns" => 1e9,
            _ => return None,
        };
        sum = sum.saturating_add(positive(number, per_second)?);
        rest = later;
    }
    (!value.is_empty()).then_some(sum)
}

/// From the response's own `Date`, because our clock and the provider's may differ. Without it a date says nothing.
fn until(date: &str, now: &str) -> Option<Duration> {
    let parse = |text: &str| -> Option<SystemTime> {
        httpdate::parse_http_date(text).ok().or_else(|| humantime::parse_rfc3339(text).ok())
    };
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

    fn reset(headers: &[(&str, &str)]) -> Option<Duration> {
        let headers = headers.iter().map(|&(name, value)| {
            (HeaderName::try_from(name).unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
        });
        until_reset(&headers.collect())
    }

    #[test]
    fn resets_are_read_in_every_spelling() {
        let ms = |n| Some(Duration::from_millis(n));
        for (value, expected) in [
            ("1s", ms(1000)),
            ("6m0s", ms(360_000)),
            ("20ms", ms(1000)),
            ("7.66s", ms(7660)),
            ("1h2m3.5s", ms(3_723_500)),
            ("2d", ms(86_400_000)),
            ("12", ms(12_000)),
            ("2026-12-01T08:00:42Z", ms(42_000)),
            ("Tue, 01 Dec 2026 08:00:42 GMT", ms(42_000)),
            ("-1s", None),
            ("infs", None),
            ("1x", None),
            ("s", None),
            ("", None),
        ] {
            let headers = [NOW, ("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", value)];
            assert_eq!(reset(&headers), expected, "{value}");
        }
    }

    #[test]
    fn the_latest_reset_of_what_is_used_up_counts() {
        let openai = |requests, tokens| {
            reset(&[
                ("x-ratelimit-remaining-requests", requests),
                ("x-ratelimit-reset-requests", "8s"),
                ("x-ratelimit-remaining-tokens", tokens),
                ("x-ratelimit-reset-tokens", "6m0s"),
            ])
        };
        assert_eq!(openai("0", "149984"), Some(Duration::from_secs(8)));
        assert_eq!(openai("0", "0"), Some(Duration::from_secs(360)));
        assert_eq!(openai("1", "12"), None);
        let anthropic = |limit: &str| {
            let (remaining, at) =
                (format!("anthropic-ratelimit-{limit}-remaining"), format!("anthropic-ratelimit-{limit}-reset"));
            reset(&[NOW, (&remaining, "0"), (&at, "2026-12-01T08:01:10Z")])
        };
        for limit in ["requests", "tokens", "input-tokens", "output-tokens"] {
            assert_eq!(anthropic(limit), Some(Duration::from_secs(70)), "{limit}");
        }
    }
}
