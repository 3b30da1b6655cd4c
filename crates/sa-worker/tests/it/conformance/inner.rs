//! Answers that are none: successes by their status, and by their content an error, a filter, a tool, or nothing.

use sa_core::error_kind::ErrorKind::{self, Parse, Provider4xx, Provider5xx, Quota, RateLimit, Unknown};
use sa_harness::Reply as Sent;
use sa_worker::adapter::Ending;

use super::{KINDS, called, called_in_turn};
use crate::{json, stream};

/// CB-90: an error in place of an answer, whole, is classed by its own code on every protocol.
#[tokio::test]
async fn error_inside_a_success_is_classed_by_its_own_code() {
    for kind in KINDS {
        for (body, expected) in [
            (r#"{"error":{"code":429,"message":"slow"}}"#, RateLimit),
            (r#"{"error":{"code":"429","message":"slow"}}"#, RateLimit),
            (r#"{"error":{"code":402,"message":"slow"}}"#, Quota),
            (r#"{"error":{"code":"server_error","message":"slow"}}"#, Provider5xx),
            (r#"{"error":{"code":502,"message":"slow"}}"#, Provider5xx),
            (r#"{"error":{"type":"invalid_request_error","message":"slow"}}"#, Provider4xx),
            (r#"{"type":"error","error":{"type":"overloaded_error","message":"slow"}}"#, Provider5xx),
            (r#"{"object":"error","code":400,"message":"slow"}"#, Provider4xx),
        ] {
            let called = called(kind, json(body)).await;
            assert_eq!(called.error().kind, expected, "{kind}: {body}: {}", called.error().message);
            assert!(called.error().message.contains("slow"), "{kind}: {}", called.error().message);
        }
    }
    // Prose alone says nothing, except that Ollama had accepted the request.
    assert_eq!(called("openai", json(r#"{"error":"odd"}"#)).await.error().kind, Unknown);
    assert_eq!(called("ollama", json(r#"{"error":"odd"}"#)).await.error().kind, Provider5xx);
}

/// A stream that turns into an error keeps the text that had come.
#[tokio::test]
async fn error_within_a_stream_is_classed_by_its_own_code_and_keeps_the_text() {
    let chat = r#"data: {"choices":[{"delta":{"content":"half"}}]}"#;
    let response = r#"data: {"type":"response.output_text.delta","delta":"half"}"#;
    let message = r#"data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"half"}}"#;
    let candidate = r#"data: {"candidates":[{"content":{"parts":[{"text":"half"}]}}]}"#;
    let line = r#"{"message":{"content":"half"},"done":false}"#;
    for (kind, text, error, expected) in [
        ("openai", chat, r#"data: {"error":{"code":502,"message":"m"}}"#, Provider5xx),
        ("openai", chat, "event: error\ndata: {\"code\":\"server_error\",\"message\":\"m\"}", Provider5xx),
        ("openai", chat, r#"data: {"object":"error","code":400,"message":"m"}"#, Provider4xx),
        (
            "openai",
            chat,
            r#"data: {"choices":[{"delta":{},"finish_reason":"error"}],"error":{"code":429,"message":"m"}}"#,
            RateLimit,
        ),
        (
            "openai-responses",
            response,
            r#"data: {"type":"error","code":"rate_limit_exceeded","message":"m"}"#,
            RateLimit,
        ),
        (
            "openai-responses",
            response,
            r#"data: {"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"m"}}}"#,
            Provider5xx,
        ),
        (
            "openai-responses",
            response,
            r#"data: {"type":"response.failed","response":{"status":"failed","error":{"code":"invalid_prompt","message":"m"}}}"#,
            Provider4xx,
        ),
        (
            "openai-responses",
            response,
            r#"data: {"type":"response.failed","response":{"status":"failed","error":null}}"#,
            Unknown,
        ),
        (
            "anthropic",
            message,
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"m\"}}",
            Provider5xx,
        ),
        (
            "anthropic",
            message,
            r#"data: {"type":"error","error":{"type":"rate_limit_error","message":"m"}}"#,
            RateLimit,
        ),
        ("gemini", candidate, r#"data: {"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}"#, Provider5xx),
        ("ollama", line, r#"{"error":"an error was encountered while running the model"}"#, Provider5xx),
        ("ollama", line, r#"{"error":"m","status_code":429}"#, RateLimit),
    ] {
        let separator = if kind == "ollama" { "\n" } else { "\n\n" };
        let called = called(kind, stream(&format!("{text}{separator}{error}{separator}"))).await;
        assert_eq!(called.error().kind, expected, "{kind}: {error}: {}", called.error().message);
        assert_eq!(called.received.text(), "half", "{kind}: {error}");
    }
}

/// How one answer came out: an ending, or a kind of failure.
type Outcome = Result<Ending, ErrorKind>;

/// CB-91, CB-93, CB-94, CB-103 and the rows on filters and refusals: what stopped the model decides, and usage is kept.
#[tokio::test]
async fn what_stopped_the_model_makes_an_answer_or_none() {
    let cases: [(&str, &[(&str, Outcome)]); 5] = [
        ("openai", CHAT),
        ("openai-responses", RESPONSES),
        ("anthropic", MESSAGES),
        ("gemini", CANDIDATES),
        ("ollama", LINES),
    ];
    for (kind, rows) in cases {
        let replies = rows.iter().map(|(body, _)| json(body));
        for ((body, expected), called) in rows.iter().zip(called_in_turn(kind, replies).await) {
            let outcome = called.result.as_ref().map(|reply| reply.ending).map_err(|error| error.kind);
            assert_eq!(outcome, *expected, "{kind}: {body}: {:?}", called.result);
            if body.contains("7") {
                assert_eq!(called.received.usage().tokens_out, Some(7), "{kind}: {body}");
            }
            if matches!(called.result, Err(ref error) if error.message.contains("budget")) {
                assert!(called.error().message.contains("raise the token budget"));
            }
            if body.contains("half") {
                assert_eq!(called.received.text(), "half", "{kind}: {body}");
            }
        }
    }
}

const CHAT: &[(&str, Outcome)] = &[
    (
        r#"{"choices":[{"message":{"content":"half"},"finish_reason":"stop"}],"usage":{"completion_tokens":7}}"#,
        Ok(Ending::Finished),
    ),
    (
        r#"{"choices":[{"message":{"content":"half"},"finish_reason":"length"}],"usage":{"completion_tokens":7}}"#,
        Ok(Ending::Truncated),
    ),
    (
        r#"{"choices":[{"message":{"content":""},"finish_reason":"length"}],"usage":{"completion_tokens":7}}"#,
        Err(Parse),
    ),
    (r#"{"choices":[{"message":{"content":"half"},"finish_reason":"content_filter"}]}"#, Err(Provider4xx)),
    (r#"{"choices":[{"message":{"content":null,"refusal":"no"},"finish_reason":"stop"}]}"#, Err(Provider4xx)),
    (
        r#"{"choices":[{"message":{"content":null,"tool_calls":[{"id":"1"}]},"finish_reason":"tool_calls"}],"usage":{"completion_tokens":7}}"#,
        Err(Parse),
    ),
    (r#"{"choices":[]}"#, Err(Parse)),
    (
        r#"{"choices":[],"prompt_filter_results":[{"content_filter_results":{"hate":{"filtered":true}}}]}"#,
        Err(Provider4xx),
    ),
    (r#"{"unrelated":true}"#, Err(Parse)),
];

const RESPONSES: &[(&str, Outcome)] = &[
    (
        r#"{"status":"completed","output":[{"type":"reasoning","summary":[]},{"type":"message","content":[{"type":"output_text","text":"half"}]}],"usage":{"output_tokens":7}}"#,
        Ok(Ending::Finished),
    ),
    (
        r#"{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"message","content":[{"type":"output_text","text":"half"}]}],"usage":{"output_tokens":7}}"#,
        Ok(Ending::Truncated),
    ),
    (
        r#"{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[],"usage":{"output_tokens":7}}"#,
        Err(Parse),
    ),
    (
        r#"{"status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[{"type":"message","content":[{"type":"output_text","text":"half"}]}]}"#,
        Err(Provider4xx),
    ),
    (
        r#"{"status":"completed","output":[{"type":"message","content":[{"type":"refusal","refusal":"no"}]}]}"#,
        Err(Provider4xx),
    ),
    (
        r#"{"status":"completed","output":[{"type":"function_call","name":"f"}],"usage":{"output_tokens":7}}"#,
        Err(Parse),
    ),
    (r#"{"status":"failed","error":{"code":"rate_limit_exceeded","message":"m"},"output":[]}"#, Err(RateLimit)),
    (r#"{"status":"failed","error":{"code":"bio_policy","message":"m"},"output":[]}"#, Err(Provider4xx)),
    (r#"{"status":"in_progress","output":[]}"#, Err(Provider5xx)),
    (r#"{"status":"cancelled","output":[]}"#, Err(Provider5xx)),
    (r#"{"status":"completed","output":[]}"#, Err(Parse)),
    (r#"{"unrelated":true}"#, Err(Parse)),
];

const MESSAGES: &[(&str, Outcome)] = &[
    (
        r#"{"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"half"}],"stop_reason":"end_turn","usage":{"output_tokens":7}}"#,
        Ok(Ending::Finished),
    ),
    (r#"{"content":[{"type":"text","text":"half"}],"stop_reason":"stop_sequence"}"#, Ok(Ending::Finished)),
    (r#"{"content":[{"type":"text","text":"half"}],"stop_reason":"max_tokens"}"#, Ok(Ending::Truncated)),
    (
        r#"{"content":[{"type":"text","text":"half"}],"stop_reason":"model_context_window_exceeded"}"#,
        Ok(Ending::Truncated),
    ),
    (r#"{"content":[{"type":"text","text":"half"}],"stop_reason":"pause_turn"}"#, Ok(Ending::Truncated)),
    (
        r#"{"content":[{"type":"thinking","thinking":"hm"}],"stop_reason":"max_tokens","usage":{"output_tokens":7}}"#,
        Err(Parse),
    ),
    (
        r#"{"content":[{"type":"text","text":"half"}],"stop_reason":"refusal","stop_details":{"type":"refusal","category":"bio"}}"#,
        Err(Provider4xx),
    ),
    (r#"{"content":[{"type":"tool_use","id":"1"}],"stop_reason":"tool_use","usage":{"output_tokens":7}}"#, Err(Parse)),
    (r#"{"content":[],"stop_reason":"end_turn"}"#, Err(Parse)),
    (r#"{"unrelated":true}"#, Err(Parse)),
];

const CANDIDATES: &[(&str, Outcome)] = &[
    (
        r#"{"candidates":[{"content":{"parts":[{"text":"hm","thought":true},{"text":"half"}]},"finishReason":"STOP"}],"usageMetadata":{"candidatesTokenCount":3,"thoughtsTokenCount":4,"totalTokenCount":7}}"#,
        Ok(Ending::Finished),
    ),
    // A stream that a gateway made into one list.
    (
        r#"[{"candidates":[{"content":{"parts":[{"text":"ha"}]}}]},{"candidates":[{"content":{"parts":[{"text":"lf"}]},"finishReason":"MAX_TOKENS"}]}]"#,
        Ok(Ending::Truncated),
    ),
    (
        r#"{"candidates":[{"content":{"role":"model"},"finishReason":"MAX_TOKENS"}],"usageMetadata":{"thoughtsTokenCount":7}}"#,
        Err(Parse),
    ),
    (r#"{"candidates":[{"content":{"parts":[{"text":"half"}]},"finishReason":"SAFETY"}]}"#, Err(Provider4xx)),
    (r#"{"candidates":[{"finishReason":"RECITATION"}]}"#, Err(Provider4xx)),
    (r#"{"candidates":[{"finishReason":"PROHIBITED_CONTENT"}]}"#, Err(Provider4xx)),
    (r#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":5}}"#, Err(Provider4xx)),
    (r#"{"candidates":[],"promptFeedback":{"blockReason":"OTHER"}}"#, Err(Provider4xx)),
    (r#"{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}"#, Err(Parse)),
    (
        r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]},"finishReason":"STOP"}],"usageMetadata":{"candidatesTokenCount":7}}"#,
        Err(Parse),
    ),
    (r#"{"candidates":[{"content":{"parts":[{"text":"half"}]},"finishReason":"OTHER"}]}"#, Err(Provider5xx)),
    (r#"{"candidates":[]}"#, Err(Parse)),
    (r#"{"unrelated":true}"#, Err(Parse)),
];

const LINES: &[(&str, Outcome)] = &[
    (
        r#"{"message":{"content":"half","thinking":"hm"},"done":true,"done_reason":"stop","eval_count":7}"#,
        Ok(Ending::Finished),
    ),
    (r#"{"message":{"content":"half"},"done":true,"done_reason":"length","eval_count":7}"#, Ok(Ending::Truncated)),
    (r#"{"message":{"content":""},"done":true,"done_reason":"length","eval_count":7}"#, Err(Parse)),
    (
        r#"{"message":{"content":"","tool_calls":[{"function":{"name":"f"}}]},"done":true,"done_reason":"stop","eval_count":7}"#,
        Err(Parse),
    ),
    (r#"{"message":{"content":""},"done":true,"done_reason":"load"}"#, Err(Parse)),
    // A document that says nothing of an end may be the first half of one that does.
    (r#"{"unrelated":true}"#, Err(Provider5xx)),
];

/// A page in place of an answer is unreadable on every protocol, and so is prose.
#[tokio::test]
async fn what_is_no_json_is_unreadable() {
    for kind in KINDS {
        for body in ["<html>login</html>", "\"text\"", "[1]", "null"] {
            let called = called(kind, Sent::by_hand("200 OK", &[("content-type", "text/html")], body)).await;
            let expected = if kind == "ollama" && !body.starts_with('<') { Provider5xx } else { Parse };
            assert_eq!(called.error().kind, expected, "{kind}: {body}: {}", called.error().message);
        }
    }
}
