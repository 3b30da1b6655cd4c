//! Take back what silent workers hold.

use std::time::Duration;

use super::db::Tx;
use super::event::{Change, Changed, record};
use super::{Db, Error};
use crate::error_kind::{ErrorKind, Failure};
use crate::event::Reason;
use crate::id::{ClaimId, JobId};
use crate::retry::{ReclaimVerdict, reclaim_verdict};
use crate::state::{State, Transition};
use crate::viewer::Actor;

/// A job taken from a silent worker.
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

/// A run seen silent, with what must still be so when it is taken.
struct Silent {
    job: JobId,
    claim: ClaimId,
    attempt: u16,
    max_attempts: u16,
    running_for: Duration,
    stale_after: Duration,
}

/// Takes back every running job whose last beat is older than `stale_after`, or than the limit its own worker was started
/// with if that is larger. Any number of reapers may run at once.
///
/// With attempts left and started within 15 minutes the job is queued again at once, as `worker_crash`; else it fails as
/// `stuck`.
///
/// # Errors
/// `Database`; what was taken until then stays taken.
pub async fn reclaim(db: &Db, stale_after: Duration, actor: &Actor) -> Result<Vec<Reclaimed>, Error> {
    let mut reclaimed = Vec::new();
    for silent in db.retrying(|| silent(db, stale_after)).await? {
        match db.retrying(|| take(db, &silent, actor)).await {
            Ok(Some(taken)) => reclaimed.push(taken),
            Ok(None) => {}
            Err(error) if error.is_unreachable() => return Err(error),
            // One job that cannot be taken is no reason to leave the others.
            Err(error) => tracing::error!(job.id = %silent.job, %error, "A silent job could not be taken back."),
        }
    }
    Ok(reclaimed)
}

async fn silent(db: &Db, stale_after: Duration) -> Result<Vec<Silent>, Error> {
    let own = micros(stale_after);
    let rows = sqlx::query!(
        r#"-- repo::reclaim
         SELECT j.id AS "job: JobId", j.worker_claim AS "claim!: ClaimId", j.attempt, j.max_attempts,
                TIMESTAMPDIFF(MICROSECOND, j.started_at, UTC_TIMESTAMP(6)) AS "running_us!: i64",
                CAST(GREATEST(?, COALESCE(p.stale_ms * 1000, 0)) AS SIGNED) AS "stale_us!: i64"
           FROM sa_job j FORCE INDEX (idx_state)
           LEFT JOIN sa_pulse p ON p.id = SUBSTRING_INDEX(j.worker_claim, '.', 1)
          WHERE j.state = ?
            AND j.running_heartbeat_at < UTC_TIMESTAMP(6) - INTERVAL GREATEST(?, COALESCE(p.stale_ms * 1000, 0)) MICROSECOND"#,
        own,
        State::Running,
        own,
    )
    .fetch_all(db.pool())
    .await?;
    let span = |us: i64| Duration::from_micros(u64::try_from(us).unwrap_or(0));
    Ok(rows
        .into_iter()
        .map(|row| Silent {
            job: row.job,
            claim: row.claim,
            attempt: row.attempt,
            max_attempts: row.max_attempts,
            running_for: span(row.running_us),
            stale_after: span(row.stale_us),
        })
        .collect())
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// Takes one job, if it is still held by the claim that was seen and that claim is still silent; a run that finished or
/// beat meanwhile keeps it.
async fn take(db: &Db, silent: &Silent, actor: &Actor) -> Result<Option<Reclaimed>, Error> {
    let mut tx = db.begin().await?;
    if !lock(&mut tx, silent.job).await? {
        return Ok(None);
    }
    let verdict = reclaim_verdict(silent.attempt, silent.max_attempts, silent.running_for);
    let (edge, failure, met) = match verdict {
        ReclaimVerdict::Requeue => {
            let message = format!("its worker fell silent in attempt {}", silent.attempt);
            let failure = Failure::new(ErrorKind::WorkerCrash, message);
            let met = requeue(&mut tx, silent, &failure).await?;
            (Transition::REQUEUE, failure, met)
        }
        ReclaimVerdict::Stuck(message) => {
            let failure = Failure::new(ErrorKind::Stuck, message);
            let met = fail(&mut tx, silent, &failure).await?;
            (Transition::FAIL, failure, met)
        }
    };
    if met == 0 {
        return Ok(None);
    }
    let change = Change { from: Some(edge.from()), to: edge.to(), actor, reason: Reason::Reclaim };
    record(tx.session(), &[Changed { id: silent.job, claim: Some(&silent.claim) }], &change).await?;
    tx.commit().await?;
    Ok(Some(Reclaimed {
        job: silent.job,
        to: edge.to(),
        attempt: silent.attempt + u16::from(edge == Transition::REQUEUE),
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

async fn requeue(tx: &mut Tx, silent: &Silent, failure: &Failure) -> Result<u64, Error> {
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
            AND running_heartbeat_at < UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND",
        edge.to(),
        failure.kind(),
        failure.message(),
        silent.job,
        edge.from(),
        silent.claim,
        silent.attempt,
        micros(silent.stale_after),
    )
    .execute(tx.session())
    .await?;
    Ok(done.rows_affected())
}

async fn fail(tx: &mut Tx, silent: &Silent, failure: &Failure) -> Result<u64, Error> {
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
            AND running_heartbeat_at < UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND",
        edge.to(),
        failure.kind(),
        failure.message(),
        silent.job,
        edge.from(),
        silent.claim,
        silent.attempt,
        micros(silent.stale_after),
    )
    .execute(tx.session())
    .await?;
    Ok(done.rows_affected())
}
