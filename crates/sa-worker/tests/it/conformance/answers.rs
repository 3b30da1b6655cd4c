//! Recorded answers: the text, how it ended, and what the ledger learns of it.

use std::time::Duration;

use sa_core::{error_kind::ErrorKind, ledger::Usage};
use sa_harness::Reply as Sent;
use sa_worker::adapter::Ending;

use super::called;
use crate::usage;

const PIECES: &str = "Hello! I am a recorded answer, in several pieces: naïve café, 東京, 🦀.";
const NOTHING: Usage = Usage { tokens_in: Some(0), tokens_cached: None, tokens_out: Some(0), tokens_reasoning: None };

const LITELLM: Usage =
    Usage { tokens_in: Some(8), tokens_cached: None, tokens_out: Some(18), tokens_reasoning: Some(0) };

/// Every recording that is an answer: the protocol, how the text begins, how it ended, what was counted.
fn answers() -> Vec<(&'static str, &'static str, &'static str, Ending, Usage)> {
    use Ending::{Finished, Truncated};
    let mut answers = vec![
        ("openai", "llama-chat-stream", "Hello,", Finished, usage(37, Some(0), 14)),
        ("openai", "llama-chat-stream-length", "", Truncated, usage(39, Some(24), 12)),
        ("openai", "aimock-openrouter-stream", "One comment came before.", Finished, usage(2, None, 6)),
        ("openai", "litellm-chat-stream", "Hello from behind a proxy: naïve café, 東京, 🦀.", Finished, LITELLM),
        (
            "anthropic",
            "litellm-messages-stream",
            "Hello from behind a proxy: naïve café, 東京, 🦀.",
            Finished,
            usage(2095, None, 503),
        ),
        ("openai-responses", "llama-responses-stream", "Hello,", Finished, usage(37, Some(36), 14)),
        ("openai-responses", "llama-responses", "Hello,", Finished, usage(37, Some(36), 14)),
        ("anthropic", "llama-messages-stream", "Hello,", Finished, usage(37, Some(36), 14)),
        ("anthropic", "llama-messages", "Hello,", Finished, usage(37, Some(36), 14)),
        ("anthropic", "llama-messages-stream-length", "The story of a lighthouse", Truncated, usage(39, Some(38), 12)),
    ];
    for (kind, name) in MOCKED {
        let wire = |what: &str| -> &'static str { format!("aimock-{name}-{what}").leak() };
        answers.push((kind, wire("stream"), PIECES, Finished, NOTHING));
        answers.push((kind, format!("aimock-{name}").leak(), PIECES, Finished, NOTHING));
        answers.push((kind, wire("thinking"), "Forty-two.", Finished, NOTHING));
        // Of Ollama's protocol the mock knows neither counts nor a budget.
        let (counted, cut) = if kind == "ollama" { (NOTHING, Finished) } else { (usage(11, None, 7), Truncated) };
        answers.push((kind, wire("counted"), "Eleven tokens in, seven out.", Finished, counted));
        answers.push((kind, wire("length"), "This is where the budget ended, in mid", cut, NOTHING));
    }
    answers
}

/// The protocols beside the first, and what their recordings are called.
const MOCKED: [(&str, &str); 4] =
    [("openai-responses", "responses"), ("anthropic", "messages"), ("gemini", "gemini"), ("ollama", "ollama")];

#[tokio::test]
async fn recorded_answers_are_read_whole_with_their_end_and_their_tokens() {
    for (kind, recording, text, ending, tokens) in answers() {
        let called = called(kind, Sent::wire(recording)).await;
        assert!(called.text().starts_with(text), "{recording}: {}", called.text());
        assert_eq!(called.result.as_ref().unwrap().ending, ending, "{recording}");
        assert_eq!(called.received.usage(), tokens, "{recording}");
        assert_eq!(called.received.text(), called.text(), "{recording}");
        assert!(called.received.first_byte().is_some(), "{recording}");
    }
}

