//! Limits of time and size, and calls that are dropped.

use std::time::Duration;

use sa_core::error_kind::ErrorKind;
use sa_harness::{FakeProvider, Gate, Reply as Sent, Rule};
use sa_worker::adapter::{Adapter, Bill, Received};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{SETTINGS, answered_within, openai, request};

#[tokio::test]
async fn silence_before_the_answer_is_a_time_out() {
    let called = answered_within(Sent::wire("llama-chat").hang_before_headers(), SETTINGS).await;
    assert_eq!(called.error().kind, ErrorKind::Timeout);
    assert_eq!(called.error().message, "no answer began within 300ms (first_byte_timeout)");
    assert_eq!(called.error().bill, Bill::MaybeCharged);
}

#[tokio::test]
async fn cb_54_head_and_then_silence_is_a_time_out() {
    let called = answered_within(Sent::wire("llama-chat-stream").hang_after_bytes(0), SETTINGS).await;
    assert_eq!(called.error().kind, ErrorKind::Timeout);
    assert_eq!(called.error().message, "the answer stopped coming for 300ms (idle_timeout)");
    let called = answered_within(Sent::wire("llama-chat-stream").hang_after_bytes(900), SETTINGS).await;
    assert_eq!(called.error().kind, ErrorKind::Timeout);
    assert!(!called.received.text().is_empty(), "what came before the silence is kept");
}

#[tokio::test]
async fn cb_53_answer_that_never_stops_coming_ends_at_the_total() {
    let settings = "idle_timeout = \"5s\"\ntotal_timeout = \"400ms\"";
    let called = answered_within(Sent::wire("llama-chat-stream").drip(20, Duration::from_millis(20)), settings).await;
    assert_eq!(called.error().kind, ErrorKind::Timeout);
    assert_eq!(called.error().message, "the answer was not whole after 400ms (total_timeout)");
}

#[tokio::test]
async fn answer_of_more_than_eight_mebibytes_is_none() {
    let endless = "x".repeat(8 * 1024 * 1024);
    let body = format!("{{\"choices\":[{{\"message\":{{\"content\":\"{endless}\"}},\"finish_reason\":\"stop\"}}]}}");
    let called = answered_within(Sent::by_hand("200 OK", &[], &body), "").await;
    assert_eq!(called.error().kind, ErrorKind::Parse);
    assert!(called.error().message.contains("8 MiB"));
}

#[tokio::test]
async fn long_event_is_put_together_in_time() {
    let text = "x".repeat(1024 * 1024);
    let body = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":\"stop\"}}]}}\n\ndata: [DONE]\n\n"
    );
    let reply = Sent::by_hand("200 OK", &[("content-type", "text/event-stream")], &body);
    assert_eq!(answered_within(reply, "").await.text(), text);
}

#[tokio::test]
async fn dropped_call_closes_its_connection_and_keeps_the_text() {
    let provider = FakeProvider::start().await.expect("a port is free");
    let gate = Gate::closed();
    provider.script(Rule::always().reply(Sent::wire("aimock-chat-stream").until_after_bytes(700, &gate)));
    let (openai, request, received) = (openai(&provider.url(), ""), request("hello"), Received::new());
    {
        let arrived = async {
            while received.text().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            () = arrived => {}
            result = openai.call(&request, &received) => panic!("{result:?}"),
        }
    }
    provider.wait_for_client_gone(1, Duration::from_secs(5)).await.unwrap();
    assert!(received.text().starts_with("Hello!"), "{}", received.text());
}

#[tokio::test]
async fn finished_stream_leaves_its_connection_to_the_next_call() {
    let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let openai = openai(&format!("http://{}/v1", server.local_addr().unwrap()), "");
    // One connection is served, and a second one would find nobody.
    tokio::spawn(async move {
        let (mut connection, _) = server.accept().await.unwrap();
        let answer = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../proofs/wire/aimock-chat-stream.http"));
        let (answer, mut request) = (answer.unwrap(), [0; 64 * 1024]);
        while connection.read(&mut request).await.unwrap() > 0 {
            connection.write_all(&answer).await.unwrap();
        }
    });
    for _ in 0..3 {
        assert!(crate::call(&openai).await.text().ends_with("🦀."));
    }
}
