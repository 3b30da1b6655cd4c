//! What becomes of a run that did not succeed: pure decisions, exact and without a clock.

use std::time::Duration;

use crate::error_kind::ErrorKind;

/// When the next run may begin: `base` after now, plus a random part of `spread` that is drawn in SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The least wait.
    pub base: Duration,
    /// The most that is added to it.
    pub spread: Duration,
}

impl Backoff {
    /// No wait at all.
    pub const NONE: Self = Self { base: Duration::ZERO, spread: Duration::ZERO };
}

/// What becomes of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Back into the queue, one attempt spent.
    Requeue(Backoff),
    /// The end.
    Fail,
}

const LONGEST_BASE: Duration = Duration::from_secs(3600);
pub(crate) const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(24 * 3600);
const RATE_LIMIT: Backoff = Backoff { base: Duration::from_secs(60), spread: Duration::from_secs(30) };

/// What becomes of a job whose run number `attempt` of at most `max_attempts` ended with `kind`, and whose provider asked
/// to be left alone for `retry_after`.
///
/// ```
/// use std::time::Duration;
/// use sa_core::error_kind::ErrorKind;
/// use sa_core::retry::{Backoff, Verdict, verdict};
/// let secs = Duration::from_secs;
/// assert_eq!(verdict(ErrorKind::Timeout, 1, 3, None), Verdict::Requeue(Backoff { base: secs(5), spread: secs(5) }));
/// assert_eq!(verdict(ErrorKind::Timeout, 2, 3, None), Verdict::Requeue(Backoff { base: secs(25), spread: secs(15) }));
/// assert_eq!(verdict(ErrorKind::Timeout, 3, 3, None), Verdict::Fail);
/// assert_eq!(verdict(ErrorKind::Auth, 1, 3, None), Verdict::Fail);
/// // A wait the provider names is honoured, with up to a tenth on top and never early.
/// let asked = verdict(ErrorKind::RateLimit, 1, 3, Some(secs(90)));
/// assert_eq!(asked, Verdict::Requeue(Backoff { base: secs(90), spread: secs(9) }));
/// ```
#[must_use]
pub fn verdict(kind: ErrorKind, attempt: u16, max_attempts: u16, retry_after: Option<Duration>) -> Verdict {
    if !kind.retryable() || attempt >= max_attempts {
        return Verdict::Fail;
    }
    Verdict::Requeue(match (kind, retry_after) {
        (ErrorKind::WorkerCrash, _) => Backoff::NONE,
        (_, Some(asked)) => {
            let base = asked.min(LONGEST_RETRY_AFTER);
            Backoff { base, spread: base / 10 }
        }
        (ErrorKind::RateLimit, None) => RATE_LIMIT,
        (_, None) => exponential(attempt.saturating_add(1)),
    })
}

/// Before attempt 2: 5 s + U(0,5); 3: 25 s + U(0,15); 4: 125 s + U(0,75); then five times more, base at most an hour.
fn exponential(next_attempt: u16) -> Backoff {
    let exponent = u32::from(next_attempt.saturating_sub(1).clamp(1, 8));
    let base = Duration::from_secs(5_u64.pow(exponent)).min(LONGEST_BASE);
    let spread = if next_attempt <= 2 { base } else { base * 6 / 10 };
    Backoff { base, spread }
}

/// What becomes of a job whose worker is silent or dead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReclaimVerdict {
    /// Back into the queue at once, one attempt spent.
    Requeue,
    /// Stuck for good, and what to say of it.
    Stuck(String),
}

/// The longest a job may run, by the specification.
pub const CEILING: Duration = Duration::from_secs(15 * 60);

/// How many releases a job may have; the next one spends an attempt.
pub const MAX_RELEASES: u8 = 10;

