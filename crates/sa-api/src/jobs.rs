//! `/jobs/{id}`: one job, its cancel and its retry.

use actix_web::{
    HttpRequest, HttpResponse,
    http::header,
    web::{Data, Path, Payload},
};
use sa_core::{
    id::{JobId, PromptId, ResponseId},
    job::{ExecutionOptions, Lane, Priority},
    repo::{
        self, Cancelled, Db, IfWaiting, Retried, Retry, gate,
        inspect::{self, JobRow},
        recent::ResponseView,
    },
    state::State,
    timestamp,
};
use serde::Serialize;
use time::OffsetDateTime;

use crate::{
    Api, body,
    error::Problem,
    fields::{Fields, Refusals},
    job_options::{self, JobOptions},
    prompt::LOOK_AFTER_SECONDS,
    viewer::Asker,
};

/// A job as its viewer sees it: the `job` of an item of `recent`, and what that has from its prompt.
#[derive(Serialize)]
struct View {
    prompt_id: PromptId,
    job_id: JobId,
    state: State,
    revision: u32,
    priority: Priority,
    attempt: u16,
    max_attempts: u16,
    #[serde(serialize_with = "timestamp::serialize")]
    scheduled_for: OffsetDateTime,
    held_reason: Option<String>,
    #[serde(serialize_with = "timestamp::serialize")]
    created_at: OffsetDateTime,
    #[serde(serialize_with = "timestamp::serialize")]
    updated_at: OffsetDateTime,
    #[serde(serialize_with = "timestamp::serialize_option")]
    started_at: Option<OffsetDateTime>,
    #[serde(serialize_with = "timestamp::serialize_option")]
    finished_at: Option<OffsetDateTime>,
    error_kind: Option<String>,
    error_message: Option<String>,
    supersedes: Option<JobId>,
    successor: Option<JobId>,
    /// What this job answered; kept when a retry supersedes the job.
    response_id: Option<ResponseId>,
    /// That response, while it is the prompt's latest.
    response: Option<ResponseView>,
}

#[derive(Serialize)]
struct Cancel {
    job_id: JobId,
    from: State,
    to: State,
}

#[derive(Serialize)]
struct Successor {
    prompt_id: PromptId,
    job_id: JobId,
    supersedes: JobId,
    state: State,
}

#[derive(Serialize)]
struct BroughtForward {
    job_id: JobId,
    #[serde(serialize_with = "timestamp::serialize")]
    scheduled_for: OffsetDateTime,
}

/// 200 with the job, and its response when there is one.
pub(crate) async fn get(asker: Asker, api: Data<Api>, path: Path<String>) -> Result<HttpResponse, Problem> {
    let id = job_id(&path)?;
    let found = api.database.run(move |db| async move { read(&db, &asker, id).await }).await?;
    let view = found.map_err(|error| Problem::of_job(id, error))?;
    Ok(HttpResponse::Ok().json(view))
}

async fn read(db: &Db, asker: &Asker, id: JobId) -> Result<View, repo::Error> {
    let row = inspect::job(db, asker.scope(), id).await?;
    let response = match row.response_id {
        None => None,
        Some(own) => repo::item(db, asker.viewer, row.prompt_id).await?.response.filter(|latest| latest.id == own),
    };
    Ok(View::of(row, response))
}

impl View {
    fn of(row: JobRow, response: Option<ResponseView>) -> Self {
        Self {
            prompt_id: row.prompt_id,
            job_id: row.id,
            state: row.state,
            revision: row.revision,
            priority: row.priority,
            attempt: row.attempt,
            max_attempts: row.max_attempts,
            scheduled_for: row.scheduled_for,
            held_reason: row.held_reason,
            created_at: row.created_at,
            updated_at: row.updated_at,
            started_at: row.started_at,
            finished_at: row.finished_at,
            error_kind: row.error_kind,
            error_message: row.error_message,
            supersedes: row.supersedes,
            successor: row.successor,
            response_id: row.response_id,
            response,
        }
    }
}

/// 200 with what happened to the job, also when it was cancelled before; 409 when it has ended otherwise.
pub(crate) async fn cancel(
    asker: Asker,
    api: Data<Api>,
    path: Path<String>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let id = job_id(&path)?;
    let body = body::optional(&request, payload, &api).await?;
    if !body.is_empty() {
        let mut refusals = Refusals::default();
        Fields::of_body(&body)?.refuse_the_rest(&mut refusals);
        refusals.none()?;
    }
    let cancelled = api.database.run(move |db| async move { repo::cancel(&db, id, asker.scope(), &asker.actor).await });
    let Cancelled { from } = cancelled.await?.map_err(|error| Problem::of_job(id, error))?;
    Ok(HttpResponse::Ok().json(Cancel { job_id: id, from, to: State::Cancelled }))
}

