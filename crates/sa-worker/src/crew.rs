//! Runs claims side by side, beats for them, and writes their ends.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use sa_boot::{Beats, BootOptions, Shutdown};
use sa_core::{
    id::WorkerId,
    pulse::{Pulse, PulseRole},
    repo::{self, Claim, Db, Outcome},
};
use tokio::{task::JoinSet, time::sleep};

use crate::{
    Providers,
    beat::Beater,
    commit::{Committer, Desk},
    execute::{self, Ended, Ran, Tools},
    roster::{Leash, Place, Roster},
};

/// How long ends may still be tried to be written, once all runs were given back.
const LAST_WRITES: Duration = Duration::from_secs(6);

/// Where a worker stands: its database, its providers, its name, its beats.
#[derive(Clone)]
pub struct Station {
    /// The options every process has; the beats make their own connection by them.
    pub boot: BootOptions,
    /// The database.
    pub db: Db,
    /// The providers.
    pub providers: Arc<Providers>,
    /// The process's name in claims and pulse.
    pub worker: WorkerId,
    /// How often it beats.
    pub beats: Beats,
}

impl Station {
    /// This process's sign of life.
    #[must_use]
    pub fn pulse(&self) -> Pulse {
        let lanes = self.providers.lanes();
        Pulse::of_this_process(self.worker, PulseRole::Worker, self.beats.every, self.beats.stale, lanes)
    }
}

/// The runs under way, and all they share.
pub(crate) struct Crew {
    station: Station,
    tools: Tools,
    committer: Committer,
    beater: Beater,
    runs: JoinSet<Result<Ran, repo::Error>>,
}

impl Crew {
    /// An idle crew whose beats have begun.
    pub(crate) fn start(station: Station) -> anyhow::Result<Self> {
        let roster = Roster::new();
        let beater = Beater::start(station.boot.clone(), station.beats, station.pulse(), Arc::clone(&roster))?;
        let committer = Committer::start(station.db.clone());
        let tools = Tools { db: station.db.clone(), providers: Arc::clone(&station.providers), roster };
        Ok(Self { station, tools, committer, beater, runs: JoinSet::new() })
    }

    pub(crate) fn roster(&self) -> &Roster {
        &self.tools.roster
    }

    /// How many runs are under way.
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// Starts a run; `since` is an instant before the claim was made.
    pub(crate) fn start_run(&mut self, claim: Claim, since: Instant) {
        let (place, leash) = self.tools.roster.hold(claim.held(), since);
        self.runs.spawn(run(self.tools.clone(), self.committer.desk(), claim, place, leash, since));
    }

    /// The next run that ends; nothing if none is under way.
    pub(crate) async fn next(&mut self) -> Option<Result<Ran, repo::Error>> {
        self.runs.join_next().await.map(unwrap_run)
    }

    /// A run that has already ended.
    pub(crate) fn try_next(&mut self) -> Option<Result<Ran, repo::Error>> {
        self.runs.try_join_next().map(unwrap_run)
    }

    /// Waits for all runs, at most so long and until forced; what still runs then is given back.
    pub(crate) async fn finish(&mut self, grace: Duration, shutdown: &Shutdown) -> Vec<Result<Ran, repo::Error>> {
        let mut ended = Vec::new();
        {
            let all = async {
                while let Some(run) = self.runs.join_next().await {
                    ended.push(unwrap_run(run));
                }
            };
            tokio::select! {
                () = all => return ended,
                () = sleep(grace) => {}
                () = shutdown.forced() => {}
            }
        }
        ended.extend(self.give_back().await);
        ended
    }

    /// Stops all runs and gives back their claims. Beats go on until each is written.
    async fn give_back(&mut self) -> Vec<Result<Ran, repo::Error>> {
        tracing::info!(runs = self.len(), "Runs still under way are given back.");
        self.tools.roster.give_back_all();
        let mut ended = Vec::new();
        {
            let all = async {
                while let Some(run) = self.runs.join_next().await {
                    ended.push(unwrap_run(run));
                }
            };
            tokio::select! {
                () = all => return ended,
                () = sleep(LAST_WRITES) => self.committer.last_call(),
            }
        }
        while let Some(run) = self.next().await {
            ended.push(run);
        }
        ended
    }

    /// Ends the beats and says goodbye; all runs have ended.
    pub(crate) async fn close(self) {
        self.committer.close().await;
        self.beater.stop().await;
        if let Err(error) = repo::pulse::end(&self.station.db, self.station.worker).await {
            tracing::debug!(%error, "The end of this process could not be recorded.");
        }
    }
}

/// One run, from its claim to its written end. The claim beats until then.
async fn run(
    tools: Tools,
    desk: Desk,
    claim: Claim,
    place: Place,
    leash: Leash,
    since: Instant,
) -> Result<Ran, repo::Error> {
    let (job, id, org, attempt) = (claim.job(), claim.id().clone(), claim.viewer().org, claim.attempt());
    let end = execute::execute(&tools, claim, &leash).await;
    let settled = desk.commit(end.finish, since.into()).await;
    drop(place);
    let total_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (what, kind) = told(&end.ended);
    match &settled {
        Ok(Outcome::Written) => {
            tracing::info!(job.id = %job, claim.id = %id, org.id = %org, attempt, total_ms, error_kind = kind, "{what}");
        }
        Ok(Outcome::Lost { found }) => {
            tracing::info!(job.id = %job, claim.id = %id, org.id = %org, attempt, total_ms, state = %found, "The claim was lost; the result of the run is discarded.");
        }
        Err(error) => {
            tracing::error!(job.id = %job, claim.id = %id, org.id = %org, attempt, %error, "The end of the run could not be written; the job will be taken back.");
        }
    }
    settled.map(|outcome| Ran { ended: end.ended, outcome })
}

fn told(ended: &Ended) -> (&'static str, Option<&'static str>) {
    match ended {
        Ended::Answered => ("Job answered.", None),
        Ended::Requeued(failure) => ("Job will be tried again.", Some(failure.kind().as_str())),
        Ended::Failed(failure) => ("Job failed.", Some(failure.kind().as_str())),
        Ended::Released => ("Job given back.", None),
        Ended::Abandoned => ("Run abandoned.", None),
    }
}

/// A run catches the panics of what it runs; one in itself is a bug that must not be hidden.
fn unwrap_run(joined: Result<Result<Ran, repo::Error>, tokio::task::JoinError>) -> Result<Ran, repo::Error> {
    joined.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(payload) => std::panic::resume_unwind(payload),
        Err(_) => unreachable!("runs are never aborted"),
    })
}
