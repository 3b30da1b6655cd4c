//! What has arrived of an answer, readable while and after the call runs.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use sa_core::ledger::Usage;

/// The longest provider id and model name that their columns hold, in characters.
const LONGEST_ID: usize = 255;
const LONGEST_MODEL: usize = 128;

/// What has arrived of one answer. It outlives the call, however that ends.
#[derive(Debug)]
pub struct Received {
    began: Instant,
    parts: Mutex<Parts>,
}

#[derive(Debug, Default)]
struct Parts {
    text: String,
    first_byte: Option<Duration>,
    usage: Usage,
    provider_request_id: Option<String>,
    model: Option<String>,
}

impl Default for Received {
    fn default() -> Self {
        Self::new()
    }
}

impl Received {
    /// Nothing yet; the call begins now.
    #[must_use]
    pub fn new() -> Self {
        Self { began: Instant::now(), parts: Mutex::default() }
    }

    /// The text so far.
    #[must_use]
    pub fn text(&self) -> String {
        self.parts().text.clone()
    }

    /// From the call's start to the first text of the answer.
    #[must_use]
    pub fn first_byte(&self) -> Option<Duration> {
        self.parts().first_byte
    }

    /// From the call's start to now.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Tokens, as far as the provider has said.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.parts().usage
    }

    /// The provider's own name for the call.
    #[must_use]
    pub fn provider_request_id(&self) -> Option<String> {
        self.parts().provider_request_id.clone()
    }

    /// The model's own name for itself.
    #[must_use]
    pub fn model(&self) -> Option<String> {
        self.parts().model.clone()
    }

    pub(super) fn add_text(&self, text: &str) {
        let mut parts = self.parts();
        if !text.is_empty() {
            parts.first_byte.get_or_insert_with(|| self.began.elapsed());
            parts.text.push_str(text);
        }
    }

    /// Usage of a stream is told more than once, and the last word counts; a chunk without it takes nothing back.
    pub(super) fn set_usage(&self, usage: Usage) {
        let known = &mut self.parts().usage;
        *known = Usage {
            tokens_in: usage.tokens_in.or(known.tokens_in),
            tokens_cached: usage.tokens_cached.or(known.tokens_cached),
            tokens_out: usage.tokens_out.or(known.tokens_out),
            tokens_reasoning: usage.tokens_reasoning.or(known.tokens_reasoning),
        };
    }

    /// The first id counts: the header's, which the provider's support asks for, comes before the body's.
    pub(super) fn name_request(&self, id: &str) {
        if let Some(id) = storable(id, LONGEST_ID) {
            self.parts().provider_request_id.get_or_insert(id);
        }
    }

    pub(super) fn name_model(&self, model: &str) {
        if let Some(model) = storable(model, LONGEST_MODEL) {
            self.parts().model.get_or_insert(model);
        }
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        // Each change is one assignment, so what a panicking holder left is whole.
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Names come from outside: one that its column cannot hold is left out rather than cut, because half a name is another.
fn storable(name: &str, longest: usize) -> Option<String> {
    let fits = !name.is_empty() && name.chars().count() <= longest && !name.chars().any(char::is_control);
    fits.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_usage_completes_earlier_usage() {
        let received = Received::new();
        received.set_usage(Usage { tokens_in: Some(3), tokens_out: Some(1), ..Usage::default() });
        received.set_usage(Usage { tokens_out: Some(9), ..Usage::default() });
        assert_eq!(received.usage(), Usage { tokens_in: Some(3), tokens_out: Some(9), ..Usage::default() });
    }

    #[test]
    fn first_request_id_stays_and_an_unstorable_one_is_left_out() {
        let received = Received::new();
        received.name_request(&"x".repeat(256));
        received.name_request("req-1");
        received.name_request("chatcmpl-2");
        assert_eq!(received.provider_request_id().as_deref(), Some("req-1"));
    }

    #[test]
    fn empty_text_does_not_count_as_the_first_byte() {
        let received = Received::new();
        received.add_text("");
        assert_eq!(received.first_byte(), None);
        received.add_text("a");
        assert!(received.first_byte().is_some());
    }
}
