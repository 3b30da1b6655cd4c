//! The loop of a service: claim what can start now, pause when there is nothing, wait out an outage, stop when asked.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use sa_boot::{Exit, Shutdown};
use sa_core::job::Priority;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{
    claim::{Hand, LAST_LOOK, Taken},
    crew::{Crew, Station},
    patience::Fault,
    pause::Pause,
    roster::Beating,
};

/// The pause right after activity.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);

/// Keeps `batch_size` jobs in flight until asked to stop; then runs may take `grace` to finish.
///
/// # Errors
/// The beats ended by themselves: whoever started this process starts another.
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
    let hand = Hand::new(&station, ceiling);
    let crew = Crew::start(station)?;
    let stops = Stops { shutdown: shutdown.clone(), broken: crew.broken() };
    let idle = Pause::new(SHORTEST_PAUSE, idle_sleep);
    let mut service = Service { hand, crew, stops, batch_size, idle, outage: None };
    loop {
        match service.turn().await {
            ControlFlow::Continue(()) => {}
            ControlFlow::Break(End::Asked) => {
                service.stop(grace, shutdown).await;
                return Ok(Exit::Done);
            }
            ControlFlow::Break(End::Broken) => {
                service.stop(Duration::ZERO, shutdown).await;
                anyhow::bail!("the beats have ended by themselves; the log says why");
            }
        }
    }
}

/// Why the service ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Asked,
    Broken,
}

/// What ends the service, whatever it waits for.
struct Stops {
    shutdown: Shutdown,
    broken: CancellationToken,
}

impl Stops {
    /// Waits for this, unless the service is to end before.
    async fn unless<T>(&self, what: impl Future<Output = T>) -> ControlFlow<End, T> {
        tokio::select! {
            biased;
            () = self.broken.cancelled() => ControlFlow::Break(End::Broken),
            () = self.shutdown.requested() => ControlFlow::Break(End::Asked),
            done = what => ControlFlow::Continue(done),
        }
    }
}

struct Service {
    hand: Hand,
    crew: Crew,
    stops: Stops,
    batch_size: usize,
    idle: Pause,
    /// The pauses of the outage under way.
    outage: Option<Pause>,
}

impl Service {
    /// One turn of the loop.
    async fn turn(&mut self) -> ControlFlow<End> {
        while self.crew.try_next().is_some() {}
        let free = self.batch_size.saturating_sub(self.crew.len());
        if free == 0 {
            self.stops.unless(self.crew.next()).await?;
            return ControlFlow::Continue(());
        }
        if self.crew.roster().beating() == Beating::Failing {
            return self.stops.unless(self.crew.roster().well()).await;
        }
        let claimed = self.stops.unless(self.hand.claim(free)).await?;
        let pause = match claimed {
            Ok(taken) => self.start(taken, free),
            Err(fault) => Some(self.note_outage(&fault)),
        };
        match pause {
            Some(pause) => self.stops.unless(sleep(pause)).await,
            None => ControlFlow::Continue(()),
        }
    }

    /// Starts what was claimed; says how long to pause before the next claim, nothing if there may be more.
    fn start(&mut self, taken: Taken, free: usize) -> Option<Duration> {
        if self.outage.take().is_some() {
            tracing::info!("Jobs can be claimed again.");
        }
        let claimed = taken.claims.len();
        for claim in taken.claims {
            self.crew.start_run(claim, taken.since);
        }
        if claimed > 0 {
            self.idle.reset();
        }
        (claimed < free).then(|| self.idle.take())
    }

    /// An outage is told once; how long to pause before the next try.
    fn note_outage(&mut self, fault: &Fault) -> Duration {
        let outage = self.outage.get_or_insert_with(|| {
            tracing::warn!(%fault, "Jobs cannot be claimed; trying again until they can.");
            Pause::for_outage()
        });
        outage.take_spread()
    }

    /// Lets runs finish, gives back the rest, and what was claimed without our knowing.
    async fn stop(mut self, grace: Duration, shutdown: &Shutdown) {
        let asked = Instant::now();
        while self.crew.try_next().is_some() {}
        tracing::info!(in_flight = self.crew.len(), "The worker stops: nothing more is claimed.");
        let found = tokio::select! {
            found = self.hand.find_unanswered(LAST_LOOK) => found,
            () = shutdown.forced() => None,
        };
        if let Some(Taken { claims, since }) = found {
            tracing::info!(jobs = claims.len(), "Jobs of a claim that was not answered are given back.");
            for claim in claims {
                self.crew.release(claim, since);
            }
        }
        self.crew.finish(grace.saturating_sub(asked.elapsed()), shutdown).await;
        self.crew.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use clap::Parser;
    use sa_boot::Beats;
    use sa_core::{id::WorkerId, repo::Db};
    use sa_harness::Database;

    use crate::{Options, Providers};

    #[tokio::test]
    async fn service_whose_beats_have_ended_ends_with_an_error() {
        let database = Database::fresh().await.unwrap();
        let (boot, _) = Options::try_parse_from(["sa-worker", "run-worker"]).unwrap().settings().unwrap();
        // No clock can count twice this, so the thread that beats panics.
        let beats = Beats { every: Duration::MAX, stale: Duration::MAX };
        let db = Db::connect(database.url(), 2).await.unwrap();
        let providers = Arc::new(Providers::load(None, &|_| None).unwrap());
        let station = Station { boot, db, providers, worker: WorkerId::new(), beats };

        let shutdown = Shutdown::new();
        let service = run(station, Priority::LOWEST, 1, SHORTEST_PAUSE, Duration::ZERO, &shutdown);
        let ended = tokio::time::timeout(Duration::from_secs(30), service).await.expect("it ends");

        assert!(ended.unwrap_err().to_string().contains("beats have ended"));
    }
}
