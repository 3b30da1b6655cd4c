//! The loop of a service: claim what can start now, pause when there is nothing, wait out an outage, stop when asked.

use std::time::{Duration, Instant};

use sa_boot::{Exit, Shutdown};
use sa_core::{
    job::Priority,
    repo::{self, Claim, Claimer},
};
use tokio::time::sleep;

use crate::{
    crew::{Crew, Station},
    pause::Pause,
    roster::Beating,
};

/// The pause right after activity.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// Keeps `batch_size` jobs in flight until asked to stop; then runs may take `grace` to finish.
pub(crate) async fn run(
    station: Station,
    ceiling: Priority,
    batch_size: usize,
    idle_sleep: Duration,
    grace: Duration,
    shutdown: &Shutdown,
) -> anyhow::Result<Exit> {
    station.providers.warn();
    tracing::info!(worker.id = %station.worker, batch_size, "The worker starts.");
    let claimer = Claimer::new(station.worker, station.providers.serves(), ceiling);
    let (db, crew) = (station.db.clone(), Crew::start(station)?);
    let idle = Pause::new(SHORTEST_PAUSE, idle_sleep);
    let mut service = Service { db, claimer, crew, batch_size, idle, outage: None };
    while service.turn(shutdown).await {}
    while service.crew.try_next().is_some() {}
    tracing::info!(in_flight = service.crew.len(), "The worker stops: nothing more is claimed.");
    service.crew.finish(grace, shutdown).await;
    service.crew.close().await;
    Ok(Exit::Done)
}

struct Outage {
    /// An instant before its first claim. That one may have been made without an answer, and be found by a later one.
    since: Instant,
    pause: Pause,
}

struct Service {
    db: repo::Db,
    claimer: Claimer,
    crew: Crew,
    batch_size: usize,
    idle: Pause,
    /// The outage under way.
    outage: Option<Outage>,
}

impl Service {
    /// One turn of the loop; false when asked to stop.
    async fn turn(&mut self, shutdown: &Shutdown) -> bool {
        while self.crew.try_next().is_some() {}
        let free = self.batch_size.saturating_sub(self.crew.len());
        if free == 0 {
            return wait_for(self.crew.next(), shutdown).await;
        }
        if self.crew.roster().beating() == Beating::Failing {
            return wait_for(self.crew.roster().well(), shutdown).await;
        }
        if shutdown.token().is_cancelled() {
            return false;
        }
        // Not dropped half-way when asked to stop: what it claims must come to us.
        let since = self.outage.as_ref().map_or_else(Instant::now, |outage| outage.since);
        let claims = self.claimer.claim(&self.db, free).await;
        let pause = match claims {
            Ok(claims) => self.start(claims, since, free),
            Err(error) => Some(self.note_outage(&error, since)),
        };
        match pause {
            Some(pause) => wait_for(sleep(pause), shutdown).await,
            None => true,
        }
    }

    /// Starts what was claimed; says how long to pause before the next claim, nothing if there may be more.
    fn start(&mut self, claims: Vec<Claim>, since: Instant, free: usize) -> Option<Duration> {
        if self.outage.take().is_some() {
            tracing::info!("Jobs can be claimed again.");
        }
        let claimed = claims.len();
        for claim in claims {
            self.crew.start_run(claim, since);
        }
        if claimed > 0 {
            self.idle.reset();
        }
        (claimed < free).then(|| self.idle.take())
    }

    /// An outage is told once; how long to pause before the next try.
    fn note_outage(&mut self, error: &repo::Error, since: Instant) -> Duration {
        let outage = self.outage.get_or_insert_with(|| {
            tracing::warn!(%error, "Jobs cannot be claimed; trying again until they can.");
            Outage { since, pause: Pause::for_outage() }
        });
        outage.pause.take_spread()
    }
}

/// Waits for this; false if asked to stop before.
async fn wait_for<T>(what: impl Future<Output = T>, shutdown: &Shutdown) -> bool {
    tokio::select! {
        biased;
        () = shutdown.requested() => false,
        _ = what => true,
    }
}
