//! What operators look at: one job, lists, and the whole history of a prompt. The only module that builds its statements.

mod rows;

use sqlx::{MySql, QueryBuilder};
use time::OffsetDateTime;

pub use self::rows::{EntityRow, EventRow, JobRow, LedgerEntry};
use super::{Db, Error};
use crate::id::{JobId, OrgId, PromptId, UserId};
use crate::job::Priority;
use crate::state::State;
use crate::viewer::Scope;

const JOB_COLUMNS: &str = "j.id, j.prompt_id, j.state, j.priority, j.lane, j.scheduled_for, j.attempt, j.max_attempts,
    j.releases, j.held_reason, j.held_since, j.execution_options, j.worker_claim, j.claimed_at, j.started_at,
    j.running_heartbeat_at, j.finished_at, j.response_id, j.error_kind, j.error_message, j.supersedes,
    (SELECT n.id FROM sa_job n WHERE n.supersedes = j.id) AS successor, j.revision, j.org_id, j.created_by,
    j.created_at, j.updated_at";
const ENTITY_COLUMNS: &str =
    "id, kind, job_id, org_id, created_by, correlation_id, parent_id, source_refs, truth_class,
    state_class, provider, model, content, created_at";

/// One job.
///
/// # Errors
/// `NotFound` outside the scope; `Database`.
pub async fn job(db: &Db, scope: Scope, id: JobId) -> Result<JobRow, Error> {
    db.retrying(|| async {
        let mut query = select_jobs();
        query.push(" WHERE j.id = ").push_bind(id);
        scoped(&mut query, scope);
        query.build_query_as::<JobRow>().fetch_optional(db.pool()).await?.ok_or(Error::NotFound)
    })
    .await
}

fn select_jobs() -> QueryBuilder<MySql> {
    let mut query = QueryBuilder::new("-- repo::inspect\n SELECT ");
    query.push(JOB_COLUMNS).push(" FROM sa_job j");
    query
}

fn scoped(query: &mut QueryBuilder<MySql>, scope: Scope) {
    match scope {
        Scope::Viewer(viewer) => {
            query.push(" AND j.org_id = ").push_bind(viewer.org);
            query.push(" AND j.created_by = ").push_bind(viewer.user);
        }
        Scope::Everywhere => {}
    }
}

/// Which jobs to list.
#[derive(Clone, Debug)]
pub struct JobFilter {
    /// How far the caller may see.
    pub scope: Scope,
    /// In one of these states; all if empty.
    pub states: Vec<State>,
    /// Of this organisation.
    pub org: Option<OrgId>,
    /// Of this user.
    pub user: Option<UserId>,
    /// Created at or after this.
    pub since: Option<OffsetDateTime>,
    /// Of this prompt.
    pub prompt: Option<PromptId>,
    /// Whose last run did not succeed for this reason.
    pub error_kind: Option<String>,
    /// Waiting in this lane.
    pub lane: Option<String>,
    /// Of this priority.
    pub priority: Option<Priority>,
}

impl JobFilter {
    /// Every job within the scope.
    #[must_use]
    pub const fn all(scope: Scope) -> Self {
        Self {
            scope,
            states: Vec::new(),
            org: None,
            user: None,
            since: None,
            prompt: None,
            error_kind: None,
            lane: None,
            priority: None,
        }
    }
}

/// The jobs of this filter, newest first, at most `limit`, those older than `after`. Prompts and answers are not read.
///
/// # Errors
/// `Database`.
pub async fn list(db: &Db, filter: &JobFilter, after: Option<JobId>, limit: u32) -> Result<Vec<JobRow>, Error> {
    db.retrying(|| async {
        let mut query = select_jobs();
        query.push(" WHERE 1 = 1");
        scoped(&mut query, filter.scope);
        filtered(&mut query, filter);
        if let Some(after) = after {
            query.push(" AND j.id < ").push_bind(after);
        }
        // Ids are UUIDv7, so their order is the order of creation.
        query.push(" ORDER BY j.id DESC LIMIT ").push_bind(limit);
        Ok(query.build_query_as::<JobRow>().fetch_all(db.pool()).await?)
    })
    .await
}

fn filtered(query: &mut QueryBuilder<MySql>, filter: &JobFilter) {
    if !filter.states.is_empty() {
        query.push(" AND j.state IN (");
        let mut states = query.separated(", ");
        for state in &filter.states {
            states.push_bind(*state);
        }
        query.push(")");
    }
    if let Some(org) = filter.org {
        query.push(" AND j.org_id = ").push_bind(org);
    }
    if let Some(user) = filter.user {
        query.push(" AND j.created_by = ").push_bind(user);
    }
    if let Some(since) = filter.since {
        query.push(" AND j.created_at >= ").push_bind(since);
    }
    if let Some(prompt) = filter.prompt {
        query.push(" AND j.prompt_id = ").push_bind(prompt);
    }
    if let Some(kind) = &filter.error_kind {
        query.push(" AND j.error_kind = ").push_bind(kind.clone());
    }
    if let Some(lane) = &filter.lane {
        query.push(" AND j.lane = ").push_bind(lane.clone());
    }
    if let Some(priority) = filter.priority {
        query.push(" AND j.priority = ").push_bind(priority);
    }
}

