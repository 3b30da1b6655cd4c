//! What each protocol sends: nothing that was not asked for.

use sa_harness::{Call, FakeProvider, Reply as Sent, Rule};
use sa_worker::adapter::Received;
use serde_json::{Value, json};

use super::adapter;
use crate::request;

async fn sent(kind: &str, settings: &str, budget: Option<u32>) -> (Call, Value) {
    let provider = FakeProvider::start().await.expect("a port is free");
    provider.script(Rule::always().reply(Sent::by_hand("500 Internal Server Error", &[], "")));
    let adapter = adapter(kind, &provider.url(), settings);
    let request = sa_worker::adapter::Request { max_output_tokens: budget, ..request("hello") };
    let result = adapter.call(&request, &Received::new()).await;
    assert!(result.is_err(), "{kind}");
    let sent = provider.calls().remove(0);
    let body = serde_json::from_str(&sent.body).expect("the request is JSON");
    (sent, body)
}

/// The thread of [`request`] as most protocols write it.
fn thread() -> Value {
    json!([
        {"role": "user", "content": "before"},
        {"role": "assistant", "content": "answered"},
        {"role": "user", "content": "hello"},
    ])
}

#[tokio::test]
async fn bodies_hold_the_thread_the_model_the_budget_and_nothing_else() {
    let contents = json!([
        {"role": "user", "parts": [{"text": "before"}]},
        {"role": "model", "parts": [{"text": "answered"}]},
        {"role": "user", "parts": [{"text": "hello"}]},
    ]);
    let mut input = thread();
    for message in input.as_array_mut().unwrap() {
        message["type"] = json!("message");
    }
    let chat = json!({"model": "m", "messages": thread(), "stream": true});
    let with = |mut body: Value, members: Value| {
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        body
    };
    let include_usage = json!({"stream_options": {"include_usage": true}});
    let cases = [
        ("openai", None, with(chat.clone(), include_usage.clone())),
        ("openai", Some(99), with(with(chat.clone(), include_usage), json!({"max_tokens": 99}))),
        ("openai-responses", None, json!({"model": "m", "input": input, "stream": true, "store": false})),
        (
            "openai-responses",
            Some(99),
            json!({"model": "m", "input": input, "stream": true, "store": false, "max_output_tokens": 99}),
        ),
        ("anthropic", None, with(chat.clone(), json!({"max_tokens": 8192}))),
        ("anthropic", Some(99), with(chat.clone(), json!({"max_tokens": 99}))),
        ("gemini", None, json!({"contents": contents})),
        ("gemini", Some(99), json!({"contents": contents, "generationConfig": {"maxOutputTokens": 99}})),
        ("ollama", None, chat.clone()),
        ("ollama", Some(99), with(chat, json!({"options": {"num_predict": 99}}))),
    ];
    for (kind, budget, expected) in cases {
        assert_eq!(sent(kind, "", budget).await.1, expected, "{kind} with a budget of {budget:?}");
    }
}

#[tokio::test]
async fn each_protocol_has_its_path_and_its_key_header() {
    let bearer = ("authorization", "Bearer sk-the-key-of-this-test");
    for (kind, path, (header, value)) in [
        ("openai", "/v1/chat/completions", bearer),
        ("openai-responses", "/v1/responses", bearer),
        ("anthropic", "/v1/messages", ("x-api-key", "sk-the-key-of-this-test")),
        ("gemini", "/v1/models/m:streamGenerateContent?alt=sse", ("x-goog-api-key", "sk-the-key-of-this-test")),
    ] {
        let (call, _) = sent(kind, "", None).await;
        assert_eq!(call.request, format!("POST {path}"), "{kind}");
        assert_eq!(call.headers[header], value, "{kind}");
        assert_eq!(call.headers["idempotency-key"], "0193-job", "{kind}");
        let (call, _) = sent(kind, "auth = \"none\"\nextra_query = { api-version = \"1\" }", None).await;
        assert!(call.request.contains("api-version=1"), "{kind}: {}", call.request);
        assert!(!format!("{:?}", call.headers).contains("sk-the-key"), "{kind}");
    }
    let (call, _) = sent("ollama", "", None).await;
    assert_eq!(call.request, "POST /v1/api/chat");
    assert!(!format!("{:?}", call.headers).contains("sk-the-key"), "a server at home is sent no key");
    let (call, _) = sent("ollama", "api_key_env = \"X\"", None).await;
    assert_eq!(call.headers["authorization"], bearer.1, "Ollama's cloud asks for one");
}

#[tokio::test]
async fn anthropic_version_is_the_widest_known_unless_configured() {
    let (call, _) = sent("anthropic", "", None).await;
    assert_eq!(call.headers["anthropic-version"], "2023-06-01");
    let (call, _) = sent("anthropic", "api_version = \"2026-10-21\"\nauth = \"bearer\"", None).await;
    assert_eq!(call.headers["anthropic-version"], "2026-10-21");
    assert!(call.headers.contains_key("authorization") && !call.headers.contains_key("x-api-key"));
}

#[tokio::test]
async fn model_stands_in_the_address_where_the_server_wants_it() {
    let provider = FakeProvider::start().await.unwrap();
    let base = format!("{}/deployments/{{model}}", provider.url());
    let adapter = adapter("openai", &base, "");
    let result = adapter.call(&request("hello"), &Received::new()).await;
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(provider.calls()[0].request, "POST /v1/deployments/m/chat/completions");
}

#[tokio::test]
async fn gemini_takes_a_model_as_the_service_lists_it() {
    let provider = FakeProvider::start().await.unwrap();
    let adapter = adapter("gemini", &provider.url(), "");
    let request = sa_worker::adapter::Request { model: "models/m".into(), ..request("hello") };
    let _ = adapter.call(&request, &Received::new()).await;
    assert_eq!(provider.calls()[0].request, "POST /v1/models/m:streamGenerateContent?alt=sse");
}
