//! What a provider says or leaves unsaid: rows CB-67 and CB-98.

use sa_harness::{Reply, Rule, repository_root};

use super::{details, seen};
use crate::stage::Stage;

/// CB-67: the provider's error holds a family joined by zero-width joiners and a letter beyond the basic plane. The job
/// fails, and everybody who looks sees the text as it came.
#[tokio::test]
async fn cb_67_an_error_of_emoji_is_shown_as_the_provider_said_it() {
    const SAID: &str = "Nicht für 👨\u{200d}👩\u{200d}👧 und 𝒳";
    let stage = Stage::set().await;
    let body = serde_json::json!({ "error": { "message": SAID, "type": "invalid_request_error" } }).to_string();
    let json = [("content-type", "application/json")];
    stage.provider.script(Rule::when("hello").reply(Reply::by_hand("400 Bad Request", &json, &body)));
    let job = stage.submit("hello", &[]).await;
    let next = stage.submit("next", &[]).await;

    stage.work_once().await;

    let row = stage.job_text(&job, "error_message").await.unwrap();
    assert!(row.contains(SAID), "{row}");
    let api = stage.api().await;
    let failed = seen(&api, &job).await;
    assert_eq!((failed["state"].as_str(), failed["error_kind"].as_str()), (Some("failed"), Some("provider_4xx")));
    assert_eq!(failed["error_message"], row);
    assert_eq!(details(&stage, &job).await["job"]["error_message"], row);
    let page = stage.cli(&["job-details", &job]).await;
    assert!(page.stdout.contains("Nicht für 👨") && page.stdout.contains("und 𝒳"), "{}", page.stdout);
    assert_eq!(stage.state(&next).await, "succeeded", "the queue goes on");
}

/// CB-98: the connection ends after half of a chunked body, of a stream and of one JSON document. Neither half is an
/// answer: both jobs are tried again, and have one whole answer.
#[tokio::test]
async fn cb_98_a_body_cut_in_half_is_tried_again_and_never_an_answer() {
    let stage = Stage::set().await;
    let streamed = Reply::wire("llama-chat-stream").cut_after_bytes(2200);
    stage.provider.script(Rule::when("streamed").first(1).reply(streamed));
    let (whole, length) = in_one_chunk("llama-chat");
    stage.provider.script(Rule::when("document").first(1).reply(whole.cut_after_bytes(length / 2)));
    let jobs = [stage.submit("streamed", &[]).await, stage.submit("document", &[]).await];

    stage.work_once().await;
    let api = stage.api().await;
    for job in &jobs {
        let cut = seen(&api, job).await;
        assert_eq!((cut["state"].as_str(), cut["attempt"].as_u64()), (Some("queued"), Some(2)), "{cut}");
        assert_eq!((cut["error_kind"].as_str(), cut["held_reason"].as_str()), (Some("provider_5xx"), Some("backoff")));
        assert!(cut["response"].is_null());
        // The operator does not wait for the backoff.
        assert_eq!(stage.cli(&["retry-job", job]).await.code, Some(0));
    }
    assert_eq!(stage.count("SELECT COUNT(*) FROM sa_entity WHERE kind = 'response'").await, 0);

    stage.work_once().await;
    for job in &jobs {
        assert_eq!(stage.state(job).await, "succeeded");
        let text = seen(&api, job).await["response"]["text"].as_str().unwrap().to_owned();
        assert_eq!(text, recorded_answer(), "all of it");
        let calls = stage.provider.calls();
        let keys: Vec<_> = calls.iter().map(|call| call.headers["idempotency-key"].as_str()).collect();
        assert_eq!(keys.iter().filter(|key| *key == job).count(), 2, "the same key on both attempts: {keys:?}");
    }
    assert_eq!(stage.count("SELECT COUNT(*) FROM sa_entity WHERE kind = 'response'").await, 2);
}

/// A recorded answer whose body is one chunk, and the length of that body.
fn in_one_chunk(name: &str) -> (Reply, usize) {
    let body = recorded_body(name);
    let chunks = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    (Reply::bytes(format!("{head}{chunks}")), chunks.len())
}

fn recorded_body(name: &str) -> String {
    let recording =
        std::fs::read_to_string(repository_root().join("proofs/wire").join(format!("{name}.http"))).unwrap();
    recording.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// What the recorded stream says in all: the contents of its deltas.
fn recorded_answer() -> String {
    let body = recorded_body("llama-chat-stream");
    let events = body.lines().filter_map(|line| line.strip_prefix("data: {"));
    let documents = events.map(|rest| serde_json::from_str::<serde_json::Value>(&format!("{{{rest}")).unwrap());
    documents.filter_map(|event| Some(event["choices"][0]["delta"]["content"].as_str()?.to_owned())).collect()
}