/// What becomes of a silent run: attempts left and started within 15 minutes, it is run again; else it is stuck.
///
/// ```
/// use std::time::Duration;
/// use sa_core::retry::{ReclaimVerdict, reclaim_verdict};
/// assert_eq!(reclaim_verdict(1, 3, Duration::from_secs(300)), ReclaimVerdict::Requeue);
/// assert_eq!(reclaim_verdict(3, 3, Duration::from_secs(300)), ReclaimVerdict::Stuck("worker died 3 times".into()));
/// assert!(matches!(reclaim_verdict(1, 3, Duration::from_secs(901)), ReclaimVerdict::Stuck(_)));
/// ```
#[must_use]
pub fn reclaim_verdict(attempt: u16, max_attempts: u16, running_for: Duration) -> ReclaimVerdict {
    if running_for >= CEILING {
        return ReclaimVerdict::Stuck("ran over 15 minutes and then fell silent".into());
    }
    if attempt < max_attempts {
        return ReclaimVerdict::Requeue;
    }
    ReclaimVerdict::Stuck(match attempt {
        1 => "worker died once, and one attempt was allowed".into(),
        died => format!("worker died {died} times"),
    })
}

/// What becomes of a run that is given back without fault of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseVerdict {
    /// No attempt is spent.
    Release,
    /// Released too often: this one spends an attempt.
    Requeue,
    /// Released too often, and no attempt is left.
    Stuck,
}

/// Decides on a release: the first ten are free, then each spends an attempt.
///
/// ```
/// use sa_core::retry::{ReleaseVerdict, release_verdict};
/// assert_eq!(release_verdict(9, 1, 3), ReleaseVerdict::Release);
/// assert_eq!(release_verdict(10, 1, 3), ReleaseVerdict::Requeue);
/// assert_eq!(release_verdict(10, 3, 3), ReleaseVerdict::Stuck);
/// ```
#[must_use]
pub const fn release_verdict(releases: u8, attempt: u16, max_attempts: u16) -> ReleaseVerdict {
    if releases < MAX_RELEASES {
        ReleaseVerdict::Release
    } else if attempt < max_attempts {
        ReleaseVerdict::Requeue
    } else {
        ReleaseVerdict::Stuck
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backoff_table_is_the_contracts() {
        let secs = Duration::from_secs;
        let expected =
            [(2, 5, 5), (3, 25, 15), (4, 125, 75), (5, 625, 375), (6, 3125, 1875), (7, 3600, 2160), (20, 3600, 2160)];
        for (next, base, spread) in expected {
            assert_eq!(exponential(next), Backoff { base: secs(base), spread: secs(spread) }, "before attempt {next}");
        }
        assert_eq!(exponential(u16::MAX).base, LONGEST_BASE);
    }

    #[test]
    fn an_absurd_retry_after_is_cut_at_a_day() {
        let far = verdict(ErrorKind::RateLimit, 1, 3, Some(Duration::MAX));
        let day = Duration::from_secs(86_400);
        assert_eq!(far, Verdict::Requeue(Backoff { base: day, spread: day / 10 }));
    }

    #[test]
    fn only_the_retryable_kinds_are_ever_requeued() {
        for &kind in ErrorKind::ALL {
            let requeued = matches!(verdict(kind, 1, 3, None), Verdict::Requeue(_));
            assert_eq!(requeued, kind.retryable(), "{kind}");
            assert_eq!(verdict(kind, 3, 3, None), Verdict::Fail, "{kind}");
        }
    }

    #[test]
    fn a_run_has_fifteen_minutes_and_a_job_ten_releases() {
        let ran = |seconds| reclaim_verdict(1, 3, Duration::from_secs(seconds)) == ReclaimVerdict::Requeue;
        assert_eq!([899, 900].map(ran), [true, false]);
        let released = |releases| release_verdict(releases, 1, 3);
        assert_eq!([9, 10].map(released), [ReleaseVerdict::Release, ReleaseVerdict::Requeue]);
    }

    #[test]
    fn the_last_attempt_is_the_last() {
        let silent = |attempt| reclaim_verdict(attempt, 3, Duration::ZERO) == ReclaimVerdict::Requeue;
        assert_eq!([2, 3, 4].map(silent), [true, false, false]);
        let released = |attempt| release_verdict(MAX_RELEASES, attempt, 3) == ReleaseVerdict::Requeue;
        assert_eq!([2, 3, 4].map(released), [true, false, false]);
    }
}
