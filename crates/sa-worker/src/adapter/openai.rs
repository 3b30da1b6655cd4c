//! OpenAI Chat Completions, as OpenAI and every compatible server speak it.

use std::time::Duration;

use anyhow::Context;
use reqwest::{
    Client, RequestBuilder, StatusCode, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use sa_core::{
    error_kind::ErrorKind,
    provider::{Auth, Provider},
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use super::{
    Adapter, AdapterError, Call, Received, Reply, Request,
    answer::Completion,
    body::{Body, Clock, Limits},
    chat_stream, classify, client, scrub,
};

const FIRST_BYTE_LIMIT: Duration = Duration::from_secs(60);
const IDLE_LIMIT: Duration = Duration::from_secs(60);
const TOTAL_LIMIT: Duration = Duration::from_secs(180);

/// Where servers put their own name for a call.
const REQUEST_ID_HEADERS: [&str; 2] = ["x-request-id", "x-litellm-call-id"];

/// The adapter of kind `openai`. It always asks for a stream, so that a cancelled call keeps what was already paid for and
/// a silent server is noticed; a server that answers whole all the same is understood.
#[derive(Debug)]
pub struct OpenAi {
    client: Client,
    url: Url,
    key: Option<(HeaderName, SecretString)>,
    limits: Limits,
    budget_field: &'static str,
}

impl OpenAi {
    /// The adapter for this provider.
    ///
    /// # Errors
    /// An address that is no URL, a key that no header can hold, or a host without usable TLS roots.
    pub fn new(provider: &Provider, key: Option<SecretString>) -> anyhow::Result<Self> {
        let url = address(provider)?;
        if let Some(key) = &key {
            HeaderValue::from_str(key.expose_secret()).context("the key holds a character that no header can carry")?;
        }
        let header = match provider.auth {
            Auth::Bearer => Some(AUTHORIZATION),
            Auth::ApiKey => Some(HeaderName::from_static("api-key")),
            Auth::None => None,
        };
        Ok(Self {
            client: client::client(&url, provider.connect_timeout).context("the outgoing client cannot be built")?,
            budget_field: budget_field(&url),
            url,
            key: header.zip(key),
            limits: Limits {
                first_byte: provider.first_byte_timeout.unwrap_or(FIRST_BYTE_LIMIT),
                idle: provider.idle_timeout.unwrap_or(IDLE_LIMIT),
                total: provider.total_timeout.unwrap_or(TOTAL_LIMIT),
            },
        })
    }

    async fn ask(&self, request: &Request, received: &Received) -> Result<Reply, AdapterError> {
        let clock = Clock::start(self.limits);
        let response = clock.first_byte(self.build(request)?.send()).await?.map_err(classify::transport)?;
        let (status, headers) = (response.status(), response.headers().clone());
        if let Some(id) = REQUEST_ID_HEADERS.iter().find_map(|name| headers.get(*name)?.to_str().ok()) {
            received.name_request(id);
        }
        let body = Body::new(response, clock);
        if status.is_success() {
            return read(body, &headers, received).await?.settle(received);
        }
        Err(refusal(status, &headers, body).await)
    }

    fn build(&self, request: &Request) -> Result<RequestBuilder, AdapterError> {
        let mut body = json!({
            "model": request.model,
            "messages": messages(request),
            "stream": true,
            "stream_options": { "include_usage": true },
        });
        if let Some(budget) = request.max_output_tokens {
            body[self.budget_field] = budget.into();
        }
        let mut call = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream, application/json")
            .header("Idempotency-Key", &request.idempotency_key)
            .header("X-Client-Request-Id", &request.idempotency_key)
            .body(body.to_string());
        if let Some((name, key)) = &self.key {
            call = call.header(name, self.key_value(name, key)?);
        }
        Ok(call)
    }

    fn key_value(&self, name: &HeaderName, key: &SecretString) -> Result<HeaderValue, AdapterError> {
        let key = key.expose_secret();
        let value = if name == AUTHORIZATION { format!("Bearer {key}") } else { key.to_owned() };
        let mut value = HeaderValue::from_str(&value)
            .map_err(|_| AdapterError::new(ErrorKind::Auth, "the key holds a character that no header can carry"))?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl Adapter for OpenAi {
    fn call<'a>(&'a self, request: &'a Request, received: &'a Received) -> Call<'a> {
        Box::pin(async move {
            self.ask(request, received).await.map_err(|mut error| {
                if let Some((_, key)) = &self.key {
                    error.message = scrub::scrub_exactly(&error.message, key.expose_secret());
                }
                error
            })
        })
    }
}

/// What a success says, in whichever of the two forms it comes: servers that cannot stream answer whole though asked to
/// stream, and gateways label either form as the other.
async fn read(mut body: Body, headers: &HeaderMap, received: &Received) -> Result<Completion, AdapterError> {
    let labelled = headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
    let streamed = match body.first_byte().await? {
        Some(b'{' | b'[') => false,
        // `data:`, `event:`, `id:`, `retry:`, or a comment.
        Some(b'd' | b'e' | b'i' | b'r' | b':') => true,
        Some(_) | None => labelled,
    };
    if streamed {
        return chat_stream::assemble(body.pieces(), received).await;
    }
    let text = body.text().await?;
    let document: Value = serde_json::from_str(&text).map_err(|error| not_json(&error))?;
    let mut completion = Completion::default();
    completion.absorb(&document, received)?;
    Ok(completion)
}

/// A document that only lacks its end was cut on the way, and another try may bring it whole.
fn not_json(error: &serde_json::Error) -> AdapterError {
    if error.is_eof() {
        return AdapterError::cut_off(ErrorKind::Provider5xx, "the answer ended in the middle of its JSON");
    }
    AdapterError::cut_off(ErrorKind::Parse, format!("the answer is not JSON: {error}"))
}

/// What an error status means. A body that does not come whole takes nothing away from it.
async fn refusal(status: StatusCode, headers: &HeaderMap, body: Body) -> AdapterError {
    classify::response(status, headers, &body.text().await.unwrap_or_default())
}

/// The thread as messages. Two prompts in a row (one had no answer) become one message: many chat templates refuse a
/// conversation whose roles do not alternate.
fn messages(request: &Request) -> Vec<Value> {
    let mut messages = Vec::new();
    let mut open = String::new();
    for turn in &request.turns {
        open.push_str(&turn.prompt);
        match &turn.response {
            Some(response) => {
                messages.push(json!({ "role": "user", "content": std::mem::take(&mut open) }));
                messages.push(json!({ "role": "assistant", "content": response }));
            }
            None => open.push_str("\n\n"),
        }
    }
    open.push_str(&request.text);
    messages.push(json!({ "role": "user", "content": open }));
    messages
}

fn address(provider: &Provider) -> anyhow::Result<Url> {
    let base = provider.base_url.as_deref().context("base_url is missing")?;
    let mut url = Url::parse(base).with_context(|| format!("base_url {base:?} is not a URL"))?;
    anyhow::ensure!(matches!(url.scheme(), "http" | "https"), "base_url {base:?} is neither http nor https");
    url.path_segments_mut()
        .map_err(|()| anyhow::anyhow!("base_url {base:?} has no path"))?
        .pop_if_empty()
        .extend(["chat", "completions"]);
    if !provider.extra_query.is_empty() {
        url.query_pairs_mut().extend_pairs(&provider.extra_query);
    }
    Ok(url)
}

/// The member that carries the token budget. Compatible servers know `max_tokens`, and some ignore the newer name in
/// silence, so that no budget would hold. OpenAI's own newer models refuse the old name, and its older ones take both.
fn budget_field(url: &Url) -> &'static str {
    let host = url.host_str().unwrap_or_default();
    let of_openai = host == "api.openai.com" || host.ends_with(".openai.azure.com");
    if of_openai { "max_completion_tokens" } else { "max_tokens" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sa_core::{provider::Catalog, repo::Turn};

    fn openai(settings: &str) -> anyhow::Result<OpenAi> {
        let file = format!("[[provider]]\nname = \"p\"\nkind = \"openai\"\nmodels = [\"m\"]\n{settings}");
        let catalog = Catalog::load(Some(&file), |_| None)?;
        OpenAi::new(catalog.default_provider(), Some(SecretString::from("k3y")))
    }

    #[test]
    fn address_keeps_path_and_query() {
        for (settings, url) in [
            ("base_url = \"https://h/v1\"", "https://h/v1/chat/completions"),
            ("base_url = \"https://h/v1/\"", "https://h/v1/chat/completions"),
            ("base_url = \"http://h:8080\"", "http://h:8080/chat/completions"),
            (
                "base_url = \"https://h/d\"\nextra_query = { api-version = \"1 2\" }",
                "https://h/d/chat/completions?api-version=1+2",
            ),
        ] {
            assert_eq!(openai(settings).unwrap().url.as_str(), url);
        }
        for bad in ["h/v1", "ftp://h/v1", "data:x"] {
            assert!(openai(&format!("base_url = \"{bad}\"")).is_err(), "{bad}");
        }
    }

    #[test]
    fn budget_has_the_name_the_server_knows() {
        for (base, field) in [
            ("https://api.openai.com/v1", "max_completion_tokens"),
            ("https://x.openai.azure.com/openai/v1", "max_completion_tokens"),
            ("http://127.0.0.1:8080/v1", "max_tokens"),
            ("https://api.openai.com.example/v1", "max_tokens"),
        ] {
            assert_eq!(openai(&format!("base_url = \"{base}\"")).unwrap().budget_field, field, "{base}");
        }
    }

    #[test]
    fn unanswered_prompts_join_the_next_so_that_roles_alternate() {
        let turn =
            |prompt: &str, response: Option<&str>| Turn { prompt: prompt.into(), response: response.map(Into::into) };
        let request = Request {
            turns: vec![turn("a", Some("b")), turn("c", None)],
            text: "d".into(),
            model: "m".into(),
            max_output_tokens: None,
            idempotency_key: "k".into(),
        };
        let expected = json!([
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c\n\nd"},
        ]);
        assert_eq!(Value::Array(messages(&request)), expected);
    }

    #[test]
    fn key_is_in_no_debug_output() {
        let openai = openai("base_url = \"https://h/v1\"").unwrap();
        let request = Request {
            turns: vec![],
            text: "t".into(),
            model: "m".into(),
            max_output_tokens: None,
            idempotency_key: "k".into(),
        };
        let call = openai.build(&request).unwrap();
        assert!(!format!("{openai:?} {call:?}").contains("k3y"));
    }
}
