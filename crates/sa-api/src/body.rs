//! Reading a request's body: of what kind, how large, how fast.

use actix_web::{
    HttpRequest,
    http::header,
    web::{Bytes, Payload},
};

use crate::{Api, error::Problem};

/// How problems name it.
const NAME: &str = "the body";

/// The whole body of a request that must have one.
///
/// # Errors
/// 415 when it is not JSON by its header, 413 over the limit, 408 after the deadline.
pub(crate) async fn required(request: &HttpRequest, payload: Payload, api: &Api) -> Result<Bytes, Problem> {
    check_headers(request, api)?;
    read(payload, api).await
}

/// The body of a request that may have one; empty where there is none, whatever its headers say.
///
/// # Errors
/// As [`required`], for a body that is not empty.
pub(crate) async fn optional(request: &HttpRequest, payload: Payload, api: &Api) -> Result<Bytes, Problem> {
    if let Err(problem) = check_headers(request, api) {
        let body = read(payload, api).await?;
        return if body.is_empty() { Ok(body) } else { Err(problem) };
    }
    read(payload, api).await
}

fn check_headers(request: &HttpRequest, api: &Api) -> Result<(), Problem> {
    let text = |name| request.headers().get(name).map(|value| value.to_str().unwrap_or("?"));
    let encoding = text(header::CONTENT_ENCODING).unwrap_or("identity");
    if !encoding.eq_ignore_ascii_case("identity") {
        return Err(Problem::media_type("Compressed bodies are not read here. Send it plain."));
    }
    if !text(header::CONTENT_TYPE).is_some_and(is_json) {
        return Err(Problem::media_type("Only JSON is read here. Send Content-Type: application/json, in UTF-8."));
    }
    // Told before a byte is read, where the client says it in advance.
    let announced = text(header::CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    if announced.is_some_and(|length| usize::try_from(length).map_or(true, |length| length > api.body_limit)) {
        return Err(Problem::too_large(NAME, api.body_limit));
    }
    Ok(())
}

/// `application/json`, with no character set or with the only one JSON has.
fn is_json(content_type: &str) -> bool {
    let mut parts = content_type.split(';').map(str::trim);
    let essence = parts.next().unwrap_or_default();
    essence.eq_ignore_ascii_case("application/json")
        && parts.filter_map(|part| part.split_once('=')).all(|(name, value)| {
            !name.trim().eq_ignore_ascii_case("charset") || value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
        })
}

async fn read(payload: Payload, api: &Api) -> Result<Bytes, Problem> {
    match tokio::time::timeout(api.body_deadline, payload.to_bytes_limited(api.body_limit)).await {
        Ok(Ok(Ok(body))) => Ok(body),
        Ok(Ok(Err(broken))) => Err(Problem::not_json(format_args!("its bytes did not arrive whole ({broken})"))),
        Ok(Err(_)) => Err(Problem::too_large(NAME, api.body_limit)),
        Err(_) => Err(Problem::slow_body(api.body_deadline)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_told_by_its_media_type_alone() {
        for json in ["application/json", "Application/JSON; charset=UTF-8", "application/json;charset=\"utf-8\""] {
            assert!(is_json(json), "{json}");
        }
        for other in ["", "text/plain", "application/jsonp", "application/json; charset=latin1", "text/json"] {
            assert!(!is_json(other), "{other}");
        }
    }
}
