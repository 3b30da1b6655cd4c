//! The loop of a service: claim what can start now, pause when there is nothing, wait out an outage, stop when asked.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use sa_boot::{Exit, Shutdown};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    claim::{Hand, LAST_LOOK, Taken},
    crew::{Crew, Station},
    options::Order,
    patience::{Fault, PATIENCE},
    pause::Pause,
    roster::Beating,
    supervisor::Supervisor,
};

/// The pause right after activity.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
/// What a claim may take: the look for an unanswered one, and its own answer. One that is not given up by then hangs.
const LONGEST_CLAIM: Duration = PATIENCE.saturating_mul(2);

/// How a service works.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// How many jobs are in flight at most.
    pub(crate) batch_size: usize,
    /// The longest pause when there is nothing to do.
    pub(crate) idle_sleep: Duration,
    /// How long runs may take once it was asked to stop.
    pub(crate) grace: Duration,
}

/// Keeps `batch_size` jobs in flight until asked to stop; then runs may take `grace` to finish.
///
/// # Errors
/// The beats ended by themselves: whoever started this process starts another.
pub(crate) async fn run(
    station: Station,
    order: Order,
    terms: Terms,
    supervisor: Supervisor,
    shutdown: &Shutdown,
) -> anyhow::Result<Exit> {
    let Terms { batch_size, idle_sleep, grace } = terms;
    station.providers.warn();
    tracing::info!(worker.id = %station.worker, batch_size, "The worker starts.");
    let hand = Hand::new(&station, order);
    let crew = Crew::start(station)?;
    let stops = Stops { shutdown: shutdown.clone(), broken: crew.broken() };
    let idle = Pause::new(SHORTEST_PAUSE, idle_sleep);
    let mut service = Service { hand, crew, stops, batch_size, idle, outage: None, supervisor };
    loop {
        match service.turn().await {
            ControlFlow::Continue(()) => service.tell(),
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
    supervisor: Supervisor,
}

impl Service {
    /// One turn of the loop. Whatever it waits for, it comes to its end: the watchdog is fed by that alone.
    async fn turn(&mut self) -> ControlFlow<End> {
        let longest = self.supervisor.longest_turn();
        while self.crew.try_next().is_some() {}
        let free = self.batch_size.saturating_sub(self.crew.len());
        if free == 0 {
            return self.stops.unless(timeout(longest, self.crew.next())).await.map_continue(|_ended_or_not| ());
        }
        if self.crew.roster().beating() == Beating::Failing {
            let well = timeout(longest, self.crew.roster().well());
            return self.stops.unless(well).await.map_continue(|_well_or_not| ());
        }
        let claimed = self.claim(free).await?;
        let pause = match claimed {
            Ok(taken) => self.start(taken, free),
            Err(fault) => Some(self.note_outage(&fault)),
        };
        match pause {
            Some(pause) => self.stops.unless(sleep(pause)).await,
            None => ControlFlow::Continue(()),
        }
    }

    /// Claims, and meanwhile says that this is no hanging: a database that does not answer is given up in time.
    async fn claim(&mut self, want: usize) -> ControlFlow<End, Result<Taken, Fault>> {
        let began = Instant::now();
        let status = self.status();
        let claim = self.stops.unless(self.hand.claim(want));
        tokio::pin!(claim);
        loop {
            match timeout(self.supervisor.longest_turn(), &mut claim).await {
                Ok(claimed) => return claimed,
                Err(_) if began.elapsed() < LONGEST_CLAIM => self.supervisor.turn(&status),
                Err(_) => {}
            }
        }
    }

    /// Tells the service manager that a turn is complete.
    fn tell(&mut self) {
        if self.crew.roster().beating() == Beating::Well {
            self.supervisor.ready();
        }
        let status = self.status();
        self.supervisor.turn(&status);
    }

    fn status(&self) -> String {
        let (in_flight, places) = (self.crew.len(), self.batch_size);
        match (self.crew.roster().beating(), &self.outage) {
            (Beating::Failing, _) => format!("The database does not answer; {in_flight} of {places} jobs in flight."),
            (Beating::Well, Some(_)) => format!("Jobs cannot be claimed; {in_flight} of {places} jobs in flight."),
            (Beating::Well, None) => format!("{in_flight} of {places} jobs in flight."),
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

    /// Ends all runs, and meanwhile asks the service manager for as long as that takes.
    async fn stop(mut self, grace: Duration, shutdown: &Shutdown) {
        while self.crew.try_next().is_some() {}
        tracing::info!(in_flight = self.crew.len(), "The worker stops: nothing more is claimed.");
        let status = format!("Stopping: {} jobs in flight may finish or are given back.", self.crew.len());
        let mut supervisor = std::mem::replace(&mut self.supervisor, Supervisor::nobody());
        supervisor.stopping(&status);
        supervisor.beside(self.end_runs(grace, shutdown), &status).await;
    }

    /// Lets runs finish, gives back the rest, and what was claimed without our knowing.
    async fn end_runs(mut self, grace: Duration, shutdown: &Shutdown) {
        let asked = Instant::now();
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
mod tests;
