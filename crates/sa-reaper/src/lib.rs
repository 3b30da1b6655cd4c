//! `sa-reaper`: a thin shell around `repo::reclaim`, called every minute by cron or a timer.

mod options;

use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};
use sa_boot::{Exit, Pool, Shutdown};
use sa_core::{
    id::WorkerId,
    pulse::{Pulse, PulseRole},
    repo::{self, Reclaimed},
    state::State,
    viewer::Actor,
};
use uuid::Uuid;

use options::Command;
pub use options::Options;

/// Takes back what has been silent for too long, and records that it looked.
///
/// Prints one line a job taken and nothing else: cron mails whatever is printed.
///
/// # Errors
/// A stale limit that does not fit the beat (exit code 2), an unreachable database (5), or what it refused. Jobs taken
/// until then stay taken.
pub async fn run(options: Options, _shutdown: Shutdown) -> Result<Exit> {
    let Command::ReclaimStuckJobs(beats) = &options.command;
    let beats = beats.validate()?;
    let db = options.boot.database(Pool::of(1)).await?;
    // One row for all reapers: what counts is when somebody last looked.
    let nobody = WorkerId::from_uuid(Uuid::nil());
    let pulse = Pulse::of_this_process(nobody, PulseRole::Reaper, beats.every, beats.stale, Vec::new());
    let reclaimed = repo::reclaim(&db, beats.stale, &Actor::reaper(&pulse.host)).await?;
    tell(&reclaimed)?;
    repo::pulse::reaper_ran(&db, &pulse).await?;
    db.close().await;
    Ok(Exit::Done)
}

fn tell(reclaimed: &[Reclaimed]) -> Result<()> {
    let mut lines = String::new();
    for Reclaimed { job, to, attempt, message } in reclaimed {
        lines.push_str(&format!("{job} {} → {to} (attempt {attempt}): {message}\n", State::Running));
    }
    match std::io::stdout().write_all(lines.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("writing to standard output"),
        _written_or_unwanted => Ok(()),
    }
}
