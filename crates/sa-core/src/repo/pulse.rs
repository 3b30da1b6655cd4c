//! Signs of life: which worker lives where, and when the reaper last ran.

use std::time::Duration;

use super::children::json;
use super::{Db, Error};
use crate::id::WorkerId;
use crate::pulse::Pulse;
pub use crate::pulse::PulseRole;

/// Says that this process lives, and how many claims it holds.
///
/// # Errors
/// `Database`.
pub async fn record(db: &Db, pulse: &Pulse) -> Result<(), Error> {
    db.retrying(|| once(db, pulse)).await
}

async fn once(db: &Db, pulse: &Pulse) -> Result<(), Error> {
    sqlx::query!(
        "-- repo::pulse
         INSERT INTO sa_pulse (id, role, host, machine_id, boot_id, pid, pid_namespace, start_time, version, lanes,
                               in_flight, beat_ms, stale_ms, started_at, seen_at)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))
         ON DUPLICATE KEY UPDATE host = VALUES(host), machine_id = VALUES(machine_id), boot_id = VALUES(boot_id),
                                 pid = VALUES(pid), pid_namespace = VALUES(pid_namespace),
                                 start_time = VALUES(start_time), version = VALUES(version), lanes = VALUES(lanes),
                                 in_flight = VALUES(in_flight), beat_ms = VALUES(beat_ms), stale_ms = VALUES(stale_ms),
                                 seen_at = UTC_TIMESTAMP(6), ended_at = NULL",
        pulse.worker,
        pulse.role,
        pulse.host,
        pulse.machine_id,
        pulse.boot_id,
        pulse.pid,
        pulse.pid_namespace,
        pulse.start_time,
        pulse.version,
        json(&pulse.lanes),
        pulse.in_flight,
        millis(pulse.beat),
        millis(pulse.stale),
    )
    .execute(db.pool())
    .await?;
    Ok(())
}

fn millis(span: Duration) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
}

/// Says that this process ends cleanly and holds nothing.
///
/// # Errors
/// `Database`.
pub async fn end(db: &Db, worker: WorkerId) -> Result<(), Error> {
    db.retrying(|| end_once(db, worker)).await
}

async fn end_once(db: &Db, worker: WorkerId) -> Result<(), Error> {
    sqlx::query!(
        "-- repo::pulse
         UPDATE sa_pulse
            SET ended_at = UTC_TIMESTAMP(6),
                seen_at = UTC_TIMESTAMP(6),
                in_flight = 0
          WHERE id = ?",
        worker,
    )
    .execute(db.pool())
    .await?;
    Ok(())
}

/// How long ago any worker last gave a sign of life; nothing if none ever did.
///
/// # Errors
/// `Database`.
pub async fn newest_worker_age(db: &Db) -> Result<Option<Duration>, Error> {
    let age = sqlx::query_scalar!(
        r#"-- repo::pulse
         SELECT TIMESTAMPDIFF(MICROSECOND, MAX(seen_at), UTC_TIMESTAMP(6)) AS "age: i64"
           FROM sa_pulse
          WHERE role = ?"#,
        PulseRole::Worker,
    )
    .fetch_one(db.pool())
    .await?;
    Ok(age.map(|us| Duration::from_micros(u64::try_from(us).unwrap_or(0))))
}

/// Records the reaper's run, and takes away the pulses of workers that have been silent for 7 days.
///
/// # Errors
/// `Database`.
pub async fn reaper_ran(db: &Db, pulse: &Pulse) -> Result<(), Error> {
    record(db, pulse).await?;
    db.retrying(|| async {
        sqlx::query!(
            "-- repo::pulse
             DELETE FROM sa_pulse WHERE role = ? AND seen_at < UTC_TIMESTAMP(6) - INTERVAL 7 DAY",
            PulseRole::Worker,
        )
        .execute(db.pool())
        .await?;
        Ok(())
    })
    .await
}
