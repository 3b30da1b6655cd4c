//! What the binary does, and what `sa-cli run-prompt` does with one claim.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use sa_boot::{Exit, Pool, Shutdown};
use sa_core::{id::WorkerId, repo::Claim};

use crate::{
    Options,
    crew::{Crew, Station},
    execute::Ran,
    once,
    options::{Mode, Settings},
    service::{self, Terms},
    supervisor::Supervisor,
};

/// Runs the worker as its options say.
///
/// # Errors
/// A usage problem (exit code 2), an unreachable database where the run is a one-shot (5), or what the database refused.
pub async fn run(options: Options, shutdown: Shutdown) -> anyhow::Result<Exit> {
    let (boot, settings) = options.settings()?;
    let Settings { mode, batch_size, order, grace, beats, providers } = settings;
    let providers = Arc::new(providers.load()?);
    let pool = Pool::of(pool_size(batch_size));
    let station = |db| Station { boot: boot.clone(), db, providers, worker: WorkerId::new(), beats };
    match mode {
        Mode::Once(one_shot) => {
            // Most ticks find no free slot or no job, and then one connection is enough.
            let station = station(boot.database(pool.on_demand()).await?);
            let bounds = once::Bounds { one_shot, grace };
            once::run(station, order, batch_size, bounds, &shutdown).await
        }
        Mode::Service(idle_sleep) => {
            let mut supervisor = Supervisor::of_environment();
            let database = boot.database_waiting(pool, &shutdown);
            let station = station(supervisor.beside(database, "Waiting for the database.").await?);
            let terms = Terms { batch_size, idle_sleep, grace };
            service::run(station, order, terms, supervisor, &shutdown).await
        }
    }
}

/// Makes one claim and runs it in this process as a worker does: with pulse, beats, cancel and a fenced end. Asked to
/// stop, it gives the claim back.
///
/// The beats begin before the claim is made, so that none is held without them.
///
/// # Errors
/// The beats cannot be started, what `claim` failed with, or the end of the run could not be written within the job's
/// ceiling.
pub async fn execute_here(
    station: Station,
    claim: impl AsyncFnOnce() -> anyhow::Result<Claim>,
    shutdown: &Shutdown,
) -> anyhow::Result<Ran> {
    let mut crew = Crew::start(station)?;
    let since = Instant::now();
    let ran = match claim().await {
        Ok(claim) => {
            crew.start_run(claim, since);
            end_of(&mut crew, shutdown).await
        }
        Err(error) => Err(error),
    };
    crew.close().await;
    ran
}

async fn end_of(crew: &mut Crew, shutdown: &Shutdown) -> anyhow::Result<Ran> {
    let broken = crew.broken();
    let ran = tokio::select! {
        ran = crew.next() => ran,
        () = shutdown.requested() => None,
        () = broken.cancelled() => None,
    };
    let ran = match ran {
        Some(ran) => Some(ran),
        None => crew.finish(Duration::ZERO, shutdown).await.pop(),
    };
    let written = ran.context("the run has no end")?;
    written.map_err(|fault| fault.into_error().context("the end of the run could not be written"))
}

/// Runs need a connection only for a moment each; one is for claims and one for the committer.
fn pool_size(batch_size: usize) -> u32 {
    u32::try_from(batch_size).unwrap_or(u32::MAX).saturating_add(2).min(8)
}
