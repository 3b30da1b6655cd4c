//! The rows of finished runs: locked under their claims, and moved along their edges.

use std::time::Duration;

use serde::Serialize;

use super::{End, Finish};
use crate::error_kind::{ErrorKind, Failure};
use crate::id::{JobId, ResponseId};
use crate::job::Lane;
use crate::repo::children::json;
use crate::repo::claim::Held;
use crate::repo::db::Tx;
use crate::repo::{DatabaseError, Error};
use crate::retry::Backoff;
use crate::state::{State, Transition};

/// Locks the rows whose claims are still held, in the order of their ids, and answers their jobs.
pub(super) async fn fence(tx: &mut Tx, batch: &[Finish]) -> Result<Vec<JobId>, Error> {
    let mut rows: Vec<Held> = batch.iter().map(Finish::held).collect();
    rows.sort_by_key(|held| held.job);
    let held = sqlx::query_scalar!(
        r#"-- repo::finalize
         SELECT j.id AS "id: JobId"
           FROM (SELECT t.id, t.claim, t.attempt
                   FROM JSON_TABLE(?, '$[*]' COLUMNS (
                            id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$.job',
                            claim VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.claim',
                            attempt SMALLINT UNSIGNED PATH '$.attempt'
                        )) t) s
           STRAIGHT_JOIN sa_job j FORCE INDEX (PRIMARY) ON j.id = s.id
          WHERE j.state = ?
            AND j.worker_claim = s.claim
            AND j.attempt = s.attempt
            FOR UPDATE"#,
        json(&rows),
        State::Running,
    )
    .fetch_all(tx.session())
    .await?;
    Ok(held)
}

#[derive(Serialize)]
struct MoveJson<'a> {
    id: JobId,
    claim: &'a str,
    response: Option<ResponseId>,
    error: Option<ErrorKind>,
    message: Option<&'a str>,
    spends: u8,
    releases: u8,
    held: Option<&'a str>,
    gated: u8,
    lane: Option<&'a Lane>,
    base_us: u64,
    spread_us: u64,
}

impl<'a> MoveJson<'a> {
    fn of(finish: &'a Finish) -> Self {
        let mut row = Self {
            id: finish.job(),
            claim: finish.claim.id().as_str(),
            response: None,
            error: None,
            message: None,
            spends: 0,
            releases: 0,
            held: None,
            gated: 0,
            lane: None,
            base_us: 0,
            spread_us: 0,
        };
        match &finish.end {
            End::Succeed(_) => row.response = Some(finish.response_id()),
            End::Fail(failure) => row.failed_by(Some(failure)),
            End::Requeue(requeue) => {
                row.failed_by(requeue.failure.as_ref());
                row.spends = u8::from(requeue.spends_attempt);
                row.releases = u8::from(!requeue.spends_attempt);
                row.held = (requeue.backoff != Backoff::NONE).then_some("backoff");
                row.base_us = micros(requeue.backoff.base);
                row.spread_us = micros(requeue.backoff.spread);
            }
            End::Hold(failure, lane) => {
                row.failed_by(Some(failure));
                row.held = Some("gate");
                row.gated = 1;
                row.lane = lane.as_ref();
            }
            End::Abandon(_) => {}
        }
        row
    }

    fn failed_by(&mut self, failure: Option<&'a Failure>) {
        self.error = failure.map(Failure::kind);
        self.message = failure.map(Failure::message);
    }
}

fn micros(wait: Duration) -> u64 {
    u64::try_from(wait.as_micros()).unwrap_or(u64::MAX)
}

/// Moves the locked rows, one statement for each edge that is taken.
pub(super) async fn move_rows(tx: &mut Tx, ours: &[&Finish]) -> Result<(), Error> {
    let along = |edge| {
        let rows = ours.iter().filter(|finish| finish.edge() == Some(edge)).map(|finish| MoveJson::of(finish));
        Some(rows.collect::<Vec<_>>()).filter(|rows| !rows.is_empty())
    };
    let mut met = 0;
    if let Some(rows) = along(Transition::SUCCEED) {
        met += succeed(tx, &rows).await?;
    }
    if let Some(rows) = along(Transition::FAIL) {
        met += fail(tx, &rows).await?;
    }
    if let Some(rows) = along(Transition::REQUEUE) {
        met += give_back(tx, &rows).await?;
    }
    if met != ours.len() as u64 {
        return Err(DatabaseError::guard_missed("a finalize").into());
    }
    Ok(())
}

