//! Take the right to run jobs, each once: one atomic step, first come wins.

mod by_name;
mod claimer;
mod levels;
mod rows;

use serde::Serialize;

pub use self::by_name::{claim_job, enqueue_claimed};
pub use self::claimer::Claimer;
use super::Error;
use crate::id::{ClaimId, JobId, PromptId};
use crate::job::{ExecutionOptions, Lane, Priority};
use crate::viewer::Viewer;

/// The right to run one job once, and a worker's only way to finish it.
///
/// ```compile_fail,E0451
/// # use sa_core::repo::Claim;
/// # fn forge(held: sa_core::repo::Held) -> Claim {
/// Claim { held, releases: 0 } // a claim cannot be made by hand: only by the verbs of this module
/// # }
/// ```
#[derive(Debug)]
pub struct Claim {
    held: Held,
    prompt: PromptId,
    viewer: Viewer,
    lane: Lane,
    priority: Priority,
    max_attempts: u16,
    releases: u8,
    supersedes: Option<JobId>,
    options: String,
}

/// What a beat needs to know of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Held {
    /// The job.
    pub job: JobId,
    /// The claim that its row must still carry.
    pub claim: ClaimId,
    /// The attempt that its row must still be at.
    pub attempt: u16,
}

impl Claim {
    /// The job.
    #[must_use]
    pub const fn job(&self) -> JobId {
        self.held.job
    }

    /// The prompt to be answered.
    #[must_use]
    pub const fn prompt(&self) -> PromptId {
        self.prompt
    }

    /// Whose prompt it is.
    #[must_use]
    pub const fn viewer(&self) -> Viewer {
        self.viewer
    }

    /// The claim's own id, as it stands in the row.
    #[must_use]
    pub const fn id(&self) -> &ClaimId {
        &self.held.claim
    }

    /// The number of this run.
    #[must_use]
    pub const fn attempt(&self) -> u16 {
        self.held.attempt
    }

    /// How many runs the job may have.
    #[must_use]
    pub const fn max_attempts(&self) -> u16 {
        self.max_attempts
    }

    /// The lane it was claimed from.
    #[must_use]
    pub const fn lane(&self) -> &Lane {
        &self.lane
    }

    /// How soon it was wanted.
    #[must_use]
    pub const fn priority(&self) -> Priority {
        self.priority
    }

    /// How often a run of this job was given back without an attempt spent.
    #[must_use]
    pub const fn releases(&self) -> u8 {
        self.releases
    }

    /// What the beat of this claim has to say.
    #[must_use]
    pub fn held(&self) -> Held {
        self.held.clone()
    }

    pub(super) const fn supersedes(&self) -> Option<JobId> {
        self.supersedes
    }

    /// What the caller asked for.
    ///
    /// # Errors
    /// `Corrupt` if the row's options are not JSON of the known types.
    pub fn options(&self) -> Result<ExecutionOptions, Error> {
        serde_json::from_str(&self.options).map_err(|_| Error::Corrupt {
            table: "sa_job",
            column: "execution_options",
            id: self.held.job.to_string(),
        })
    }
}

/// Which lanes a worker's providers serve.
#[derive(Clone, Debug)]
pub struct Serves {
    /// Their lanes.
    pub lanes: Vec<Lane>,
    /// The default provider's: jobs that name no lane are under its gate.
    pub default: Lane,
}
