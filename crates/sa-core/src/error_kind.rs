//! Why a run did not succeed, as it is stored.

use crate::text_enum::text_enum;

text_enum! {
    /// The persisted reasons: the specification's nine, its `migration`, and `quota`.
    ErrorKind {
        /// A real time-out: connect, first byte, idle, total.
        Timeout = "timeout",
        /// HTTP 429 that a wait cures.
        RateLimit = "rate_limit",
        /// The provider failed, refused the connection, or stopped before the end of its answer.
        Provider5xx = "provider_5xx",
        /// The provider refused this request.
        Provider4xx = "provider_4xx",
        /// The answer, or the job's own options, could not be read.
        Parse = "parse",
        /// Credentials refused; an operator has to act.
        Auth = "auth",
        /// The worker died in mid-run.
        WorkerCrash = "worker_crash",
        /// Ran over 15 minutes, or its workers died until no attempt was left.
        Stuck = "stuck",
        /// Anything unclassified; repeated, to be on the safe side.
        Unknown = "unknown",
        /// Left over from before a migration, marked for a person to look at.
        Migration = "migration",
        /// Money or a hard quota is used up; an operator has to act.
        Quota = "quota",
    }
}

impl ErrorKind {
    /// Whether a repetition may succeed (specification §8).
    ///
    /// ```
    /// use sa_core::error_kind::ErrorKind;
    /// assert!(ErrorKind::Timeout.retryable());
    /// assert!(!ErrorKind::Quota.retryable());
    /// ```
    #[must_use]
    pub const fn retryable(self) -> bool {
        match self {
            Self::Timeout | Self::RateLimit | Self::Provider5xx | Self::WorkerCrash | Self::Unknown => true,
            Self::Provider4xx | Self::Parse | Self::Auth | Self::Stuck | Self::Migration | Self::Quota => false,
        }
    }
}

/// Why a run did not succeed: a kind to decide by and a message to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    kind: ErrorKind,
    message: String,
}

impl Failure {
    /// The longest message that is stored, in bytes.
    pub const MAX_MESSAGE: usize = 8 * 1024;

    /// A failure whose message can be stored and shown: control characters become spaces, and it is cut at
    /// [`Self::MAX_MESSAGE`] bytes, never inside a character.
    ///
    /// ```
    /// use sa_core::error_kind::{ErrorKind, Failure};
    /// let failure = Failure::new(ErrorKind::Unknown, "bell\u{7} and \u{1b}[31mred");
    /// assert_eq!(failure.message(), "bell  and  [31mred");
    /// let long = Failure::new(ErrorKind::Unknown, "é".repeat(10_000));
    /// assert_eq!(long.message().len(), Failure::MAX_MESSAGE);
    /// ```
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let mut message: String = message.into().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        message.truncate(message.floor_char_boundary(Self::MAX_MESSAGE));
        Self { kind, message }
    }

    /// What kind of failure.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What happened, in words.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }
}
