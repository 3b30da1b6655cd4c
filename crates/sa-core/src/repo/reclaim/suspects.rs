//! Runs that nobody beats for any more: silent for too long, or of a process that is proven dead.

use std::collections::HashMap;
use std::time::Duration;

use time::OffsetDateTime;

use crate::death::{Death, Here, Process};
use crate::id::{ClaimId, JobId, WorkerId};
use crate::repo::{Db, Error};
use crate::state::State;

/// A run to be taken back, with what must still be so when it is.
pub(super) struct Suspect {
    pub(super) job: JobId,
    pub(super) claim: ClaimId,
    pub(super) attempt: u16,
    pub(super) max_attempts: u16,
    pub(super) running_for: Duration,
    /// Its last beat. A later one means that it lives after all.
    pub(super) beaten_at: OffsetDateTime,
    pub(super) cause: Cause,
}

/// What speaks against a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Its last beat is older than the stale limit.
    Silent,
    /// Its process is dead.
    Dead(Death),
}

impl Suspect {
    /// What to say of it when it is queued again.
    pub(super) fn message(&self) -> String {
        match self.cause {
            Cause::Silent => format!("its worker fell silent in attempt {}", self.attempt),
            Cause::Dead(death) => format!("{death} in attempt {}", self.attempt),
        }
    }
}

/// A running job that is stale, or whose worker's pulse is of this machine.
struct Running {
    suspect: Suspect,
    is_stale: bool,
    worker: Option<WorkerId>,
    process: Process,
    pulse_age: Duration,
}

/// All runs to be taken back. One that is not silent for long yet is among them only if its process is proven dead.
pub(super) async fn suspects(db: &Db, stale_after: Duration, here: &Here) -> Result<Vec<Suspect>, Error> {
    let running = db.retrying(|| running(db, stale_after, here)).await?;
    let mut deaths = HashMap::new();
    let suspects = running.into_iter().filter_map(|running| {
        let Running { suspect, is_stale, worker, process, pulse_age } = running;
        let death =
            worker.and_then(|worker| *deaths.entry(worker).or_insert_with(|| here.look_for(&process, pulse_age)));
        match death {
            Some(death) => Some(Suspect { cause: Cause::Dead(death), ..suspect }),
            None => is_stale.then_some(suspect),
        }
    });
    Ok(suspects.collect())
}

async fn running(db: &Db, stale_after: Duration, here: &Here) -> Result<Vec<Running>, Error> {
    let own = i64::try_from(stale_after.as_micros()).unwrap_or(i64::MAX);
    let rows = sqlx::query!(
        r#"-- repo::reclaim
         SELECT j.id AS "job: JobId", j.worker_claim AS "claim!: ClaimId", j.attempt, j.max_attempts,
                TIMESTAMPDIFF(MICROSECOND, j.started_at, UTC_TIMESTAMP(6)) AS "running_us!: i64",
                j.running_heartbeat_at AS "beaten_at!: OffsetDateTime",
                j.running_heartbeat_at < UTC_TIMESTAMP(6) - INTERVAL GREATEST(?, COALESCE(p.stale_ms * 1000, 0)) MICROSECOND
                    AS "is_stale!: bool",
                p.id AS "worker: WorkerId", p.machine_id, p.boot_id, p.pid, p.pid_namespace, p.start_time,
                p.beat_ms,
                TIMESTAMPDIFF(MICROSECOND, p.seen_at, UTC_TIMESTAMP(6)) AS "pulse_us: i64"
           FROM sa_job j FORCE INDEX (idx_state)
           LEFT JOIN sa_pulse p ON p.id = SUBSTRING_INDEX(j.worker_claim, '.', 1)
          WHERE j.state = ?
            AND (j.running_heartbeat_at < UTC_TIMESTAMP(6) - INTERVAL GREATEST(?, COALESCE(p.stale_ms * 1000, 0)) MICROSECOND
                 OR p.machine_id = ?)"#,
        own,
        State::Running,
        own,
        here.machine_id,
    )
    .fetch_all(db.pool())
    .await?;
    let span = |us: i64| Duration::from_micros(u64::try_from(us).unwrap_or(0));
    Ok(rows
        .into_iter()
        .map(|row| Running {
            suspect: Suspect {
                job: row.job,
                claim: row.claim,
                attempt: row.attempt,
                max_attempts: row.max_attempts,
                running_for: span(row.running_us),
                beaten_at: row.beaten_at,
                cause: Cause::Silent,
            },
            is_stale: row.is_stale,
            worker: row.worker,
            process: Process {
                machine_id: row.machine_id,
                boot_id: row.boot_id,
                pid: row.pid.unwrap_or(0),
                pid_namespace: row.pid_namespace,
                start_time: row.start_time,
                beat: Duration::from_millis(row.beat_ms.unwrap_or(0).into()),
            },
            pulse_age: row.pulse_us.map_or(Duration::ZERO, span),
        })
        .collect())
}