#[tokio::test]
async fn ids_and_models_are_the_providers_own() {
    for (kind, recording, id, model) in [
        ("openai-responses", "aimock-responses-stream", "req-", Some("made-up")),
        ("openai-responses", "llama-responses-stream", "resp_", Some("smollm2-135m")),
        ("anthropic", "aimock-messages-stream", "req-", Some("made-up")),
        ("anthropic", "llama-messages-stream", "chatcmpl-", Some("smollm2-135m")),
        ("gemini", "aimock-gemini-stream", "req-", None),
        ("ollama", "aimock-ollama-stream", "req-", Some("made-up")),
    ] {
        let called = called(kind, Sent::wire(recording)).await;
        assert!(called.received.provider_request_id().unwrap().starts_with(id), "{recording}");
        assert_eq!(called.received.model().as_deref(), model, "{recording}");
    }
    let document = r#"{"responseId":"r-1","modelVersion":"g-002","candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}]}"#;
    let gemini = called("gemini", crate::json(document)).await;
    assert_eq!(gemini.received.provider_request_id().as_deref(), Some("r-1"));
    assert_eq!(gemini.received.model().as_deref(), Some("g-002"));
    let headed = [("request-id", "req_018"), ("x-litellm-call-id", "c-1"), ("content-type", "application/json")];
    let body = r#"{"id":"msg_1","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn"}"#;
    let anthropic = called("anthropic", Sent::by_hand("200 OK", &headed, body)).await;
    assert_eq!(anthropic.received.provider_request_id().as_deref(), Some("req_018"));
}

#[tokio::test]
async fn smallest_pieces_make_the_same_answer() {
    for (kind, name) in MOCKED {
        let slow = Sent::wire(&format!("aimock-{name}-stream")).drip(3, Duration::from_micros(50));
        assert_eq!(called(kind, slow).await.text(), PIECES, "{kind}");
    }
}

#[tokio::test]
async fn recorded_tools_and_filters_are_no_answers() {
    for (kind, name) in MOCKED {
        let tool = called(kind, Sent::wire(&format!("aimock-{name}-tool"))).await;
        assert_eq!(tool.error().kind, ErrorKind::Parse, "{kind}");
        assert!(tool.error().message.contains("asked for a tool"), "{kind}: {}", tool.error().message);
    }
    let filtered = called("gemini", Sent::wire("aimock-gemini-filter")).await;
    assert_eq!(filtered.error().kind, ErrorKind::Provider4xx);
    assert_eq!(filtered.received.text(), "I can only say this much");
}

/// Streams that a judge of clients spoilt: one ends without its end mark, one holds a part that is half of its JSON.
#[tokio::test]
async fn recorded_spoilt_streams_are_tried_again() {
    for (kind, name) in
        [("openai", "chat"), ("openai-responses", "responses"), ("anthropic", "messages"), ("gemini", "gemini")]
    {
        for fault in ["truncate", "malformed"] {
            let called = called(kind, Sent::wire(&format!("llmock-{name}-{fault}"))).await;
            assert_eq!(called.error().kind, ErrorKind::Provider5xx, "{name}-{fault}: {:?}", called.result);
        }
    }
}

/// Anthropic counts what came from its cache, and what went into it, beside the rest.
#[tokio::test]
async fn tokens_are_counted_alike_whatever_the_protocol_counts_apart() {
    let counted = r#"{"content":[{"type":"text","text":"x"}],"stop_reason":"end_turn","usage":{"input_tokens":10,"cache_read_input_tokens":200,"cache_creation_input_tokens":3,"output_tokens":50,"output_tokens_details":{"thinking_tokens":40}}}"#;
    let expected =
        Usage { tokens_in: Some(213), tokens_cached: Some(200), tokens_out: Some(50), tokens_reasoning: Some(40) };
    assert_eq!(called("anthropic", crate::json(counted)).await.received.usage(), expected);
    let stream = "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":10,\"cache_read_input_tokens\":200,\"cache_creation_input_tokens\":3,\"output_tokens\":1}}}\n\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"input_tokens\":10,\"output_tokens\":50,\"output_tokens_details\":{\"thinking_tokens\":40}}}\n\n";
    assert_eq!(called("anthropic", crate::stream(stream)).await.received.usage(), expected);
    let gemini = r#"{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":213,"cachedContentTokenCount":200,"candidatesTokenCount":10,"thoughtsTokenCount":40}}"#;
    assert_eq!(called("gemini", crate::json(gemini)).await.received.usage(), expected);
    let responses = r#"{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"x"}]}],"usage":{"input_tokens":213,"input_tokens_details":{"cached_tokens":200},"output_tokens":50,"output_tokens_details":{"reasoning_tokens":40}}}"#;
    assert_eq!(called("openai-responses", crate::json(responses)).await.received.usage(), expected);
}
