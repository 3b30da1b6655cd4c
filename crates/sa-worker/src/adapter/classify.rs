//! What a provider's error means: the structured code first, the status second, prose almost never.

use std::error::Error as _;

use reqwest::{StatusCode, header::HeaderMap};
use sa_core::error_kind::ErrorKind;
use serde_json::Value;

use super::{AdapterError, retry_after::retry_after};

/// Codes and types that say what happened, whatever the status. In lower case.
const WORDS: [(&str, ErrorKind); 42] = [
    ("insufficient_quota", ErrorKind::Quota),
    ("credit_balance_exhausted", ErrorKind::Quota),
    ("organization_spend_limit_exceeded", ErrorKind::Quota),
    ("project_spend_limit_exceeded", ErrorKind::Quota),
    ("organization_usage_limit_exceeded", ErrorKind::Quota),
    ("enforced_spend_limit_reached", ErrorKind::Quota),
    ("billing_hard_limit_reached", ErrorKind::Quota),
    ("billing_not_active", ErrorKind::Quota),
    ("rate_limit_exceeded", ErrorKind::RateLimit),
    ("rate_limit_error", ErrorKind::RateLimit),
    ("ramp_limit_exceeded", ErrorKind::RateLimit),
    ("slow_down", ErrorKind::RateLimit),
    ("throttling_error", ErrorKind::RateLimit),
    ("too_many_requests", ErrorKind::RateLimit),
    ("resource_exhausted", ErrorKind::RateLimit),
    ("context_length_exceeded", ErrorKind::Provider4xx),
    ("exceed_context_size_error", ErrorKind::Provider4xx),
    ("string_above_max_length", ErrorKind::Provider4xx),
    ("content_policy_violation", ErrorKind::Provider4xx),
    ("content_filter", ErrorKind::Provider4xx),
    ("moderation_blocked", ErrorKind::Provider4xx),
    ("invalid_prompt", ErrorKind::Provider4xx),
    ("model_not_found", ErrorKind::Provider4xx),
    ("not_supported_error", ErrorKind::Provider4xx),
    ("invalid_api_key", ErrorKind::Auth),
    ("authentication_error", ErrorKind::Auth),
    ("permission_error", ErrorKind::Auth),
    ("unauthenticated", ErrorKind::Auth),
    ("unauthorized", ErrorKind::Auth),
    ("server_error", ErrorKind::Provider5xx),
    ("internal_server_error", ErrorKind::Provider5xx),
    ("internal_error", ErrorKind::Provider5xx),
    ("api_error", ErrorKind::Provider5xx),
    ("overloaded_error", ErrorKind::Provider5xx),
    ("server_is_overloaded", ErrorKind::Provider5xx),
    ("engine_overloaded", ErrorKind::Provider5xx),
    ("service_unavailable", ErrorKind::Provider5xx),
    ("unavailable_error", ErrorKind::Provider5xx),
    ("unavailable", ErrorKind::Provider5xx),
    ("timeout", ErrorKind::Timeout),
    ("request_timeout", ErrorKind::Timeout),
    ("gateway_timeout", ErrorKind::Timeout),
];

/// Types so general that a status says more; they count where there is none.
const GENERAL: [&str; 3] = ["invalid_request_error", "not_found_error", "bad_request"];

/// A spend limit that is told as a plain 400, in prose alone.
const SPEND_LIMIT_PROSE: &str = "You have reached your specified API usage limits";

/// The longest stretch of a body that is no JSON (a proxy's HTML page) worth keeping.
const LONGEST_PROSE: usize = 500;

/// What an answer with an error status means.
pub(super) fn response(status: StatusCode, headers: &HeaderMap, body: &str) -> AdapterError {
    let detail = Detail::of_body(body);
    let should_retry = headers.get("x-should-retry").and_then(|value| value.to_str().ok());
    let kind = detail.named().unwrap_or_else(|| {
        let kind = of_status(status, &detail);
        match should_retry {
            Some("true") if !kind.retryable() => ErrorKind::Provider5xx,
            Some("false") if kind.retryable() => ErrorKind::Provider4xx,
            Some(_) | None => kind,
        }
    });
    let mut error = AdapterError::new(kind, format!("HTTP {}: {}", status.as_u16(), detail.told(status)));
    error.retry_after = retry_after(headers);
    error
}

