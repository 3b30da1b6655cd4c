//! `sa-cli run-prompt`: one run here and now, by the code that workers run.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use sa_boot::{BeatOptions, Exit, Pool, Problem};
use sa_core::{
    id::{ClaimIds, EntityId, JobId, PromptId, WorkerId},
    repo::{self, Claim, Db, Outcome, inspect},
    state::State,
    viewer::Scope,
};
use sa_worker::{Ended, Ran, Station};
use serde::Serialize;

use crate::{
    Context,
    commands::submit_prompt::{new_prompt, rootless},
    job_ref::{JobRef, unknown},
    options::{RunOptions, TextOptions, ViewerOptions},
    output::{harmless, note},
};

/// One for the run, one for its end, one to spare; beats have their own.
const POOL_SIZE: u32 = 3;

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("source").required(true).args(["text", "file", "job"])))]
pub(crate) struct Args {
    #[command(flatten)]
    text: TextOptions,
    /// Run this queued job in place of a new prompt.
    #[arg(long, value_name = "JOB", conflicts_with_all = ["root", "model", "prefer_provider", "router_model", "depth", "priority", "max_attempts"])]
    job: Option<JobRef>,
    /// The prompt or response this one continues.
    #[arg(long, value_name = "ID")]
    root: Option<EntityId>,
    #[command(flatten)]
    options: RunOptions,
    #[command(flatten)]
    viewer: ViewerOptions,
    #[command(flatten)]
    beats: BeatOptions,
}

#[derive(Serialize)]
struct Answered<'a> {
    prompt_id: PromptId,
    job_id: JobId,
    state: State,
    response_id: EntityId,
    text: &'a str,
    provider: Option<&'a str>,
    model: Option<&'a str>,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<Exit> {
    let beats = args.beats.validate()?;
    let providers = args.options.providers.load()?;
    providers.warn();
    let prompt = match args.job {
        Some(_) => None,
        None => Some(new_prompt(args.text, args.root, None, &args.options, &args.viewer)?),
    };
    let db = context.boot.database(Pool::of(POOL_SIZE)).await?;
    let worker = WorkerId::new();
    let mut claims = ClaimIds::new(worker);
    let claim = match (args.job, prompt) {
        (Some(job), _) => claim_job(&db, &job, &mut claims).await?,
        (None, prompt) => {
            let prompt = prompt.context("clap demands a prompt where no job is named")?;
            let root = prompt.root;
            repo::enqueue_claimed(&db, prompt, &mut claims).await.map_err(|error| rootless(error, root))?
        }
    };
    let (prompt, job) = (claim.prompt(), claim.job());
    note(format_args!("job {job} for prompt {prompt}"));
    let station = Station { boot: context.boot.clone(), db: db.clone(), providers: Arc::new(providers), worker, beats };
    let ran = sa_worker::execute_here(station, claim, &context.shutdown).await?;
    let exit = report(context, &db, prompt, job, ran).await;
    db.close().await;
    exit
}

async fn claim_job(db: &Db, job: &JobRef, claims: &mut ClaimIds) -> Result<Claim> {
    let job = job.resolve(db).await?;
    repo::claim_job(db, job, Scope::Everywhere, claims).await.map_err(|error| match error {
        repo::Error::NotFound => unknown(job).into(),
        repo::Error::Conflict { found, .. } => {
            let what = format_args!("{job} is not run");
            let remedy = "only a queued job can be; an ended one is run again by retry-job";
            Problem::new(Exit::Refused, what, format_args!("it is {found}"), remedy).into()
        }
        other @ (repo::Error::Database(_) | repo::Error::Corrupt { .. }) => anyhow::Error::from(other),
    })
}

/// The answer, or why there is none.
async fn report(context: &Context, db: &Db, prompt: PromptId, job: JobId, ran: Ran) -> Result<Exit> {
    let failed = |why: &str, remedy: &str| {
        Err(Problem::new(Exit::Failed, format_args!("job {job} has no answer"), harmless(why), remedy).into())
    };
    if let Outcome::Lost { found } = ran.outcome {
        return failed(&format!("it is {found} now; this run's result was discarded"), "look: sa-cli job-details");
    }
    match ran.ended {
        Ended::Answered => {}
        Ended::Requeued(failure) => {
            let why = format!("{}: {}", failure.kind(), failure.message());
            return failed(&why, "it is queued again and a worker will take it; or cancel it: sa-cli cancel-job");
        }
        Ended::Failed(failure) => {
            return failed(&format!("{}: {}", failure.kind(), failure.message()), "try again: sa-cli retry-job");
        }
        Ended::Released => return failed("it was given back before its end", "a worker will take it"),
        Ended::Abandoned => return failed("its claim was lost", "look: sa-cli job-details"),
    }
    let history = inspect::history(db, Scope::Everywhere, prompt).await?;
    let response = history.responses.iter().rfind(|response| response.job_id == Some(job));
    let response = response.with_context(|| format!("the answer of job {job} is gone"))?;
    let answered = Answered {
        prompt_id: prompt,
        job_id: job,
        state: State::Succeeded,
        response_id: response.id,
        text: &response.content,
        provider: response.provider.as_deref(),
        model: response.model.as_deref(),
    };
    context.out.text_of(&answered, job, &response.content)?;
    Ok(Exit::Done)
}
