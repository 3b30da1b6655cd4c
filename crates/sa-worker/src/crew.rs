//! Runs claims side by side, beats for them, and writes their ends.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use sa_boot::{Beats, BootOptions, Shutdown};
use sa_core::{
    id::{ClaimId, JobId, OrgId, PromptId, WorkerId},
    pulse::{Pulse, PulseRole},
    repo::{self, Claim, Db, Outcome},
};
use tokio::{
    task::{JoinError, JoinSet},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use crate::{
    Providers,
    beat::Beater,
    commit::{Committer, Desk},
    execute::{self, End, Ended, Ran, Tools},
    patience::{self, Fault, panicked},
    roster::{Place, Roster},
};

/// How long ends may still be tried to be written, once all runs were given back.
const LAST_WRITES: Duration = Duration::from_secs(6);
/// How long the last try of each may take. With [`LAST_WRITES`] and the looks before and after, a worker whose database
/// is away ends within 20 s of its grace.
const LAST_TRY: Duration = Duration::from_secs(6);
/// How long the goodbye in the pulse may take: a pulse without it counts as ended a little later.
const GOODBYE: Duration = Duration::from_secs(2);

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
    broken: CancellationToken,
    runs: JoinSet<Result<Ran, Fault>>,
}

impl Crew {
    /// An idle crew whose beats have begun.
    pub(crate) fn start(station: Station) -> anyhow::Result<Self> {
        let (roster, broken) = (Roster::new(), CancellationToken::new());
        let (pulse, roster_too) = (station.pulse(), Arc::clone(&roster));
        let beater = Beater::start(station.boot.clone(), station.beats, pulse, roster_too, broken.clone())?;
        let committer = Committer::start(station.db.clone(), broken.clone());
        let tools = Tools { db: station.db.clone(), providers: Arc::clone(&station.providers), roster };
        Ok(Self { station, tools, committer, beater, broken, runs: JoinSet::new() })
    }

    /// Cancelled when the beats or the committer have ended: nothing that runs here can come to a good end then.
    pub(crate) fn broken(&self) -> CancellationToken {
        self.broken.clone()
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
        let (name, tools) = (Name::of(&claim), self.tools.clone());
        let end = async move { execute::execute(&tools, claim, since, &leash).await };
        self.runs.spawn(run(self.committer.desk(), name, place, since, end));
    }

    /// Gives a claim back that is not to be run.
    pub(crate) fn release(&mut self, claim: Claim, since: Instant) {
        let (place, _leash) = self.tools.roster.hold(claim.held(), since);
        let name = Name::of(&claim);
        let end = std::future::ready(End { finish: claim.release(Vec::new()), ended: Ended::Released });
        self.runs.spawn(run(self.committer.desk(), name, place, since, end));
    }

    /// The next run that ends; nothing if none is under way.
    pub(crate) async fn next(&mut self) -> Option<Result<Ran, Fault>> {
        self.runs.join_next().await.map(unwrap_run)
    }

    /// A run that has already ended.
    pub(crate) fn try_next(&mut self) -> Option<Result<Ran, Fault>> {
        self.runs.try_join_next().map(unwrap_run)
    }

    /// Waits for all runs, at most so long and until forced; what still runs then is given back.
    pub(crate) async fn finish(&mut self, grace: Duration, shutdown: &Shutdown) -> Vec<Result<Ran, Fault>> {
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
    async fn give_back(&mut self) -> Vec<Result<Ran, Fault>> {
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
                () = last_tries(&self.committer) => {}
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
        let (db, worker) = (self.station.db, self.station.worker);
        let mut goodbye = tokio::spawn(async move { repo::pulse::end(&db, worker).await });
        if let Err(fault) = patience::answer(&mut goodbye, GOODBYE).await {
            tracing::debug!(%fault, "The end of this process could not be recorded.");
        }
    }
}

/// Tells the committer step by step to come to an end.
async fn last_tries(committer: &Committer) {
    sleep(LAST_WRITES).await;
    committer.last_call();
    sleep(LAST_TRY).await;
    committer.give_up();
}

/// How a run is named in the log.
struct Name {
    job: JobId,
    prompt: PromptId,
    claim: ClaimId,
    org: OrgId,
    attempt: u16,
}

impl Name {
    fn of(claim: &Claim) -> Self {
        Self {
            job: claim.job(),
            prompt: claim.prompt(),
            claim: claim.id().clone(),
            org: claim.viewer().org,
            attempt: claim.attempt(),
        }
    }
}

/// One run, from its claim to its written end. The claim beats until then.
async fn run(
    desk: Desk,
    name: Name,
    place: Place,
    since: Instant,
    end: impl Future<Output = End>,
) -> Result<Ran, Fault> {
    let Name { job, prompt, claim: id, org, attempt } = name;
    let end = end.await;
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
        Err(fault) => {
            tracing::error!(job.id = %job, claim.id = %id, org.id = %org, attempt, %fault, "The end of the run could not be written; the job will be taken back.");
        }
    }
    settled.map(|outcome| Ran { job, prompt, ended: end.ended, outcome })
}

fn told(ended: &Ended) -> (&'static str, Option<&'static str>) {
    match ended {
        Ended::Answered => ("Job answered.", None),
        Ended::Requeued(failure) => ("Job will be tried again.", Some(failure.kind().as_str())),
        Ended::Held(failure) => ("Job held by a closed lane.", Some(failure.kind().as_str())),
        Ended::Failed(failure) => ("Job failed.", Some(failure.kind().as_str())),
        Ended::Released => ("Job given back.", None),
        Ended::Abandoned => ("Run abandoned.", None),
    }
}

/// A run catches the panics of what it runs; one in itself is a bug that must not be hidden.
fn unwrap_run(joined: Result<Result<Ran, Fault>, JoinError>) -> Result<Ran, Fault> {
    joined.unwrap_or_else(|error| panicked(error))
}