/// Running to succeeded. The row keeps its claim, so that it can be told whose end it was.
///
/// It is not the statement of a failure: a text among the values would make MariaDB write them to disk first.
async fn succeed(tx: &mut Tx, rows: &[MoveJson<'_>]) -> Result<u64, Error> {
    let edge = Transition::SUCCEED;
    let done = sqlx::query!(
        "-- repo::finalize
         UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
                    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$.id',
                    claim VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.claim',
                    response CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$.response'
                )) s
           STRAIGHT_JOIN sa_job j FORCE INDEX (PRIMARY) ON j.id = s.id
            SET j.state = ?,
                j.response_id = s.response,
                j.error_kind = NULL,
                j.error_message = NULL,
                j.held_reason = NULL,
                j.finished_at = UTC_TIMESTAMP(6),
                j.revision = j.revision + 1,
                j.updated_at = UTC_TIMESTAMP(6)
          WHERE j.state = ?
            AND j.worker_claim = s.claim",
        json(rows),
        edge.to(),
        edge.from(),
    )
    .execute(tx.session())
    .await?;
    Ok(done.rows_affected())
}

/// Running to failed. The row keeps its claim, as of a success.
async fn fail(tx: &mut Tx, rows: &[MoveJson<'_>]) -> Result<u64, Error> {
    let edge = Transition::FAIL;
    let done = sqlx::query!(
        "-- repo::finalize
         UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
                    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$.id',
                    claim VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.claim',
                    error_kind VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin PATH '$.error',
                    error_message LONGTEXT CHARACTER SET utf8mb4 PATH '$.message'
                )) s
           STRAIGHT_JOIN sa_job j FORCE INDEX (PRIMARY) ON j.id = s.id
            SET j.state = ?,
                j.error_kind = s.error_kind,
                j.error_message = s.error_message,
                j.held_reason = NULL,
                j.finished_at = UTC_TIMESTAMP(6),
                j.revision = j.revision + 1,
                j.updated_at = UTC_TIMESTAMP(6)
          WHERE j.state = ?
            AND j.worker_claim = s.claim",
        json(rows),
        edge.to(),
        edge.from(),
    )
    .execute(tx.session())
    .await?;
    Ok(done.rows_affected())
}

/// Running to queued. A release leaves `scheduled_for` and so its place in the queue as it was.
async fn give_back(tx: &mut Tx, rows: &[MoveJson<'_>]) -> Result<u64, Error> {
    let edge = Transition::REQUEUE;
    let done = sqlx::query!(
        "-- repo::finalize
         UPDATE JSON_TABLE(?, '$[*]' COLUMNS (
                    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$.id',
                    claim VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.claim',
                    error_kind VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin PATH '$.error',
                    error_message LONGTEXT CHARACTER SET utf8mb4 PATH '$.message',
                    spends INT UNSIGNED PATH '$.spends',
                    releases INT UNSIGNED PATH '$.releases',
                    held VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin PATH '$.held',
                    gated INT UNSIGNED PATH '$.gated',
                    lane VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.lane',
                    base_us BIGINT UNSIGNED PATH '$.base_us',
                    spread_us BIGINT UNSIGNED PATH '$.spread_us'
                )) s
           STRAIGHT_JOIN sa_job j FORCE INDEX (PRIMARY) ON j.id = s.id
            SET j.state = ?,
                j.attempt = j.attempt + s.spends,
                j.releases = j.releases + s.releases,
                j.scheduled_for = CASE WHEN s.spends = 0 THEN j.scheduled_for
                    ELSE UTC_TIMESTAMP(6) + INTERVAL (s.base_us + FLOOR(RAND() * s.spread_us)) MICROSECOND END,
                j.held_reason = s.held,
                j.held_since = IF(s.gated = 1, COALESCE(j.held_since, UTC_TIMESTAMP(6)), j.held_since),
                j.lane = COALESCE(s.lane, j.lane),
                j.error_kind = s.error_kind,
                j.error_message = s.error_message,
                j.worker_claim = NULL,
                j.claimed_at = NULL,
                j.started_at = NULL,
                j.running_heartbeat_at = NULL,
                j.revision = j.revision + 1,
                j.updated_at = UTC_TIMESTAMP(6)
          WHERE j.state = ?
            AND j.worker_claim = s.claim",
        json(rows),
        edge.to(),
        edge.from(),
    )
    .execute(tx.session())
    .await?;
    Ok(done.rows_affected())
}
