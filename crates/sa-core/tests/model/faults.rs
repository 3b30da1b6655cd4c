//! Each guard is needed: without it a named rule breaks. This is the model's own test.

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model};

use crate::fault::Fault;
use crate::properties::{
    ATTEMPT_RISES, CALLERS_KNOW, CANCEL_FINAL, CEILING, CLAIM_AS_STATE, LAST_CLAIM, LEADS_ON, NINE_EDGES, NO_ABA,
    NO_ORPHAN, ONE_LIVE_JOB, ONE_RESPONSE, ONE_SUCCESSOR, RECLAIM_OF_THE_SILENT, RUNS_BOUNDED, SETTLES,
    TERMINAL_FROZEN,
};
use crate::protocol::Protocol;

/// Shows that each of these rules breaks without these guards, among at most so many troubles.
fn breaks(without: &'static [Fault], troubles: u8, rules: &[&'static str]) {
    let sought: BTreeSet<_> = rules.iter().copied().collect();
    let protocol = Protocol::without(without, troubles);
    let checker = protocol.checker().finish_when(HasDiscoveries::AllOf(sought)).spawn_bfs().join();
    println!("without {without:?}: {} unique states seen", checker.unique_state_count());
    for rule in rules {
        let path = checker.discovery(rule).unwrap_or_else(|| panic!("{rule:?} holds without {without:?}"));
        // The path goes to a world in which the rule is broken; the step that broke it may lie before its end.
        let holds = checker.model().property(rule).condition;
        let way = path.into_vec().into_iter().take_while(|(world, _)| holds(checker.model(), world));
        let steps: Vec<_> = way.filter_map(|(_, action)| action).map(|action| format!("{action:?}")).collect();
        println!("  breaks {rule:?}: {}", steps.join(", "));
    }
}

/// Shows that every rule holds without these guards too: there is a second one behind them.
fn keeps(without: &'static [Fault]) {
    let checker = Protocol::without(without, 1).checker().spawn_bfs().join();
    println!("without {without:?}: {} unique states, no rule breaks", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn a_claim_id_is_fresh_for_each_claim() {
    breaks(&[Fault::ProcessWideClaimId], 1, &[NO_ABA, LAST_CLAIM, RUNS_BOUNDED]);
}

#[test]
fn a_claim_takes_only_a_queued_row() {
    breaks(&[Fault::UnguardedClaim], 0, &[NINE_EDGES, TERMINAL_FROZEN, CANCEL_FINAL]);
}

#[test]
fn a_beat_is_fenced() {
    breaks(&[Fault::UnfencedBeat], 2, &[NO_ABA]);
}

#[test]
fn a_beat_ends_at_the_ceiling() {
    breaks(&[Fault::BeatPastTheCeiling], 2, &[CEILING]);
    breaks(&[Fault::BeatPastTheCeiling], 1, &[SETTLES]);
}

#[test]
fn a_requeue_is_fenced() {
    breaks(&[Fault::UnfencedRequeue], 1, &[TERMINAL_FROZEN, NO_ORPHAN, NO_ABA, ATTEMPT_RISES, LEADS_ON]);
}

#[test]
fn the_fence_asks_for_running() {
    breaks(&[Fault::FenceWithoutState], 0, &[TERMINAL_FROZEN, NINE_EDGES, CANCEL_FINAL]);
}

#[test]
fn the_fence_asks_for_the_claim() {
    breaks(&[Fault::FenceWithoutClaim], 1, &[NO_ABA, LAST_CLAIM, RUNS_BOUNDED]);
}

#[test]
fn the_attempt_in_the_fence_is_a_second_line_behind_the_fresh_claim_id() {
    keeps(&[Fault::FenceWithoutAttempt]);
}

#[test]
fn a_requeue_empties_the_claim() {
    breaks(&[Fault::RequeueKeepsTheClaim], 0, &[CLAIM_AS_STATE]);
}

#[test]
fn a_requeue_spends_an_attempt() {
    breaks(&[Fault::RequeueSpendsNoAttempt], 0, &[ATTEMPT_RISES, RUNS_BOUNDED]);
}

#[test]
fn the_verdict_ends_with_the_attempts() {
    breaks(&[Fault::VerdictWithoutLimit], 0, &[RUNS_BOUNDED]);
}

#[test]
fn an_answer_is_written_in_the_transaction_of_its_end() {
    breaks(&[Fault::AnswerOutsideTheTransaction], 1, &[NO_ORPHAN, LAST_CLAIM, CANCEL_FINAL]);
}

#[test]
fn an_answer_outside_that_transaction_is_written_twice_but_for_its_derived_id() {
    breaks(&[Fault::AnswerOutsideTheTransaction, Fault::NoUniqueKeys], 1, &[ONE_RESPONSE]);
}

#[test]
fn a_release_keeps_the_attempt() {
    breaks(&[Fault::ReleaseResetsAttempts], 0, &[ATTEMPT_RISES, RUNS_BOUNDED]);
}

#[test]
fn releases_are_bounded() {
    breaks(&[Fault::UnboundedRelease], 0, &[RUNS_BOUNDED]);
}

#[test]
fn a_reclaim_repeats_what_it_saw() {
    let broken = [TERMINAL_FROZEN, NO_ORPHAN, CANCEL_FINAL, RECLAIM_OF_THE_SILENT, LEADS_ON];
    breaks(&[Fault::ReaperTrustsItsSelect], 1, &broken);
}

#[test]
fn a_reclaim_looks_for_a_late_beat() {
    breaks(&[Fault::ReclaimIgnoresBeat], 1, &[RECLAIM_OF_THE_SILENT]);
}

#[test]
fn a_reclaim_spends_an_attempt() {
    breaks(&[Fault::ReclaimSpendsNoAttempt], 1, &[ATTEMPT_RISES, RUNS_BOUNDED]);
}

#[test]
fn a_cancel_is_fenced() {
    breaks(&[Fault::UnfencedCancel], 0, &[TERMINAL_FROZEN, NINE_EDGES, NO_ORPHAN, CANCEL_FINAL, ONE_SUCCESSOR]);
}

#[test]
fn a_retry_asked_again_knows_its_own_successor() {
    breaks(&[Fault::RetryForgetsItsOwn], 1, &[CALLERS_KNOW]);
}

#[test]
fn a_retry_without_lock_and_without_unique_keys_succeeds_twice() {
    breaks(&[Fault::RetryTrustsItsRead, Fault::NoUniqueKeys], 0, &[ONE_LIVE_JOB, ONE_SUCCESSOR]);
}

#[test]
fn the_unique_keys_alone_stop_a_double_retry() {
    keeps(&[Fault::RetryTrustsItsRead]);
}

#[test]
fn the_row_lock_alone_stops_a_double_retry() {
    keeps(&[Fault::NoUniqueKeys]);
}
