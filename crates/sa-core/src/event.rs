//! Why a job's row changed, as `sa_job_event` holds it.

use crate::text_enum::text_enum;

text_enum! {
    /// What made the change.
    Reason {
        /// The job was created.
        Enqueue = "enqueue",
        /// A worker won the claim.
        Claim = "claim",
        /// The answer was written.
        Success = "success",
        /// The run ended the job.
        Failure = "failure",
        /// The run failed and will be repeated.
        Transient = "transient",
        /// Given back by its worker, no attempt spent.
        Release = "release",
        /// Given back because its lane is closed.
        Gate = "gate",
        /// Taken from a silent or dead worker.
        Reclaim = "reclaim",
        /// A user or an operator cancelled it.
        Cancel = "cancel",
        /// A retry replaced it.
        Supersede = "supersede",
        /// A waiting job was told to wait no longer.
        BroughtForward = "brought_forward",
        /// Text already paid for was kept after a cancel.
        Partial = "partial",
        /// Its response was promoted.
        Promote = "promote",
        /// Its response was judged.
        Verdict = "verdict",
    }
}
