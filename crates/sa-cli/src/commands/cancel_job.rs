//! `sa-cli cancel-job`: ends jobs that have not ended.

use anyhow::Result;
use sa_boot::{Exit, Problem};
use sa_core::{
    id::JobId,
    repo::{self, Cancelled, Db},
    state::State,
    viewer::Scope,
};
use serde::Serialize;

use crate::{
    Context,
    acts::{self, operator},
    job_ref::{JobRef, unknown},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The jobs, each by its id or the first 8 or more characters of it.
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<JobRef>,
}

#[derive(Serialize)]
struct Done {
    job_id: JobId,
    from: State,
    to: State,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<Exit> {
    let db = context.database().await?;
    let jobs = acts::resolve(&args.jobs, &db).await?;
    let mut results = context.out.stream();
    let exit = acts::each(jobs, async |job| {
        let Cancelled { from } = cancel(&db, job).await?;
        let words = match from {
            State::Cancelled => format!("{job} was cancelled already"),
            State::Queued | State::Running | State::Succeeded | State::Failed | State::Superseded => {
                format!("{job} {from} → cancelled")
            }
        };
        results.add(&Done { job_id: job, from, to: State::Cancelled }, job, words)
    })
    .await;
    results.end()?;
    db.close().await;
    exit
}

async fn cancel(db: &Db, job: JobId) -> Result<Cancelled> {
    repo::cancel(db, job, Scope::Everywhere, &operator()).await.map_err(|error| match error {
        repo::Error::NotFound => unknown(job).into(),
        repo::Error::Conflict { id, found: State::Superseded } => {
            let why = format!("it was superseded by {id}");
            Problem::new(Exit::Refused, format_args!("{job} is not cancelled"), why, "cancel that one").into()
        }
        repo::Error::Conflict { found, .. } => {
            let why = format!("already {found}");
            Problem::new(Exit::Refused, format_args!("{job} is not cancelled"), why, "there is nothing left to cancel")
                .into()
        }
        other @ (repo::Error::Database(_) | repo::Error::Corrupt { .. }) => other.into(),
    })
}
