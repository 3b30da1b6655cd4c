//! `sa-cli list-jobs`: the newest jobs that fit.

use anyhow::Result;
use comfy_table::Cell;
use sa_boot::Exit;
use sa_core::{
    id::{OrgId, PromptId, UserId},
    job::Priority,
    repo::inspect::{self, JobFilter, JobRow},
    state::State,
    viewer::Scope,
};

use crate::{
    Context,
    commands::job_details::error,
    job_ref::JobRef,
    options::priority,
    output::{line, note, short, state_cell, when},
    times::Since,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only jobs in this state; several with commas between.
    #[arg(long, value_delimiter = ',')]
    state: Vec<State>,
    /// Only jobs of this organisation.
    #[arg(long, value_name = "N")]
    org: Option<OrgId>,
    /// Only jobs of this user.
    #[arg(long, value_name = "N")]
    user: Option<UserId>,
    /// Only jobs created since this time, such as 2026-12-01T08:00:00Z, or since so long ago, such as 30m, 2h or 7d.
    #[arg(long, value_name = "TIME")]
    since: Option<Since>,
    /// Only jobs of this prompt.
    #[arg(long, value_name = "ID")]
    prompt: Option<PromptId>,
    /// Only jobs with this error kind.
    #[arg(long, value_name = "KIND")]
    error_kind: Option<String>,
    /// Only jobs of this priority.
    #[arg(long, value_name = "N", value_parser = priority)]
    priority: Option<Priority>,
    /// Only jobs that wait for this provider.
    #[arg(long, value_name = "NAME")]
    lane: Option<String>,
    /// How many at most.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Go on behind this job, the last one of the list before.
    #[arg(long, value_name = "JOB")]
    after: Option<JobRef>,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<Exit> {
    let db = context.database().await?;
    let after = match &args.after {
        Some(job) => Some(job.resolve(&db).await?),
        None => None,
    };
    let since = match args.since {
        Some(since) => Some(since.instant(&db).await?),
        None => None,
    };
    let filter = JobFilter {
        scope: Scope::Everywhere,
        states: args.state,
        org: args.org,
        user: args.user,
        since,
        prompt: args.prompt,
        error_kind: args.error_kind,
        lane: args.lane,
        priority: args.priority,
    };
    let jobs = inspect::list(&db, &filter, after, args.limit).await?;
    db.close().await;
    let header = ["JOB", "STATE", "PRIORITY", "ATTEMPT", "LANE", "ORG", "USER", "CREATED", "ERROR"];
    context.out.list(&jobs, |job| job.id.to_string(), |out| out.table(header, jobs.iter().map(row)))?;
    if let Some(last) = jobs.last().filter(|_| jobs.len() as u64 == u64::from(args.limit)) {
        note(format_args!("there may be more: add --after {}", last.id));
    }
    Ok(Exit::Done)
}

fn row(job: &JobRow) -> [Cell; 9] {
    [
        Cell::new(short(job.id)),
        state_cell(job.state),
        Cell::new(job.priority),
        Cell::new(format!("{}/{}", job.attempt, job.max_attempts)),
        Cell::new(line(&job.lane, 64)),
        Cell::new(job.org_id),
        Cell::new(job.created_by),
        Cell::new(when(job.created_at)),
        Cell::new(error(job.error_kind.as_deref(), job.error_message.as_deref())),
    ]
}
