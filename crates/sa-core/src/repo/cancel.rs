//! End a job on somebody's word, waiting or running.

use super::error::Fate;
use super::event::{Change, Changed, record};
use super::{Db, Error};
use crate::event::Reason;
use crate::id::{ClaimId, JobId, OrgId, UserId};
use crate::state::{State, Transition};
use crate::viewer::{Actor, Scope, Viewer};

/// A job that is cancelled now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled {
    /// What it was before; `cancelled` if it already was.
    pub from: State,
}

/// Cancels a job. Of a running one the row changes at once; its worker notices, and an answer that still arrives is
/// discarded. An acknowledged cancel is final.
///
/// # Errors
/// `NotFound` outside the scope; `Conflict` if it had ended otherwise, naming the successor if it was superseded; `Database`.
pub async fn cancel(db: &Db, job: JobId, scope: Scope, actor: &Actor) -> Result<Cancelled, Error> {
    let mut unanswered = None;
    for _ in 0..3 {
        match db.retrying(|| once(db, job, scope, actor)).await {
            Ok(Cancelled { from: State::Cancelled }) if unanswered.is_some() => {
                return db.retrying(|| last_cancel(db, job)).await;
            }
            Err(error) if error.fate() == Fate::Unknown => unanswered = Some(error),
            settled => return settled,
        }
    }
    Err(unanswered.unwrap_or(Error::NotFound))
}

/// What the cancel that took place without an answer found.
async fn last_cancel(db: &Db, job: JobId) -> Result<Cancelled, Error> {
    let from = sqlx::query_scalar!(
        r#"-- repo::cancel
         SELECT from_state AS "from!: State"
           FROM sa_job_event
          WHERE job_id = ?
            AND reason = 'cancel'
          ORDER BY seq DESC
          LIMIT 1"#,
        job,
    )
    .fetch_optional(db.pool())
    .await?
    .ok_or(Error::NotFound)?;
    Ok(Cancelled { from })
}

async fn once(db: &Db, job: JobId, scope: Scope, actor: &Actor) -> Result<Cancelled, Error> {
    let mut tx = db.begin().await?;
    let row = sqlx::query!(
        r#"-- repo::cancel
         SELECT state AS "state: State", org_id AS "org: OrgId", created_by AS "user: UserId",
                worker_claim AS "claim: ClaimId"
           FROM sa_job
          WHERE id = ?
            FOR UPDATE"#,
        job,
    )
    .fetch_optional(tx.session())
    .await?
    .ok_or(Error::NotFound)?;
    if !scope.admits(Viewer { org: row.org, user: row.user }) {
        return Err(Error::NotFound);
    }
    let Some(edge) = Transition::cancel_of(row.state) else {
        return match row.state {
            State::Cancelled => Ok(Cancelled { from: State::Cancelled }),
            State::Superseded => Err(super::supersede::conflict_with_successor(&mut tx, job).await?),
            State::Queued | State::Running | State::Succeeded | State::Failed => {
                Err(Error::Conflict { id: job, found: row.state })
            }
        };
    };
    let met = sqlx::query!(
        "-- repo::cancel
         UPDATE sa_job
            SET state = ?,
                finished_at = UTC_TIMESTAMP(6),
                error_kind = NULL,
                error_message = NULL,
                held_reason = NULL,
                revision = revision + 1,
                updated_at = UTC_TIMESTAMP(6)
          WHERE id = ?
            AND state = ?",
        edge.to(),
        job,
        edge.from(),
    )
    .execute(tx.session())
    .await?
    .rows_affected();
    if met != 1 {
        return Err(super::DatabaseError::guard_missed("a cancel").into());
    }
    let change = Change { from: Some(edge.from()), to: edge.to(), actor, reason: Reason::Cancel };
    record(tx.session(), &[Changed { id: job, claim: row.claim.as_ref() }], &change).await?;
    tx.commit().await?;
    Ok(Cancelled { from: edge.from() })
}
