//! One batch, as cron wants it: claim, run side by side, exit; silent when there is nothing to do.

use std::time::{Duration, Instant};

use sa_boot::{Exit, Shutdown};
use sa_core::{
    job::Priority,
    repo::{self, Claimer},
};

use crate::crew::{Crew, Station};

/// Runs one batch of at most `batch_size` jobs and gives back what still runs after `max_runtime`.
pub(crate) async fn run(
    station: Station,
    ceiling: Priority,
    batch_size: usize,
    max_runtime: Duration,
    grace: Duration,
    shutdown: &Shutdown,
) -> anyhow::Result<Exit> {
    let began = Instant::now();
    repo::pulse::record(&station.db, &station.pulse()).await?;
    let mut claimer = Claimer::new(station.worker, station.providers.serves(), ceiling);
    let claims = claimer.claim(&station.db, batch_size).await?;
    if claims.is_empty() {
        repo::pulse::end(&station.db, station.worker).await?;
        return Ok(Exit::Done);
    }
    station.providers.warn();
    let mut crew = Crew::start(station)?;
    for claim in claims {
        crew.start_run(claim, began);
    }
    let asked = shutdown.clone();
    let left = max_runtime.saturating_sub(began.elapsed());
    let mut ended = Vec::new();
    let bound = tokio::time::sleep(left);
    tokio::pin!(bound);
    let grace = loop {
        tokio::select! {
            run = crew.next() => match run {
                Some(run) => ended.push(run),
                None => break Duration::ZERO,
            },
            () = &mut bound => break Duration::ZERO,
            () = asked.requested() => break grace.min(max_runtime.saturating_sub(began.elapsed())),
        }
    };
    if crew.len() > 0 {
        ended.extend(crew.finish(grace, shutdown).await);
    }
    crew.close().await;
    match ended.into_iter().find_map(Result::err) {
        Some(error) => Err(anyhow::Error::from(error).context("the end of a run could not be written")),
        None => Ok(Exit::Done),
    }
}
