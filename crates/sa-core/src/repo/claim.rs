//! Take the right to run jobs, each once: one atomic step, first come wins.

mod levels;

use std::fmt;

use serde::Serialize;

use self::levels::{Candidate, Levels};
use super::children::json;
use super::db::Tx;
use super::enqueue::{Minted, NewPrompt, insert};
use super::error::Fate;
use super::event::{Change, Changed, record};
use super::{Db, Error, gate};
use crate::event::Reason;
use crate::id::{ClaimId, ClaimIds, JobId, OrgId, PromptId, UserId, WorkerId};
use crate::job::{ExecutionOptions, Lane, Priority};
use crate::state::Transition;
use crate::viewer::{Actor, Scope, Viewer};

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

/// A worker's claiming hand: one a process. It remembers where in each lane and priority level it stopped, so that a claim
/// costs the same whatever the backlog.
///
/// Jobs come in the order of priority, then `scheduled_for`, then id, over all open lanes.
pub struct Claimer {
    ids: ClaimIds,
    actor: Actor,
    serves: Serves,
    levels: Levels,
    /// A claim whose COMMIT got no answer. Its jobs may be ours, and are looked for before any other is taken.
    unanswered: Option<(ClaimId, Vec<Claim>)>,
}

impl fmt::Debug for Claimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claimer").field("ids", &self.ids).field("serves", &self.serves).finish_non_exhaustive()
    }
}

impl Claimer {
    /// The claiming hand of this worker, which takes jobs of these lanes at priorities up to `ceiling`.
    #[must_use]
    pub fn new(worker: WorkerId, serves: Serves, ceiling: Priority) -> Self {
        Self {
            ids: ClaimIds::new(worker),
            actor: Actor::worker(worker),
            serves,
            levels: Levels::new(ceiling),
            unanswered: None,
        }
    }

    /// Claims at most `want` jobs that are due, the most urgent first; fewer if there are no more.
    ///
    /// # Errors
    /// `Database`: then nothing is claimed, or it is found by the next call.
    pub async fn claim(&mut self, db: &Db, want: usize) -> Result<Vec<Claim>, Error> {
        if let Some(found) = self.settle(db).await? {
            return Ok(found);
        }
        if want == 0 {
            return Ok(Vec::new());
        }
        let open = self.open_lanes(db).await?;
        self.levels.refresh(db, &open).await?;
        let mut tried = 0;
        loop {
            tried += 1;
            let claim = self.ids.mint();
            let (claims, error) = match self.once(db, &claim, want).await {
                Ok(claims) => (claims, None),
                Err((claims, error)) => (claims, Some(error)),
            };
            let Some(error) = error else {
                self.levels.note(claims.len(), want);
                return Ok(claims);
            };
            // The cursors went past rows that were not taken after all.
            self.levels.forget();
            match error.fate() {
                Fate::Unknown => {
                    self.unanswered = Some((claim, claims));
                    return Err(error);
                }
                Fate::RolledBack if tried < 5 => self.levels.refresh(db, &open).await?,
                Fate::RolledBack | Fate::Away | Fate::Data | Fate::Duplicate | Fate::Refused => return Err(error),
            }
        }
    }

    /// The lanes served whose gate is open, with the unnamed lane under the default's gate.
    async fn open_lanes(&self, db: &Db) -> Result<Vec<Lane>, Error> {
        let closed = db.retrying(|| gate::closed(db)).await?;
        let mut open: Vec<_> = self.serves.lanes.iter().filter(|lane| !closed.contains(lane)).cloned().collect();
        if !closed.contains(&self.serves.default) {
            open.push(Lane::default());
        }
        Ok(open)
    }

    /// Finds out what became of a claim whose COMMIT was not answered.
    async fn settle(&mut self, db: &Db) -> Result<Option<Vec<Claim>>, Error> {
        let Some((claim, claims)) = &self.unanswered else { return Ok(None) };
        let held: Vec<Held> = claims.iter().map(Claim::held).collect();
        let lost = super::still_held(db, &held).await?;
        tracing::warn!(claim.id = %claim, ours = held.len() - lost.len(), "An unanswered claim was looked up.");
        let (_, claims) = self.unanswered.take().expect("it was there a moment ago");
        Ok(Some(claims.into_iter().filter(|claim| !lost.contains(&claim.job())).collect()))
    }

