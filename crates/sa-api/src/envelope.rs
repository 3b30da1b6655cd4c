//! What every request and response have around them: the request id, the headers, the problem body, the log line.

use std::time::Instant;

use actix_web::{
    Error, HttpResponse,
    body::{BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::header::{self, HeaderName, HeaderValue},
    middleware::Next,
};
use uuid::Uuid;

use crate::error::Problem;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const LONGEST_REQUEST_ID: usize = 64;

/// The one middleware around all routes. It never looks at a body, a query or a token.
pub(crate) async fn envelope(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let start = Instant::now();
    let id = request_id(request.headers().get(REQUEST_ID));
    let answered = next.call(request).await?.map_into_boxed_body();
    let (request, response) = answered.into_parts();
    let (mut response, cause) = with_problem(response, &id);
    set_headers(&mut response, &id);
    let (method, status) = (request.method().as_str(), response.status().as_u16());
    // Not the path: an unknown one may hold anything.
    let route = request.match_pattern().unwrap_or_else(|| "none".to_owned());
    let ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    match cause {
        None => tracing::info!(method, route, status, ms, request.id = id, "A request was answered."),
        Some(why) => {
            tracing::error!(method, route, status, ms, request.id = id, why, "A request met a failure of ours.");
        }
    }
    Ok(ServiceResponse::new(request, response))
}

/// A refusal gets its problem body, ours or that of whatever actix-web refused before our code ran; all else stays.
fn with_problem(response: HttpResponse, id: &str) -> (HttpResponse, Option<String>) {
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return (response, None);
    }
    let framework;
    let problem = match response.error().and_then(|error| error.as_error::<Problem>()) {
        Some(ours) => ours,
        None => {
            framework = Problem::of_status(status);
            &framework
        }
    };
    let mut rendered = problem.render(id);
    if let Some(allow) = response.headers().get(header::ALLOW) {
        rendered.headers_mut().insert(header::ALLOW, allow.clone());
    }
    (rendered, problem.cause().map(str::to_owned))
}

fn set_headers(response: &mut HttpResponse, id: &str) {
    let id = HeaderValue::from_str(id).expect("a request id is made of letters, digits and ._-");
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}

/// The id sent with the request, if it can stand in a header, a log line and a URI reference; else a new one.
fn request_id(sent: Option<&HeaderValue>) -> String {
    sent.and_then(|value| value.to_str().ok())
        .filter(|id| (1..=LONGEST_REQUEST_ID).contains(&id.len()))
        .filter(|id| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)))
        .map_or_else(|| Uuid::now_v7().to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_request_id_is_taken_over() {
        let of = |text: &str| request_id(Some(&HeaderValue::from_str(text).unwrap()));
        assert_eq!(of("a.B-9_"), "a.B-9_");
        assert_eq!(of(&"x".repeat(64)).len(), 64);
        for refused in ["", "a b", "a/b", "\u{e9}", &"x".repeat(65)] {
            assert_eq!(of(refused).len(), 36, "{refused}");
        }
        assert_ne!(request_id(None), request_id(None));
    }
}
