//! End a run under its claim: succeed, requeue, release, fail.

use std::collections::BTreeSet;

use sa_core::error_kind::ErrorKind;
use sa_core::retry::{ReleaseVerdict, Verdict, release_verdict, verdict};
use sa_core::state::{State, Transition};

use crate::fault::Fault;
use crate::protocol::{Ack, Protocol};
use crate::world::{Guard, Job, MAX_ATTEMPTS, Phase, Run, World};

/// What is to be written of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum End {
    Succeed,
    /// Back into the queue, and an attempt spent.
    Requeue,
    /// Given back without an attempt spent.
    Release,
    Fail,
}

impl End {
    /// All ends that this run may come to, by sa-core's verdicts on each way a call may end.
    pub fn possible(protocol: &Protocol, run: &Run) -> BTreeSet<Self> {
        let answered = Self::Succeed;
        let may_be_cured = Self::of_failure(protocol, run, ErrorKind::Timeout);
        let is_not_cured = Self::of_failure(protocol, run, ErrorKind::Provider4xx);
        let given_back = match release_verdict(run.releases, run.attempt, MAX_ATTEMPTS) {
            _ if protocol.has(Fault::UnboundedRelease) => Self::Release,
            ReleaseVerdict::Release => Self::Release,
            ReleaseVerdict::Requeue => Self::Requeue,
            ReleaseVerdict::Stuck => Self::Fail,
        };
        BTreeSet::from([answered, may_be_cured, is_not_cured, given_back])
    }

    fn of_failure(protocol: &Protocol, run: &Run, kind: ErrorKind) -> Self {
        let max_attempts = if protocol.has(Fault::VerdictWithoutLimit) { u16::MAX } else { MAX_ATTEMPTS };
        match verdict(kind, run.attempt, max_attempts, None) {
            Verdict::Requeue(_) => Self::Requeue,
            Verdict::Fail => Self::Fail,
        }
    }

    const fn edge(self) -> Transition {
        match self {
            Self::Succeed => Transition::SUCCEED,
            Self::Requeue | Self::Release => Transition::REQUEUE,
            Self::Fail => Transition::FAIL,
        }
    }
}

/// Writes the end of a run, or finds its claim lost and changes nothing. Either way the run is over, unless the
/// acknowledgement is lost: then the worker comes back with the same end.
pub fn finalize(protocol: &Protocol, world: &mut World, run: usize, end: End, ack: Ack) -> bool {
    let ending = world.runs[run];
    let held = write(protocol, &mut world.jobs[ending.job], &ending, end);
    match ack {
        Ack::Arrives => {
            world.runs.remove(run);
            true
        }
        Ack::IsLost => {
            world.runs[run].phase = Phase::Unacknowledged(end);
            held
        }
    }
}

/// The whole end in one transaction: the fenced row first, then what it brings along.
fn write(protocol: &Protocol, row: &mut Job, run: &Run, end: End) -> bool {
    let unfenced = protocol.has(Fault::UnfencedRequeue) && end == End::Requeue;
    if !unfenced && !fenced(protocol, row, run) {
        return false;
    }
    let guard = if unfenced { Guard::Nothing } else { protocol.guard(Fault::FenceWithoutState) };
    if !row.take(end.edge(), guard) {
        return false;
    }
    match end {
        End::Succeed => {
            row.response = true;
            if !protocol.has(Fault::AnswerOutsideTheTransaction) {
                row.answers.push(run.number);
            }
        }
        End::Requeue => row.attempt += u16::from(!protocol.has(Fault::RequeueSpendsNoAttempt)),
        End::Release => {
            row.releases += 1;
            if protocol.has(Fault::ReleaseResetsAttempts) {
                row.attempt = 1;
            }
        }
        End::Fail => {}
    }
    if protocol.has(Fault::RequeueKeepsTheClaim) && row.state == State::Queued {
        row.claim = Some(run.token);
    }
    true
}

/// `state = 'running' AND worker_claim = ? AND attempt = ?`
pub fn fenced(protocol: &Protocol, row: &Job, run: &Run) -> bool {
    (row.state == State::Running || protocol.has(Fault::FenceWithoutState))
        && (row.claim == Some(run.token) || protocol.has(Fault::FenceWithoutClaim))
        && (row.attempt == run.attempt || protocol.has(Fault::FenceWithoutAttempt))
}

/// The fault that writes the answer in a transaction of its own, ahead of the end. The entity's id comes from the job's, so
/// a second one meets the first and is taken for written.
pub fn insert_answer(protocol: &Protocol, world: &mut World, run: usize) -> bool {
    let run = &mut world.runs[run];
    run.phase = Phase::Inserted;
    let answers = &mut world.jobs[run.job].answers;
    if answers.is_empty() || protocol.has(Fault::NoUniqueKeys) {
        answers.push(run.number);
    }
    true
}