/// 202 with the successor of a job that has ended; 200 when a job that was waiting is due now; 409 while it is in flight.
pub(crate) async fn retry(
    asker: Asker,
    api: Data<Api>,
    path: Path<String>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let id = job_id(&path)?;
    let body = body::optional(&request, payload, &api).await?;
    let patch = read_patch(&body)?;
    let scope = asker.scope();
    let row = api.database.run(move |db| async move { inspect::job(&db, scope, id).await }).await?;
    let row = row.map_err(|error| Problem::of_job(id, error))?;
    let retry = plan(&row, patch, &asker, &api)?;
    let retried = api.database.run(move |db| async move { repo::retry(&db, retry).await }).await?;
    match retried {
        Ok(Retried::Successor { prompt, job, supersedes }) => Ok(HttpResponse::Accepted()
            .insert_header((header::LOCATION, api.job_location(job)))
            .insert_header((header::RETRY_AFTER, LOOK_AFTER_SECONDS))
            .json(Successor { prompt_id: prompt, job_id: job, supersedes, state: State::Queued })),
        Ok(Retried::BroughtForward { job, scheduled_for }) => {
            Ok(HttpResponse::Ok().json(BroughtForward { job_id: job, scheduled_for }))
        }
        Err(repo::Error::Conflict { id: standing, found: State::Queued }) if standing == id => {
            Err(queued(&api, &asker, id).await?)
        }
        Err(error) => Err(Problem::of_job(id, error)),
    }
}

/// Why a queued job is left as it is. One that waits was asked to change its terms. One that is due may be waiting for a
/// closed lane, which is worth telling.
async fn queued(api: &Api, asker: &Asker, id: JobId) -> Result<Problem, Problem> {
    let scope = asker.scope();
    let look = async move |db: Db| {
        let row = inspect::job(&db, scope, id).await?;
        let waits = row.scheduled_for > repo::now(&db).await?;
        let lane = Lane::new(row.lane);
        let closed = gate::is_closed(&db, &lane).await?;
        Ok((waits, closed.then_some(lane)))
    };
    let looked = api.database.run(look).await?;
    let (waits, closed) = looked.map_err(|error| Problem::of_job(id, error))?;
    if waits {
        let message = "must be left out: a waiting job is only brought forward. To change them, cancel it and retry";
        return Ok(Problem::field("options", message));
    }
    let problem = Problem::of_job(id, repo::Error::Conflict { id, found: State::Queued });
    Ok(match closed {
        Some(lane) => problem.held_by(&lane),
        None => problem,
    })
}

/// The options of the call; without a body there are none.
fn read_patch(body: &[u8]) -> Result<JobOptions, Problem> {
    if body.is_empty() {
        return Ok(JobOptions::default());
    }
    let mut refusals = Refusals::default();
    let mut fields = Fields::of_body(body)?;
    let patch = JobOptions::take(&mut fields, &mut refusals)?;
    fields.refuse_the_rest(&mut refusals);
    refusals.none()?;
    Ok(patch)
}

/// The retry of a job as it was found, with the caller's options over its own.
fn plan(row: &JobRow, patch: JobOptions, asker: &Asker, api: &Api) -> Result<Retry, Problem> {
    let if_waiting = if patch == JobOptions::default() { IfWaiting::BringForward } else { IfWaiting::Refuse };
    let JobOptions { execution, priority, max_attempts, scheduled_for } = patch;
    let options = match row.options() {
        Ok(own) => own.overridden_by(execution),
        // What the row holds is unreadable, and has failed the job; what the caller says stands alone.
        Err(_) if execution != ExecutionOptions::default() => execution,
        Err(_) => return Err(Problem::field("options", "must be given: those stored with the job cannot be read")),
    };
    let mut refusals = Refusals::default();
    let lane = job_options::lane(&api.catalog, &options, &mut refusals);
    refusals.none()?;
    Ok(Retry {
        job: row.id,
        scope: asker.scope(),
        actor: asker.actor.clone(),
        options,
        lane,
        priority,
        max_attempts,
        scheduled_for,
        if_waiting,
    })
}

/// An id that is no id names nothing, like one that is absent or foreign.
fn job_id(path: &str) -> Result<JobId, Problem> {
    path.parse().map_err(|_| Problem::not_found())
}
