//! The places of one-shots: however often cron starts one, only so many run at once on one database.

use std::time::Duration;

use time::OffsetDateTime;

use super::write;
use crate::death::{Here, MISSED_BEATS, Process};
use crate::id::WorkerId;
use crate::pulse::Pulse;
use crate::repo::error::Fate;
use crate::repo::{Db, Error};

/// Takes the lowest free one of `slots` places for this process, and records its pulse with it. Nothing if none is free:
/// then nothing is recorded either.
///
/// A place is free if nobody has it, or whoever had it ended, is proven dead seen from `here`, or has missed three beats.
///
/// # Errors
/// `Database`.
pub async fn take_slot(db: &Db, pulse: &Pulse, slots: u8, here: &Here) -> Result<Option<u8>, Error> {
    let before = db.retrying(|| holders(db, slots)).await?;
    for slot in 1..=slots {
        let holder = before.iter().find(|holder| holder.slot == slot);
        if holder.is_some_and(|holder| !holder.is_gone(here)) {
            continue;
        }
        match db.retrying(|| take(db, pulse, slot, holder)).await {
            Ok(Taking::Taken) => return Ok(Some(slot)),
            Ok(Taking::HolderLives) => {}
            // Somebody was quicker.
            Err(error) if error.fate() == Fate::Duplicate => {}
            // The COMMIT was not answered, so the place may be ours.
            Err(error) if error.fate() == Fate::Unknown => {
                let after = db.retrying(|| holders(db, slots)).await?;
                let ours = after.iter().any(|holder| holder.worker == pulse.worker);
                return if ours { Ok(Some(slot)) } else { Err(error) };
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Who has a place, and what speaks against that.
struct Holder {
    worker: WorkerId,
    slot: u8,
    has_ended: bool,
    seen_at: OffsetDateTime,
    silent_for: Duration,
    process: Process,
}

impl Holder {
    fn is_gone(&self, here: &Here) -> bool {
        self.has_ended
            || self.silent_for >= self.process.beat * MISSED_BEATS
            || here.look_for(&self.process, self.silent_for).is_some()
    }
}

async fn holders(db: &Db, slots: u8) -> Result<Vec<Holder>, Error> {
    let rows = sqlx::query!(
        r#"-- repo::pulse
         SELECT id AS "worker: WorkerId", slot AS "slot!", ended_at IS NOT NULL AS "has_ended: bool",
                seen_at AS "seen_at: OffsetDateTime",
                TIMESTAMPDIFF(MICROSECOND, seen_at, UTC_TIMESTAMP(6)) AS "silent_us!: i64",
                machine_id, boot_id, pid, pid_namespace, start_time, beat_ms
           FROM sa_pulse FORCE INDEX (uq_pulse_slot)
          WHERE slot <= ?"#,
        slots,
    )
    .fetch_all(db.pool())
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Holder {
            worker: row.worker,
            slot: row.slot,
            has_ended: row.has_ended,
            seen_at: row.seen_at,
            silent_for: Duration::from_micros(u64::try_from(row.silent_us).unwrap_or(0)),
            process: Process {
                machine_id: row.machine_id,
                boot_id: row.boot_id,
                pid: row.pid,
                pid_namespace: row.pid_namespace,
                start_time: row.start_time,
                beat: Duration::from_millis(row.beat_ms.into()),
            },
        })
        .collect())
}

/// What came of an attempt to take a place.
enum Taking {
    Taken,
    /// Whoever has it has given a sign of life since it was looked at.
    HolderLives,
}

/// Takes a place that looked free. The unique key lets one in; it is the last step, so that a pulse without its place is
/// never seen.
async fn take(db: &Db, pulse: &Pulse, slot: u8, holder: Option<&Holder>) -> Result<Taking, Error> {
    let mut tx = db.begin().await?;
    if let Some(holder) = holder {
        let met = sqlx::query!(
            "-- repo::pulse
             UPDATE sa_pulse
                SET slot = NULL
              WHERE id = ?
                AND slot = ?
                AND seen_at = ?",
            holder.worker,
            slot,
            holder.seen_at,
        )
        .execute(tx.session())
        .await?
        .rows_affected();
        if met == 0 {
            return Ok(Taking::HolderLives);
        }
    }
    write(tx.session(), pulse).await?;
    sqlx::query!(
        "-- repo::pulse
         UPDATE sa_pulse SET slot = ? WHERE id = ?",
        slot,
        pulse.worker,
    )
    .execute(tx.session())
    .await?;
    tx.commit().await?;
    Ok(Taking::Taken)
}
