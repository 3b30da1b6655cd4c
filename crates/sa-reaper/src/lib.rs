//! `sa-reaper`: a thin shell around `repo::reclaim`, called every minute by cron or a timer.

mod options;

use std::{
    io::{ErrorKind, Write},
    time::Duration,
};

use anyhow::{Context, Result};
use sa_boot::{Exit, Pool, Shutdown};
use sa_core::{
    death::Here,
    id::WorkerId,
    pulse::{Pulse, PulseRole},
    repo::{self, Reclaimed, pulse::ReaperTurn},
    state::State,
    viewer::Actor,
};
use uuid::Uuid;

use options::Command;
pub use options::Options;

/// Takes back what processes proven dead held and what has been silent for too long, and records that it looked. After an
/// outage in which the reaper itself did not run it takes nothing back for two beats: workers that could not beat either
/// only look dead.
///
/// Prints one line a job taken and nothing else, but for the sentence about such an outage: cron mails whatever is printed.
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
    match repo::pulse::reaper_begins(&db, &pulse).await? {
        ReaperTurn::Reclaim => {
            let reclaimed =
                repo::reclaim(&db, beats.stale, &Here::of_this_process(), &Actor::reaper(&pulse.host)).await?;
            tell(&reclaimed)?;
            repo::pulse::reaper_ran(&db, &pulse).await?;
        }
        ReaperTurn::WaitAfterOutage { again_in } => warn(again_in),
    }
    db.close().await;
    Ok(Exit::Done)
}

/// Says why nothing is taken back; a closed standard error leaves nobody to say it to.
fn warn(again_in: Duration) {
    let seconds = again_in.as_secs() + 1;
    let _ = writeln!(
        std::io::stderr(),
        "sa-reaper: no reaper has run for a while, so that jobs may only look dead after an outage: nothing is taken back \
         until workers have had two beats to show themselves; the first run in {seconds} s or later does",
    );
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
