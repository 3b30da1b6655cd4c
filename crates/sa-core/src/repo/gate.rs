//! Which lanes are closed for a while, and which one call finds out whether one works again.

use std::time::Duration;

use super::db::Tx;
use super::{Db, Error};
use crate::error_kind::ErrorKind;
use crate::gate::{Closing, ERRORS_THAT_CLOSE, Effect, LONGEST_TRIAL};
use crate::id::ClaimId;
use crate::job::Lane;

/// A lane whose calls do not all go well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The lane.
    pub lane: Lane,
    /// The kind of error that closed it; nothing if somebody closed it by hand.
    pub reason: Option<ErrorKind>,
    /// How often it closed in a row.
    pub closures: u32,
    /// How it stands.
    pub standing: Standing,
}

/// How such a lane stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is open, and its last call met an error of the server.
    Open,
    /// No call for so long.
    Closed(Duration),
    /// The time is over, and one job may find out whether it works again.
    TrialDue,
    /// One job is finding out.
    OnTrial,
}

impl Gate {
    /// Whether calls may be made.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        match self.standing {
            Standing::Open => true,
            Standing::Closed(_) | Standing::TrialDue | Standing::OnTrial => false,
        }
    }
}

/// The lanes that are closed or have met errors. What is not among them is open and well.
///
/// # Errors
/// `Database`.
pub async fn list(db: &Db) -> Result<Vec<Gate>, Error> {
    db.retrying(|| list_once(db)).await
}

/// Whether this lane's jobs wait for its gate.
///
/// # Errors
/// `Database`.
pub async fn is_closed(db: &Db, lane: &Lane) -> Result<bool, Error> {
    Ok(list(db).await?.iter().any(|gate| gate.lane == *lane && !gate.is_open()))
}

async fn list_once(db: &Db) -> Result<Vec<Gate>, Error> {
    let rows = sqlx::query!(
        r#"-- repo::gate
         SELECT lane AS "lane: Lane", reason AS "reason: ErrorKind", closures,
                TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), closed_until) AS "closed_us: i64",
                TIMESTAMPDIFF(MICROSECOND, trial_at, UTC_TIMESTAMP(6)) AS "trial_us: i64"
           FROM sa_provider_gate
          WHERE closed_until IS NOT NULL
             OR errors_in_row > 0"#
    )
    .fetch_all(db.pool())
    .await?;
    let span = |us: i64| Duration::from_micros(u64::try_from(us).unwrap_or(0));
    Ok(rows
        .into_iter()
        .map(|row| {
            let standing = match (row.closed_us, row.trial_us) {
                (None, _) => Standing::Open,
                (Some(left), _) if left > 0 => Standing::Closed(span(left)),
                (Some(_), Some(age)) if span(age) < LONGEST_TRIAL => Standing::OnTrial,
                (Some(_), _) => Standing::TrialDue,
            };
            Gate { lane: row.lane, reason: row.reason, closures: row.closures, standing }
        })
        .collect())
}

/// Makes this claim the lane's trial, if none is under way; the first of many wins.
pub(super) async fn take_trial(tx: &mut Tx, lane: &Lane, claim: &ClaimId) -> Result<bool, Error> {
    let taken = sqlx::query!(
        "-- repo::gate
         UPDATE sa_provider_gate
            SET trial_claim = ?,
                trial_at = UTC_TIMESTAMP(6),
                updated_at = UTC_TIMESTAMP(6)
          WHERE lane = ?
            AND closed_until <= UTC_TIMESTAMP(6)
            AND (trial_at IS NULL OR trial_at <= UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND)",
        claim,
        lane,
        micros(LONGEST_TRIAL),
    )
    .execute(tx.session())
    .await?;
    Ok(taken.rows_affected() == 1)
}

/// A call of this claim was answered. Errors in a row are forgotten; if it was the lane's trial, the lane opens.
///
/// A call that began before the lane closed opens nothing: the wait that the provider asked for stands.
///
/// # Errors
/// `Database`.
pub async fn succeeded(db: &Db, lane: &Lane, claim: &ClaimId) -> Result<(), Error> {
    db.retrying(|| async {
        sqlx::query!(
            "-- repo::gate
             UPDATE sa_provider_gate
                SET closed_until = NULL,
                    reason = NULL,
                    closures = 0,
                    errors_in_row = 0,
                    trial_claim = NULL,
                    trial_at = NULL,
                    updated_at = UTC_TIMESTAMP(6)
              WHERE lane = ?
                AND (trial_claim = ? OR errors_in_row > 0)",
            lane,
            claim,
        )
        .execute(db.pool())
        .await?;
        Ok(())
    })
    .await
}