    /// One claim statement. An error brings along what would have been claimed, for the case that it was.
    async fn once(&mut self, db: &Db, claim: &ClaimId, want: usize) -> Result<Vec<Claim>, (Vec<Claim>, Error)> {
        let none = |error| (Vec::new(), error);
        let mut tx = db.begin().await.map_err(none)?;
        let taken = self.lock(&mut tx, claim, want).await.map_err(none)?;
        if taken.is_empty() {
            return Ok(taken);
        }
        start(&mut tx, claim, &taken, &self.actor).await.map_err(none)?;
        match tx.commit().await {
            Ok(()) => Ok(taken),
            Err(error) => Err((taken, error)),
        }
    }

    /// Locks the best `want` rows, a window of candidates at a time; rows that others hold or took are passed over.
    async fn lock(&mut self, tx: &mut Tx, claim: &ClaimId, want: usize) -> Result<Vec<Claim>, Error> {
        let mut taken = Vec::new();
        let mut window = want;
        for _ in 0..6 {
            let need = want - taken.len();
            let candidates = self.levels.take(tx, window.max(need)).await?;
            if candidates.is_empty() {
                break;
            }
            let locked = lock_candidates(tx, claim, &candidates, need).await?;
            let last = locked.last().map(Claim::job);
            let filled = locked.len() == need;
            taken.extend(locked);
            if filled {
                // Those behind the last row taken were not looked at.
                let seen = candidates.iter().position(|candidate| Some(candidate.id) == last).map_or(0, |at| at + 1);
                self.levels.put_back(candidates.into_iter().skip(seen));
                break;
            }
            window = (window * 2).min(want * 8);
        }
        Ok(taken)
    }
}

/// Locks at most `need` of the candidates that may still be taken, in their order: an ORDER BY would lock them all.
async fn lock_candidates(
    tx: &mut Tx,
    claim: &ClaimId,
    candidates: &[Candidate],
    need: usize,
) -> Result<Vec<Claim>, Error> {
    let rows = sqlx::query!(
        r#"-- repo::claim
         SELECT j.id AS "id: JobId", j.prompt_id AS "prompt: PromptId", j.org_id AS "org: OrgId",
                j.created_by AS "user: UserId", j.lane AS "lane: Lane", j.priority AS "priority: Priority",
                j.attempt, j.max_attempts, j.releases, j.supersedes AS "supersedes: JobId",
                j.execution_options AS options
           FROM (SELECT t.id, t.lane
                   FROM JSON_TABLE(?, '$[*]' COLUMNS (
                            id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$.id',
                            lane VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.lane'
                        )) t) s
           STRAIGHT_JOIN sa_job j FORCE INDEX (PRIMARY) ON j.id = s.id
          WHERE j.state = ?
            AND j.lane = s.lane
            AND j.scheduled_for <= UTC_TIMESTAMP(6)
          LIMIT ?
            FOR UPDATE SKIP LOCKED"#,
        json(candidates),
        Transition::CLAIM.from(),
        u64::try_from(need).unwrap_or(u64::MAX),
    )
    .fetch_all(tx.session())
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Claim {
            held: Held { job: row.id, claim: claim.clone(), attempt: row.attempt },
            prompt: row.prompt,
            viewer: Viewer { org: row.org, user: row.user },
            lane: row.lane,
            priority: row.priority,
            max_attempts: row.max_attempts,
            releases: row.releases,
            supersedes: row.supersedes,
            options: row.options,
        })
        .collect())
}