/// What an answer means that was a success by its status and is an error by its content.
pub(super) fn inner(document: &Value) -> AdapterError {
    let detail = Detail::of(document);
    let status = detail.number.and_then(|number| StatusCode::from_u16(number).ok());
    let kind = detail
        .named()
        .or_else(|| status.filter(|status| !status.is_success()).map(|status| of_status(status, &detail)))
        .or_else(|| detail.is_general().then_some(ErrorKind::Provider4xx))
        .unwrap_or(ErrorKind::Unknown);
    AdapterError::new(kind, format!("the provider answered with an error: {}", detail.told(StatusCode::OK)))
}

/// What a failure of the connection means. Only real time-outs are `timeout`.
pub(super) fn transport(error: reqwest::Error) -> AdapterError {
    let kind = if error.is_timeout() { ErrorKind::Timeout } else { ErrorKind::Provider5xx };
    let reached = !error.is_connect() && !error.is_builder();
    // The URL may hold a key as a parameter.
    let error = error.without_url();
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        message = format!("{message}: {inner}");
        cause = inner.source();
    }
    if reached {
        AdapterError::cut_off(kind, format!("the connection failed before the answer was whole: {message}"))
    } else {
        AdapterError::new(kind, format!("the provider cannot be reached: {message}"))
    }
}

fn of_status(status: StatusCode, detail: &Detail) -> ErrorKind {
    match status.as_u16() {
        400 if detail.message.starts_with(SPEND_LIMIT_PROSE) => ErrorKind::Quota,
        401 => ErrorKind::Auth,
        402 => ErrorKind::Quota,
        403 if detail.moderated => ErrorKind::Provider4xx,
        403 => ErrorKind::Auth,
        408 | 504 => ErrorKind::Timeout,
        409 => ErrorKind::Provider5xx,
        429 => ErrorKind::RateLimit,
        // A redirect is not followed: the key would go along to a place nobody configured.
        300..=499 => ErrorKind::Provider4xx,
        500..=599 => ErrorKind::Provider5xx,
        _ => ErrorKind::Unknown,
    }
}

/// What an error body says, in any of the shapes servers use.
struct Detail {
    message: String,
    /// `code`, `details.error_code`, `type`, `status`: from the most exact to the least.
    words: Vec<String>,
    number: Option<u16>,
    moderated: bool,
}

impl Detail {
    fn of_body(body: &str) -> Self {
        match serde_json::from_str(body) {
            Ok(document) => Self::of(&document),
            Err(_) => {
                let prose = body.trim();
                let message = prose[..prose.floor_char_boundary(LONGEST_PROSE)].to_owned();
                Self { message, words: Vec::new(), number: None, moderated: false }
            }
        }
    }

    fn of(document: &Value) -> Self {
        // Some gateways wrap the object in a list; some servers put its members at the top.
        let document = document.get(0).unwrap_or(document);
        let error = document.get("error").filter(|error| !error.is_null()).unwrap_or(document);
        let code = &error["code"];
        let number =
            code.as_u64().or_else(|| code.as_str()?.parse().ok()).and_then(|number| u16::try_from(number).ok());
        let message = [error, &error["message"], &error["msg"], &document["detail"], &document["message"]]
            .into_iter()
            .find_map(Value::as_str);
        let words: Vec<_> = [code, &error["details"]["error_code"], &error["type"], &error["status"]]
            .into_iter()
            .filter_map(Value::as_str)
            .map(str::to_ascii_lowercase)
            .collect();
        let message = message.map_or_else(|| short(error), str::to_owned);
        let moderated = error["metadata"].get("flagged_input").is_some()
            || words.iter().chain([&message.to_ascii_lowercase()]).any(|text| text.contains("moderation"));
        Self { message, words, number, moderated }
    }

    /// The kind that a code or a type names.
    fn named(&self) -> Option<ErrorKind> {
        self.words.iter().find_map(|word| WORDS.iter().find(|(known, _)| known == word).map(|&(_, kind)| kind))
    }

    fn is_general(&self) -> bool {
        self.words.iter().any(|word| GENERAL.contains(&word.as_str()))
    }

    fn told(&self, status: StatusCode) -> String {
        let message = match self.message.trim() {
            "" => status.canonical_reason().unwrap_or("no reason was given"),
            message => message,
        };
        match self.words.first() {
            Some(word) if !message.contains(word) => format!("{message} ({word})"),
            Some(_) | None => message.to_owned(),
        }
    }
}

fn short(value: &Value) -> String {
    let mut text = value.to_string();
    text.truncate(text.floor_char_boundary(LONGEST_PROSE));
    text
}

#[cfg(test)]
mod tests;
