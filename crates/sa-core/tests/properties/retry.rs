//! Verdicts: never early, bounded, and never shorter for a later attempt.

use std::time::Duration;

use proptest::prelude::*;
use sa_core::error_kind::ErrorKind;
use sa_core::retry::{
    Backoff, CEILING, MAX_RELEASES, ReclaimVerdict, ReleaseVerdict, Verdict, reclaim_verdict, release_verdict, verdict,
};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn kinds() -> impl Strategy<Value = ErrorKind> {
    prop::sample::select(ErrorKind::ALL)
}

fn waits() -> impl Strategy<Value = Option<Duration>> {
    let seconds = prop_oneof![0..200_000_u64, any::<u64>()];
    prop::option::of((seconds, 0..1_000_000_000_u32).prop_map(|(seconds, nanos)| Duration::new(seconds, nanos)))
}

fn backoff(verdict: Verdict) -> Option<Backoff> {
    match verdict {
        Verdict::Requeue(backoff) => Some(backoff),
        Verdict::Fail => None,
    }
}

proptest! {
    #[test]
    fn a_job_is_repeated_exactly_while_attempts_are_left_and_a_repetition_may_help(
        kind in kinds(), attempt in any::<u16>(), max in any::<u16>(), asked in waits(),
    ) {
        let repeated = backoff(verdict(kind, attempt, max, asked)).is_some();
        prop_assert_eq!(repeated, kind.retryable() && attempt < max);
    }

    #[test]
    fn a_wait_the_provider_names_is_never_cut_short_and_hardly_stretched(
        kind in kinds(), attempt in 1..20_u16, asked in waits(),
    ) {
        if let (Some(Backoff { base, spread }), Some(asked)) = (backoff(verdict(kind, attempt, 20, asked)), asked) {
            // A dead worker is no word of a provider's.
            if kind != ErrorKind::WorkerCrash {
                prop_assert!(base >= asked.min(DAY), "{:?} before {:?}", base, asked);
                prop_assert!(base <= asked && spread * 10 <= base);
            }
        }
    }

    #[test]
    fn no_wait_is_longer_than_a_day_and_a_tenth(kind in kinds(), attempt in any::<u16>(), asked in waits()) {
        if let Some(Backoff { base, spread }) = backoff(verdict(kind, attempt, u16::MAX, asked)) {
            prop_assert!(base + spread <= DAY + DAY / 10);
            prop_assert!(asked.is_some() || base + spread <= Duration::from_secs(3600 * 16 / 10));
        }
    }

    #[test]
    fn a_later_attempt_and_a_longer_wish_never_wait_less(
        kind in kinds(), attempt in 1..19_u16, asked in waits(), more in 0..1_000_000_u64,
    ) {
        let of = |attempt, asked| backoff(verdict(kind, attempt, 20, asked)).map(|found| (found.base, found.spread));
        let base = |attempt| of(attempt, None).map(|(base, _)| base);
        prop_assert!(base(attempt) <= base(attempt + 1));
        let longer = asked.map(|asked| asked.saturating_add(Duration::from_millis(more)));
        prop_assert!(of(attempt, asked) <= of(attempt, longer));
    }

    #[test]
    fn a_silent_run_is_repeated_exactly_while_attempts_and_time_are_left(
        attempt in any::<u16>(), max in any::<u16>(), ran in 0..2_000_000_u64,
    ) {
        let ran = Duration::from_millis(ran);
        let repeated = reclaim_verdict(attempt, max, ran) == ReclaimVerdict::Requeue;
        prop_assert_eq!(repeated, attempt < max && ran < CEILING);
    }

    #[test]
    fn a_job_is_released_for_free_ten_times_and_then_spends_what_it_has(
        releases in any::<u8>(), attempt in any::<u16>(), max in any::<u16>(),
    ) {
        let expected = match (releases < MAX_RELEASES, attempt < max) {
            (true, true | false) => ReleaseVerdict::Release,
            (false, true) => ReleaseVerdict::Requeue,
            (false, false) => ReleaseVerdict::Stuck,
        };
        prop_assert_eq!(release_verdict(releases, attempt, max), expected);
    }
}
