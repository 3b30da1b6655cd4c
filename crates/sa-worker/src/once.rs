//! One batch, as cron wants it: claim, run side by side, exit; silent when there is nothing to do.

use std::time::{Duration, Instant};

use sa_boot::{Exit, Shutdown};
use sa_core::{job::Priority, repo};

use crate::{
    claim::{Hand, LAST_LOOK, Taken},
    crew::{Crew, Station},
    execute::Ran,
    patience::{self, Fault},
};

/// How long a one-shot may take, in all and after it was asked to stop.
pub(crate) struct Bounds {
    pub(crate) max_runtime: Duration,
    pub(crate) grace: Duration,
}

/// Runs one batch of at most `batch_size` jobs and gives back what still runs after `max_runtime`.
pub(crate) async fn run(
    station: Station,
    ceiling: Priority,
    batch_size: usize,
    bounds: Bounds,
    shutdown: &Shutdown,
) -> anyhow::Result<Exit> {
    let hand = Hand::new(&station, ceiling);
    // The beats begin first, so that no claim is ever held without them; whatever comes then, the pulse is ended.
    let mut crew = Crew::start(station.clone())?;
    let exit = batch(&station, hand, &mut crew, batch_size, &bounds, shutdown).await;
    crew.close().await;
    exit
}

async fn batch(
    station: &Station,
    mut hand: Hand,
    crew: &mut Crew,
    batch_size: usize,
    bounds: &Bounds,
    shutdown: &Shutdown,
) -> anyhow::Result<Exit> {
    let began = Instant::now();
    let (db, pulse) = (station.db.clone(), station.pulse());
    patience::ask(async move { repo::pulse::record(&db, &pulse).await }).await.map_err(Fault::into_error)?;
    let Some(taken) = claim(&mut hand, batch_size, shutdown).await? else { return Ok(Exit::Done) };
    station.providers.warn();
    for claim in taken.claims {
        if shutdown.token().is_cancelled() {
            crew.release(claim, taken.since);
        } else {
            crew.start_run(claim, taken.since);
        }
    }
    let ended = run_to_end(crew, began, bounds, shutdown).await;
    match ended.into_iter().find_map(Result::err) {
        Some(fault) => Err(fault.into_error().context("the end of a run could not be written")),
        None if crew.broken().is_cancelled() => Err(anyhow::anyhow!("the beats have ended; the log says why")),
        None => Ok(Exit::Done),
    }
}

/// Claims one batch; nothing if there is nothing to do. A claim whose answer was lost is looked for before that is
/// called a failure: its jobs would wait for the reaper.
async fn claim(hand: &mut Hand, batch_size: usize, shutdown: &Shutdown) -> anyhow::Result<Option<Taken>> {
    let claimed = tokio::select! {
        claimed = hand.claim(batch_size) => Some(claimed),
        () = shutdown.requested() => None,
    };
    let failed = match claimed {
        Some(Ok(taken)) => return Ok(Some(taken).filter(|taken| !taken.claims.is_empty())),
        Some(Err(fault)) => Some(fault),
        None => None,
    };
    match (hand.find_unanswered(LAST_LOOK).await, failed) {
        (Some(found), _) => Ok(Some(found)),
        (None, Some(fault)) => Err(fault.into_error().context("jobs could not be claimed")),
        (None, None) => Ok(None),
    }
}

async fn run_to_end(crew: &mut Crew, began: Instant, bounds: &Bounds, shutdown: &Shutdown) -> Vec<Result<Ran, Fault>> {
    let broken = crew.broken();
    let left = || bounds.max_runtime.saturating_sub(began.elapsed());
    let bound = tokio::time::sleep(left());
    tokio::pin!(bound);
    let mut ended = Vec::new();
    let grace = loop {
        tokio::select! {
            run = crew.next() => match run {
                Some(run) => ended.push(run),
                None => break Duration::ZERO,
            },
            () = &mut bound => break Duration::ZERO,
            () = broken.cancelled() => break Duration::ZERO,
            () = shutdown.requested() => break bounds.grace.min(left()),
        }
    };
    if crew.len() > 0 {
        ended.extend(crew.finish(grace, shutdown).await);
    }
    ended
}
