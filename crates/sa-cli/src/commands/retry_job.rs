//! `sa-cli retry-job`: runs ended jobs again, and brings waiting ones forward.

use std::fmt::Display;

use anyhow::Result;
use sa_boot::{Exit, Problem};
use sa_core::{
    id::JobId,
    job::{ExecutionOptions, Lane},
    repo::{
        self, Db, IfWaiting, Retried, Retry, gate,
        inspect::{self, JobRow},
    },
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
    options::RunOptions,
    times::{instant, refuse_far},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The jobs, each by its id or the first 8 or more characters of it.
    #[arg(required = true, value_name = "JOB")]
    jobs: Vec<JobRef>,
    /// The earliest time the new job may run, such as 2026-12-01T08:00:00Z; a year ahead at most.
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
    refuse_far(args.at, &db).await?;
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
    let row = look(db, job).await?;
    let options = options(&row, args.options.execution())?;
    let retry = Retry {
        job,
        scope: Scope::Everywhere,
        actor: operator(),
        lane: args.options.lane(&options)?,
        options,
        priority: args.options.priority,
        max_attempts: args.options.max_attempts,
        scheduled_for: args.at,
        if_waiting: args.if_waiting(),
    };
    match repo::retry(db, retry).await {
        Err(repo::Error::Conflict { id, found }) => Err(refused(db, job, id, found).await?.into()),
        Err(error) => Err(absent(job, error)),
        Ok(retried) => Ok(retried),
    }
}

impl Args {
    /// A waiting job keeps its terms, so that asking for others is an error rather than lost.
    fn if_waiting(&self) -> IfWaiting {
        let own = &self.options;
        let others = self.at.is_some() || own.priority.is_some() || own.max_attempts.is_some();
        if others || own.execution() != ExecutionOptions::default() {
            IfWaiting::Refuse
        } else {
            IfWaiting::BringForward
        }
    }
}

/// The job's options with those of the call over them. What a row holds that cannot be read has failed the job; what the
/// call says stands alone then.
fn options(row: &JobRow, own: ExecutionOptions) -> Result<ExecutionOptions> {
    match row.options() {
        Ok(stored) => Ok(stored.overridden_by(own)),
        Err(_) if own != ExecutionOptions::default() => Ok(own),
        Err(why) => {
            let remedy = "give others in their place: --model, --prefer-provider, --router-model or --depth";
            Err(Problem::new(Exit::Refused, format_args!("{} is not retried", row.id), why, remedy).into())
        }
    }
}

async fn look(db: &Db, job: JobId) -> Result<JobRow> {
    inspect::job(db, Scope::Everywhere, job).await.map_err(|error| absent(job, error))
}

fn absent(job: JobId, error: repo::Error) -> anyhow::Error {
    match error {
        repo::Error::NotFound => unknown(job).into(),
        other @ (repo::Error::Database(_) | repo::Error::Corrupt { .. } | repo::Error::Conflict { .. }) => other.into(),
    }
}

/// Why a job is not run again: `other` is its successor, if it has one.
async fn refused(db: &Db, job: JobId, other: JobId, found: State) -> Result<Problem> {
    let problem = |why: &dyn Display, remedy: &dyn Display| {
        Problem::new(Exit::Refused, format_args!("{job} is not retried"), why, remedy)
    };
    match found {
        State::Queued => {}
        State::Superseded => {
            let remedy = format_args!("retry the newest one: {other}");
            return Ok(problem(&format_args!("it was superseded by {other}"), &remedy));
        }
        State::Running | State::Succeeded | State::Failed | State::Cancelled => {
            return Ok(problem(&format_args!("it is {found}"), &"wait for its end, or cancel it first"));
        }
    }
    let row = look(db, job).await?;
    if row.scheduled_for > repo::now(db).await? {
        let why = format_args!("it waits until {} on the terms it has", timestamp::format(row.scheduled_for));
        let remedy = format_args!(
            "bring it forward as it is, without options: sa-cli retry-job {job}; or cancel it, and retry it with others"
        );
        return Ok(problem(&why, &remedy));
    }
    let lane = Lane::new(row.lane);
    if gate::is_closed(db, &lane).await? {
        let why = format_args!("it is due, and its lane {lane} is closed");
        let remedy = format_args!("wait until the lane works again, or open it: sa-cli provider-open {lane}");
        return Ok(problem(&why, &remedy));
    }
    Ok(problem(&"it is queued and due", &"start a worker, or wait for a free one"))
}
