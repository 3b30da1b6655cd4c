//! What is an answer, and what is kept of it.

use std::time::Duration;

use sa_core::error_kind::ErrorKind;
use sa_harness::Reply as Sent;
use sa_worker::adapter::Ending;

use crate::{answered_with, json, stream, usage};

const PIECES: &str = "Hello! I am a recorded answer, in several pieces: naïve café, 東京, 🦀.";

#[tokio::test]
async fn stream_of_llama_cpp_is_an_answer() {
    let called = answered_with(Sent::wire("llama-chat-stream")).await;
    assert!(called.text().starts_with("Hello,"), "{}", called.text());
    assert_eq!(called.received.text(), called.text());
    assert_eq!(called.received.usage(), usage(37, Some(0), 14));
    assert_eq!(called.received.model().as_deref(), Some("smollm2-135m"));
    assert!(called.received.provider_request_id().unwrap().starts_with("chatcmpl-"));
    assert!(called.received.first_byte().is_some());
}

#[tokio::test]
async fn stream_in_the_smallest_pieces_is_the_same_answer() {
    let called = answered_with(Sent::wire("aimock-chat-stream").drip(3, Duration::from_micros(50))).await;
    assert_eq!(called.text(), PIECES);
    assert!(called.received.provider_request_id().unwrap().starts_with("req-"), "the header's id comes first");
}

#[tokio::test]
async fn whole_answer_to_a_request_for_a_stream_is_understood() {
    let called = answered_with(Sent::wire("aimock-chat")).await;
    assert_eq!(called.text(), PIECES);
    assert_eq!(called.received.usage(), usage(2, None, 18));
    let called = answered_with(Sent::wire("llama-chat")).await;
    assert!(called.text().ends_with("creative writing project."));
}

#[tokio::test]
async fn cb_94_answer_cut_by_its_budget_is_truncated() {
    for recording in ["llama-chat-length", "llama-chat-stream-length"] {
        let called = answered_with(Sent::wire(recording)).await;
        assert_eq!(called.result.as_ref().unwrap().ending, Ending::Truncated, "{recording}");
        assert!(!called.text().is_empty());
    }
}

#[tokio::test]
async fn cb_96_frames_are_put_together_whatever_the_label_says() {
    let events = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    assert_eq!(answered_with(json(events)).await.text(), "ab");
    assert_eq!(answered_with(json(&format!("\n: ping\n\n{events}"))).await.text(), "ab");
    let whole = "{\"choices\":[{\"message\":{\"content\":\"ab\"},\"finish_reason\":\"stop\"}]}";
    assert_eq!(answered_with(stream(whole)).await.text(), "ab");
}

#[tokio::test]
async fn bytes_that_are_not_utf8_spoil_no_answer() {
    let mut bytes = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n".to_vec();
    bytes.extend(
        b"data: {\"choices\":[{\"delta\":{\"content\":\"a\xffb\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
    );
    assert_eq!(answered_with(Sent::bytes(bytes)).await.text(), "a\u{fffd}b");
}

#[tokio::test]
async fn filtered_answer_is_the_callers_and_leaves_its_text() {
    for recording in ["aimock-chat-filter", "aimock-chat-stream-filter"] {
        let called = answered_with(Sent::wire(recording)).await;
        assert_eq!(called.error().kind, ErrorKind::Provider4xx, "{recording}");
        assert_eq!(called.received.text(), "I can only say this much");
        assert_eq!(called.received.usage(), usage(2, None, 6));
    }
}

#[tokio::test]
async fn cb_91_and_cb_93_answers_without_text_are_unreadable_and_keep_their_usage() {
    let filtered = r#"{"choices":[],"prompt_filter_results":[{"content_filter_results":{"hate":{"filtered":true}}}]}"#;
    assert_eq!(answered_with(json(filtered)).await.error().kind, ErrorKind::Provider4xx);
    assert_eq!(answered_with(json(r#"{"choices":[]}"#)).await.error().kind, ErrorKind::Parse);
    let spent = r#"{"choices":[{"message":{"content":""},"finish_reason":"length"}],"usage":{"prompt_tokens":4,"completion_tokens":99}}"#;
    let called = answered_with(json(spent)).await;
    assert_eq!(called.error().kind, ErrorKind::Parse);
    assert!(called.error().message.contains("raise the token budget"));
    assert_eq!(called.received.usage(), usage(4, None, 99));
}

#[tokio::test]
async fn page_instead_of_an_answer_is_unreadable() {
    let called = answered_with(Sent::by_hand("200 OK", &[("content-type", "text/html")], "<html>login</html>")).await;
    assert_eq!(called.error().kind, ErrorKind::Parse);
}
