//! The codes and types that providers use, and what they mean here. `docs/providers.md` shows this table.

use sa_core::error_kind::ErrorKind;

/// Codes and types that say what happened, whatever the status. In lower case; a provider's spelling does not matter.
pub(in crate::adapter) const WORDS: [(ErrorKind, &[&str]); 6] = [
    (
        ErrorKind::Quota,
        &[
            "insufficient_quota",
            "credit_balance_exhausted",
            "organization_spend_limit_exceeded",
            "project_spend_limit_exceeded",
            "organization_usage_limit_exceeded",
            "billing_hard_limit_reached",
            "billing_not_active",
            "billing_error",
            "enforced_spend_limit_reached",
            "contract_spend_limit_reached",
            "linked_organization_spend_limit_reached",
            "linked_organization_billing_unavailable",
            "billing_disabled",
        ],
    ),
    (
        ErrorKind::RateLimit,
        &[
            "rate_limit_exceeded",
            "rate_limit_error",
            "ramp_limit_exceeded",
            "slow_down",
            "throttling_error",
            "too_many_requests",
            "resource_exhausted",
        ],
    ),
    (
        ErrorKind::Auth,
        &[
            "invalid_api_key",
            "authentication_error",
            "permission_error",
            "permission_denied",
            "unauthenticated",
            "unauthorized",
            "api_key_invalid",
            "api_key_service_blocked",
            "service_disabled",
            "consumer_suspended",
            "organization_on_hold",
        ],
    ),
    (
        ErrorKind::Provider4xx,
        &[
            "context_length_exceeded",
            "exceed_context_size_error",
            "string_above_max_length",
            "request_too_large",
            "content_policy_violation",
            "content_filter",
            "responsibleaipolicyviolation",
            "moderation_blocked",
            "invalid_prompt",
            "bio_policy",
            "misalignment_policy_violation",
            "data_residency_mismatch",
            "model_not_found",
            "deploymentnotfound",
            "not_supported_error",
        ],
    ),
    (
        ErrorKind::Provider5xx,
        &[
            "server_error",
            "internal_server_error",
            "internal_error",
            "internal",
            "api_error",
            "conflict_error",
            "overloaded_error",
            "server_is_overloaded",
            "engine_overloaded",
            "service_unavailable",
            "unavailable_error",
            "unavailable",
        ],
    ),
    (
        ErrorKind::Timeout,
        &[
            "timeout",
            "timeout_error",
            "request_timeout",
            "gateway_timeout",
            "deadline_exceeded",
            "vector_store_timeout",
        ],
    ),
];

/// Types so general that a status says more; they count where there is none.
pub(super) const GENERAL: [&str; 4] = ["invalid_request_error", "not_found_error", "bad_request", "invalid_argument"];

/// What this word means, if it is one that is known.
pub(super) fn meaning(word: &str) -> Option<ErrorKind> {
    WORDS.iter().find(|(_, words)| words.contains(&word)).map(|(kind, _)| *kind)
}
