//! Say that runs are alive, and learn which of them are not ours any more.

use std::collections::HashSet;

use super::children::json;
use super::claim::Held;
use super::{Db, Error};
use crate::id::JobId;
use crate::state::State;

/// Moves the beat of every run that is still held, and answers the jobs whose claim is lost: cancelled, reclaimed, or
/// over the 15-minute ceiling, past which no beat keeps a claim.
///
/// Leaves `updated_at` and `revision` alone: followers are not told of beats.
///
/// # Errors
/// `Database`; then nothing is known of any claim.
pub async fn beat(db: &Db, held: &[Held]) -> Result<Vec<JobId>, Error> {
    if held.is_empty() {
        return Ok(Vec::new());
    }
    // In the order of ids, as finalize locks them: in another order the two would deadlock.
    let mut in_order = held.to_vec();
    in_order.sort_by_key(|held| held.job);
    let met = db.retrying(|| once(db, &in_order)).await?;
    // sqlx counts rows met, not rows changed, so two beats in one microsecond still count.
    if usize::try_from(met).is_ok_and(|met| met == held.len()) {
        return Ok(Vec::new());
    }
    still_held(db, held).await
}

async fn once(db: &Db, held: &[Held]) -> Result<u64, Error> {
    let done = sqlx::query!(
        "-- repo::heartbeat
         UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
                    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$.job',
                    claim VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.claim',
                    attempt SMALLINT UNSIGNED PATH '$.attempt'
                )) s
           STRAIGHT_JOIN sa_job j FORCE INDEX (PRIMARY) ON j.id = s.id
            SET j.running_heartbeat_at = UTC_TIMESTAMP(6)
          WHERE j.state = ?
            AND j.worker_claim = s.claim
            AND j.attempt = s.attempt
            AND j.started_at > UTC_TIMESTAMP(6) - INTERVAL 15 MINUTE",
        json(held),
        State::Running,
    )
    .execute(db.pool())
    .await?;
    Ok(done.rows_affected())
}

/// Answers the jobs whose claim is lost, as [`beat`] does, and writes nothing.
///
/// # Errors
/// `Database`; then nothing is known of any claim.
pub async fn still_held(db: &Db, held: &[Held]) -> Result<Vec<JobId>, Error> {
    let ours = db.retrying(|| ours(db, held)).await?;
    Ok(held.iter().map(|held| held.job).filter(|job| !ours.contains(job)).collect())
}

async fn ours(db: &Db, held: &[Held]) -> Result<HashSet<JobId>, Error> {
    let ours = sqlx::query_scalar!(
        r#"-- repo::heartbeat
         SELECT j.id AS "id: JobId"
           FROM JSON_TABLE(?, '$[*]' COLUMNS (
                    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$.job',
                    claim VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.claim',
                    attempt SMALLINT UNSIGNED PATH '$.attempt'
                )) s
           STRAIGHT_JOIN sa_job j FORCE INDEX (PRIMARY) ON j.id = s.id
          WHERE j.state = ?
            AND j.worker_claim = s.claim
            AND j.attempt = s.attempt
            AND j.started_at > UTC_TIMESTAMP(6) - INTERVAL 15 MINUTE"#,
        json(held),
        State::Running,
    )
    .fetch_all(db.pool())
    .await?;
    Ok(ours.into_iter().collect())
}
