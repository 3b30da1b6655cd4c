//! When a lane closes and for how long: pure decisions, exact and without a clock.

use std::time::Duration;

use crate::error_kind::ErrorKind;
use crate::retry::LONGEST_RETRY_AFTER;

/// How long a lane closes: `base` plus a random part of `spread` that is drawn in SQL, doubled at each closure in a row,
/// at most `longest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closing {
    /// The least wait of a first closure.
    pub base: Duration,
    /// The most that is added to it.
    pub spread: Duration,
    /// Where the doubling ends.
    pub longest: Duration,
}

impl Closing {
    const fn secs(base: u64, spread: u64, longest: u64) -> Self {
        Self {
            base: Duration::from_secs(base),
            spread: Duration::from_secs(spread),
            longest: Duration::from_secs(longest),
        }
    }

    /// A wait that the provider itself named is kept as it is, with up to a tenth on top and never early.
    fn asked(wait: Duration) -> Self {
        let base = wait.min(LONGEST_RETRY_AFTER);
        Self { base, spread: base / 10, longest: base + base / 10 }
    }
}

/// After a 429 that names no wait.
const RATE_LIMIT: Closing = Closing::secs(60, 30, 3600);
/// After errors of the server in a row, or a trial that met one.
const SERVER_ERRORS: Closing = Closing::secs(30, 0, 600);
/// Until an operator opens it, with a trial call each hour.
const OPERATOR: Closing = Closing::secs(3600, 0, 3600);

/// How many `provider_5xx` in a row close a lane.
pub const ERRORS_THAT_CLOSE: u32 = 5;
/// Until when a trial must have ended; one that is older may be taken over.
pub const LONGEST_TRIAL: Duration = Duration::from_secs(200);
/// How long a job may be held by closed gates before a 429 fails it.
pub const LONGEST_HOLD: Duration = Duration::from_secs(24 * 3600);

/// What a failed call does to the gate of its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It is the call's own affair.
    None,
    /// One more error in a row; [`ERRORS_THAT_CLOSE`] of them close the lane like this.
    Count(Closing),
    /// The lane closes.
    Close(Closing),
}

/// What a call that failed with `kind` does to the gate of its lane. `asked` is the wait its provider named.
///
/// ```
/// use std::time::Duration;
/// use sa_core::error_kind::ErrorKind;
/// use sa_core::gate::{Effect, effect};
/// let Effect::Close(closing) = effect(ErrorKind::RateLimit, Some(Duration::from_secs(20))) else { panic!() };
/// assert_eq!((closing.base, closing.longest), (Duration::from_secs(20), Duration::from_secs(22)));
/// assert!(matches!(effect(ErrorKind::Provider5xx, None), Effect::Count(_)));
/// assert_eq!(effect(ErrorKind::Provider4xx, None), Effect::None);
/// ```
#[must_use]
pub fn effect(kind: ErrorKind, asked: Option<Duration>) -> Effect {
    match kind {
        ErrorKind::RateLimit => Effect::Close(asked.map_or(RATE_LIMIT, Closing::asked)),
        ErrorKind::Quota | ErrorKind::Auth => Effect::Close(OPERATOR),
        ErrorKind::Provider5xx => Effect::Count(SERVER_ERRORS),
        ErrorKind::Timeout
        | ErrorKind::Provider4xx
        | ErrorKind::Parse
        | ErrorKind::WorkerCrash
        | ErrorKind::Stuck
        | ErrorKind::Unknown
        | ErrorKind::Migration => Effect::None,
    }
}

/// What a trial call that failed with `kind` does. A lane that is still not well closes again; what was the job's own fault
/// says nothing of the lane, and another job may try.
///
/// ```
/// use sa_core::error_kind::ErrorKind;
/// use sa_core::gate::{Effect, trial_effect};
/// assert!(matches!(trial_effect(ErrorKind::Provider5xx, None), Effect::Close(_)));
/// assert!(matches!(trial_effect(ErrorKind::Timeout, None), Effect::Close(_)));
/// assert_eq!(trial_effect(ErrorKind::Parse, None), Effect::None);
/// ```
#[must_use]
pub fn trial_effect(kind: ErrorKind, asked: Option<Duration>) -> Effect {
    match effect(kind, asked) {
        Effect::Count(closing) => Effect::Close(closing),
        Effect::None if kind == ErrorKind::Timeout => Effect::Close(SERVER_ERRORS),
        Effect::None => Effect::None,
        Effect::Close(closing) => Effect::Close(closing),
    }
}

/// What becomes of a job whose call met a closed or closing lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldVerdict {
    /// It waits for the lane, its place kept and no attempt spent.
    Hold,
    /// It has waited long enough: the 429 is the end of it.
    Fail,
}

/// A job that gates have held since `held_for` and whose call was refused by a 429 once more: after 24 hours it fails.
#[must_use]
pub fn hold_verdict(held_for: Option<Duration>) -> HoldVerdict {
    match held_for {
        Some(held) if held >= LONGEST_HOLD => HoldVerdict::Fail,
        Some(_) | None => HoldVerdict::Hold,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closings_are_the_contracts() {
        let secs = Duration::from_secs;
        let closing = |base, spread, longest| Effect::Close(Closing::secs(base, spread, longest));
        assert_eq!(effect(ErrorKind::RateLimit, None), closing(60, 30, 3600));
        assert_eq!(effect(ErrorKind::Quota, None), closing(3600, 0, 3600));
        assert_eq!(effect(ErrorKind::Auth, Some(secs(1))), closing(3600, 0, 3600), "only an operator cures it");
        assert_eq!(effect(ErrorKind::Provider5xx, None), Effect::Count(Closing::secs(30, 0, 600)));
        assert_eq!(trial_effect(ErrorKind::Provider5xx, None), closing(30, 0, 600));
        assert_eq!(trial_effect(ErrorKind::Quota, None), closing(3600, 0, 3600));
    }

    #[test]
    fn a_named_wait_is_never_shortened_nor_longer_than_a_day() {
        let day = Duration::from_secs(86_400);
        for asked in [Duration::ZERO, Duration::from_millis(1), Duration::from_secs(7), day, Duration::MAX] {
            let Effect::Close(closing) = effect(ErrorKind::RateLimit, Some(asked)) else { panic!("it closes") };
            assert_eq!(closing.base, asked.min(day));
            assert!(closing.longest >= closing.base + closing.spread, "the cap must not cut the spread");
        }
    }

    #[test]
    fn a_day_of_waiting_is_enough() {
        assert_eq!(hold_verdict(None), HoldVerdict::Hold);
        assert_eq!(hold_verdict(Some(Duration::from_secs(86_399))), HoldVerdict::Hold);
        assert_eq!(hold_verdict(Some(Duration::from_secs(86_400))), HoldVerdict::Fail);
    }
}
