//! What providers answer with an error status, and the kind each has: the rows of the table in `docs/providers.md`.

use sa_core::error_kind::ErrorKind::{self, Auth, Provider4xx, Provider5xx, Quota, RateLimit, Timeout};

/// What a provider says: the row it stands for, the status line, the body.
pub(super) type Row = (ErrorKind, &'static str, &'static str);

pub(super) const OPENAI: &[Row] = &[
    (
        RateLimit,
        "429 Too Many Requests",
        r#"{"error":{"message":"m","type":"requests","param":null,"code":"rate_limit_exceeded"}}"#,
    ),
    (
        RateLimit,
        "429 Too Many Requests",
        r#"{"error":{"message":"m","type":"invalid_request_error","code":"slow_down"}}"#,
    ),
    (RateLimit, "503 Service Unavailable", r#"{"error":{"message":"m","code":"slow_down"}}"#),
    (
        Quota,
        "429 Too Many Requests",
        r#"{"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}"#,
    ),
    (
        Quota,
        "429 Too Many Requests",
        r#"{"error":{"message":"m","type":"insufficient_quota","code":"credit_balance_exhausted"}}"#,
    ),
    (Quota, "429 Too Many Requests", r#"{"error":{"message":"m","code":"organization_spend_limit_exceeded"}}"#),
    (Quota, "429 Too Many Requests", r#"{"error":{"message":"m","code":"project_spend_limit_exceeded"}}"#),
    (Quota, "429 Too Many Requests", r#"{"error":{"message":"m","code":"organization_usage_limit_exceeded"}}"#),
    (Auth, "401 Unauthorized", r#"{"error":{"message":"m","type":"invalid_request_error","code":"invalid_api_key"}}"#),
    (
        Provider4xx,
        "400 Bad Request",
        r#"{"error":{"message":"m","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
    ),
    (Provider4xx, "400 Bad Request", r#"{"error":{"message":"m","code":"content_policy_violation"}}"#),
    (
        Provider5xx,
        "503 Service Unavailable",
        r#"{"error":{"message":"m","type":"server_error","code":"server_is_overloaded"}}"#,
    ),
    (Provider5xx, "409 Conflict", r#"{"error":{"message":"m","type":"invalid_request_error","code":null}}"#),
];

pub(super) const AZURE: &[Row] = &[
    (RateLimit, "429 Too Many Requests", r#"{"error":{"code":"429","message":"Please retry after 21 seconds."}}"#),
    (
        RateLimit,
        "429 Too Many Requests",
        r#"{ "statusCode": 429, "message": "Rate limit is exceeded. Try again in 21 seconds." }"#,
    ),
    (
        Auth,
        "401 Unauthorized",
        r#"{"error":{"code":"401","message":"Access denied due to invalid subscription key."}}"#,
    ),
    (Auth, "401 Unauthorized", r#"{ "statusCode": 401, "message": "Unauthorized." }"#),
    (Provider4xx, "404 Not Found", r#"{"error":{"code":"DeploymentNotFound","message":"m"}}"#),
    (
        Provider4xx,
        "400 Bad Request",
        r#"{"error":{"message":"m","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation","content_filter_result":{"hate":{"filtered":true}}}}}"#,
    ),
];

pub(super) const ANTHROPIC: &[Row] = &[
    (
        RateLimit,
        "429 Too Many Requests",
        r#"{"type":"error","error":{"type":"rate_limit_error","message":"m"},"request_id":"req_1"}"#,
    ),
    (
        RateLimit,
        "429 Too Many Requests",
        r#"{"type":"error","error":{"type":"rate_limit_error","message":"m","details":{"error_code":"ramp_limit_exceeded"}}}"#,
    ),
    (
        Quota,
        "429 Too Many Requests",
        r#"{"type":"error","error":{"type":"rate_limit_error","message":"m","details":{"error_code":"enforced_spend_limit_reached"}}}"#,
    ),
    (Quota, "402 Payment Required", r#"{"type":"error","error":{"type":"billing_error","message":"m"}}"#),
    (
        Quota,
        "400 Bad Request",
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2027-01-01."}}"#,
    ),
    (
        Quota,
        "400 Bad Request",
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified workspace API usage limits."}}"#,
    ),
    (
        Auth,
        "401 Unauthorized",
        r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#,
    ),
    (Auth, "403 Forbidden", r#"{"type":"error","error":{"type":"permission_error","message":"m"}}"#),
    (
        Provider4xx,
        "400 Bad Request",
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 208310 tokens > 200000 maximum"}}"#,
    ),
    (Provider4xx, "404 Not Found", r#"{"type":"error","error":{"type":"not_found_error","message":"model: m"}}"#),
    (Provider4xx, "413 Payload Too Large", r#"{"type":"error","error":{"type":"request_too_large","message":"m"}}"#),
    (Provider5xx, "409 Conflict", r#"{"type":"error","error":{"type":"conflict_error","message":"m"}}"#),
    (Provider5xx, "500 Internal Server Error", r#"{"type":"error","error":{"type":"api_error","message":"m"}}"#),
    (Provider5xx, "529 unknown", r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#),
    (Timeout, "504 Gateway Timeout", r#"{"type":"error","error":{"type":"timeout_error","message":"m"}}"#),
];

pub(super) const GEMINI: &[Row] = &[
    (
        Provider4xx,
        "413 Payload Too Large",
        r#"{"error":{"code":413,"message":"Payload too large.","status":"RESOURCE_EXHAUSTED"}}"#,
    ),
    (
        RateLimit,
        "429 Too Many Requests",
        r#"{"error":{"code":429,"message":"Resource has been exhausted (e.g. check quota).","status":"RESOURCE_EXHAUSTED"}}"#,
    ),
    (
        RateLimit,
        "429 Too Many Requests",
        r#"{"error":{"code":429,"message":"Quota exceeded for metric: x, limit: 5, model: m\nPlease retry in 46.2s.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier","quotaValue":"5"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"46s"}]}}"#,
    ),
    (
        Quota,
        "429 Too Many Requests",
        r#"{"error":{"code":429,"message":"Quota exceeded for metric: x, limit: 0, model: m\nPlease retry in 53s.","status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},{"retryDelay":"53s"}]}}"#,
    ),
    (
        Quota,
        "429 Too Many Requests",
        r#"{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[{"violations":[{"quotaId":"X","quotaValue":"0"}]}]}}"#,
    ),
    (
        Quota,
        "429 Too Many Requests",
        r#"{"error":{"code":429,"message":"Please retry in 14h0m0s.","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"50443s"}]}}"#,
    ),
    (
        Auth,
        "400 Bad Request",
        r#"{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}"#,
    ),
    (Auth, "403 Forbidden", r#"{"error":{"code":403,"message":"m","status":"PERMISSION_DENIED"}}"#),
    (
        Provider4xx,
        "400 Bad Request",
        r#"{"error":{"code":400,"message":"The input token count exceeds the maximum number of tokens allowed.","status":"INVALID_ARGUMENT"}}"#,
    ),
    (
        Provider4xx,
        "404 Not Found",
        r#"[{"error":{"code":404,"message":"models/m is not found","status":"NOT_FOUND"}}]"#,
    ),
    (Provider5xx, "500 Internal Server Error", r#"{"error":{"code":500,"message":"m","status":"INTERNAL"}}"#),
    (
        Provider5xx,
        "503 Service Unavailable",
        r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#,
    ),
    (Timeout, "504 Gateway Timeout", r#"{"error":{"code":504,"message":"m","status":"DEADLINE_EXCEEDED"}}"#),
];

/// llama.cpp, vLLM old and new, LiteLLM, OpenRouter, Ollama.
pub(super) const COMPATIBLE: &[Row] = &[
    (
        Provider4xx,
        "400 Bad Request",
        r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":4011,"n_ctx":2048}}"#,
    ),
    (
        Provider5xx,
        "503 Service Unavailable",
        r#"{"error":{"message":"Loading model","type":"unavailable_error","code":503}}"#,
    ),
    (
        Provider4xx,
        "400 Bad Request",
        r#"{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","param":null,"code":400}"#,
    ),
    (
        Provider4xx,
        "404 Not Found",
        r#"{"error":{"message":"The model `m` does not exist.","type":"NotFoundError","param":"model","code":404}}"#,
    ),
    (
        RateLimit,
        "429 Too Many Requests",
        r#"{"error":{"message":"litellm.RateLimitError: m","type":"throttling_error","param":null,"code":"429"}}"#,
    ),
    (
        Provider4xx,
        "400 Bad Request",
        r#"{"error":{"message":"litellm.ContextWindowExceededError: m","type":"invalid_request_error","param":null,"code":"400"}}"#,
    ),
    (Quota, "402 Payment Required", r#"{"error":{"code":402,"message":"Insufficient credits"}}"#),
    (
        RateLimit,
        "402 Payment Required",
        r#"{"error":{"code":402,"message":"m","metadata":{"limit_source":"openrouter_in_flight_budget"}}}"#,
    ),
    (
        Provider4xx,
        "403 Forbidden",
        r#"{"error":{"code":403,"message":"m","metadata":{"reasons":["violence"],"flagged_input":"…","provider_name":"p","model_slug":"m"}}}"#,
    ),
    (Provider4xx, "404 Not Found", r#"{"error":"model 'm' not found"}"#),
    (Provider5xx, "502 Bad Gateway", r#"{"error":"the cloud model cannot be reached"}"#),
];

/// Empty, a page of a proxy, and JSON of no known shape.
pub(super) const BODIES_OF_NO_USE: [&str; 4] = ["", "<html><body>nginx</body></html>", "[]", "{\"odd\":1}"];

/// Statuses that have to speak for themselves.
pub(super) const BARE: &[(ErrorKind, &str)] = &[
    (Provider4xx, "302 Found"),
    (Provider4xx, "400 Bad Request"),
    (Auth, "401 Unauthorized"),
    (Quota, "402 Payment Required"),
    (Auth, "403 Forbidden"),
    (Provider4xx, "404 Not Found"),
    (Timeout, "408 Request Timeout"),
    (Provider5xx, "409 Conflict"),
    (Provider4xx, "413 Payload Too Large"),
    (Provider4xx, "422 Unprocessable Entity"),
    (RateLimit, "429 Too Many Requests"),
    (Provider5xx, "500 Internal Server Error"),
    (Provider5xx, "502 Bad Gateway"),
    (Provider5xx, "503 Service Unavailable"),
    (Timeout, "504 Gateway Timeout"),
    (Provider5xx, "529 unknown"),
];
