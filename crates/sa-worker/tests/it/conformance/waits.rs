//! How long a provider asks to be left alone: every header, and the one body.

use std::time::Duration;

use sa_harness::Reply as Sent;

use super::{KINDS, called, called_in_turn};

/// What a test sends beside the date.
type Headers = &'static [(&'static str, &'static str)];

const DATE: (&str, &str) = ("date", "Tue, 01 Dec 2026 08:00:00 GMT");

#[tokio::test]
async fn every_wait_header_is_read_on_every_protocol() {
    let cases: [(Headers, Option<u64>); 13] = [
        (&[("retry-after", "90")], Some(90_000)),
        (&[("retry-after", "1.5")], Some(1500)),
        (&[("retry-after-ms", "2500"), ("retry-after", "60")], Some(2500)),
        (&[("retry-after", "Tue, 01 Dec 2026 08:00:42 GMT")], Some(42_000)),
        (
            &[("retry-after", "7"), ("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "6m0s")],
            Some(7000),
        ),
        (&[("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "20ms")], Some(1000)),
        (&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "6m0s")], Some(360_000)),
        (
            &[
                ("anthropic-ratelimit-requests-remaining", "0"),
                ("anthropic-ratelimit-requests-reset", "2026-12-01T08:00:10Z"),
                ("anthropic-ratelimit-output-tokens-remaining", "0"),
                ("anthropic-ratelimit-output-tokens-reset", "2026-12-01T08:01:00Z"),
                ("anthropic-ratelimit-input-tokens-remaining", "400"),
                ("anthropic-ratelimit-input-tokens-reset", "2026-12-01T09:00:00Z"),
            ],
            Some(60_000),
        ),
        // CB-41, CB-42: nonsense is as if it were not there.
        (&[("retry-after", "inf")], None),
        (&[("retry-after", "1e400")], None),
        (&[("retry-after", "nan")], None),
        (&[("retry-after", "-5")], None),
        (&[], None),
    ];
    for kind in KINDS {
        let replies =
            cases.iter().map(|(headers, _)| Sent::by_hand("429 Too Many Requests", &[&[DATE], *headers].concat(), ""));
        for ((headers, wait), called) in cases.iter().zip(called_in_turn(kind, replies).await) {
            assert_eq!(called.error().retry_after, wait.map(Duration::from_millis), "{kind}: {headers:?}");
        }
    }
}

#[tokio::test]
async fn a_limits_reset_says_nothing_about_another_failure() {
    let headers = [("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "6m0s")];
    for kind in KINDS {
        let called = called(kind, Sent::by_hand("500 Internal Server Error", &headers, "")).await;
        assert_eq!(called.error().retry_after, None, "{kind}");
    }
}

/// Google puts the wait into the body. A day's quota names a short one that does not help: it is asked for once an hour.
#[tokio::test]
async fn wait_in_the_body_is_read() {
    let quota = |id: &str, delay: &str| {
        let details = format!(r#"[{{"violations":[{{"quotaId":"{id}"}}]}},{{"retryDelay":"{delay}"}}]"#);
        format!(r#"{{"error":{{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":{details}}}}}"#)
    };
    for (id, delay, wait) in [
        ("RequestsPerMinutePerProject", "46s", Some(46_000)),
        ("RequestsPerMinutePerProject", "1.5s", Some(1500)),
        ("RequestsPerDayPerProject", "46s", Some(3_600_000)),
        ("RequestsPerMinutePerProject", "soon", None),
    ] {
        for sent in [
            Sent::by_hand("429 Too Many Requests", &[], &quota(id, delay)),
            Sent::by_hand("200 OK", &[("content-type", "application/json")], &quota(id, delay)),
        ] {
            let called = called("gemini", sent).await;
            assert_eq!(called.error().kind, sa_core::error_kind::ErrorKind::RateLimit, "{id} {delay}");
            assert_eq!(called.error().retry_after, wait.map(Duration::from_millis), "{id} {delay}");
        }
    }
}