/// Makes locked rows run under their claim, and says so in their events.
async fn start(tx: &mut Tx, claim: &ClaimId, taken: &[Claim], actor: &Actor) -> Result<(), Error> {
    let edge = Transition::CLAIM;
    let jobs: Vec<_> = taken.iter().map(|taken| Changed { id: taken.job(), claim: Some(claim) }).collect();
    let met = sqlx::query!(
        "-- repo::claim
         UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
                    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$.id'
                )) s
           STRAIGHT_JOIN sa_job j FORCE INDEX (PRIMARY) ON j.id = s.id
            SET j.state = ?,
                j.worker_claim = ?,
                j.claimed_at = UTC_TIMESTAMP(6),
                j.started_at = UTC_TIMESTAMP(6),
                j.running_heartbeat_at = UTC_TIMESTAMP(6),
                j.held_reason = NULL,
                j.error_kind = NULL,
                j.error_message = NULL,
                j.revision = j.revision + 1,
                j.updated_at = UTC_TIMESTAMP(6)
          WHERE j.state = ?",
        json(&jobs),
        edge.to(),
        claim,
        edge.from(),
    )
    .execute(tx.session())
    .await?
    .rows_affected();
    if met != jobs.len() as u64 {
        return Err(super::DatabaseError::guard_missed("a claim").into());
    }
    let change = Change { from: Some(edge.from()), to: edge.to(), actor, reason: Reason::Claim };
    record(tx.session(), &jobs, &change).await
}

/// Claims this one job, whatever its lane, priority or time: a person asked for it by name.
///
/// # Errors
/// `NotFound` outside the scope; `Conflict` if it is not queued; `Database`.
pub async fn claim_job(db: &Db, job: JobId, scope: Scope, ids: &mut ClaimIds) -> Result<Claim, Error> {
    let claim = ids.mint();
    let actor = Actor::worker(ids.worker());
    db.retrying(|| claim_job_once(db, job, scope, &claim, &actor)).await
}

async fn claim_job_once(db: &Db, job: JobId, scope: Scope, claim: &ClaimId, actor: &Actor) -> Result<Claim, Error> {
    let mut tx = db.begin().await?;
    let row = sqlx::query!(
        r#"-- repo::claim
         SELECT prompt_id AS "prompt: PromptId", org_id AS "org: OrgId", created_by AS "user: UserId",
                lane AS "lane: Lane", priority AS "priority: Priority", attempt, max_attempts, releases,
                supersedes AS "supersedes: JobId", execution_options AS options, state AS "state: crate::state::State"
           FROM sa_job
          WHERE id = ?
            FOR UPDATE"#,
        job,
    )
    .fetch_optional(tx.session())
    .await?
    .ok_or(Error::NotFound)?;
    let viewer = Viewer { org: row.org, user: row.user };
    if !scope.admits(viewer) {
        return Err(Error::NotFound);
    }
    if row.state != Transition::CLAIM.from() {
        return Err(Error::Conflict { id: job, found: row.state });
    }
    let taken = Claim {
        held: Held { job, claim: claim.clone(), attempt: row.attempt },
        prompt: row.prompt,
        viewer,
        lane: row.lane,
        priority: row.priority,
        max_attempts: row.max_attempts,
        releases: row.releases,
        supersedes: row.supersedes,
        options: row.options,
    };
    start(&mut tx, claim, std::slice::from_ref(&taken), actor).await?;
    tx.commit().await?;
    Ok(taken)
}

/// Stores a prompt and claims its job in one transaction, so that no other worker can take it: the synchronous run.
///
/// # Errors
/// `NotFound` if its root is absent or another viewer's; `Database`.
pub async fn enqueue_claimed(db: &Db, prompt: NewPrompt, ids: &mut ClaimIds) -> Result<Claim, Error> {
    let claim = ids.mint();
    let actor = Actor::worker(ids.worker());
    let minted = [Minted::new(prompt)];
    db.retrying(|| enqueue_claimed_once(db, &minted, &claim, &actor)).await
}

async fn enqueue_claimed_once(db: &Db, minted: &[Minted; 1], claim: &ClaimId, actor: &Actor) -> Result<Claim, Error> {
    let mut tx = db.begin().await?;
    let ids = insert(&mut tx, minted).await?.remove(0)?;
    let [Minted { prompt, .. }] = minted;
    let taken = Claim {
        held: Held { job: ids.job_id, claim: claim.clone(), attempt: 1 },
        prompt: ids.prompt_id,
        viewer: prompt.viewer,
        lane: prompt.lane.clone(),
        priority: prompt.priority,
        max_attempts: prompt.max_attempts.get(),
        releases: 0,
        supersedes: None,
        options: prompt.options.to_json(),
    };
    start(&mut tx, claim, std::slice::from_ref(&taken), actor).await?;
    tx.commit().await?;
    Ok(taken)
}
