//! The adapters against bytes that real servers sent, and against what no well-meaning server sends; the worker against
//! what a database does.

#![expect(clippy::unwrap_used, reason = "a helper that cannot do its part fails its test")]

mod answers;
mod conformance;
mod failures;
mod limits;
mod outages;
mod requests;

use sa_core::{ledger::Usage, provider::Catalog, repo::Turn};
use sa_harness::{FakeProvider, Reply as Sent, Rule};
use sa_worker::adapter::{Adapter, AdapterError, OpenAi, Received, Reply, Request};

/// What one call came to.
struct Called {
    result: Result<Reply, AdapterError>,
    received: Received,
}

impl Called {
    fn text(&self) -> &str {
        &self.result.as_ref().unwrap_or_else(|error| panic!("{}", error.message)).text
    }

    fn error(&self) -> &AdapterError {
        self.result.as_ref().expect_err("this call should have failed")
    }
}

/// Short limits, for the tests that wait for one; on a busy machine they would spoil every other.
const SETTINGS: &str = "first_byte_timeout = \"300ms\"\nidle_timeout = \"300ms\"\ntotal_timeout = \"5s\"";

fn openai(base_url: &str, settings: &str) -> OpenAi {
    let file = format!(
        "[[provider]]\nname = \"p\"\nkind = \"openai\"\nbase_url = \"{base_url}\"\nmodels = [\"m\"]\n{settings}"
    );
    let catalog = Catalog::load(Some(&file), |_| None).expect("the settings of this test are right");
    OpenAi::new(catalog.default_provider(), Some("sk-the-key-of-this-test".to_owned().into()))
        .expect("the settings of this test are right")
}

fn request(text: &str) -> Request {
    Request {
        turns: vec![Turn { prompt: "before".into(), response: Some("answered".into()) }],
        text: text.into(),
        model: "m".into(),
        max_output_tokens: Some(99),
        idempotency_key: "0193-job".into(),
    }
}

async fn call(openai: &OpenAi) -> Called {
    let received = Received::new();
    let result = openai.call(&request("hello"), &received).await;
    Called { result, received }
}

/// One call to a provider that answers with `reply`.
async fn answered_with(reply: Sent) -> Called {
    answered_within(reply, "").await
}

async fn answered_within(reply: Sent, settings: &str) -> Called {
    let provider = FakeProvider::start().await.expect("a port is free");
    provider.script(Rule::always().reply(reply));
    call(&openai(&provider.url(), settings)).await
}

fn json(body: &str) -> Sent {
    Sent::by_hand("200 OK", &[("content-type", "application/json")], body)
}

/// A recording's body, without its chunk framing, in another wrapping.
fn stream(events: &str) -> Sent {
    Sent::by_hand("200 OK", &[("content-type", "text/event-stream")], events)
}

fn usage(sent: u32, cached: Option<u32>, received: u32) -> Usage {
    Usage { tokens_in: Some(sent), tokens_cached: cached, tokens_out: Some(received), tokens_reasoning: None }
}
