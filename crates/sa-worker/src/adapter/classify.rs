//! What a provider's error means: the structured code first, the status second, prose almost never.

mod detail;
mod words;

use std::{error::Error as _, time::Duration};

use reqwest::{StatusCode, header::HeaderMap};
use sa_core::error_kind::ErrorKind;
use serde_json::Value;

use self::detail::Detail;
use super::{
    AdapterError,
    retry_after::{retry_after, until_reset},
};

/// A spend limit of Anthropic that is told as a plain 400, in prose alone; its documentation names these beginnings.
const SPEND_LIMIT_PROSE: [&str; 2] =
    ["You have reached your specified API usage limits", "You have reached your specified workspace API usage limits"];

/// What an answer with an error status means.
pub(super) fn response(status: StatusCode, headers: &HeaderMap, body: &str) -> AdapterError {
    let detail = Detail::of_body(body);
    let should_retry = headers.get("x-should-retry").and_then(|value| value.to_str().ok());
    // What is too large stays so, whatever word stands beside it: Google's for it is that of a used up quota.
    let named = if status == StatusCode::PAYLOAD_TOO_LARGE { Some(ErrorKind::Provider4xx) } else { detail.kind() };
    let kind = named.unwrap_or_else(|| {
        let kind = of_status(status, &detail);
        match should_retry {
            Some("true") if !kind.retryable() => ErrorKind::Provider5xx,
            Some("false") if kind.retryable() => ErrorKind::Provider4xx,
            Some(_) | None => kind,
        }
    });
    let mut error = AdapterError::new(kind, format!("HTTP {}: {}", status.as_u16(), detail.told(status)));
    error.forbidden = status == StatusCode::FORBIDDEN || detail.is_permission();
    error.retry_after = longer(retry_after(headers), detail.wait());
    if error.retry_after.is_none() && kind == ErrorKind::RateLimit {
        error.retry_after = until_reset(headers);
    }
    error
}

/// A wait in the body is the provider's own; a gateway in between may have put a shorter one into the head.
fn longer(head: Option<Duration>, body: Option<Duration>) -> Option<Duration> {
    head.into_iter().chain(body).max()
}

/// What an answer means that was a success by its status and is an error by its content.
pub(super) fn inner(document: &Value) -> AdapterError {
    let detail = Detail::of(document);
    let status = detail.number.and_then(|number| StatusCode::from_u16(number).ok());
    let kind = detail
        .kind()
        .or_else(|| status.filter(|status| !status.is_success()).map(|status| of_status(status, &detail)))
        .or_else(|| detail.is_general().then_some(ErrorKind::Provider4xx))
        .unwrap_or(ErrorKind::Unknown);
    let mut error =
        AdapterError::new(kind, format!("the provider answered with an error: {}", detail.told(StatusCode::OK)));
    error.forbidden = status == Some(StatusCode::FORBIDDEN) || detail.is_permission();
    error.retry_after = detail.wait();
    error
}

/// A failure the provider told of without saying what failed.
pub(super) fn unnamed(message: &str) -> AdapterError {
    AdapterError::new(ErrorKind::Unknown, message)
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
        400 if SPEND_LIMIT_PROSE.iter().any(|start| detail.message.starts_with(start)) => ErrorKind::Quota,
        401 => ErrorKind::Auth,
        402 if detail.budget_in_flight => ErrorKind::RateLimit,
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

#[cfg(test)]
mod tests;
