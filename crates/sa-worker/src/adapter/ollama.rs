//! Ollama's own chat protocol.

use sa_core::{error_kind::ErrorKind, ledger::Usage, provider::Provider};
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

/// The adapter of kind `ollama`.
#[derive(Debug)]
pub struct Ollama {
    endpoint: Endpoint,
}

impl Ollama {
    /// The adapter for this provider.
    ///
    /// # Errors
    /// An address that is no URL, a key that no header can hold, or a host without usable TLS roots.
    pub fn new(provider: &Provider, key: Option<SecretString>) -> anyhow::Result<Self> {
        Ok(Self { endpoint: Endpoint::new(provider, key, "api-key")? })
    }
}

impl Adapter for Ollama {
    fn call<'a>(&'a self, request: &'a Request, received: &'a Received) -> Call<'a> {
        Box::pin(async move {
            let call = self.endpoint.post(request, &["api", "chat"])?;
            self.endpoint.ask::<Line>(call, &body(request), request, received).await
        })
    }
}

fn body(request: &Request) -> Value {
    let mut body = json!({ "model": request.model, "messages": thread::chat_messages(request), "stream": true });
    if let Some(budget) = request.max_output_tokens {
        body["options"] = json!({ "num_predict": budget });
    }
    body
}

/// What the lines of an answer say; an answer that came whole is one such line.
#[derive(Debug, Default)]
struct Line {
    done: Option<String>,
    tool: bool,
}

impl Protocol for Line {
    const FRAMING: Framing = Framing::Lines;

    fn event(&mut self, document: &Value, received: &Received) -> Result<Progress, AdapterError> {
        self.whole(document, received)?;
        Ok(if self.done.is_some() { Progress::Over } else { Progress::Open })
    }

    fn whole(&mut self, line: &Value, received: &Received) -> Result<(), AdapterError> {
        // An error here is prose alone. The request had been accepted, so what failed is the server.
        error_member(line).map_err(|mut error| {
            if error.kind == ErrorKind::Unknown {
                error.kind = ErrorKind::Provider5xx;
            }
            error
        })?;
        if let Some(model) = line["model"].as_str() {
            received.name_model(model);
        }
        let message = &line["message"];
        received.add_text(message["content"].as_str().unwrap_or_default());
        self.tool |= message["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty());
        if line["done"] == true {
            received.set_usage(usage(line));
            self.done = Some(line["done_reason"].as_str().unwrap_or_default().to_owned());
        }
        Ok(())
    }

    fn settle(self, received: &Received) -> Result<Reply, AdapterError> {
        let stop = match self.done.as_deref().unwrap_or_default() {
            "length" => Stop::Budget,
            _ if self.tool && received.text().trim().is_empty() => Stop::Tool,
            _ => Stop::Said,
        };
        answer::settle(stop, received)
    }
}

fn usage(line: &Value) -> Usage {
    Usage {
        tokens_in: count(&line["prompt_eval_count"]),
        tokens_out: count(&line["eval_count"]),
        tokens_cached: None,
        tokens_reasoning: None,
    }
}
