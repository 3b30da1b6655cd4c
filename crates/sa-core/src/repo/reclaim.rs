//! Take back what dead and silent workers hold.

mod suspects;

use std::time::Duration;

use self::suspects::{Suspect, suspects};
use super::db::Tx;
use super::event::{Change, Changed, record};
use super::{Db, Error};
use crate::death::Here;
use crate::error_kind::{ErrorKind, Failure};
use crate::event::Reason;
use crate::id::JobId;
use crate::retry::{ReclaimVerdict, reclaim_verdict};
use crate::state::{State, Transition};
use crate::viewer::Actor;

/// A job taken from a dead or silent worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reclaimed {
    /// The job.
    pub job: JobId,
    /// `queued`, to be run again, or `failed`.
    pub to: State,
    /// The number of its next run, or of its last.
    pub attempt: u16,
    /// What happened, in words.
    pub message: String,
}

/// Takes back every running job whose process is proven dead, seen from `here`, and every one whose last beat is older
/// than `stale_after`, or than the limit its own worker was started with if that is larger. Any number of reapers may run
/// at once.
///
/// With attempts left and started within 15 minutes the job is queued again at once, as `worker_crash`; else it fails as
/// `stuck`.
///
/// # Errors
/// `Database`; what was taken until then stays taken.
pub async fn reclaim(db: &Db, stale_after: Duration, here: &Here, actor: &Actor) -> Result<Vec<Reclaimed>, Error> {
    let mut reclaimed = Vec::new();
    for suspect in suspects(db, stale_after, here).await? {
        match db.retrying(|| take(db, &suspect, actor)).await {
            Ok(Some(taken)) => reclaimed.push(taken),
            Ok(None) => {}
            Err(error) if error.is_unreachable() => return Err(error),
            // One job that cannot be taken is no reason to leave the others.
            Err(error) => {
                tracing::error!(job.id = %suspect.job, %error, "A job without a worker could not be taken back.");
            }
        }
    }
    Ok(reclaimed)
}

/// Takes one job, if it is still held by the claim that was seen and that claim has not beaten since. A run that finished
/// or beat meanwhile keeps it, also one whose process was taken for dead: whoever beats lives.
async fn take(db: &Db, suspect: &Suspect, actor: &Actor) -> Result<Option<Reclaimed>, Error> {
    let mut tx = db.begin().await?;
    if !lock(&mut tx, suspect.job).await? {
        return Ok(None);
    }
    let verdict = reclaim_verdict(suspect.attempt, suspect.max_attempts, suspect.running_for);
    let (edge, failure, met) = match verdict {
        ReclaimVerdict::Requeue => {
            let failure = Failure::new(ErrorKind::WorkerCrash, suspect.message());
            let met = requeue(&mut tx, suspect, &failure).await?;
            (Transition::REQUEUE, failure, met)
        }
        ReclaimVerdict::Stuck(message) => {
            let failure = Failure::new(ErrorKind::Stuck, message);
            let met = fail(&mut tx, suspect, &failure).await?;
            (Transition::FAIL, failure, met)
        }
    };
    if met == 0 {
        return Ok(None);
    }
    let change = Change { from: Some(edge.from()), to: edge.to(), actor, reason: Reason::Reclaim };
    record(tx.session(), &[Changed { id: suspect.job, claim: Some(&suspect.claim) }], &change).await?;
    tx.commit().await?;
    Ok(Some(Reclaimed {
        job: suspect.job,
        to: edge.to(),
        attempt: suspect.attempt + u16::from(edge == Transition::REQUEUE),
        message: failure.message().to_owned(),
    }))
}

/// Locks the row, unless somebody holds it: a worker may be frozen in the middle of its finalize, and those behind it must
/// not wait for that.
async fn lock(tx: &mut Tx, job: JobId) -> Result<bool, Error> {
    let row = sqlx::query_scalar!(
        r#"-- repo::reclaim
         SELECT id AS "id: JobId" FROM sa_job WHERE id = ? FOR UPDATE SKIP LOCKED"#,
        job,
    )
    .fetch_optional(tx.session())
    .await?;
    Ok(row.is_some())
}

async fn requeue(tx: &mut Tx, suspect: &Suspect, failure: &Failure) -> Result<u64, Error> {
    let edge = Transition::REQUEUE;
    let done = sqlx::query!(
        "-- repo::reclaim
         UPDATE sa_job
            SET state = ?,
                attempt = attempt + 1,
                scheduled_for = UTC_TIMESTAMP(6),
                held_reason = NULL,
                error_kind = ?,
                error_message = ?,
                worker_claim = NULL,
                claimed_at = NULL,
                started_at = NULL,
                running_heartbeat_at = NULL,
                revision = revision + 1,
                updated_at = UTC_TIMESTAMP(6)
          WHERE id = ?
            AND state = ?
            AND worker_claim = ?
            AND attempt = ?
            AND running_heartbeat_at = ?",
        edge.to(),
        failure.kind(),
        failure.message(),
        suspect.job,
        edge.from(),
        suspect.claim,
        suspect.attempt,
        suspect.beaten_at,
    )
    .execute(tx.session())
    .await?;
    Ok(done.rows_affected())
}

async fn fail(tx: &mut Tx, suspect: &Suspect, failure: &Failure) -> Result<u64, Error> {
    let edge = Transition::FAIL;
    let done = sqlx::query!(
        "-- repo::reclaim
         UPDATE sa_job
            SET state = ?,
                held_reason = NULL,
                error_kind = ?,
                error_message = ?,
                finished_at = UTC_TIMESTAMP(6),
                revision = revision + 1,
                updated_at = UTC_TIMESTAMP(6)
          WHERE id = ?
            AND state = ?
            AND worker_claim = ?
            AND attempt = ?
            AND running_heartbeat_at = ?",
        edge.to(),
        failure.kind(),
        failure.message(),
        suspect.job,
        edge.from(),
        suspect.claim,
        suspect.attempt,
        suspect.beaten_at,
    )
    .execute(tx.session())
    .await?;
    Ok(done.rows_affected())
}

#[cfg(test)]
mod tests;
