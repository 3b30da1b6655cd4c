//! OpenAI Responses.

use sa_core::{ledger::Usage, provider::Provider};
use secrecy::SecretString;
use serde_json::{Value, json};

use super::{
    Adapter, AdapterError, Call, Received, Reply, Request,
    answer::{self, Stop},
    classify, count,
    endpoint::Endpoint,
    protocol::{Framing, Progress, Protocol, error_member},
    thread,
};

/// The adapter of kind `openai-responses`. It asks the provider to keep nothing: threads are ours, and sent whole.
#[derive(Debug)]
pub struct OpenAiResponses {
    endpoint: Endpoint,
}

impl OpenAiResponses {
    /// The adapter for this provider.
    ///
    /// # Errors
    /// An address that is no URL, a key that no header can hold, or a host without usable TLS roots.
    pub fn new(provider: &Provider, key: Option<SecretString>) -> anyhow::Result<Self> {
        Ok(Self { endpoint: Endpoint::new(provider, key, "api-key")? })
    }
}

impl Adapter for OpenAiResponses {
    fn call<'a>(&'a self, request: &'a Request, received: &'a Received) -> Call<'a> {
        Box::pin(async move {
            let call = self.endpoint.post(request, &["responses"])?;
            let call = call.header("X-Client-Request-Id", &request.idempotency_key);
            self.endpoint.ask::<Response>(call, &body(request), request, received).await
        })
    }
}

fn body(request: &Request) -> Value {
    let mut input = thread::chat_messages(request);
    for message in &mut input {
        // OpenAI knows a message without it; llama.cpp refuses an answer that does not say what it is.
        message["type"] = "message".into();
    }
    let mut body = json!({
        "model": request.model,
        "input": input,
        "stream": true,
        "store": false,
    });
    if let Some(budget) = request.max_output_tokens {
        body["max_output_tokens"] = budget.into();
    }
    body
}

/// What the documents of a response say.
#[derive(Debug, Default)]
struct Response {
    status: String,
    /// `incomplete_details.reason`.
    reason: String,
    refusal: String,
    tool: bool,
}

impl Protocol for Response {
    const FRAMING: Framing = Framing::Events;

    fn event(&mut self, document: &Value, received: &Received) -> Result<Progress, AdapterError> {
        error_member(document)?;
        let delta = document["delta"].as_str().unwrap_or_default();
        match document["type"].as_str().unwrap_or_default() {
            "response.output_text.delta" => received.add_text(delta),
            "response.refusal.delta" => self.refusal.push_str(delta),
            "response.created" | "response.in_progress" | "response.queued" => name(&document["response"], received),
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                self.whole(&document["response"], received)?;
                return Ok(Progress::Over);
            }
            // Other events repeat these in other sizes, or tell of tools and reasoning.
            _ => {}
        }
        Ok(Progress::Open)
    }

    fn whole(&mut self, response: &Value, received: &Received) -> Result<(), AdapterError> {
        name(response, received);
        received.set_usage(usage(&response["usage"]));
        error_member(response)?;
        self.status = word(&response["status"]);
        self.reason = word(&response["incomplete_details"]["reason"]);
        // The last event of a stream repeats what the others brought, unless they brought nothing.
        let (with_text, with_refusal) = (received.text().is_empty(), self.refusal.is_empty());
        for item in response["output"].as_array().into_iter().flatten() {
            self.tool |= item["type"].as_str().is_some_and(|kind| kind.ends_with("_call"));
            for part in item["content"].as_array().into_iter().flatten() {
                match part["type"].as_str() {
                    Some("output_text") if with_text => received.add_text(part["text"].as_str().unwrap_or_default()),
                    Some("refusal") if with_refusal => self.refusal.push_str(&word(&part["refusal"])),
                    Some(_) | None => {}
                }
            }
        }
        Ok(())
    }

    fn settle(self, received: &Received) -> Result<Reply, AdapterError> {
        let stop = match (self.status.as_str(), self.reason.as_str()) {
            ("incomplete", "content_filter") => Stop::Filtered(String::new()),
            // `max_output_tokens`, and what else may end an answer that was going well.
            ("incomplete", _) => Stop::Budget,
            ("failed", _) => return Err(classify::unnamed("the response failed, and no reason was given")),
            ("cancelled" | "queued" | "in_progress", _) => Stop::GaveUp(format!("status {}", self.status)),
            _ if !self.refusal.is_empty() => Stop::Refused(self.refusal),
            _ if self.tool && received.text().trim().is_empty() => Stop::Tool,
            ("", "") if received.text().is_empty() => return Err(answer::unreadable("the answer is no response")),
            _ => Stop::Said,
        };
        answer::settle(stop, received)
    }
}

fn name(response: &Value, received: &Received) {
    if let Some(id) = response["id"].as_str() {
        received.name_request(id);
    }
    if let Some(model) = response["model"].as_str() {
        received.name_model(model);
    }
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn usage(usage: &Value) -> Usage {
    Usage {
        tokens_in: count(&usage["input_tokens"]),
        tokens_cached: count(&usage["input_tokens_details"]["cached_tokens"]),
        tokens_out: count(&usage["output_tokens"]),
        tokens_reasoning: count(&usage["output_tokens_details"]["reasoning_tokens"]),
    }
}
