use sa_core::error_kind::ErrorKind;
use serde_json::json;

use super::*;
use crate::adapter::Ending;

fn settle(document: &Value) -> (Result<Reply, AdapterError>, Received) {
    let received = Received::new();
    let mut completion = Completion::default();
    let settled = completion.whole(document, &received).and_then(|()| completion.settle(&received));
    (settled, received)
}

fn failure(document: &Value) -> (ErrorKind, String) {
    let error = settle(document).0.unwrap_err();
    (error.kind, error.message)
}

#[test]
fn a_plain_end_is_an_answer_whatever_the_server_calls_it() {
    for finish in [json!("stop"), json!("eos"), json!("end_turn"), json!(null)] {
        let (reply, received) = settle(&json!({
            "id": "chatcmpl-1", "model": "m-2026",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": " hi 👋\n"}, "finish_reason": finish}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}},
        }));
        assert_eq!(reply, Ok(Reply { text: " hi 👋\n".into(), ending: Ending::Finished }));
        assert_eq!(received.model().as_deref(), Some("m-2026"));
        assert_eq!(received.provider_request_id().as_deref(), Some("chatcmpl-1"));
        let usage = Usage { tokens_in: Some(3), tokens_cached: Some(1), tokens_out: Some(2), tokens_reasoning: None };
        assert_eq!(received.usage(), usage);
    }
}

#[test]
fn cb_91_no_choices_is_filtered_or_unreadable_and_never_repeated() {
    let filtered = [
        json!({"choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {"hate": {"filtered": true}}}]}),
        json!({"choices": [], "promptFeedback": {"blockReason": "SAFETY"}}),
    ];
    for document in filtered {
        let (kind, message) = failure(&document);
        assert_eq!(kind, ErrorKind::Provider4xx);
        assert!(message.starts_with("filtered"), "{message}");
    }
    for document in [json!({"choices": []}), json!({}), json!([]), json!("text"), json!({"choices": null})] {
        assert_eq!(failure(&document), (ErrorKind::Parse, "the answer has no choices".into()));
    }
}

#[test]
fn cb_93_budget_spent_on_reasoning_is_unreadable_with_a_hint_and_its_usage() {
    let (settled, received) = settle(&json!({
        "choices": [{"message": {"content": ""}, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 512, "completion_tokens_details": {"reasoning_tokens": 512}},
    }));
    let error = settled.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Parse);
    assert!(error.message.contains("raise the token budget"));
    assert_eq!(received.usage().tokens_reasoning, Some(512));
}

#[test]
fn cb_94_length_with_text_is_a_truncated_answer() {
    let text = "x".repeat(5 * 1024);
    let (reply, _) = settle(&json!({"choices": [{"message": {"content": text}, "finish_reason": "length"}]}));
    assert_eq!(reply, Ok(Reply { text, ending: Ending::Truncated }));
}

#[test]
fn cb_103_tool_call_is_unreadable() {
    for choice in [
        json!({"message": {"content": null, "tool_calls": [{"id": "1"}]}, "finish_reason": "tool_calls"}),
        json!({"message": {"content": null, "tool_calls": [{"id": "1"}]}, "finish_reason": "stop"}),
    ] {
        let (kind, message) = failure(&json!({"choices": [choice]}));
        assert!(kind == ErrorKind::Parse && message.contains("asked for a tool"), "{message}");
    }
}

#[test]
fn filter_and_refusal_are_the_callers_and_keep_the_partial_text() {
    let (settled, received) =
        settle(&json!({"choices": [{"message": {"content": "half"}, "finish_reason": "content_filter"}]}));
    assert_eq!(settled.unwrap_err().kind, ErrorKind::Provider4xx);
    assert_eq!(received.text(), "half");
    let refusal = json!({"choices": [{"message": {"content": null, "refusal": "I cannot"}, "finish_reason": "stop"}]});
    assert_eq!(
        failure(&refusal),
        (ErrorKind::Provider4xx, "refused: the model does not answer this (I cannot)".into())
    );
}

#[test]
fn empty_text_and_a_server_that_gave_up_are_no_answers() {
    let with =
        |content: Value, finish: &str| json!({"choices": [{"message": {"content": content}, "finish_reason": finish}]});
    assert_eq!(failure(&with(json!(null), "stop")).0, ErrorKind::Parse);
    assert_eq!(failure(&with(json!(" \n"), "stop")).0, ErrorKind::Parse);
    assert_eq!(failure(&with(json!("half"), "error")).0, ErrorKind::Provider5xx);
    let parts = settle(&with(json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "stop")).0;
    assert_eq!(parts.unwrap().text, "ab");
}
