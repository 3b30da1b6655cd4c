//! `sa-cli submit-prompt`: one prompt into the queue.

use anyhow::Result;
use sa_boot::{Exit, Problem};
use sa_core::{
    id::{EntityId, JobId, PromptId},
    job::{MaxAttempts, Priority},
    repo::{self, Enqueued, NewPrompt},
    state::State,
    viewer::Actor,
};
use serde::Serialize;
use time::OffsetDateTime;

use crate::{
    Context,
    options::{RunOptions, TextOptions, ViewerOptions},
    times::{instant, refuse_far},
};

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("source").required(true).args(["text", "file"])))]
pub(crate) struct Args {
    #[command(flatten)]
    text: TextOptions,
    /// The prompt or response this one continues.
    #[arg(long, value_name = "ID")]
    root: Option<EntityId>,
    /// The earliest time it may run, such as 2026-12-01T08:00:00Z; one that has passed means now; a year ahead at most.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    at: Option<OffsetDateTime>,
    #[command(flatten)]
    options: RunOptions,
    #[command(flatten)]
    viewer: ViewerOptions,
}

#[derive(Serialize)]
struct Submitted {
    prompt_id: PromptId,
    job_id: JobId,
    state: State,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<Exit> {
    let prompt = new_prompt(args.text, args.root, args.at, &args.options, &args.viewer)?;
    let root = prompt.root;
    let db = context.database().await?;
    refuse_far(args.at, &db).await?;
    let mut enqueued = repo::enqueue(&db, vec![prompt]).await;
    db.close().await;
    let Enqueued { prompt_id, job_id } =
        enqueued.pop().expect("one prompt in, one outcome out").map_err(|why| rootless(why, root))?;
    let value = Submitted { prompt_id, job_id, state: State::Queued };
    context.out.one(&value, job_id, |_| {
        format!("queued: job {job_id} for prompt {prompt_id}\nsee how it fares with: sa-cli job-details {job_id}")
    })?;
    Ok(Exit::Done)
}

/// The prompt that these options ask for.
pub(crate) fn new_prompt(
    text: TextOptions,
    root: Option<EntityId>,
    scheduled_for: Option<OffsetDateTime>,
    options: &RunOptions,
    viewer: &ViewerOptions,
) -> Result<NewPrompt> {
    let execution = options.execution();
    let viewer = viewer.viewer();
    Ok(NewPrompt {
        viewer,
        actor: Actor::user(viewer.user),
        text: text.read()?,
        root,
        lane: options.lane(&execution)?,
        options: execution,
        priority: options.priority.unwrap_or(Priority::DEFAULT),
        max_attempts: options.max_attempts.unwrap_or(MaxAttempts::DEFAULT),
        scheduled_for,
    })
}

/// Only a root can be missing when a prompt is written.
pub(crate) fn rootless(error: repo::Error, root: Option<EntityId>) -> anyhow::Error {
    match (error, root) {
        (repo::Error::NotFound, Some(root)) => {
            let why = "this viewer has no such prompt or response";
            Problem::new(Exit::NotFound, format_args!("root {root}"), why, "check --root, --org and --user").into()
        }
        (other, _) => other.into(),
    }
}