/// A call of this lane failed with `kind`, which does this to its gate.
///
/// # Errors
/// `Database`.
pub async fn failed(db: &Db, lane: &Lane, kind: ErrorKind, effect: Effect) -> Result<(), Error> {
    match effect {
        Effect::None => Ok(()),
        Effect::Close(closing) => close(db, lane, kind, closing).await,
        Effect::Count(closing) => {
            if db.retrying(|| count(db, lane)).await? >= ERRORS_THAT_CLOSE {
                close(db, lane, kind, closing).await?;
            }
            Ok(())
        }
    }
}

/// Counts one more error in a row of an open lane, and answers how many they are.
async fn count(db: &Db, lane: &Lane) -> Result<u32, Error> {
    ensure(db, lane).await?;
    sqlx::query!(
        "-- repo::gate
         UPDATE sa_provider_gate
            SET errors_in_row = errors_in_row + 1,
                updated_at = UTC_TIMESTAMP(6)
          WHERE lane = ?
            AND closed_until IS NULL",
        lane,
    )
    .execute(db.pool())
    .await?;
    let errors = sqlx::query_scalar!(
        "-- repo::gate
         SELECT errors_in_row FROM sa_provider_gate WHERE lane = ?",
        lane,
    )
    .fetch_one(db.pool())
    .await?;
    Ok(errors)
}

/// Closes the lane. Calls that were under way together fail together: only the first of them is a closure in the row, the
/// others can at most make it longer.
async fn close(db: &Db, lane: &Lane, kind: ErrorKind, closing: Closing) -> Result<(), Error> {
    db.retrying(|| close_once(db, lane, kind, closing)).await
}

async fn close_once(db: &Db, lane: &Lane, kind: ErrorKind, closing: Closing) -> Result<(), Error> {
    ensure(db, lane).await?;
    // Assignments see those above them, so what looks at the old closed_until stands before it.
    sqlx::query!(
        "-- repo::gate
         UPDATE sa_provider_gate
            SET reason = IF(closed_until >= UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND, reason, ?),
                closures = closures + IF(closed_until > UTC_TIMESTAMP(6), 0, 1),
                closed_until = IF(closed_until > UTC_TIMESTAMP(6),
                    GREATEST(closed_until, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND),
                    UTC_TIMESTAMP(6) + INTERVAL LEAST((? + FLOOR(RAND() * ?)) * (1 << LEAST(closures - 1, 20)), ?) MICROSECOND),
                errors_in_row = 0,
                trial_claim = NULL,
                trial_at = NULL,
                updated_at = UTC_TIMESTAMP(6)
          WHERE lane = ?",
        micros(closing.base),
        kind,
        micros(closing.base),
        micros(closing.base),
        micros(closing.spread),
        micros(closing.longest),
        lane,
    )
    .execute(db.pool())
    .await?;
    Ok(())
}

/// Makes the lane's row, if there is none yet. What follows needs no transaction with it: a row alone says that all is well.
async fn ensure(db: &Db, lane: &Lane) -> Result<(), Error> {
    sqlx::query!(
        "-- repo::gate
         INSERT IGNORE INTO sa_provider_gate (lane) VALUES (?)",
        lane,
    )
    .execute(db.pool())
    .await?;
    Ok(())
}

/// The trial of this claim found out nothing: another may try at once.
///
/// # Errors
/// `Database`.
pub async fn trial_over(db: &Db, lane: &Lane, claim: &ClaimId) -> Result<(), Error> {
    db.retrying(|| async {
        sqlx::query!(
            "-- repo::gate
             UPDATE sa_provider_gate
                SET trial_claim = NULL,
                    trial_at = NULL,
                    updated_at = UTC_TIMESTAMP(6)
              WHERE lane = ?
                AND trial_claim = ?",
            lane,
            claim,
        )
        .execute(db.pool())
        .await?;
        Ok(())
    })
    .await
}

/// Opens a lane by an operator's word, and forgets what closed it; answers whether it was not open.
///
/// # Errors
/// `Database`.
pub async fn open(db: &Db, lane: &Lane) -> Result<bool, Error> {
    db.retrying(|| async {
        let opened = sqlx::query!(
            "-- repo::gate
             UPDATE sa_provider_gate
                SET closed_until = NULL,
                    reason = NULL,
                    closures = 0,
                    errors_in_row = 0,
                    trial_claim = NULL,
                    trial_at = NULL,
                    updated_at = UTC_TIMESTAMP(6)
              WHERE lane = ?
                AND closed_until IS NOT NULL",
            lane,
        )
        .execute(db.pool())
        .await?;
        Ok(opened.rows_affected() == 1)
    })
    .await
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
