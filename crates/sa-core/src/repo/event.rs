//! One row for each change, in the transaction that makes it.

use serde::Serialize;
use sqlx::MySqlConnection;

use super::Error;
use super::children::json;
use crate::event::Reason;
use crate::id::{ClaimId, JobId};
use crate::state::State;
use crate::viewer::Actor;

/// A job that changed, and the claim of the run that changed it.
#[derive(Serialize)]
pub(super) struct Changed<'a> {
    pub(super) id: JobId,
    pub(super) claim: Option<&'a ClaimId>,
}

/// What the change was.
pub(super) struct Change<'a> {
    /// `None` at enqueue; equal to `to` for a note.
    pub(super) from: Option<State>,
    pub(super) to: State,
    pub(super) actor: &'a Actor,
    pub(super) reason: Reason,
}

/// Writes the events of jobs that were changed just before, in this transaction: attempt, revision and error are read from
/// the rows as they now are.
pub(super) async fn record(tx: &mut MySqlConnection, jobs: &[Changed<'_>], change: &Change<'_>) -> Result<(), Error> {
    sqlx::query!(
        "-- repo::event
         INSERT INTO sa_job_event (job_id, prompt_id, org_id, created_by, from_state, to_state, attempt, revision, claim,
                                   actor, reason, error_kind, error_message, at)
         SELECT j.id, j.prompt_id, j.org_id, j.created_by, ?, ?, j.attempt, j.revision, s.claim,
                ?, ?, j.error_kind, j.error_message, UTC_TIMESTAMP(6)
           FROM JSON_TABLE(?, '$[*]' COLUMNS (
                    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$.id',
                    claim VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.claim'
                )) s
           STRAIGHT_JOIN sa_job j FORCE INDEX (PRIMARY) ON j.id = s.id",
        change.from,
        change.to,
        change.actor,
        change.reason,
        json(jobs),
    )
    .execute(tx)
    .await?;
    Ok(())
}
