//! `sa-cli run-prompt`: one run here and now, by the code that workers run.

use std::{fmt::Display, sync::Arc};

use anyhow::{Context as _, Result};
use sa_boot::{BeatOptions, Exit, Pool, Problem};
use sa_core::{
    id::{ClaimIds, EntityId, JobId, PromptId, WorkerId},
    job::Lane,
    provider::Catalog,
    repo::{
        self, Claim, Db, Outcome,
        inspect::{self, JobRow},
    },
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
    let providers = Arc::new(providers);
    let station =
        Station { boot: context.boot.clone(), db: db.clone(), providers: Arc::clone(&providers), worker, beats };
    let claim = async || {
        let claim = match (&args.job, prompt) {
            (Some(job), _) => claim_job(&db, job, providers.catalog(), &mut claims).await?,
            (None, prompt) => {
                let prompt = prompt.context("clap demands a prompt where no job is named")?;
                let root = prompt.root;
                repo::enqueue_claimed(&db, prompt, &mut claims).await.map_err(|error| rootless(error, root))?
            }
        };
        note(format_args!("job {} for prompt {}", claim.job(), claim.prompt()));
        Ok(claim)
    };
    let ran = sa_worker::execute_here(station, claim, &context.shutdown).await?;
    let exit = report(context, &db, ran).await;
    db.close().await;
    exit
}

async fn claim_job(db: &Db, job: &JobRef, catalog: &Catalog, claims: &mut ClaimIds) -> Result<Claim> {
    let job = job.resolve(db).await?;
    let not_run = |error| match error {
        repo::Error::NotFound => unknown(job).into(),
        repo::Error::Conflict { found, .. } => {
            let what = format_args!("{job} is not run");
            let remedy = "only a queued job can be; an ended one is run again by retry-job";
            Problem::new(Exit::Refused, what, format_args!("it is {found}"), remedy).into()
        }
        other @ (repo::Error::Database(_) | repo::Error::Corrupt { .. }) => anyhow::Error::from(other),
    };
    let row = inspect::job(db, Scope::Everywhere, job).await.map_err(not_run)?;
    if row.state == State::Queued {
        answerable(&row, catalog)?;
    }
    repo::claim_job(db, job, Scope::Everywhere, claims).await.map_err(not_run)
}

/// Refuses a job that the providers of this shell would answer wrongly or not at all: a claim would spend a run on it.
/// One whose options cannot be read fails wherever it runs, so here is as good as anywhere.
fn answerable(row: &JobRow, catalog: &Catalog) -> Result<(), Problem> {
    let Ok(options) = row.options() else { return Ok(()) };
    let lane = Lane::new(&row.lane);
    let wanted = if lane.is_unresolved() { "any provider".to_owned() } else { format!("provider {lane}") };
    let why = if catalog.is_only_echo() && lane.as_str() != "echo" {
        format!("it waits for {wanted}, and none is configured here")
    } else if catalog.model_for(&lane, &options).is_none() {
        match &options.model {
            Some(model) => {
                format!("it waits for {wanted} with model {}, which is not configured here", harmless(model))
            }
            None => format!("it waits for {wanted}, which is not configured here"),
        }
    } else {
        return Ok(());
    };
    let remedy = "set SA_PROVIDERS (or SA_OPENAI_MODEL and OPENAI_API_KEY) as the workers have it; it stays queued";
    Err(Problem::new(Exit::Refused, format_args!("{} is not run", row.id), why, remedy))
}

/// The answer, or why there is none.
async fn report(context: &Context, db: &Db, ran: Ran) -> Result<Exit> {
    let Ran { job, prompt, ended, outcome } = ran;
    let failed = |why: &str, remedy: &dyn Display| {
        Err(Problem::new(Exit::Failed, format_args!("job {job} has no answer"), harmless(why), remedy).into())
    };
    let look = format_args!("look: sa-cli job-details {job}");
    if let Outcome::Lost { found } = outcome {
        return failed(&format!("it is {found} now; this run's result was discarded"), &look);
    }
    match ended {
        Ended::Answered => {}
        Ended::Requeued(failure) => {
            let why = format!("{}: {}", failure.kind(), failure.message());
            let remedy =
                format_args!("it is queued again and a worker will take it; or cancel it: sa-cli cancel-job {job}");
            return failed(&why, &remedy);
        }
        Ended::Failed(failure) => {
            let why = format!("{}: {}", failure.kind(), failure.message());
            return failed(&why, &format_args!("try again: sa-cli retry-job {job}"));
        }
        Ended::Held(failure) => {
            let why = format!("{}: {}", failure.kind(), failure.message());
            let remedy = "it is queued again and runs when the lane opens; sa-cli provider-open opens it at once";
            return failed(&why, &remedy);
        }
        Ended::Released => return failed("it was given back before its end", &"a worker will take it"),
        Ended::Abandoned => return failed("its claim was lost", &look),
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
