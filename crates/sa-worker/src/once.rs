//! One batch, as cron wants it: claim, run side by side, exit; silent when there is nothing to do.

use std::time::{Duration, Instant};

use sa_boot::{Exit, Shutdown};
use sa_core::{death::Here, repo};

use crate::{
    claim::{Hand, LAST_LOOK, Taken},
    crew::{Crew, Station},
    execute::Ran,
    options::{OneShot, Order},
    patience::{self, Fault},
};

/// How long a one-shot may take, in all and after it was asked to stop, and beside how many others.
pub(crate) struct Bounds {
    pub(crate) one_shot: OneShot,
    pub(crate) grace: Duration,
}

/// Runs one batch of at most `batch_size` jobs and gives back what still runs after its longest time. Without a free slot
/// it does nothing: cron starts the next one soon enough.
pub(crate) async fn run(
    station: Station,
    order: Order,
    batch_size: usize,
    bounds: Bounds,
    shutdown: &Shutdown,
) -> anyhow::Result<Exit> {
    if !takes_slot(&station, bounds.one_shot.slots).await? {
        return Ok(Exit::Done);
    }
    let hand = Hand::new(&station, order);
    // The beats begin first, so that no claim is ever held without them; whatever comes then, the pulse is ended.
    let mut crew = Crew::start(station.clone())?;
    let exit = batch(&station, hand, &mut crew, batch_size, &bounds, shutdown).await;
    crew.close().await;
    exit
}

/// Whether there is a place for this one-shot. Its pulse is recorded with that.
async fn takes_slot(station: &Station, slots: u8) -> anyhow::Result<bool> {
    let (db, pulse) = (station.db.clone(), station.pulse());
    let slot = async move { repo::pulse::take_slot(&db, &pulse, slots, &Here::of_this_process()).await };
    let slot = patience::ask(slot).await.map_err(Fault::into_error)?;
    tracing::debug!(slot, "Looked for a free slot.");
    Ok(slot.is_some())
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
    let left = || bounds.one_shot.max_runtime.saturating_sub(began.elapsed());
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
