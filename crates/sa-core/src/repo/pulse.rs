//! Signs of life: which worker lives where, and when the reaper last ran.

mod slot;

use std::time::Duration;

use sqlx::MySqlExecutor;

pub use self::slot::take_slot;
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
    db.retrying(|| write(db.pool(), pulse)).await
}

/// Writes the row, and leaves its slot alone.
async fn write(session: impl MySqlExecutor<'_>, pulse: &Pulse) -> Result<(), Error> {
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
    .execute(session)
    .await?;
    Ok(())
}

fn millis(span: Duration) -> u32 {
    u32::try_from(span.as_millis()).unwrap_or(u32::MAX)
}

/// Says that this process ends cleanly and holds nothing, no slot either.
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
                in_flight = 0,
                slot = NULL
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

/// What a reaper's run may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReaperTurn {
    /// Take back what is stale.
    Reclaim,
    /// Nothing yet: no reaper ran for so long that workers may only look dead, and they get two beats to show themselves.
    WaitAfterOutage {
        /// How long from now they have.
        again_in: Duration,
    },
}

/// The reaper is called every minute; silent for two of its periods, something was away.
const OUTAGE: Duration = Duration::from_secs(120);

/// Begins a run of the reaper: records it, and says whether it may take anything back. A first run ever has no outage
/// behind it.
///
/// # Errors
/// `Database`.
pub async fn reaper_begins(db: &Db, pulse: &Pulse) -> Result<ReaperTurn, Error> {
    let Some(last) = db.retrying(|| last_run(db, pulse)).await? else {
        record(db, pulse).await?;
        return Ok(ReaperTurn::Reclaim);
    };
    let resumed_for = if last.silent_for < OUTAGE {
        last.resumed_for
    } else {
        // Before the run is recorded: a reaper killed in between must find the outage again.
        db.retrying(|| resume(db, pulse)).await?;
        Some(Duration::ZERO)
    };
    record(db, pulse).await?;
    let patience = 2 * last.beat.max(pulse.beat);
    Ok(match resumed_for {
        Some(resumed_for) if resumed_for < patience => ReaperTurn::WaitAfterOutage { again_in: patience - resumed_for },
        Some(_) | None => ReaperTurn::Reclaim,
    })
}

struct LastRun {
    silent_for: Duration,
    resumed_for: Option<Duration>,
    /// The slowest beat of any worker that has not ended.
    beat: Duration,
}

async fn last_run(db: &Db, pulse: &Pulse) -> Result<Option<LastRun>, Error> {
    let row = sqlx::query!(
        r#"-- repo::pulse
         SELECT TIMESTAMPDIFF(MICROSECOND, r.seen_at, UTC_TIMESTAMP(6)) AS "silent_us!: i64",
                TIMESTAMPDIFF(MICROSECOND, r.resumed_at, UTC_TIMESTAMP(6)) AS "resumed_us: i64",
                CAST(COALESCE((SELECT MAX(w.beat_ms) FROM sa_pulse w WHERE w.role = ? AND w.ended_at IS NULL), 0) AS SIGNED)
                    AS "beat_ms!: i64"
           FROM sa_pulse r
          WHERE r.id = ?"#,
        PulseRole::Worker,
        pulse.worker,
    )
    .fetch_optional(db.pool())
    .await?;
    let span = |us: i64| Duration::from_micros(u64::try_from(us).unwrap_or(0));
    Ok(row.map(|row| LastRun {
        silent_for: span(row.silent_us),
        resumed_for: row.resumed_us.map(span),
        beat: span(row.beat_ms.saturating_mul(1000)),
    }))
}

async fn resume(db: &Db, pulse: &Pulse) -> Result<(), Error> {
    sqlx::query!(
        "-- repo::pulse
         UPDATE sa_pulse SET resumed_at = UTC_TIMESTAMP(6) WHERE id = ?",
        pulse.worker,
    )
    .execute(db.pool())
    .await?;
    Ok(())
}

/// Ends a run of the reaper: records it, and takes away the pulses of workers that have been silent for 7 days.
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
