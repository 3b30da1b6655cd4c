//! What each provider call cost.

use crate::error_kind::ErrorKind;
use crate::id::LedgerId;
use crate::text_enum::text_enum;

text_enum! {
    /// What a call was for.
    Purpose {
        /// It answers the prompt.
        Answer = "answer",
        /// It chooses which model shall answer.
        Router = "router",
        /// It answers in place of a provider that could not.
        Fallback = "fallback",
    }
}

text_enum! {
    /// How a call ended, seen from the bill.
    CallOutcome {
        /// Its answer was written.
        Succeeded = "succeeded",
        /// It ended with an error before any answer began.
        Failed = "failed",
        /// It was dropped because its job was cancelled.
        Cancelled = "cancelled",
        /// It was answered, but the claim was lost meanwhile.
        Discarded = "discarded",
        /// It was cut off after it began: the provider may charge for it.
        MaybeCharged = "maybe_charged",
    }
}

/// Tokens as the provider counted them; nothing where it did not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Sent.
    pub tokens_in: Option<u32>,
    /// Of those, read from the provider's cache.
    pub tokens_cached: Option<u32>,
    /// Received.
    pub tokens_out: Option<u32>,
    /// Of those, spent on reasoning.
    pub tokens_reasoning: Option<u32>,
}

/// One provider call.
#[derive(Clone, Debug)]
pub struct LedgerRow {
    /// Minted before the call.
    pub id: LedgerId,
    /// What it was for.
    pub purpose: Purpose,
    /// The provider's configured name.
    pub provider: String,
    /// The model asked for, or the one that says it answered.
    pub model: String,
    /// Tokens.
    pub usage: Usage,
    /// Price in millionths of a US dollar, where the configuration has prices.
    pub cost_micro_usd: Option<u64>,
    /// From the call's start to the first byte of the answer.
    pub first_token_ms: Option<u32>,
    /// From the call's start to its end.
    pub total_ms: u32,
    /// How it ended.
    pub outcome: CallOutcome,
    /// Why, if it failed.
    pub error_kind: Option<ErrorKind>,
    /// The provider's own name for the call.
    pub provider_request_id: Option<String>,
}
