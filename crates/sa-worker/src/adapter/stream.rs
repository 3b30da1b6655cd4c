//! Puts a streamed Chat Completions answer together.

use std::{pin::pin, time::Duration};

use eventsource_stream::{EventStream, EventStreamError, Eventsource};
use futures_util::{Stream, StreamExt};
use sa_core::error_kind::ErrorKind;
use serde_json::Value;
use tokio::time::timeout;

use super::{AdapterError, Received, answer::Completion, classify};

/// How long to wait, once the model has stopped, for its token counts and for the end mark.
const TRAILER: Duration = Duration::from_secs(5);
/// How long to wait, once the end mark has come, for the end of the body: only then the connection can be used again.
const CLOSING: Duration = Duration::from_millis(100);

/// The mark at the end of the stream.
const DONE: &str = "[DONE]";

/// Reads the events of one answer to their end mark: `[DONE]`, or a finish reason where the server sends no mark.
///
/// # Errors
/// `provider_5xx` if the body ends before either, whatever text had come; the error inside the stream, if it holds one.
pub(super) async fn assemble<S>(pieces: S, received: &Received) -> Result<Completion, AdapterError>
where
    S: Stream<Item = Result<String, AdapterError>>,
{
    let mut events = pin!(pieces.eventsource());
    let mut completion = Completion::default();
    loop {
        // A model that has stopped has answered: what becomes of the connection after that changes nothing.
        let event = match (completion.is_finished(), next(&mut events)) {
            (false, next) => next.await?,
            (true, next) => timeout(TRAILER, next).await.ok().and_then(Result::ok).flatten(),
        };
        let Some((name, data)) = event else { break };
        if data.trim() == DONE {
            let _ = timeout(CLOSING, events.next()).await;
            return Ok(completion);
        }
        let document = read(&data)?;
        if name == "error" {
            return Err(classify::inner(&document));
        }
        completion.absorb(&document, received)?;
    }
    if completion.is_finished() {
        return Ok(completion);
    }
    Err(AdapterError::cut_off(ErrorKind::Provider5xx, "the answer ended before its end mark"))
}

/// The next event, as its name and its data.
async fn next<S>(events: &mut std::pin::Pin<&mut EventStream<S>>) -> Result<Option<(String, String)>, AdapterError>
where
    S: Stream<Item = Result<String, AdapterError>>,
{
    match events.next().await {
        None => Ok(None),
        Some(Ok(event)) => Ok(Some((event.event, event.data))),
        Some(Err(EventStreamError::Transport(error))) => Err(error),
        Some(Err(EventStreamError::Utf8(_) | EventStreamError::Parser(_))) => {
            Err(AdapterError::cut_off(ErrorKind::Parse, "the answer is not an event stream"))
        }
    }
}

fn read(data: &str) -> Result<Value, AdapterError> {
    serde_json::from_str(data).map_err(|error| {
        AdapterError::cut_off(ErrorKind::Parse, format!("an event of the answer is not JSON: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;
    use sa_core::ledger::Usage;

    use crate::adapter::{Ending, Reply};

    async fn answer(pieces: Vec<Result<String, AdapterError>>) -> (Result<Reply, AdapterError>, Received) {
        let received = Received::new();
        let settled =
            assemble(stream::iter(pieces), &received).await.and_then(|completion| completion.settle(&received));
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
}
