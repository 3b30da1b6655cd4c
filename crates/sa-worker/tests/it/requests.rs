//! What a provider is sent.

use sa_harness::FakeProvider;
use serde_json::{Value, json};

use crate::{call, openai};

async fn sent(settings: &str) -> (sa_harness::Call, Value) {
    let provider = FakeProvider::start().await.expect("a port is free");
    call(&openai(&provider.url(), settings)).await.text();
    let sent = provider.calls().remove(0);
    let body = serde_json::from_str(&sent.body).expect("the request is JSON");
    (sent, body)
}

#[tokio::test]
async fn request_holds_thread_model_budget_and_asks_for_a_stream() {
    let (sent, body) = sent("").await;
    assert!(sent.request.starts_with("POST /v1/chat/completions"), "{}", sent.request);
    let expected = json!({
        "model": "m",
        "messages": [
            {"role": "user", "content": "before"},
            {"role": "assistant", "content": "answered"},
            {"role": "user", "content": "hello"},
        ],
        "stream": true,
        "stream_options": {"include_usage": true},
        "max_tokens": 99,
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn job_id_goes_along_so_that_a_repetition_can_be_known() {
    let (sent, _) = sent("").await;
    assert_eq!(sent.headers["idempotency-key"], "0193-job");
    assert_eq!(sent.headers["x-client-request-id"], "0193-job");
    assert!(!sent.headers.contains_key("referer"));
}

#[tokio::test]
async fn key_goes_where_the_provider_wants_it() {
    let (bearer, _) = sent("").await;
    assert_eq!(bearer.headers["authorization"], "Bearer sk-the-key-of-this-test");
    let (own, _) = sent("auth = \"api-key\"\nextra_query = { api-version = \"1\" }").await;
    assert_eq!(own.headers["api-key"], "sk-the-key-of-this-test");
    assert!(!own.headers.contains_key("authorization"));
    assert!(own.request.ends_with("?api-version=1"), "{}", own.request);
    let (none, _) = sent("auth = \"none\"").await;
    assert!(!none.headers.contains_key("authorization") && !none.headers.contains_key("api-key"));
}
