//! What an error body says, in any of the shapes servers use.

use std::time::Duration;

use reqwest::StatusCode;
use sa_core::error_kind::ErrorKind;
use serde_json::Value;

use super::words::{GENERAL, meaning};
use crate::adapter::retry_after::LONGEST;

/// The longest stretch of a body that is no JSON (a proxy's HTML page) worth keeping.
const LONGEST_PROSE: usize = 500;

/// A quota that comes back later than this is no matter of pace: somebody has to raise it.
const LONGEST_PACE: Duration = Duration::from_secs(3600);

/// An error, taken apart.
pub(super) struct Detail {
    pub(super) message: String,
    /// `code`, inner and detailed codes, `type`, `status`: from the most exact to the least.
    words: Vec<String>,
    pub(super) number: Option<u16>,
    /// Whether the prompt was stopped by a moderation.
    pub(super) moderated: bool,
    /// Whether the money is only bound by calls under way (OpenRouter).
    pub(super) budget_in_flight: bool,
    quota: Option<GoogleQuota>,
}

/// What Google's `details` say about a quota.
struct GoogleQuota {
    /// `RetryInfo.retryDelay`.
    delay: Option<Duration>,
    daily: bool,
    /// There is none at all: the plan does not include this model.
    none: bool,
}

impl Detail {
    pub(super) fn of_body(body: &str) -> Self {
        // LiteLLM frames an error as an event even where the status already tells it.
        let event = body.trim_start().strip_prefix("data:").and_then(|rest| rest.lines().next());
        serde_json::from_str(event.unwrap_or(body))
            .map_or_else(|_| Self::of_prose(body.trim()), |document| Self::of(&document))
    }

    fn of_prose(prose: &str) -> Self {
        Self {
            message: prose[..prose.floor_char_boundary(LONGEST_PROSE)].to_owned(),
            words: Vec::new(),
            number: None,
            moderated: false,
            budget_in_flight: false,
            quota: None,
        }
    }

    pub(super) fn of(document: &Value) -> Self {
        // Some gateways wrap the object in a list; some servers put its members at the top.
        let document = document.get(0).unwrap_or(document);
        let error = document.get("error").filter(|error| !error.is_null()).unwrap_or(document);
        let code = &error["code"];
        let number = [code, &document["status_code"], &document["statusCode"]].into_iter().find_map(status_number);
        let message = [error, &error["message"], &error["msg"], &document["detail"], &document["message"]]
            .into_iter()
            .find_map(Value::as_str)
            .map_or_else(|| short(error), str::to_owned);
        let details = error["details"].as_array().map_or(&[][..], Vec::as_slice);
        let words: Vec<_> = [code, &error["innererror"]["code"], &error["details"]["error_code"]]
            .into_iter()
            .chain(details.iter().map(|detail| &detail["reason"]))
            .chain([&error["type"], &error["status"]])
            .filter_map(Value::as_str)
            .map(str::to_ascii_lowercase)
            .collect();
        let moderated = error["metadata"].get("flagged_input").is_some()
            || words.iter().chain([&message.to_ascii_lowercase()]).any(|text| text.contains("moderation"));
        let budget_in_flight = error["metadata"]["limit_source"] == "openrouter_in_flight_budget";
        let quota = words.iter().any(|word| word == "resource_exhausted").then(|| GoogleQuota::of(details, &message));
        Self { message, words, number, moderated, budget_in_flight, quota }
    }

    /// Whether the key is good and does not reach so far.
    pub(super) fn is_permission(&self) -> bool {
        self.words.iter().any(|word| word == "permission_error" || word == "permission_denied")
    }

    /// The kind that a code or a type names.
    pub(super) fn kind(&self) -> Option<ErrorKind> {
        let hard = self.quota.as_ref().is_some_and(|quota| quota.none || quota.delay > Some(LONGEST_PACE));
        if hard {
            return Some(ErrorKind::Quota);
        }
        self.words.iter().find_map(|word| meaning(word))
    }

    pub(super) fn is_general(&self) -> bool {
        self.words.iter().any(|word| GENERAL.contains(&word.as_str()))
    }

    /// How long the body asks to be left alone. A day's quota comes back at night, whatever short delay stands beside it;
    /// asking once an hour finds out.
    pub(super) fn wait(&self) -> Option<Duration> {
        let quota = self.quota.as_ref()?;
        let daily = quota.daily.then_some(LONGEST_PACE);
        quota.delay.into_iter().chain(daily).max().map(|wait| wait.clamp(Duration::from_secs(1), LONGEST))
    }

    pub(super) fn told(&self, status: StatusCode) -> String {
        let message = match self.message.trim() {
            "" => status.canonical_reason().unwrap_or("no reason was given"),
            message => message,
        };
        match self.words.first() {
            Some(word) if !message.contains(word) => format!("{message} ({word})"),
            Some(_) | None => message.to_owned(),
        }
    }
}

impl GoogleQuota {
    fn of(details: &[Value], message: &str) -> Self {
        let delay = details.iter().find_map(|detail| seconds(detail["retryDelay"].as_str()?));
        let violations: Vec<_> =
            details.iter().filter_map(|detail| detail["violations"].as_array()).flatten().collect();
        let daily = violations.iter().any(|broken| broken["quotaId"].as_str().is_some_and(|id| id.contains("PerDay")));
        let nothing = violations.iter().any(|broken| broken["quotaValue"] == "0" || broken["quotaValue"] == 0);
        // The only place where a limit of nothing is always told is the message; each limit is followed by a comma or ends it.
        let mut limits = message.match_indices("limit: 0").map(|(at, word)| message[at + word.len()..].chars().next());
        let none = nothing || limits.any(|next| !next.is_some_and(|c| c.is_ascii_digit() || c == '.'));
        Self { delay, daily, none }
    }
}

/// A duration as protocol buffers write it in JSON: `46s`, `1.5s`.
fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.strip_suffix('s')?.parse().ok()?;
    (seconds.is_finite() && seconds >= 0.0).then(|| Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST))
}

fn status_number(code: &Value) -> Option<u16> {
    let number = code.as_u64().or_else(|| code.as_str()?.parse().ok())?;
    u16::try_from(number).ok()
}

fn short(value: &Value) -> String {
    let mut text = value.to_string();
    text.truncate(text.floor_char_boundary(LONGEST_PROSE));
    text
}
