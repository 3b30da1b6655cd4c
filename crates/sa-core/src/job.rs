//! What a job is made of.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How soon: 0 to 100, lower is sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, sqlx::Type)]
#[serde(transparent)]
#[sqlx(transparent)]
pub struct Priority(u8);

impl Priority {
    /// Interactive, for the tab in front of somebody: 0 to 10.
    pub const URGENT: Self = Self(10);
    /// Where nothing is said.
    pub const DEFAULT: Self = Self(50);
    /// Opportunistic.
    pub const LOWEST: Self = Self(100);

    /// This priority, or nothing above 100.
    ///
    /// ```
    /// use sa_core::job::Priority;
    /// assert_eq!(Priority::new(50), Some(Priority::DEFAULT));
    /// assert_eq!(Priority::new(101), None);
    /// ```
    #[must_use]
    pub const fn new(value: u8) -> Option<Self> {
        if value <= 100 { Some(Self(value)) } else { None }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// How many runs a job may have: 1 to 20.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, sqlx::Type)]
#[serde(transparent)]
#[sqlx(transparent)]
pub struct MaxAttempts(u16);

impl MaxAttempts {
    /// Where nothing is said: 3.
    pub const DEFAULT: Self = Self(3);

    /// This many, or nothing outside 1 to 20.
    #[must_use]
    pub const fn new(value: u8) -> Option<Self> {
        if value >= 1 && value <= 20 { Some(Self(value as u16)) } else { None }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// The provider a job waits for, by its configured name. Empty only in rows of plain SQL: the claiming worker resolves it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, sqlx::Type)]
#[serde(transparent)]
#[sqlx(transparent)]
pub struct Lane(String);

impl Lane {
    /// The lane of the provider of this name: ASCII, at most 64 bytes, as `provider::Catalog` demands of names.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the row does not say, and the claiming worker decides.
    #[must_use]
    pub fn is_unresolved(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What the caller asked for, as `execution_options` holds it.
///
/// Unknown keys are ignored (a newer API may have written them); a wrong type makes the options unreadable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionOptions {
    /// A configured model that shall answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// A configured provider that shall answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefer_provider: Option<String>,
    /// How many earlier turns of the thread are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u8>,
    /// A configured model that is asked first which configured model should answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router_model: Option<String>,
}

impl ExecutionOptions {
    /// Most earlier turns that may be asked for.
    pub const MAX_DEPTH: u8 = 50;
    /// Earlier turns sent where nothing is said.
    pub const DEFAULT_DEPTH: u8 = 10;

    /// How many earlier turns to send.
    #[must_use]
    pub fn depth(&self) -> u8 {
        self.depth.unwrap_or(Self::DEFAULT_DEPTH).min(Self::MAX_DEPTH)
    }

    /// These options with each one that `patch` names replaced by it.
    ///
    /// ```
    /// use sa_core::job::ExecutionOptions;
    /// let old = ExecutionOptions { model: Some("a".into()), depth: Some(3), ..Default::default() };
    /// let patch = ExecutionOptions { model: Some("b".into()), ..Default::default() };
    /// let new = old.overridden_by(patch);
    /// assert_eq!((new.model.as_deref(), new.depth), (Some("b"), Some(3)));
    /// ```
    #[must_use]
    pub fn overridden_by(self, patch: Self) -> Self {
        Self {
            model: patch.model.or(self.model),
            prefer_provider: patch.prefer_provider.or(self.prefer_provider),
            depth: patch.depth.or(self.depth),
            router_model: patch.router_model.or(self.router_model),
        }
    }

    /// The JSON that `execution_options` holds.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a struct of strings and a number is always JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_stored_as_json_without_what_was_not_asked_for() {
        let options = ExecutionOptions { model: Some("m\"".into()), depth: Some(3), ..Default::default() };
        assert_eq!(options.to_json(), r#"{"model":"m\"","depth":3}"#);
        assert_eq!(ExecutionOptions::default().to_json(), "{}");
    }
}
