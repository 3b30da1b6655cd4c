use reqwest::header::HeaderValue;

use super::*;

fn kind_of(status: u16, body: &str) -> ErrorKind {
    response(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), body).kind
}

#[test]
fn structured_code_decides_before_the_status() {
    let cases = [
        (429, r#"{"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}"#, ErrorKind::Quota),
        (429, r#"{"error":{"message":"m","type":"insufficient_quota","code":null}}"#, ErrorKind::Quota),
        (429, r#"{"error":{"message":"m","code":"project_spend_limit_exceeded"}}"#, ErrorKind::Quota),
        (
            429,
            r#"{"error":{"type":"rate_limit_error","details":{"error_code":"enforced_spend_limit_reached"}}}"#,
            ErrorKind::Quota,
        ),
        (429, r#"{"error":{"message":"m","type":"tokens","code":"rate_limit_exceeded"}}"#, ErrorKind::RateLimit),
        (429, r#"{"error":{"message":"m","type":"throttling_error","code":"429"}}"#, ErrorKind::RateLimit),
        (401, r#"{"error":{"message":"m","type":"invalid_request_error","code":"invalid_api_key"}}"#, ErrorKind::Auth),
        (400, r#"{"error":{"message":"m","code":"context_length_exceeded"}}"#, ErrorKind::Provider4xx),
        (
            400,
            r#"{"error":{"code":400,"message":"m","type":"exceed_context_size_error","n_ctx":2048}}"#,
            ErrorKind::Provider4xx,
        ),
        (503, r#"{"error":{"message":"m","code":"server_is_overloaded"}}"#, ErrorKind::Provider5xx),
        (500, r#"{"error":{"message":"m","code":"slow_down"}}"#, ErrorKind::RateLimit),
    ];
    for (status, body, kind) in cases {
        assert_eq!(kind_of(status, body), kind, "{status} {body}");
    }
}

#[test]
fn status_decides_where_no_code_does() {
    let cases = [
        (400, ErrorKind::Provider4xx),
        (401, ErrorKind::Auth),
        (402, ErrorKind::Quota),
        (403, ErrorKind::Auth),
        (404, ErrorKind::Provider4xx),
        (408, ErrorKind::Timeout),
        (409, ErrorKind::Provider5xx),
        (413, ErrorKind::Provider4xx),
        (422, ErrorKind::Provider4xx),
        (429, ErrorKind::RateLimit),
        (500, ErrorKind::Provider5xx),
        (502, ErrorKind::Provider5xx),
        (504, ErrorKind::Timeout),
        (529, ErrorKind::Provider5xx),
        (307, ErrorKind::Provider4xx),
    ];
    for (status, kind) in cases {
        assert_eq!(kind_of(status, ""), kind, "{status}");
        assert_eq!(kind_of(status, r#"{"error":{"message":"m","type":"invalid_request_error"}}"#), kind, "{status}");
        assert_eq!(kind_of(status, "<html>nginx</html>"), kind, "{status} with a page");
    }
}

#[test]
fn moderation_is_the_callers_fault_and_a_spend_limit_in_prose_is_quota() {
    let moderated = r#"{"error":{"code":403,"message":"m","metadata":{"flagged_input":"x"}}}"#;
    assert_eq!(kind_of(403, moderated), ErrorKind::Provider4xx);
    assert_eq!(kind_of(403, r#"{"error":{"message":"Input failed Moderation"}}"#), ErrorKind::Provider4xx);
    let spent = r#"{"error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2027-01-01."}}"#;
    assert_eq!(kind_of(400, spent), ErrorKind::Quota);
}

#[test]
fn message_is_found_in_every_shape() {
    let cases = [
        (r#"{"error":{"message":"one"}}"#, "HTTP 400: one"),
        (r#"{"error":"two"}"#, "HTTP 400: two"),
        (
            r#"{"object":"error","message":"three","type":"BadRequestError","code":400}"#,
            "HTTP 400: three (badrequesterror)",
        ),
        (r#"{"detail":"four"}"#, "HTTP 400: four"),
        (
            r#"[{"error":{"code":400,"message":"five","status":"INVALID_ARGUMENT"}}]"#,
            "HTTP 400: five (invalid_argument)",
        ),
        ("six", "HTTP 400: six"),
        ("data: {\"error\":{\"message\":\"seven\"}}\n\ndata: [DONE]\n\n", "HTTP 400: seven"),
        ("", "HTTP 400: Bad Request"),
        (r#"{"error":{"reason":7}}"#, r#"HTTP 400: {"reason":7}"#),
        (r#"{"error":null,"message":"eight"}"#, "HTTP 400: eight"),
    ];
    for (body, message) in cases {
        assert_eq!(response(StatusCode::BAD_REQUEST, &HeaderMap::new(), body).message, message);
    }
}

#[test]
fn should_retry_overrides_the_status_but_no_code() {
    let with = |flag: &'static str, status: u16, body: &str| {
        let mut headers = HeaderMap::new();
        headers.insert("x-should-retry", HeaderValue::from_static(flag));
        response(StatusCode::from_u16(status).unwrap(), &headers, body).kind
    };
    assert!(with("true", 400, "").retryable());
    assert!(!with("false", 500, "").retryable());
    assert_eq!(with("true", 500, ""), ErrorKind::Provider5xx);
    assert_eq!(with("true", 429, r#"{"error":{"code":"insufficient_quota"}}"#), ErrorKind::Quota);
    assert_eq!(with("maybe", 500, ""), ErrorKind::Provider5xx);
}

#[test]
fn cb_90_error_inside_a_success_is_classed_by_its_own_code() {
    let cases = [
        (r#"{"error":{"code":429,"message":"slow"}}"#, ErrorKind::RateLimit),
        (r#"{"error":{"code":"429","message":"slow"}}"#, ErrorKind::RateLimit),
        (r#"{"error":{"code":"server_error","message":"m"}}"#, ErrorKind::Provider5xx),
        (r#"{"error":{"code":502,"message":"m"}}"#, ErrorKind::Provider5xx),
        (r#"{"error":{"code":402,"message":"m"}}"#, ErrorKind::Quota),
        (r#"{"error":{"type":"invalid_request_error","message":"m"}}"#, ErrorKind::Provider4xx),
        (r#"{"error":{"code":200,"message":"m"}}"#, ErrorKind::Unknown),
        (r#"{"error":"odd"}"#, ErrorKind::Unknown),
    ];
    for (body, kind) in cases {
        let error = inner(&serde_json::from_str(body).unwrap());
        assert_eq!(error.kind, kind, "{body}");
    }
    let kept = inner(&serde_json::json!({"error": {"code": 429, "message": "slow 👨‍👩‍👧"}}));
    assert!(kept.message.ends_with("slow 👨‍👩‍👧"), "{}", kept.message);
}

/// The page shows the table of the code, word for word.
#[test]
fn provider_page_lists_every_code_under_its_kind() {
    let row = |(kind, words): &(ErrorKind, &[&str])| {
        let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
        format!("| `{kind}` | {} |\n", words.join(", "))
    };
    let table: String = words::WORDS.iter().map(row).collect();
    let page = include_str!("../../../../../docs/providers.md");
    assert!(page.contains(&format!("|---|---|\n{table}\n")), "docs/providers.md must hold these rows:\n{table}");
    for word in words::GENERAL {
        assert!(page.contains(&format!("`{word}`")), "{word}");
    }
}

#[test]
fn no_code_has_two_meanings_and_all_are_in_lower_case() {
    let mut all: Vec<_> = words::WORDS.iter().flat_map(|(_, words)| *words).chain(&words::GENERAL).collect();
    assert!(all.iter().all(|word| **word == word.to_ascii_lowercase()));
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
}
