//! What can be wrong with a protocol: each arm takes one guard away. The sound protocol has none of them.

/// One guard that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `worker_claim` names the worker, and not the claim.
    ProcessWideClaimId,
    /// A claim does not look whether the row is still queued.
    UnguardedClaim,
    /// A beat is written by job id alone.
    UnfencedBeat,
    /// A beat counts however long ago the run started.
    BeatPastTheCeiling,
    /// A requeue after a failure is written by job id alone.
    UnfencedRequeue,
    /// The fence of every end lacks `state = 'running'`.
    FenceWithoutState,
    /// The fence of every end lacks `worker_claim = ?`.
    FenceWithoutClaim,
    /// The fence of every end lacks `attempt = ?`.
    FenceWithoutAttempt,
    /// A requeue leaves `worker_claim` in the row.
    RequeueKeepsTheClaim,
    /// A requeue after a failure forgets `attempt + 1`.
    RequeueSpendsNoAttempt,
    /// A failure that a repetition may cure is repeated whatever the attempt.
    VerdictWithoutLimit,
    /// The response entity is inserted in a transaction of its own, before the end.
    AnswerOutsideTheTransaction,
    /// A release sets the attempt to 1.
    ReleaseResetsAttempts,
    /// Every release is free, not only the first ten.
    UnboundedRelease,
    /// The reaper's UPDATE names the job and repeats nothing of what its SELECT saw.
    ReaperTrustsItsSelect,
    /// The reaper's UPDATE does not look whether the run beat meanwhile.
    ReclaimIgnoresBeat,
    /// A reclaim forgets `attempt + 1`.
    ReclaimSpendsNoAttempt,
    /// A cancel is written whatever became of the job since it was read.
    UnfencedCancel,
    /// A retry reads without a lock and writes whatever became of the job since.
    RetryTrustsItsRead,
    /// A retry asked again after a lost acknowledgement takes its own successor for another's.
    RetryForgetsItsOwn,
    /// `UNIQUE (supersedes)`, `UNIQUE (prompt_id, in_flight)` and the response id derived from the job's are gone.
    NoUniqueKeys,
}
