use super::*;
use futures_util::stream;
use sa_core::ledger::Usage;

use crate::adapter::{Ending, Reply, chat::Completion};

async fn answer(pieces: Vec<Result<String, AdapterError>>) -> (Result<Reply, AdapterError>, Received) {
    let received = Received::new();
    let settled = events::<Completion, _>(stream::iter(pieces), &received)
        .await
        .and_then(|completion| completion.settle(&received));
    (settled, received)
}

async fn answer_to(body: &str) -> (Result<Reply, AdapterError>, Received) {
    // One byte a piece is the worst a network can do.
    answer(body.chars().map(|c| Ok(c.to_string())).collect()).await
}

fn chunk(content: &str) -> String {
    format!(
        "data: {{\"id\":\"c1\",\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{content}\"}},\"finish_reason\":null}}]}}\n\n"
    )
}

fn finish(reason: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{reason}\"}}]}}\n\n")
}

const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2}}\n\n";
const END: &str = "data: [DONE]\n\n";

#[tokio::test]
async fn chunks_become_one_text_with_its_usage() {
    let body = format!(": hello\n\n{}{}{}{USAGE}{END}", chunk("Hel"), chunk("lo 👨‍👩‍👧"), finish("stop"));
    let (reply, received) = answer_to(&body).await;
    assert_eq!(reply, Ok(Reply { text: "Hello 👨‍👩‍👧".into(), ending: Ending::Finished }));
    assert_eq!(received.usage(), Usage { tokens_in: Some(7), tokens_out: Some(2), ..Usage::default() });
    assert_eq!(received.provider_request_id().as_deref(), Some("c1"));
}

#[tokio::test]
async fn either_end_mark_will_do_and_without_one_it_is_no_success() {
    let text = chunk("all");
    for (body, whole) in [
        (format!("{text}{}", finish("stop")), true),
        (format!("{text}{END}"), true),
        (format!("{text}{}{END}", finish("length")), true),
        (text.clone(), false),
        (String::new(), false),
        (format!("{text}data: {{\"choices\":[{{\"finish_reason\":\"stop\"}}]}}"), false),
    ] {
        let (reply, _) = answer_to(&body).await;
        match reply {
            Ok(reply) => assert!(whole && reply.text == "all", "{body}"),
            Err(error) => assert!(!whole && error.kind == ErrorKind::Provider5xx, "{body}: {}", error.message),
        }
    }
}

#[tokio::test]
async fn connection_lost_after_the_model_stopped_changes_nothing() {
    let lost = || Err(AdapterError::cut_off(ErrorKind::Provider5xx, "reset"));
    let (reply, _) = answer(vec![Ok(chunk("all")), Ok(finish("stop")), lost()]).await;
    assert_eq!(reply.unwrap().text, "all");
    let (reply, received) = answer(vec![Ok(chunk("half")), lost()]).await;
    assert_eq!(reply.unwrap_err().message, "reset");
    assert_eq!(received.text(), "half");
}

#[tokio::test]
async fn error_in_mid_stream_is_classed_by_its_own_code() {
    let bodies = [
        "data: {\"error\":{\"code\":\"server_error\",\"message\":\"m\"}}\n\n",
        "event: error\ndata: {\"error\":{\"code\":502,\"message\":\"m\"}}\n\n",
        "event: error\ndata: {\"code\":\"server_error\",\"message\":\"m\"}\n\n",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"error\"}],\"error\":{\"code\":502,\"message\":\"m\"}}\n\n",
    ];
    for body in bodies {
        let (reply, _) = answer_to(&format!("{}{body}{END}", chunk("half"))).await;
        assert_eq!(reply.unwrap_err().kind, ErrorKind::Provider5xx, "{body}");
    }
}

#[tokio::test]
async fn tool_calls_and_unreadable_events_are_no_answers() {
    let tool = "data: {\"choices\":[{\"delta\":{\"content\":null,\"tool_calls\":[{\"index\":0}]}}]}\n\n";
    let (reply, _) = answer_to(&format!("{tool}{}{END}", finish("tool_calls"))).await;
    assert_eq!(reply.unwrap_err().kind, ErrorKind::Parse);
    let (reply, _) = answer_to("data: <html>\n\n").await;
    assert_eq!(reply.unwrap_err().kind, ErrorKind::Parse);
}
