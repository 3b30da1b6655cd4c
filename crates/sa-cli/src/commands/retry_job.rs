//! `sa-cli retry-job`: runs ended jobs again, and brings waiting ones forward.

use std::fmt::Display;

use anyhow::Result;
use sa_boot::{Exit, Problem};
use sa_core::{
    id::JobId,
    repo::{self, Db, Retried, Retry, gate, inspect},
    state::State,
    timestamp,
    viewer::Scope,
};
use serde::Serialize;
use time::OffsetDateTime;

use crate::{
    Context,
    acts::{self, operator},
    job_ref::{JobRef, unknown},
    options::{RunOptions, instant},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The jobs, each by its id or the first 8 or more characters of it.
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<JobRef>,
    /// The earliest time the new job may run, such as 2026-12-01T08:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    at: Option<OffsetDateTime>,
    #[command(flatten)]
    options: RunOptions,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Done {
    New {
        job_id: JobId,
        prompt_id: sa_core::id::PromptId,
        supersedes: JobId,
        state: State,
    },
    Forward {
        job_id: JobId,
        #[serde(serialize_with = "timestamp::serialize")]
        scheduled_for: OffsetDateTime,
    },
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<Exit> {
    let db = context.database().await?;
    let jobs = acts::resolve(&args.jobs, &db).await?;
    let mut results = context.out.stream();
    let exit = acts::each(jobs, async |job| match retry(&db, job, &args).await? {
        Retried::Successor { prompt, job, supersedes } => {
            let done = Done::New { job_id: job, prompt_id: prompt, supersedes, state: State::Queued };
            results.add(&done, job, format_args!("{supersedes} → {job}"))
        }
        Retried::BroughtForward { job, scheduled_for } => {
            let words = format!("{job} brought forward: it may run since {}", timestamp::format(scheduled_for));
            results.add(&Done::Forward { job_id: job, scheduled_for }, job, words)
        }
    })
    .await;
    results.end()?;
    db.close().await;
    exit
}

async fn retry(db: &Db, job: JobId, args: &Args) -> Result<Retried> {
    let row = inspect::job(db, Scope::Everywhere, job).await.map_err(|error| absent(job, error))?;
    let options = row.options()?.overridden_by(args.options.execution());
    let retry = Retry {
        job,
        scope: Scope::Everywhere,
        actor: operator(),
        lane: args.options.lane(&options)?,
        options,
        priority: args.options.priority,
        max_attempts: args.options.max_attempts,
        scheduled_for: args.at,
    };
    match repo::retry(db, retry).await {
        Err(repo::Error::Conflict { id, found }) => Err(refused(db, job, id, found, &row.lane).await),
        Err(error) => Err(absent(job, error)),
        Ok(retried) => Ok(retried),
    }
}

fn absent(job: JobId, error: repo::Error) -> anyhow::Error {
    match error {
        repo::Error::NotFound => unknown(job).into(),
        other @ (repo::Error::Database(_) | repo::Error::Corrupt { .. } | repo::Error::Conflict { .. }) => other.into(),
    }
}

/// Why a job is not run again: `other` is its successor, or the job in flight.
async fn refused(db: &Db, job: JobId, other: JobId, found: State, lane: &str) -> anyhow::Error {
    let problem = |why: &dyn Display, remedy: &dyn Display| {
        Problem::new(Exit::Refused, format_args!("{job} is not retried"), why, remedy)
    };
    match found {
        State::Queued => match gate::closed(db).await {
            Err(error) => return error.into(),
            Ok(closed) if closed.iter().any(|closed| closed.as_str() == lane) => problem(
                &format_args!("it is due, and its lane {lane} is closed"),
                &format_args!("wait until it opens, or open it: sa-cli provider-open {lane}"),
            ),
            Ok(_) => problem(&"it is queued and due", &"start a worker, or wait for a free one"),
        },
        State::Running => problem(&"it is running", &"wait for its end, or cancel it first"),
        State::Superseded => {
            problem(&format_args!("it was superseded by {other}"), &format_args!("retry the newest one: {other}"))
        }
        State::Succeeded | State::Failed | State::Cancelled => problem(
            &format_args!("job {other} of its prompt stands in the way; it is {found}"),
            &"look: sa-cli job-details",
        ),
    }
    .into()
}