/// The job that an id or the beginning of one means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// This one.
    One(JobId),
    /// None.
    None,
    /// Several: the first ten of them.
    Many(Vec<JobId>),
}

/// Finds a job by at least the first 8 characters of its id.
///
/// # Errors
/// `Database`.
pub async fn find(db: &Db, scope: Scope, prefix: &str) -> Result<Found, Error> {
    let prefix = prefix.to_ascii_lowercase();
    // Anything else could not begin an id, and might mean something to LIKE.
    if prefix.len() < 8 || !prefix.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
        return Ok(Found::None);
    }
    let mut ids = db
        .retrying(|| async {
            let mut query = QueryBuilder::new("-- repo::inspect\n SELECT j.id FROM sa_job j WHERE j.id LIKE ");
            query.push_bind(format!("{prefix}%"));
            scoped(&mut query, scope);
            query.push(" ORDER BY j.id LIMIT 10");
            Ok(query.build_query_scalar::<JobId>().fetch_all(db.pool()).await?)
        })
        .await?;
    Ok(match ids.len() {
        0 => Found::None,
        1 => Found::One(ids.remove(0)),
        _ => Found::Many(ids),
    })
}

/// Everything that happened to a prompt.
#[derive(Clone, Debug, serde::Serialize)]
pub struct History {
    /// The prompt; nothing if its job was inserted without one.
    pub prompt: Option<EntityRow>,
    /// Its jobs, the first one first.
    pub jobs: Vec<JobRow>,
    /// Their events, in order.
    pub events: Vec<EventRow>,
    /// What their calls cost, in order.
    pub ledger: Vec<LedgerEntry>,
    /// Its responses, in order, partial and superseded ones too.
    pub responses: Vec<EntityRow>,
}

/// The whole history of a prompt.
///
/// # Errors
/// `NotFound` outside the scope; `Database`.
pub async fn history(db: &Db, scope: Scope, prompt: PromptId) -> Result<History, Error> {
    db.retrying(|| history_once(db, scope, prompt)).await
}

async fn history_once(db: &Db, scope: Scope, prompt: PromptId) -> Result<History, Error> {
    let mut query = select_jobs();
    query.push(" WHERE j.prompt_id = ").push_bind(prompt);
    scoped(&mut query, scope);
    query.push(" ORDER BY j.created_at, j.id");
    let jobs = query.build_query_as::<JobRow>().fetch_all(db.pool()).await?;
    if jobs.is_empty() {
        return Err(Error::NotFound);
    }
    let mut responses = entities(db, "parent_id", prompt).await?;
    responses.retain(|entity| entity.kind == "response");
    Ok(History {
        prompt: entities(db, "id", prompt).await?.pop(),
        events: of_jobs(db, EVENTS, &jobs, "seq").await?,
        ledger: of_jobs(db, LEDGER, &jobs, "at, id").await?,
        jobs,
        responses,
    })
}

const EVENTS: &str = "-- repo::inspect
    SELECT seq, job_id, from_state, to_state, attempt, revision, claim, actor, reason, error_kind, error_message, at
      FROM sa_job_event";
const LEDGER: &str = "-- repo::inspect
    SELECT id, job_id, attempt, claim, purpose, provider, model, tokens_in, tokens_cached, tokens_out, tokens_reasoning,
           cost_micro_usd, first_token_ms, total_ms, outcome, error_kind, provider_request_id, response_id, at
      FROM sa_ledger";

async fn of_jobs<T>(db: &Db, select: &'static str, jobs: &[JobRow], order: &'static str) -> Result<Vec<T>, Error>
where
    T: for<'r> sqlx::FromRow<'r, sqlx::mysql::MySqlRow> + Send + Unpin,
{
    let mut query = QueryBuilder::new(select);
    query.push(" WHERE job_id IN (");
    let mut ids = query.separated(", ");
    for job in jobs {
        ids.push_bind(job.id);
    }
    query.push(") ORDER BY ").push(order);
    Ok(query.build_query_as::<T>().fetch_all(db.pool()).await?)
}

async fn entities(db: &Db, column: &'static str, id: PromptId) -> Result<Vec<EntityRow>, Error> {
    let mut query = QueryBuilder::new("-- repo::inspect\n SELECT ");
    query.push(ENTITY_COLUMNS).push(" FROM sa_entity WHERE ").push(column).push(" = ").push_bind(id);
    query.push(" ORDER BY created_at, id");
    Ok(query.build_query_as::<EntityRow>().fetch_all(db.pool()).await?)
}
