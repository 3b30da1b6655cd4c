//! Anthropic Messages.

use anyhow::Context;
use reqwest::header::HeaderValue;
use sa_core::{ledger::Usage, provider::Provider};
use secrecy::SecretString;
use serde_json::{Value, json};

use super::{
    Adapter, AdapterError, Call, Received, Reply, Request,
    answer::{self, Stop},
    count,
    endpoint::Endpoint,
    protocol::{Framing, Progress, Protocol, error_member},
    thread,
};

/// Known by every server that speaks this protocol. What later versions took away is never sent here, so that a provider
/// configured for one of them is asked the same.
const VERSION: &str = "2023-06-01";

/// The protocol demands a budget. Every model since 2024 takes this one, and it fits into the usual time-out.
const USUAL_BUDGET: u32 = 8192;

/// The adapter of kind `anthropic`.
#[derive(Debug)]
pub struct Anthropic {
    endpoint: Endpoint,
    version: HeaderValue,
}

impl Anthropic {
    /// The adapter for this provider.
    ///
    /// # Errors
    /// An address that is no URL, a key or a version that no header can hold, or a host without usable TLS roots.
    pub fn new(provider: &Provider, key: Option<SecretString>) -> anyhow::Result<Self> {
        let version = provider.api_version.as_deref().unwrap_or(VERSION);
        let version =
            HeaderValue::from_str(version).context("api_version holds a character that no header can carry")?;
        Ok(Self { endpoint: Endpoint::new(provider, key, "x-api-key")?, version })
    }
}

impl Adapter for Anthropic {
    fn call<'a>(&'a self, request: &'a Request, received: &'a Received) -> Call<'a> {
        Box::pin(async move {
            let call = self.endpoint.post(request, &["messages"])?.header("anthropic-version", &self.version);
            self.endpoint.ask::<Message>(call, &body(request), request, received).await
        })
    }
}

fn body(request: &Request) -> Value {
    json!({
        "model": request.model,
        "max_tokens": request.max_output_tokens.unwrap_or(USUAL_BUDGET),
        "messages": thread::chat_messages(request),
        "stream": true,
    })
}

/// What the documents of a message say.
#[derive(Debug, Default)]
struct Message {
    seen: bool,
    stop: Option<String>,
    /// `stop_details`: why the model refused.
    reason: String,
    tool: bool,
    sent: Sent,
}

/// Tokens that were sent, in the three parts that this protocol counts one by one.
#[derive(Debug, Default)]
struct Sent {
    fresh: Option<u32>,
    from_cache: Option<u32>,
    to_cache: Option<u32>,
}

impl Protocol for Message {
    const FRAMING: Framing = Framing::Events;

    fn event(&mut self, document: &Value, received: &Received) -> Result<Progress, AdapterError> {
        error_member(document)?;
        match document["type"].as_str().unwrap_or_default() {
            "message_start" => self.begin(&document["message"], received),
            "content_block_start" => self.absorb_block(&document["content_block"], received),
            "content_block_delta" => self.absorb_delta(&document["delta"], received),
            "message_delta" => {
                received.set_usage(self.usage(&document["usage"]));
                self.absorb_stop(&document["delta"]);
            }
            "message_stop" => return Ok(Progress::Over),
            // `content_block_stop`, `ping`, and events of versions to come.
            _ => {}
        }
        Ok(if self.stop.is_some() { Progress::Stopped } else { Progress::Open })
    }

    fn whole(&mut self, message: &Value, received: &Received) -> Result<(), AdapterError> {
        error_member(message)?;
        self.begin(message, received);
        self.seen = message["content"].is_array();
        for block in message["content"].as_array().into_iter().flatten() {
            self.absorb_block(block, received);
        }
        self.absorb_stop(message);
        Ok(())
    }

    fn settle(self, received: &Received) -> Result<Reply, AdapterError> {
        let blank = received.text().trim().is_empty();
        let stop = match self.stop.as_deref().unwrap_or_default() {
            "max_tokens" | "model_context_window_exceeded" => Stop::Budget,
            // The provider's own tools paused the turn: what came is a part, and nobody here will ask for the rest.
            "pause_turn" => Stop::Budget,
            "refusal" => Stop::Refused(self.reason),
            // A gateway's word, where another protocol's model answers.
            "content_filter" => Stop::Filtered(String::new()),
            "tool_use" => Stop::Tool,
            _ if self.tool && blank => Stop::Tool,
            _ if blank && !self.seen => return Err(answer::unreadable("the answer is no message")),
            _ => Stop::Said,
        };
        answer::settle(stop, received)
    }
}

impl Message {
    fn begin(&mut self, message: &Value, received: &Received) {
        self.seen = true;
        if let Some(id) = message["id"].as_str() {
            received.name_request(id);
        }
        if let Some(model) = message["model"].as_str() {
            received.name_model(model);
        }
        received.set_usage(self.usage(&message["usage"]));
    }

    fn absorb_block(&mut self, block: &Value, received: &Received) {
        match block["type"].as_str() {
            Some("text") => received.add_text(block["text"].as_str().unwrap_or_default()),
            Some("tool_use") => self.tool = true,
            // Thinking is no part of the answer.
            Some(_) | None => {}
        }
    }

    fn absorb_delta(&mut self, delta: &Value, received: &Received) {
        if delta["type"] == "text_delta" {
            received.add_text(delta["text"].as_str().unwrap_or_default());
        }
    }

    fn absorb_stop(&mut self, part: &Value) {
        if let Some(stop) = part["stop_reason"].as_str() {
            self.stop = Some(stop.to_owned());
        }
        let details = &part["stop_details"];
        if let Some(reason) = details["explanation"].as_str().or_else(|| details["category"].as_str()) {
            reason.clone_into(&mut self.reason);
        }
    }

    /// This protocol counts what came from the cache, and what went into it, beside the rest; here they are part of it.
    fn usage(&mut self, usage: &Value) -> Usage {
        let Sent { fresh, from_cache, to_cache } = &mut self.sent;
        for (known, told) in [
            (&mut *fresh, "input_tokens"),
            (&mut *from_cache, "cache_read_input_tokens"),
            (&mut *to_cache, "cache_creation_input_tokens"),
        ] {
            *known = count(&usage[told]).or(*known);
        }
        let sent = |fresh: u32| fresh.saturating_add(from_cache.unwrap_or(0)).saturating_add(to_cache.unwrap_or(0));
        Usage {
            tokens_in: fresh.map(sent),
            tokens_cached: *from_cache,
            tokens_out: count(&usage["output_tokens"]),
            tokens_reasoning: count(&usage["output_tokens_details"]["thinking_tokens"]),
        }
    }
}
