//! One provider call, on the way to its row in the ledger.

use std::time::Duration;

use sa_core::{
    error_kind::ErrorKind,
    id::LedgerId,
    ledger::{CallOutcome, LedgerRow, Purpose, Usage},
    provider::{Prices, Provider},
};

use crate::adapter::Received;

/// A call that has begun, and whatever has arrived of its answer.
#[derive(Debug)]
pub(crate) struct CallRecord {
    /// Minted before the call, so that a repeated write collides.
    id: LedgerId,
    purpose: Purpose,
    provider: String,
    model: String,
    prices: Option<Prices>,
    pub(crate) received: Received,
}

impl CallRecord {
    /// The call begins now.
    pub(crate) fn begin(purpose: Purpose, provider: &Provider, model: &str) -> Self {
        Self {
            id: LedgerId::new(),
            purpose,
            provider: provider.name.clone(),
            model: model.to_owned(),
            prices: provider.prices.get(model).copied(),
            received: Received::new(),
        }
    }

    pub(crate) fn provider(&self) -> &str {
        &self.provider
    }

    /// The model's own name for itself, else the one that was asked.
    pub(crate) fn model(&self) -> String {
        self.received.model().unwrap_or_else(|| self.model.clone())
    }

    /// Whether an answer began to be made, so that it may be charged for.
    pub(crate) fn has_begun(&self) -> bool {
        self.received.first_byte().is_some() || self.received.usage().tokens_out.is_some_and(|tokens| tokens > 0)
    }

    /// The row, now that the call has ended.
    pub(crate) fn row(&self, outcome: CallOutcome, error_kind: Option<ErrorKind>) -> LedgerRow {
        let usage = self.received.usage();
        LedgerRow {
            id: self.id,
            purpose: self.purpose,
            provider: self.provider.clone(),
            model: self.model(),
            usage,
            cost_micro_usd: self.prices.and_then(|prices| cost(prices, usage)),
            first_token_ms: self.received.first_byte().map(milliseconds),
            total_ms: milliseconds(self.received.elapsed()),
            outcome,
            error_kind,
            provider_request_id: self.received.provider_request_id(),
        }
    }
}

/// Dollars for a million tokens are millionths of a dollar for one. Nothing where the provider has not counted.
fn cost(prices: Prices, usage: Usage) -> Option<u64> {
    let (sent, received) = (usage.tokens_in?, usage.tokens_out?);
    let cached = usage.tokens_cached.unwrap_or(0).min(sent);
    let cost = f64::from(sent - cached) * prices.input
        + f64::from(cached) * prices.cached_input.unwrap_or(prices.input)
        + f64::from(received) * prices.output;
    // Prices come from a file: nonsense in it becomes no cost, or the largest. The cast saturates.
    (cost >= 0.0).then(|| cost.round() as u64)
}

fn milliseconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_is_in_millionths_of_a_dollar_and_cached_tokens_have_their_own_price() {
        let prices = Prices { input: 2.5, cached_input: Some(0.25), output: 10.0 };
        let usage = |sent, cached, received| Usage {
            tokens_in: sent,
            tokens_cached: cached,
            tokens_out: received,
            tokens_reasoning: None,
        };
        assert_eq!(cost(prices, usage(Some(1000), Some(400), Some(100))), Some(1500 + 100 + 1000));
        assert_eq!(cost(prices, usage(Some(1000), None, Some(0))), Some(2500));
        assert_eq!(cost(Prices { cached_input: None, ..prices }, usage(Some(10), Some(10), Some(0))), Some(25));
        assert_eq!(cost(prices, usage(None, None, Some(5))), None);
        assert_eq!(cost(Prices { input: f64::NAN, ..prices }, usage(Some(1), None, Some(1))), None);
    }
}
