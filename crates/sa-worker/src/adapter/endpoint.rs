//! One provider's address: what every protocol does alike on the way there and back.

use anyhow::Context;
use reqwest::{
    Client, RequestBuilder, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue},
};
use sa_core::{
    error_kind::ErrorKind,
    provider::{Auth, Provider},
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::{
    AdapterError, Received, Reply, Request,
    body::{Body, Clock},
    classify, client,
    protocol::{self, Protocol},
    scrub,
};

/// Where servers and gateways put their own name for a call, the provider's before the gateway's.
const REQUEST_ID_HEADERS: [&str; 5] =
    ["request-id", "x-request-id", "apim-request-id", "x-generation-id", "x-litellm-call-id"];

/// Stands in `base_url` for the model that is asked, where a server has an address per model.
const MODEL: &str = "{model}";

/// A provider's address, with the key that opens it and the limits of its calls.
#[derive(Debug)]
pub(super) struct Endpoint {
    client: Client,
    provider: Provider,
    base: String,
    key: Option<(HeaderName, SecretString)>,
}

impl Endpoint {
    /// The endpoint of this provider; `key_header` is where the protocol itself wants the key.
    ///
    /// # Errors
    /// An address that is no URL, a key that no header can hold, or a host without usable TLS roots.
    pub(super) fn new(
        provider: &Provider,
        key: Option<SecretString>,
        key_header: &'static str,
    ) -> anyhow::Result<Self> {
        let base = provider.base_url.clone().context("base_url is missing")?;
        let url = address(&base, &provider.models[0], &[])?;
        if let Some(key) = &key {
            HeaderValue::from_str(key.expose_secret()).context("the key holds a character that no header can carry")?;
        }
        let header = match provider.auth() {
            Auth::Bearer => Some(AUTHORIZATION),
            Auth::ApiKey => Some(HeaderName::from_static(key_header)),
            Auth::None => None,
        };
        let connect = provider.timeouts(&provider.models[0]).connect;
        let client = client::client(&url, connect).context("the outgoing client cannot be built")?;
        Ok(Self { client, provider: provider.clone(), base, key: header.zip(key) })
    }

    /// A request for this model to the address with these segments added, its body still to come.
    pub(super) fn post(&self, request: &Request, path: &[&str]) -> Result<RequestBuilder, AdapterError> {
        self.post_with(request, path, &[])
    }

    /// As [`Endpoint::post`], with parameters of the protocol's own in the query.
    pub(super) fn post_with(
        &self,
        request: &Request,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<RequestBuilder, AdapterError> {
        let mut url = address(&self.base, &request.model, path)
            .map_err(|why| AdapterError::new(ErrorKind::Provider4xx, format!("no address for this model: {why:#}")))?;
        if !query.is_empty() || !self.provider.extra_query.is_empty() {
            url.query_pairs_mut().extend_pairs(query).extend_pairs(&self.provider.extra_query);
        }
        let mut call = self
            .client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream, application/x-ndjson, application/json")
            .header("Idempotency-Key", &request.idempotency_key);
        if let Some((name, key)) = &self.key {
            call = call.header(name, key_value(name, key)?);
        }
        Ok(call)
    }

    /// Sends the body and reads the answer as this protocol.
    pub(super) async fn ask<P: Protocol>(
        &self,
        call: RequestBuilder,
        body: &Value,
        request: &Request,
        received: &Received,
    ) -> Result<Reply, AdapterError> {
        let call = call.body(body.to_string());
        self.answer::<P>(call, request, received).await.map_err(|mut error| {
            if let Some((_, key)) = &self.key {
                error.message = scrub::scrub_exactly(&error.message, key.expose_secret());
            }
            error
        })
    }

    async fn answer<P: Protocol>(
        &self,
        call: RequestBuilder,
        request: &Request,
        received: &Received,
    ) -> Result<Reply, AdapterError> {
        let clock = Clock::start(self.provider.timeouts(&request.model));
        let response = clock.first_byte(call.send()).await?.map_err(classify::transport)?;
        let (status, headers) = (response.status(), response.headers().clone());
        if let Some(id) = REQUEST_ID_HEADERS.iter().find_map(|name| headers.get(*name)?.to_str().ok()) {
            received.name_request(id);
        }
        let body = Body::new(response, clock);
        if status.is_success() {
            return protocol::read::<P>(body, &headers, received).await?.settle(received);
        }
        // A body that does not come whole takes nothing away from what the status says.
        Err(classify::response(status, &headers, &body.text().await.unwrap_or_default()))
    }
}

fn key_value(name: &HeaderName, key: &SecretString) -> Result<HeaderValue, AdapterError> {
    let key = key.expose_secret();
    let value = if name == AUTHORIZATION { format!("Bearer {key}") } else { key.to_owned() };
    let mut value = HeaderValue::from_str(&value)
        .map_err(|_| AdapterError::new(ErrorKind::Auth, "the key holds a character that no header can carry"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn address(base: &str, model: &str, path: &[&str]) -> anyhow::Result<Url> {
    let base = base.replace(MODEL, &as_segment(model));
    let mut url = Url::parse(&base).with_context(|| format!("base_url {base:?} is not a URL"))?;
    anyhow::ensure!(matches!(url.scheme(), "http" | "https"), "base_url {base:?} is neither http nor https");
    url.path_segments_mut().map_err(|()| anyhow::anyhow!("base_url {base:?} has no path"))?.pop_if_empty().extend(path);
    Ok(url)
}

/// The model's name as it can stand between two slashes.
fn as_segment(model: &str) -> String {
    let mut url = Url::parse("http://h").expect("this is a URL");
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().push(model);
    }
    url.path().trim_start_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sa_core::provider::Catalog;

    fn endpoint(settings: &str) -> anyhow::Result<Endpoint> {
        let file = format!("[[provider]]\nname = \"p\"\nkind = \"openai\"\nmodels = [\"m\", \"a/b c\"]\n{settings}");
        let catalog = Catalog::load(Some(&file), |_| None)?;
        Endpoint::new(catalog.default_provider(), Some(SecretString::from("k3y")), "api-key")
    }

    fn request(model: &str) -> Request {
        Request {
            turns: vec![],
            text: "t".into(),
            model: model.into(),
            max_output_tokens: None,
            idempotency_key: "k".into(),
        }
    }

    fn url(settings: &str, model: &str) -> String {
        let call = endpoint(settings).unwrap().post(&request(model), &["chat", "completions"]).unwrap();
        call.build().unwrap().url().to_string()
    }

    #[test]
    fn address_keeps_path_and_query_and_names_the_model_where_asked() {
        for (settings, model, expected) in [
            ("base_url = \"https://h/v1\"", "m", "https://h/v1/chat/completions"),
            ("base_url = \"https://h/v1/\"", "m", "https://h/v1/chat/completions"),
            ("base_url = \"http://h:8080\"", "m", "http://h:8080/chat/completions"),
            (
                "base_url = \"https://h/d\"\nextra_query = { api-version = \"1 2\" }",
                "m",
                "https://h/d/chat/completions?api-version=1+2",
            ),
            (
                "base_url = \"https://h/openai/deployments/{model}\"",
                "m",
                "https://h/openai/deployments/m/chat/completions",
            ),
            ("base_url = \"https://h/%7E/{model}\"", "a/b c", "https://h/%7E/a%2Fb%20c/chat/completions"),
        ] {
            assert_eq!(url(settings, model), expected);
        }
        for bad in ["h/v1", "ftp://h/v1", "data:x"] {
            assert!(endpoint(&format!("base_url = \"{bad}\"")).is_err(), "{bad}");
        }
    }

    #[test]
    fn key_is_in_no_debug_output() {
        let endpoint = endpoint("base_url = \"https://h/v1\"").unwrap();
        let call = endpoint.post(&request("m"), &[]).unwrap();
        assert!(!format!("{endpoint:?} {call:?}").contains("k3y"));
    }
}
