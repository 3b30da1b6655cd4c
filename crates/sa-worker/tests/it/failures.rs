//! What each failure means, and what is kept of it.

use std::time::Duration;

use sa_core::error_kind::ErrorKind;
use sa_harness::Reply as Sent;
use sa_worker::adapter::Bill;

use crate::{answered_with, call, json, openai, stream};

#[tokio::test]
async fn recorded_errors_have_the_kinds_of_the_contract() {
    let cases = [
        ("aimock-401", ErrorKind::Auth),
        ("aimock-429-rate-limit", ErrorKind::RateLimit),
        ("aimock-429-quota", ErrorKind::Quota),
        ("aimock-429-credit", ErrorKind::Quota),
        ("aimock-400-content-policy", ErrorKind::Provider4xx),
        ("aimock-404-no-match", ErrorKind::Provider4xx),
        ("aimock-500", ErrorKind::Provider5xx),
        ("aimock-503", ErrorKind::Provider5xx),
        ("aimock-529", ErrorKind::Provider5xx),
        ("llama-400-context", ErrorKind::Provider4xx),
        ("llama-bad-json", ErrorKind::Provider4xx),
    ];
    for (recording, kind) in cases {
        let called = answered_with(Sent::wire(recording)).await;
        assert_eq!(called.error().kind, kind, "{recording}: {}", called.error().message);
        assert_eq!(called.error().bill, Bill::Known, "{recording}");
    }
}

#[tokio::test]
async fn wait_that_was_asked_for_is_passed_on() {
    let called = answered_with(Sent::wire("aimock-429-rate-limit")).await;
    assert_eq!(called.error().retry_after, Some(Duration::from_secs(7)));
    let dated = Sent::by_hand(
        "429 Too Many Requests",
        &[("date", "Tue, 01 Dec 2026 08:00:00 GMT"), ("retry-after", "Tue, 01 Dec 2026 08:00:42 GMT")],
        "",
    );
    assert_eq!(answered_with(dated).await.error().retry_after, Some(Duration::from_secs(42)));
    let nonsense = Sent::by_hand("429 Too Many Requests", &[("retry-after", "inf")], "");
    assert_eq!(answered_with(nonsense).await.error().retry_after, None);
}

#[tokio::test]
async fn cb_67_error_text_with_emoji_is_kept_intact() {
    let body = r#"{"error":{"message":"no 👨‍👩‍👧 and 𝒳 today","type":"invalid_request_error"}}"#;
    let called = answered_with(Sent::by_hand("400 Bad Request", &[("content-type", "application/json")], body)).await;
    assert!(called.error().message.contains("no 👨‍👩‍👧 and 𝒳 today"), "{}", called.error().message);
}

#[tokio::test]
async fn cb_90_error_in_a_success_is_classed_by_its_code() {
    let limited = answered_with(json(r#"{"error":{"code":429,"message":"slow down"}}"#)).await;
    assert_eq!(limited.error().kind, ErrorKind::RateLimit);
    assert!(limited.error().message.contains("slow down"));
    let failed = answered_with(json(r#"{"error":{"code":"server_error"}}"#)).await;
    assert_eq!(failed.error().kind, ErrorKind::Provider5xx);
    let streamed = answered_with(stream("event: error\ndata: {\"error\":{\"code\":502,\"message\":\"m\"}}\n\n")).await;
    assert_eq!(streamed.error().kind, ErrorKind::Provider5xx);
}

#[tokio::test]
async fn cb_98_body_cut_short_is_a_provider_failure_and_never_a_success() {
    let cut = [
        Sent::wire("aimock-chat").cut_after_bytes(150),
        Sent::wire("llama-chat").cut_after_bytes(150),
        Sent::wire("aimock-chat-stream").cut_after_bytes(700),
        Sent::wire("llama-chat-stream").cut_after_bytes(900),
        Sent::wire("aimock-chat-stream").reset_after_bytes(700),
        Sent::wire("aimock-chat-stream").cut_before_headers(),
        // Neither length nor chunks: only the JSON itself and the missing end mark tell.
        Sent::bytes(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"choices\":[{\"message\":{\"content\":\"ha",
        ),
        Sent::bytes(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n",
        ),
        Sent::bytes("HTTP/1.1 200 OK\r\n\r\n"),
    ];
    for (number, reply) in cut.into_iter().enumerate() {
        let called = answered_with(reply).await;
        assert_eq!(called.error().kind, ErrorKind::Provider5xx, "{number}: {}", called.error().message);
        assert_eq!(called.error().bill, Bill::MaybeCharged, "{number}");
    }
}

#[tokio::test]
async fn text_before_the_cut_is_kept() {
    let called = answered_with(Sent::wire("aimock-chat-stream").cut_after_bytes(700)).await;
    assert_eq!(called.received.text(), "Hello! I am a recorded answer, in severa");
}

#[tokio::test]
async fn connection_lost_after_the_model_stopped_loses_nothing() {
    // All but the usage, `[DONE]` and the last chunk.
    let called = answered_with(Sent::wire("aimock-chat-stream").cut_after_bytes(1500)).await;
    assert!(called.text().ends_with("🦀."), "{}", called.text());
}

#[tokio::test]
async fn cb_100_bad_request_is_never_an_empty_success() {
    let called = answered_with(Sent::by_hand("400 Bad Request", &[], r#"{"error":{"message":"bad"}}"#)).await;
    assert_eq!((called.error().kind, called.error().message.as_str()), (ErrorKind::Provider4xx, "HTTP 400: bad"));
}

#[tokio::test]
async fn refused_connection_is_a_provider_failure_that_cost_nothing() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let called = call(&openai(&format!("http://127.0.0.1:{port}/v1"), "")).await;
    assert_eq!(called.error().kind, ErrorKind::Provider5xx);
    assert_eq!(called.error().bill, Bill::Known);
    assert!(called.error().message.contains("refused"), "{}", called.error().message);
    assert!(!called.error().message.contains(&port.to_string()), "an address may hold a key");
}

#[tokio::test]
async fn redirect_is_not_followed() {
    let called =
        answered_with(Sent::by_hand("307 Temporary Redirect", &[("location", "http://127.0.0.1:9/")], "")).await;
    assert_eq!(called.error().kind, ErrorKind::Provider4xx);
}

#[tokio::test]
async fn key_that_a_provider_repeats_is_not_in_the_message() {
    let body = r#"{"error":{"message":"bad key sk-the-key-of-this-test, or token=abc"}}"#;
    let called = answered_with(Sent::by_hand("400 Bad Request", &[], body)).await;
    assert_eq!(called.error().message, "HTTP 400: bad key [redacted], or token=[redacted]");
}
