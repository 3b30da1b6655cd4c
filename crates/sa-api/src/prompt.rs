//! `POST /prompt`: takes a prompt and answers at once; the model has all the time it needs.

use actix_web::{
    HttpRequest, HttpResponse,
    http::header,
    web::{Data, Payload},
};
use sa_core::{
    id::{EntityId, JobId, PromptId},
    job::{MaxAttempts, Priority},
    repo::{self, Enqueued, NewPrompt},
    state::State,
};
use serde::Serialize;

use crate::{
    Api, body,
    error::Problem,
    fields::{Fields, Refusals},
    job_options::{self, JobOptions},
    viewer::Asker,
};

/// Longest prompt, in bytes of UTF-8 after decoding.
const LONGEST_PROMPT: usize = 1024 * 1024;
const ROOT: &str = "root_entity_id";
/// Malformed, foreign and absent look alike.
const NO_SUCH_ROOT: &str = "must be the id of a prompt or response of yours";
/// When a client may first look for the answer.
pub(crate) const LOOK_AFTER_SECONDS: &str = "2";

#[derive(Serialize)]
struct Accepted {
    prompt_id: PromptId,
    job_id: JobId,
    state: State,
}

/// 202 once prompt and job are committed: from then on they cannot be lost.
pub(crate) async fn post(
    asker: Asker,
    api: Data<Api>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let body = body::required(&request, payload, &api).await?;
    let prompt = read(&body, &asker, &api)?;
    drop(body);
    let enqueued = api.database.run(|db| async move { enqueue_one(&db, prompt).await }).await?;
    let Enqueued { prompt_id, job_id } = enqueued.map_err(|error| match error {
        repo::Error::NotFound => Problem::field(ROOT, NO_SUCH_ROOT),
        repo::Error::Database(_) | repo::Error::Corrupt { .. } | repo::Error::Conflict { .. } => error.into(),
    })?;
    Ok(HttpResponse::Accepted()
        .insert_header((header::LOCATION, api.job_location(job_id)))
        .insert_header((header::RETRY_AFTER, LOOK_AFTER_SECONDS))
        .json(Accepted { prompt_id, job_id, state: State::Queued }))
}

async fn enqueue_one(db: &repo::Db, prompt: NewPrompt) -> Result<Enqueued, repo::Error> {
    repo::enqueue(db, vec![prompt]).await.pop().expect("enqueue answers once for each prompt")
}

fn read(body: &[u8], asker: &Asker, api: &Api) -> Result<NewPrompt, Problem> {
    let mut refusals = Refusals::default();
    let mut fields = Fields::of_body(body)?;
    let text = text(&mut fields, &mut refusals)?;
    let root = root(&mut fields, &mut refusals)?;
    let options = JobOptions::take(&mut fields, &mut refusals)?;
    fields.refuse_the_rest(&mut refusals);
    let lane = job_options::lane(&api.catalog, &options.execution, &mut refusals);
    refusals.none()?;
    Ok(NewPrompt {
        viewer: asker.viewer,
        actor: asker.actor.clone(),
        text,
        root,
        options: options.execution,
        lane,
        priority: options.priority.unwrap_or(Priority::DEFAULT),
        max_attempts: options.max_attempts.unwrap_or(MaxAttempts::DEFAULT),
        scheduled_for: options.scheduled_for,
    })
}

/// Kept byte for byte: no trimming, no normal form, NUL and all.
fn text(fields: &mut Fields<'_>, refusals: &mut Refusals) -> Result<String, Problem> {
    let told_before = refusals.count();
    let text = fields.text("prompt_text", refusals)?.unwrap_or_default();
    if text.len() > LONGEST_PROMPT {
        return Err(Problem::too_large("prompt_text", LONGEST_PROMPT));
    }
    if text.is_empty() && refusals.count() == told_before {
        refusals.add("prompt_text", format!("must be a string of 1 to {LONGEST_PROMPT} bytes"));
    }
    Ok(text)
}

fn root(fields: &mut Fields<'_>, refusals: &mut Refusals) -> Result<Option<EntityId>, Problem> {
    let Some(text) = fields.text(ROOT, refusals)? else { return Ok(None) };
    let root = text.parse().ok();
    if root.is_none() {
        refusals.add(ROOT, NO_SUCH_ROOT);
    }
    Ok(root)
}
