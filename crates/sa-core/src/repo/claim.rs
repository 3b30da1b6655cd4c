//! Take the right to run jobs, each once: one atomic step, first come wins.

mod by_name;
mod claimer;
mod fairness;
mod levels;
mod rows;

use std::collections::BTreeMap;
use std::time::Duration;

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
/// Claim { held, releases: 0, trial: true } // a claim cannot be made by hand: only by the verbs of this module
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
    held_for: Option<Duration>,
    trial: bool,
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

    /// How long ago a closed gate held the job for the first time; nothing if none did.
    #[must_use]
    pub const fn held_for(&self) -> Option<Duration> {
        self.held_for
    }

    /// Whether this run finds out if its lane, which was closed, works again.
    #[must_use]
    pub const fn is_trial(&self) -> bool {
        self.trial
    }

    /// What the beat of this claim has to say.
    #[must_use]
    pub fn held(&self) -> Held {
        self.held.clone()
    }

    const fn becomes_trial(&mut self) {
        self.trial = true;
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
    /// The lanes that can answer in place of a closed one.
    pub fallbacks: BTreeMap<Lane, Vec<Lane>>,
}

impl Serves {
    /// These lanes and no fallback; the first is the default's.
    ///
    /// # Panics
    /// Without any lane.
    #[must_use]
    pub fn only(lanes: Vec<Lane>) -> Self {
        Self { default: lanes[0].clone(), lanes, fallbacks: BTreeMap::new() }
    }
}
