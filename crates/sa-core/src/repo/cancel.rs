//! End a job on somebody's word, waiting or running.

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
    loop {
        let error = match db.retrying(|| once(db, job, scope, actor)).await {
            Err(error) => error,
            done => return done,
        };
        // Asked once more, a cancel that took place without an answer says so by itself.
        if error.fate() != super::error::Fate::Unknown {
            return Err(error);
        }
    }
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
