//! A body that ends before its end mark is never an answer, on any protocol.

use std::time::Duration;

use sa_core::error_kind::ErrorKind;
use sa_harness::{FakeProvider, Reply as Sent, Rule};
use sa_worker::adapter::{Bill, Ending, Received};

use super::{KINDS, adapter, called, called_within};
use crate::{SETTINGS, json, request, stream};

/// For each protocol: a stream without its end, its end, and a whole document.
struct Parts {
    kind: &'static str,
    open: &'static [&'static str],
    end: &'static [&'static str],
    whole: &'static str,
}

const PARTS: [Parts; 5] = [
    Parts {
        kind: "openai",
        open: &[
            r#"{"id":"c1","choices":[{"index":0,"delta":{"role":"assistant","content":null}}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":"all of it"}}]}"#,
        ],
        end: &[r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#, "[DONE]"],
        whole: r#"{"choices":[{"index":0,"message":{"content":"all of it"},"finish_reason":"stop"}]}"#,
    },
    Parts {
        kind: "openai-responses",
        open: &[
            r#"{"type":"response.created","response":{"id":"r1","status":"in_progress","error":null}}"#,
            r#"{"type":"response.output_text.delta","delta":"all of it"}"#,
            r#"{"type":"response.output_text.done","text":"all of it"}"#,
        ],
        end: &[
            r#"{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"all of it"}]}]}}"#,
        ],
        whole: r#"{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"all of it"}]}]}"#,
    },
    Parts {
        kind: "anthropic",
        open: &[
            r#"{"type":"message_start","message":{"id":"m1","content":[],"stop_reason":null}}"#,
            r#"{"type":"ping"}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"all of it"}}"#,
            r#"{"type":"content_block_stop","index":0}"#,
        ],
        end: &[
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}"#,
            r#"{"type":"message_stop"}"#,
        ],
        whole: r#"{"content":[{"type":"text","text":"all of it"}],"stop_reason":"end_turn"}"#,
    },
    Parts {
        kind: "gemini",
        open: &[r#"{"candidates":[{"content":{"parts":[{"text":"all of it"}]},"index":0}]}"#],
        end: &[r#"{"candidates":[{"content":{"parts":[]},"finishReason":"STOP"}]}"#],
        whole: r#"{"candidates":[{"content":{"parts":[{"text":"all of it"}]},"finishReason":"STOP"}]}"#,
    },
    Parts {
        kind: "ollama",
        open: &[r#"{"message":{"content":"all of it"},"done":false}"#],
        end: &[r#"{"message":{"content":""},"done":true,"done_reason":"stop"}"#],
        whole: r#"{"message":{"content":"all of it"},"done":true,"done_reason":"stop"}"#,
    },
];

impl Parts {
    fn stream(&self, documents: &[&str]) -> String {
        let lines = self.kind == "ollama";
        documents.iter().map(|data| if lines { format!("{data}\n") } else { format!("data: {data}\n\n") }).collect()
    }
}

#[tokio::test]
async fn stream_needs_its_end_and_what_comes_after_the_stop_changes_nothing() {
    for parts in &PARTS {
        let (open, end) = (parts.stream(parts.open), parts.stream(parts.end));
        let cut = called(parts.kind, stream(&open)).await;
        assert_eq!(cut.error().kind, ErrorKind::Provider5xx, "{}: {}", parts.kind, cut.error().message);
        assert_eq!(cut.error().bill, Bill::MaybeCharged, "{}", parts.kind);
        assert_eq!(cut.received.text(), "all of it", "{}", parts.kind);
        // The first mark is enough: what follows it may be lost.
        let stopped = format!("{open}{}", parts.stream(&parts.end[..1]));
        for whole in [format!("{open}{end}"), stopped.clone(), format!("{stopped}garbage")] {
            let reply = called(parts.kind, stream(&whole)).await;
            assert_eq!(reply.text(), "all of it", "{}: {whole}", parts.kind);
        }
        // Half of the end is no end, however it was cut.
        for cut in [stopped.len() - 2, stopped.len() - 8, open.len() + 20] {
            let half = called(parts.kind, stream(&stopped[..cut])).await;
            // Ollama's last line need not be ended, and a document whose braces all came is whole.
            let whole = parts.kind == "ollama" && cut == stopped.len() - 2 && stopped[..cut].ends_with('}');
            assert!(whole || half.error().kind == ErrorKind::Provider5xx, "{}: {cut}", parts.kind);
        }
    }
}

/// A gateway's `[DONE]` ends a chat; in any other protocol it says nothing.
#[tokio::test]
async fn done_ends_only_the_protocol_it_belongs_to() {
    for parts in PARTS.iter().filter(|parts| parts.kind != "ollama") {
        let body = format!("{}data: [DONE]\n\n", parts.stream(parts.open));
        let reply = called(parts.kind, stream(&body)).await;
        assert_eq!(reply.result.is_ok(), parts.kind == "openai", "{}: {:?}", parts.kind, reply.result);
        let body = format!("{}{}data: [DONE]\n\n", parts.stream(parts.open), parts.stream(parts.end));
        assert_eq!(called(parts.kind, stream(&body)).await.text(), "all of it", "{}", parts.kind);
    }
}

/// CB-96: whole where a stream was asked for, a stream labelled as JSON, and comments between.
#[tokio::test]
async fn form_is_told_by_the_bytes_and_not_by_the_label() {
    for parts in &PARTS {
        assert_eq!(called(parts.kind, json(parts.whole)).await.text(), "all of it", "{}", parts.kind);
        assert_eq!(called(parts.kind, stream(parts.whole)).await.text(), "all of it", "{}", parts.kind);
        let frames = parts.stream(&[parts.open, parts.end].concat());
        let commented =
            if parts.kind == "ollama" { format!("\r\n{frames}") } else { format!(": PROCESSING\n\n{frames}") };
        let reply = called(parts.kind, json(&commented)).await;
        assert_eq!(reply.result.as_ref().map(|reply| reply.ending), Ok(Ending::Finished), "{}", parts.kind);
        assert_eq!(reply.text(), "all of it", "{}", parts.kind);
    }
}

/// CB-98: a document cut within its JSON, whatever the head promised.
#[tokio::test]
async fn document_cut_in_half_is_tried_again() {
    for parts in &PARTS {
        let half = &parts.whole[..parts.whole.len() / 2];
        let length = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{half}", parts.whole.len());
        let chunk = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{half}", parts.whole.len());
        let unframed = format!("HTTP/1.1 200 OK\r\n\r\n{half}");
        for bytes in [length, chunk, unframed, "HTTP/1.1 200 OK\r\n\r\n".to_owned()] {
            let called = called(parts.kind, Sent::bytes(bytes).cut_after_bytes(half.len() + 8)).await;
            assert_eq!(called.error().kind, ErrorKind::Provider5xx, "{}: {}", parts.kind, called.error().message);
        }
    }
}

/// CB-54 and its kin: the limits of time hold on every protocol.
#[tokio::test]
async fn silence_is_a_time_out_on_every_protocol() {
    for parts in &PARTS {
        let frames = parts.stream(parts.open);
        let before = called_within(parts.kind, stream(&frames).hang_before_headers(), SETTINGS).await;
        assert_eq!(before.error().kind, ErrorKind::Timeout, "{}", parts.kind);
        let open = stream(&format!("{frames}and more")).hang_after_bytes(frames.len());
        let within = called_within(parts.kind, open, "idle_timeout = \"300ms\"").await;
        assert_eq!(within.error().kind, ErrorKind::Timeout, "{}: {}", parts.kind, within.error().message);
        assert!(within.error().message.contains("idle_timeout"), "{}", within.error().message);
        assert_eq!(within.received.text(), "all of it", "{}", parts.kind);
    }
}

#[tokio::test]
async fn a_models_own_limits_hold_for_it_alone() {
    let provider = FakeProvider::start().await.unwrap();
    provider.script(Rule::always().reply(Sent::wire("llama-chat-stream").after(Duration::from_millis(400))));
    let settings = "first_byte_timeout = \"200ms\"\n[provider.model_timeouts.slow]\nfirst_byte_timeout = \"20s\"";
    let adapter = adapter("openai", &provider.url(), settings);
    for (model, answers) in [("m", false), ("slow", true)] {
        let request = sa_worker::adapter::Request { model: model.into(), ..request("hello") };
        let result = adapter.call(&request, &Received::new()).await;
        assert_eq!(result.is_ok(), answers, "{model}: {result:?}");
    }
}

/// The body's cap holds for all that is read.
#[tokio::test]
async fn answer_of_more_than_eight_mebibytes_is_none_on_every_protocol() {
    for kind in KINDS {
        let endless = format!("{{\"x\":\"{}", "x".repeat(8 * 1024 * 1024));
        let called = called(kind, Sent::by_hand("200 OK", &[], &endless)).await;
        assert_eq!(called.error().kind, ErrorKind::Parse, "{kind}");
        assert!(called.error().message.contains("8 MiB"), "{kind}: {}", called.error().message);
    }
}
