//! Google Gemini generateContent.

use sa_core::{ledger::Usage, provider::Provider};
use secrecy::SecretString;
use serde_json::{Value, json};

use super::{
    Adapter, AdapterError, Call, Received, Reply, Request,
    answer::{self, Stop},
    count,
    endpoint::Endpoint,
    protocol::{Framing, Progress, Protocol, error_member},
    thread::{self, Role},
};

/// The adapter of kind `gemini`.
#[derive(Debug)]
pub struct Gemini {
    endpoint: Endpoint,
}

impl Gemini {
    /// The adapter for this provider.
    ///
    /// # Errors
    /// An address that is no URL, a key that no header can hold, or a host without usable TLS roots.
    pub fn new(provider: &Provider, key: Option<SecretString>) -> anyhow::Result<Self> {
        Ok(Self { endpoint: Endpoint::new(provider, key, "x-goog-api-key")? })
    }
}

impl Adapter for Gemini {
    fn call<'a>(&'a self, request: &'a Request, received: &'a Received) -> Call<'a> {
        Box::pin(async move {
            // A model may be written as the service lists it, `models/NAME`.
            let model = request.model.strip_prefix("models/").unwrap_or(&request.model);
            let path = ["models", &format!("{model}:streamGenerateContent")];
            let call = self.endpoint.post_with(request, &path, &[("alt", "sse")])?;
            self.endpoint.ask::<Candidate>(call, &body(request), request, received).await
        })
    }
}

fn body(request: &Request) -> Value {
    let content = |(role, text)| {
        let role = match role {
            Role::User => "user",
            Role::Model => "model",
        };
        json!({ "role": role, "parts": [{ "text": text }] })
    };
    let contents: Vec<_> = thread::messages(request).into_iter().map(content).collect();
    let mut body = json!({ "contents": contents });
    if let Some(budget) = request.max_output_tokens {
        body["generationConfig"] = json!({ "maxOutputTokens": budget });
    }
    body
}

/// What the documents say of the first candidate; each is the same shape, in a stream or alone.
#[derive(Debug, Default)]
struct Candidate {
    seen: bool,
    finish: Option<String>,
    /// `promptFeedback.blockReason`: there is no candidate then.
    blocked: Option<String>,
    tool: bool,
}

impl Protocol for Candidate {
    const FRAMING: Framing = Framing::Events;

    fn event(&mut self, document: &Value, received: &Received) -> Result<Progress, AdapterError> {
        self.absorb(document, received)?;
        // No mark follows: the stream ends after the document that says why the model stopped.
        let stopped = self.finish.is_some() || self.blocked.is_some();
        Ok(if stopped { Progress::Stopped } else { Progress::Open })
    }

    /// Without `alt=sse`, which a gateway may lose on the way, a stream is one list of documents.
    fn whole(&mut self, document: &Value, received: &Received) -> Result<(), AdapterError> {
        match document.as_array() {
            Some(documents) => documents.iter().try_for_each(|document| self.absorb(document, received)),
            None => self.absorb(document, received),
        }
    }

    fn settle(self, received: &Received) -> Result<Reply, AdapterError> {
        let blank = received.text().trim().is_empty();
        let finish = self.finish.unwrap_or_default();
        let stop = match finish.as_str() {
            "MAX_TOKENS" | "CONTINUATION" => Stop::Budget,
            "SAFETY"
            | "RECITATION"
            | "LANGUAGE"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "ESCALATION"
            | "PUP_LIMITED_DISABLED"
            | "MODEL_ARMOR"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION" => Stop::Filtered(finish),
            "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS" => Stop::Tool,
            "OTHER" | "MALFORMED_RESPONSE" | "FINISH_REASON_UNSPECIFIED" => {
                Stop::GaveUp(format!("finishReason {finish}"))
            }
            _ => match self.blocked {
                Some(reason) if blank => Stop::Filtered(reason),
                _ if blank && self.tool => Stop::Tool,
                _ if blank && !self.seen => return Err(answer::unreadable("the answer has no candidates")),
                Some(_) | None => Stop::Said,
            },
        };
        answer::settle(stop, received)
    }
}

impl Candidate {
    fn absorb(&mut self, document: &Value, received: &Received) -> Result<(), AdapterError> {
        if let Some(id) = document["responseId"].as_str() {
            received.name_request(id);
        }
        if let Some(model) = document["modelVersion"].as_str() {
            received.name_model(model);
        }
        received.set_usage(usage(&document["usageMetadata"]));
        error_member(document)?;
        if let Some(reason) = document["promptFeedback"]["blockReason"].as_str() {
            self.blocked = Some(reason.to_owned());
        }
        let candidates = document["candidates"].as_array().into_iter().flatten();
        for candidate in candidates.filter(|candidate| candidate["index"].as_u64().unwrap_or(0) == 0) {
            self.seen = true;
            for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
                self.tool |= part["functionCall"].is_object();
                // Thoughts come as parts too, and are no part of the answer.
                if part["thought"] != true {
                    received.add_text(part["text"].as_str().unwrap_or_default());
                }
            }
            if let Some(finish) = candidate["finishReason"].as_str() {
                self.finish = Some(finish.to_ascii_uppercase());
            }
        }
        Ok(())
    }
}

/// This protocol counts thoughts beside the answer; they are received, and paid for, like it.
fn usage(usage: &Value) -> Usage {
    let (answer, thoughts) = (count(&usage["candidatesTokenCount"]), count(&usage["thoughtsTokenCount"]));
    let received = answer.or(thoughts).map(|_| answer.unwrap_or(0).saturating_add(thoughts.unwrap_or(0)));
    Usage {
        tokens_in: count(&usage["promptTokenCount"]),
        tokens_cached: count(&usage["cachedContentTokenCount"]),
        tokens_out: received,
        tokens_reasoning: thoughts,
    }
}
