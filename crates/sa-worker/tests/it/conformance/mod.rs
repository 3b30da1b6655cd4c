//! Every adapter against every row of the contract about answers and failures: recorded bytes where a server sends them,
//! bytes made by hand for what no server can be asked to send.

mod answers;
mod cuts;
mod inner;
mod refusals;
mod requests;
mod waits;

use sa_core::provider::Catalog;
use sa_harness::{FakeProvider, Reply as Sent, Rule};
use sa_worker::adapter::{Adapter, Anthropic, Gemini, Ollama, OpenAi, OpenAiResponses, Received};

use crate::{Called, request};

/// The protocols, as the providers file names them.
const KINDS: [&str; 5] = ["openai", "openai-responses", "anthropic", "gemini", "ollama"];

fn adapter(kind: &str, base_url: &str, settings: &str) -> Box<dyn Adapter> {
    let file = format!(
        "[[provider]]\nname = \"p\"\nkind = \"{kind}\"\nbase_url = \"{base_url}\"\nmodels = [\"m\", \"slow\"]\n{settings}"
    );
    let catalog = Catalog::load(Some(&file), |_| None).expect("the settings of this test are right");
    let (provider, key) = (catalog.default_provider(), Some("sk-the-key-of-this-test".to_owned().into()));
    match kind {
        "openai" => Box::new(OpenAi::new(provider, key).unwrap()),
        "openai-responses" => Box::new(OpenAiResponses::new(provider, key).unwrap()),
        "anthropic" => Box::new(Anthropic::new(provider, key).unwrap()),
        "gemini" => Box::new(Gemini::new(provider, key).unwrap()),
        "ollama" => Box::new(Ollama::new(provider, key).unwrap()),
        other => panic!("no protocol {other}"),
    }
}

/// One call of this protocol to a provider that answers with `reply`.
async fn called(kind: &str, reply: Sent) -> Called {
    called_within(kind, reply, "").await
}

/// One call after another of this protocol to a provider that answers with these in turn.
async fn called_in_turn(kind: &str, replies: impl IntoIterator<Item = Sent>) -> Vec<Called> {
    let provider = FakeProvider::start().await.expect("a port is free");
    let mut count = 0;
    for (n, reply) in replies.into_iter().enumerate() {
        provider.script(Rule::always().nth(n + 1).reply(reply));
        count = n + 1;
    }
    let adapter = adapter(kind, &provider.url(), "");
    let mut calls = Vec::new();
    for _ in 0..count {
        let received = Received::new();
        let result = adapter.call(&request("hello"), &received).await;
        calls.push(Called { result, received });
    }
    calls
}

async fn called_within(kind: &str, reply: Sent, settings: &str) -> Called {
    let provider = FakeProvider::start().await.expect("a port is free");
    provider.script(Rule::always().reply(reply));
    let (adapter, received) = (adapter(kind, &provider.url(), settings), Received::new());
    let result = adapter.call(&request("hello"), &received).await;
    Called { result, received }
}
