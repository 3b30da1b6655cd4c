//! Which call gets which reply.

use std::time::{Duration, Instant};

use super::{Reply, Shared};

/// A reply for the calls whose request body contains a text.
///
/// ```
/// use sa_harness::{Reply, Rule};
///
/// // The first call about the weather is refused; those after it are for the next rule, or for the default.
/// let refused_once = Rule::when("weather").first(1).reply(Reply::wire("aimock-429-rate-limit"));
/// ```
#[derive(Clone, Debug)]
pub struct Rule {
    text: String,
    which: Which,
    seen: usize,
    reply: Option<Reply>,
}

#[derive(Clone, Copy, Debug)]
enum Which {
    Every,
    Nth(usize),
    First(usize),
    During { span: Duration, began: Option<Instant> },
}

impl Rule {
    /// For calls whose body contains `text`, as it stands in the JSON (quotes and newlines are escaped there).
    #[must_use]
    pub fn when(text: &str) -> Self {
        Self { text: text.to_owned(), which: Which::Every, seen: 0, reply: None }
    }

    /// For all calls.
    #[must_use]
    pub fn always() -> Self {
        Self::when("")
    }

    /// Only for the nth such call, counted from 1 since the rule was added, whoever answered those before.
    #[must_use]
    pub fn nth(mut self, n: usize) -> Self {
        self.which = Which::Nth(n);
        self
    }

    /// Only for the first `n` such calls since the rule was added.
    #[must_use]
    pub fn first(mut self, n: usize) -> Self {
        self.which = Which::First(n);
        self
    }

    /// Only for so long from the first such call on.
    #[must_use]
    pub fn during(mut self, span: Duration) -> Self {
        self.which = Which::During { span, began: None };
        self
    }

    /// What they get; without it, the default answer.
    #[must_use]
    pub fn reply(mut self, reply: Reply) -> Self {
        self.reply = Some(reply);
        self
    }

    /// Counts the call, and says whether this rule speaks for it.
    fn matches(&mut self, body: &str) -> bool {
        if !body.contains(&self.text) {
            return false;
        }
        self.seen += 1;
        match &mut self.which {
            Which::Every => true,
            Which::Nth(n) => self.seen == *n,
            Which::First(n) => self.seen <= *n,
            Which::During { span, began } => began.get_or_insert_with(Instant::now).elapsed() < *span,
        }
    }
}

impl Shared {
    /// The reply to a call; every rule sees it, so that each counts on its own.
    pub(super) fn reply_to(&self, request: &str, body: &str) -> Reply {
        let mut chosen = None;
        for rule in self.rules().iter_mut() {
            if rule.matches(body) && chosen.is_none() {
                chosen = Some(rule.reply.clone());
            }
        }
        chosen.flatten().unwrap_or_else(|| default_reply(request, body))
    }
}

fn default_reply(request: &str, body: &str) -> Reply {
    if request.starts_with("GET ") {
        return Reply::wire("llama-models");
    }
    let body: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    if body["stream"] == true { Reply::wire("llama-chat-stream") } else { Reply::wire("llama-chat") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nth_counts_from_one_and_first_ends() {
        let mut second = Rule::when("x").nth(2);
        assert_eq!(
            [second.matches("x"), second.matches("y"), second.matches("x"), second.matches("x")],
            [false, false, true, false]
        );
        let mut first = Rule::always().first(1);
        assert_eq!([first.matches("x"), first.matches("x")], [true, false]);
        let mut over = Rule::always().during(Duration::ZERO);
        assert!(!over.matches("x"));
        assert!(Rule::always().during(Duration::from_secs(3600)).matches("x"));
    }
}
