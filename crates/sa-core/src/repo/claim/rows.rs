//! The rows behind claims: locked, made to run, and looked for again.

use std::time::Duration;

use super::levels::Candidate;
use super::{Claim, Held};
use crate::event::Reason;
use crate::id::{ClaimId, JobId, OrgId, PromptId, UserId};
use crate::job::{Lane, Priority};
use crate::repo::children::json;
use crate::repo::db::Tx;
use crate::repo::error::Fate;
use crate::repo::event::{Change, Changed, record};
use crate::repo::{DatabaseError, Db, Error};
use crate::state::{State, Transition};
use crate::viewer::{Actor, Viewer};

/// What became of a claim statement.
pub(super) enum Taken {
    /// These are ours.
    Committed(Vec<Claim>),
    /// These may be ours: the COMMIT was not answered.
    Unanswered(Vec<Claim>, Error),
}

pub(super) async fn commit(tx: Tx, claims: Vec<Claim>) -> Result<Taken, Error> {
    match tx.commit().await {
        Ok(()) => Ok(Taken::Committed(claims)),
        Err(error) if error.fate() == Fate::Unknown => Ok(Taken::Unanswered(claims, error)),
        Err(error) => Err(error),
    }
}

/// Which of these claims took place. The rows are locked to be read, whatever their state: a COMMIT that the server is
/// still at work on is waited for, not overlooked.
pub(super) async fn confirmed(db: &Db, claims: &[Claim]) -> Result<Vec<JobId>, Error> {
    let mut held: Vec<Held> = claims.iter().map(Claim::held).collect();
    held.sort_by_key(|held| held.job);
    let mut tx = db.begin().await?;
    let rows = sqlx::query!(
        r#"-- repo::claim
         SELECT j.id AS "id: JobId", j.state AS "state: State", j.worker_claim AS "claim: ClaimId", s.claim AS "sought!: ClaimId"
           FROM (SELECT t.id, t.claim
                   FROM JSON_TABLE(?, '$[*]' COLUMNS (
                            id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$.job',
                            claim VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.claim'
                        )) t) s
           STRAIGHT_JOIN sa_job j FORCE INDEX (PRIMARY) ON j.id = s.id
            FOR UPDATE"#,
        json(&held),
    )
    .fetch_all(tx.session())
    .await?;
    tx.commit().await?;
    let ours = rows.into_iter().filter(|row| row.state == State::Running && row.claim.as_ref() == Some(&row.sought));
    Ok(ours.map(|row| row.id).collect())
}

/// A row of `sa_job` as a claim needs it.
pub(super) struct ClaimRow {
    pub(super) id: JobId,
    pub(super) prompt: PromptId,
    pub(super) org: OrgId,
    pub(super) user: UserId,
    pub(super) lane: Lane,
    pub(super) priority: Priority,
    pub(super) attempt: u16,
    pub(super) max_attempts: u16,
    pub(super) releases: u8,
    pub(super) held_us: Option<i64>,
    pub(super) supersedes: Option<JobId>,
    pub(super) options: String,
}

impl ClaimRow {
    pub(super) const fn viewer(&self) -> Viewer {
        Viewer { org: self.org, user: self.user }
    }

    pub(super) fn claimed_by(self, claim: &ClaimId) -> Claim {
        Claim {
            held: Held { job: self.id, claim: claim.clone(), attempt: self.attempt },
            viewer: self.viewer(),
            prompt: self.prompt,
            lane: self.lane,
            priority: self.priority,
            max_attempts: self.max_attempts,
            releases: self.releases,
            held_for: self.held_us.map(|us| Duration::from_micros(u64::try_from(us).unwrap_or(0))),
            trial: false,
            supersedes: self.supersedes,
            options: self.options,
        }
    }
}

/// Locks at most `need` of the candidates that may still be taken, in their order: an ORDER BY would lock them all.
pub(super) async fn lock_candidates(
    tx: &mut Tx,
    claim: &ClaimId,
    candidates: &[Candidate],
    need: usize,
) -> Result<Vec<Claim>, Error> {
    let rows = sqlx::query_as!(
        ClaimRow,
        r#"-- repo::claim
         SELECT j.id AS "id: JobId", j.prompt_id AS "prompt: PromptId", j.org_id AS "org: OrgId",
                j.created_by AS "user: UserId", j.lane AS "lane: Lane", j.priority AS "priority: Priority",
                j.attempt, j.max_attempts, j.releases,
                TIMESTAMPDIFF(MICROSECOND, j.held_since, UTC_TIMESTAMP(6)) AS "held_us: i64",
                j.supersedes AS "supersedes: JobId", j.execution_options AS options
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
    Ok(rows.into_iter().map(|row| row.claimed_by(claim)).collect())
}

/// Makes locked rows run under their claim, and says so in their events.
pub(super) async fn start(tx: &mut Tx, claim: &ClaimId, taken: &[Claim], actor: &Actor) -> Result<(), Error> {
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
        return Err(DatabaseError::guard_missed("a claim").into());
    }
    let change = Change { from: Some(edge.from()), to: edge.to(), actor, reason: Reason::Claim };
    record(tx.session(), &jobs, &change).await
}
