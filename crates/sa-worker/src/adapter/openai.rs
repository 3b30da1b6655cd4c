//! OpenAI Chat Completions, as OpenAI and every compatible server speak it.

use reqwest::Url;
use sa_core::provider::Provider;
use secrecy::SecretString;
use serde_json::{Value, json};

use super::{Adapter, Call, Received, Request, chat::Completion, endpoint::Endpoint, thread};

/// The adapter of kind `openai`. It always asks for a stream, so that a cancelled call keeps what was already paid for and
/// a silent server is noticed; a server that answers whole all the same is understood.
#[derive(Debug)]
pub struct OpenAi {
    endpoint: Endpoint,
    budget_field: &'static str,
}

impl OpenAi {
    /// The adapter for this provider.
    ///
    /// # Errors
    /// An address that is no URL, a key that no header can hold, or a host without usable TLS roots.
    pub fn new(provider: &Provider, key: Option<SecretString>) -> anyhow::Result<Self> {
        let endpoint = Endpoint::new(provider, key, "api-key")?;
        Ok(Self { endpoint, budget_field: budget_field(provider.base_url.as_deref().unwrap_or_default()) })
    }

    fn body(&self, request: &Request) -> Value {
        let mut body = json!({
            "model": request.model,
            "messages": thread::chat_messages(request),
            "stream": true,
            "stream_options": { "include_usage": true },
        });
        if let Some(budget) = request.max_output_tokens {
            body[self.budget_field] = budget.into();
        }
        body
    }
}

impl Adapter for OpenAi {
    fn call<'a>(&'a self, request: &'a Request, received: &'a Received) -> Call<'a> {
        Box::pin(async move {
            let call = self.endpoint.post(request, &["chat", "completions"])?;
            let call = call.header("X-Client-Request-Id", &request.idempotency_key);
            self.endpoint.ask::<Completion>(call, &self.body(request), request, received).await
        })
    }
}

/// The member that carries the token budget. Compatible servers know `max_tokens`, and some ignore the newer name in
/// silence, so that no budget would hold. OpenAI's own newer models refuse the old name, and its older ones take both.
fn budget_field(base_url: &str) -> &'static str {
    const OF_AZURE: [&str; 3] = [".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com"];
    let url = Url::parse(base_url).ok();
    let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
    let of_openai = host == "api.openai.com" || OF_AZURE.iter().any(|end| host.ends_with(end));
    if of_openai { "max_completion_tokens" } else { "max_tokens" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_has_the_name_the_server_knows() {
        for (base, field) in [
            ("https://api.openai.com/v1", "max_completion_tokens"),
            ("https://x.openai.azure.com/openai/v1", "max_completion_tokens"),
            ("http://127.0.0.1:8080/v1", "max_tokens"),
            ("https://api.openai.com.example/v1", "max_tokens"),
        ] {
            assert_eq!(budget_field(base), field, "{base}");
        }
    }
}
