//! How to call a provider: one trait, and one protocol a file.

mod answer;
mod anthropic;
mod body;
mod chat;
mod classify;
mod client;
mod echo;
mod endpoint;
mod gemini;
mod ollama;
mod openai;
mod openai_responses;
mod protocol;
mod received;
mod retry_after;
mod scrub;
mod stream;
mod thread;

use std::{future::Future, pin::Pin, time::Duration};

use sa_core::{error_kind::ErrorKind, id::JobId, repo::Turn};

pub use anthropic::Anthropic;
pub use echo::Echo;
pub use gemini::Gemini;
pub use ollama::Ollama;
pub use openai::OpenAi;
pub use openai_responses::OpenAiResponses;
pub use received::Received;

/// One protocol, configured for one provider.
///
/// A call is one request: nothing in here tries again, because the queue does. Dropping the future drops the connection.
pub trait Adapter: Send + Sync {
    /// Sends the request and waits for the whole answer. What arrives is put into `received` as it arrives, so that a
    /// call that fails or is dropped leaves behind what was already paid for.
    fn call<'a>(&'a self, request: &'a Request, received: &'a Received) -> Call<'a>;
}

/// A call under way.
pub type Call<'a> = Pin<Box<dyn Future<Output = Result<Reply, AdapterError>> + Send + 'a>>;

/// What is asked of a provider.
#[derive(Clone, Debug)]
pub struct Request {
    /// The earlier turns of the thread, oldest first.
    pub turns: Vec<Turn>,
    /// The prompt.
    pub text: String,
    /// The configured model that is asked.
    pub model: String,
    /// The token budget, where the configuration has one.
    pub max_output_tokens: Option<u32>,
    /// The same on every attempt of a job, so that a provider that knows it can answer without working twice.
    pub idempotency_key: String,
}

impl Request {
    /// The idempotency key of a job's answer call: the job's id.
    #[must_use]
    pub fn answer_key(job: JobId) -> String {
        job.to_string()
    }

    /// The idempotency key of the call that chooses the model.
    #[must_use]
    pub fn router_key(job: JobId) -> String {
        format!("{job}:router")
    }

    /// The idempotency key of a call that answers in place of another provider.
    #[must_use]
    pub fn fallback_key(job: JobId, provider: &str) -> String {
        format!("{job}:{provider}")
    }
}

/// A whole answer. Its tokens and the provider's id for it are in [`Received`], as they are for a failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The text, byte for byte.
    pub text: String,
    /// How it ended.
    pub ending: Ending,
}

/// Why the model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It had said all.
    Finished,
    /// The token budget was used up in mid-text.
    Truncated,
}

/// Why there is no answer. The message holds no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterError {
    /// What kind of failure.
    pub kind: ErrorKind,
    /// What happened, in words.
    pub message: String,
    /// How long the provider asked to be left alone.
    pub retry_after: Option<Duration>,
    /// Whether the provider may charge for it.
    pub bill: Bill,
    /// Whether this one request is not allowed (HTTP 403, or a word for it): no affair of the other jobs.
    pub forbidden: bool,
}

/// What a failed call may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bill {
    /// The provider was not reached, or has itself said how the call ended.
    Known,
    /// The request was sent and the connection ended before the provider said how it went: it may have worked, and charge.
    MaybeCharged,
}

impl AdapterError {
    /// A failure the provider told of, or one that happened before it was reached.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: scrub::scrub(message.into()), retry_after: None, bill: Bill::Known, forbidden: false }
    }

    /// A failure in the middle of a call.
    #[must_use]
    pub fn cut_off(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { bill: Bill::MaybeCharged, ..Self::new(kind, message) }
    }
}

/// A count of tokens, as far as a document holds one.
fn count(value: &serde_json::Value) -> Option<u32> {
    value.as_u64().map(|count| u32::try_from(count).unwrap_or(u32::MAX))
}
