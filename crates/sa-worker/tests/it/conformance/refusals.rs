//! What an error status means, on every protocol.

mod rows;

use rows::{ANTHROPIC, AZURE, BARE, BODIES_OF_NO_USE, COMPATIBLE, GEMINI, OPENAI, Row};
use sa_core::error_kind::ErrorKind::{Provider4xx, Provider5xx, RateLimit};
use sa_harness::Reply as Sent;
use sa_worker::adapter::Bill;

use super::{KINDS, called, called_in_turn};

/// Gateways speak one protocol and repeat errors of another, so each row is tried on all of them.
#[tokio::test]
async fn every_refusal_has_the_same_kind_on_every_protocol() {
    let json = [("content-type", "application/json")];
    let told = [OPENAI, AZURE, ANTHROPIC, GEMINI, COMPATIBLE].concat();
    let untold = BARE.iter().flat_map(|(expected, status)| BODIES_OF_NO_USE.map(|body| (*expected, *status, body)));
    let rows: Vec<Row> = told.into_iter().chain(untold).collect();
    for kind in KINDS {
        let replies = rows.iter().map(|(_, status, body)| Sent::by_hand(status, &json, body));
        for ((expected, status, body), called) in rows.iter().zip(called_in_turn(kind, replies).await) {
            assert_eq!(called.error().kind, *expected, "{kind}: {status} {body}");
            assert_eq!(called.error().bill, Bill::Known, "{kind}: {status} {body}");
        }
    }
}

#[tokio::test]
async fn recorded_refusals_of_the_other_protocols_have_the_same_kinds() {
    for (kind, recording, expected) in [
        ("openai", "aimock-openrouter-403", Provider4xx),
        ("openai", "litellm-401", Provider4xx),
        ("openai", "litellm-429", RateLimit),
        ("openai", "litellm-500", Provider5xx),
        ("openai", "litellm-400-context", Provider4xx),
        ("openai", "litellm-404-model", Provider4xx),
        ("openai-responses", "litellm-responses-stream", Provider5xx),
        ("openai-responses", "llama-responses-400-context", Provider4xx),
        ("anthropic", "llama-messages-400-context", Provider4xx),
        ("anthropic", "aimock-messages-429", RateLimit),
        ("anthropic", "aimock-messages-529", Provider5xx),
        ("gemini", "aimock-gemini-429", RateLimit),
    ] {
        let called = called(kind, Sent::wire(recording)).await;
        assert_eq!(called.error().kind, expected, "{recording}: {}", called.error().message);
        assert_eq!(called.error().bill, Bill::Known, "{recording}");
    }
}

/// A provider that says whether another try is worth while knows better than its status, and no better than its code.
#[tokio::test]
async fn should_retry_overrides_the_status_on_every_protocol() {
    let cases = [
        ("true", "400 Bad Request", "", true),
        ("false", "500 Internal Server Error", "", false),
        ("false", "429 Too Many Requests", "", false),
        ("true", "429 Too Many Requests", r#"{"error":{"code":"insufficient_quota"}}"#, false),
        ("perhaps", "500 Internal Server Error", "", true),
    ];
    for kind in KINDS {
        let replies = cases.map(|(flag, status, body, _)| Sent::by_hand(status, &[("x-should-retry", flag)], body));
        for ((flag, status, body, retryable), called) in cases.into_iter().zip(called_in_turn(kind, replies).await) {
            assert_eq!(called.error().kind.retryable(), retryable, "{kind}: {flag} {status} {body}");
        }
    }
}

#[tokio::test]
async fn redirect_is_followed_by_no_protocol() {
    for kind in KINDS {
        let called =
            called(kind, Sent::by_hand("307 Temporary Redirect", &[("location", "http://127.0.0.1:9/")], "")).await;
        assert_eq!(called.error().kind, Provider4xx, "{kind}: {}", called.error().message);
        assert!(called.error().message.contains("307"), "{kind}");
    }
}

/// CB-47, CB-100, CB-102: the message is kept, and no refusal is an empty success.
#[tokio::test]
async fn message_is_kept_on_every_protocol() {
    for kind in KINDS {
        let body = r#"{"error":{"message":"unexpected end of data 👨‍👩‍👧 sk-the-key-of-this-test"}}"#;
        let called = called(kind, Sent::by_hand("400 Bad Request", &[], body)).await;
        assert_eq!(called.error().message, "HTTP 400: unexpected end of data 👨‍👩‍👧 [redacted]", "{kind}");
    }
}
