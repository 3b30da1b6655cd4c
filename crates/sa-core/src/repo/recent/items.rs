//! A prompt with its newest job and its latest response, in the shape that clients read.

use std::collections::HashMap;

use serde::Serialize;
use time::OffsetDateTime;

use crate::id::{EntityId, JobId, PromptId, ResponseId};
use crate::job::Priority;
use crate::repo::children::json;
use crate::repo::thread::latest_responses;
use crate::repo::{Db, Error};
use crate::state::State;
use crate::timestamp;

/// A prompt as clients see it.
#[derive(Clone, Debug, Serialize)]
pub struct Item {
    /// The prompt.
    pub prompt_id: PromptId,
    /// What was asked, byte for byte.
    pub prompt_text: String,
    /// Its newest job's state.
    pub state: State,
    /// Its latest response.
    pub response_id: Option<ResponseId>,
    /// The entities sent as context for that response.
    pub context_ids: Vec<EntityId>,
    /// What it continues.
    pub parent_id: Option<EntityId>,
    /// Its thread.
    pub correlation_id: EntityId,
    /// When it was asked: the order of display.
    #[serde(serialize_with = "timestamp::serialize")]
    pub created_at: OffsetDateTime,
    /// When its newest job last changed.
    #[serde(serialize_with = "timestamp::serialize")]
    pub updated_at: OffsetDateTime,
    /// Its newest job.
    pub job: JobView,
    /// Its latest response that is whole or truncated; a retry that runs or failed takes nothing away.
    pub response: Option<ResponseView>,
}

/// A job as clients see it.
#[derive(Clone, Debug, Serialize)]
pub struct JobView {
    /// The job.
    pub id: JobId,
    /// Where it stands.
    pub state: State,
    /// Rises with each change: merge only a higher one.
    pub revision: u32,
    /// 0 to 100, lower is sooner.
    pub priority: Priority,
    /// The number of its current or next run.
    pub attempt: u16,
    /// How many runs it may have.
    pub max_attempts: u16,
    /// Earliest instant of its next run.
    #[serde(serialize_with = "timestamp::serialize")]
    pub scheduled_for: OffsetDateTime,
    /// Why it waits: gate, backoff or schedule.
    pub held_reason: Option<String>,
    /// When its run began.
    #[serde(serialize_with = "timestamp::serialize_option")]
    pub started_at: Option<OffsetDateTime>,
    /// When it ended.
    #[serde(serialize_with = "timestamp::serialize_option")]
    pub finished_at: Option<OffsetDateTime>,
    /// Why its last run did not succeed.
    pub error_kind: Option<String>,
    /// The same in words.
    pub error_message: Option<String>,
    /// The job it retries.
    pub supersedes: Option<JobId>,
}

/// A response as clients see it.
#[derive(Clone, Debug, Serialize)]
pub struct ResponseView {
    /// The response.
    pub id: ResponseId,
    /// The answer, byte for byte.
    pub text: String,
    /// The provider that answered.
    pub provider: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
    /// settled or truncated.
    pub state_class: String,
    /// Whether somebody promoted it.
    pub promoted: bool,
    /// The last verdict on it, good or bad, unless it was withdrawn.
    pub verdict: Option<String>,
    /// When it was written.
    #[serde(serialize_with = "timestamp::serialize")]
    pub created_at: OffsetDateTime,
}

/// The prompts of these jobs, oldest first.
pub(super) async fn read(db: &Db, jobs: &[JobId]) -> Result<Vec<Item>, Error> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let mut items = prompts(db, jobs).await?;
    let asked: Vec<PromptId> = items.iter().map(|item| item.prompt_id).collect();
    let latest = latest_responses(&mut *db.pool().acquire().await?, &asked).await?;
    let mut responses = responses(db, &latest.values().copied().collect::<Vec<_>>()).await?;
    for item in &mut items {
        let Some((response, context)) = latest.get(&item.prompt_id).and_then(|id| responses.remove(id)) else {
            continue;
        };
        item.response_id = Some(response.id);
        item.context_ids = context;
        item.response = Some(response);
    }
    items.sort_by_key(|item| (item.created_at, item.prompt_id));
    Ok(items)
}

async fn prompts(db: &Db, jobs: &[JobId]) -> Result<Vec<Item>, Error> {
    let rows = sqlx::query!(
        r#"-- repo::recent
         SELECT p.id AS "prompt: PromptId", p.content, p.parent_id AS "parent: EntityId",
                p.correlation_id AS "thread: EntityId", p.created_at AS "created_at: OffsetDateTime",
                j.id AS "job: JobId", j.state AS "state: State", j.revision, j.priority AS "priority: Priority", j.attempt,
                j.max_attempts, j.scheduled_for AS "scheduled_for: OffsetDateTime", j.held_reason,
                j.started_at AS "started_at: OffsetDateTime", j.finished_at AS "finished_at: OffsetDateTime",
                j.error_kind, j.error_message, j.supersedes AS "supersedes: JobId",
                j.updated_at AS "updated_at: OffsetDateTime"
           FROM JSON_TABLE(?, '$[*]' COLUMNS (
                    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$'
                )) s
           STRAIGHT_JOIN sa_job j FORCE INDEX (PRIMARY) ON j.id = s.id
           STRAIGHT_JOIN sa_entity p FORCE INDEX (PRIMARY) ON p.id = j.prompt_id
          WHERE j.state <> 'superseded'"#,
        json(jobs),
    )
    .fetch_all(db.pool())
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| Item {
            prompt_id: row.prompt,
            prompt_text: row.content,
            state: row.state,
            response_id: None,
            context_ids: Vec::new(),
            parent_id: row.parent,
            correlation_id: row.thread,
            created_at: row.created_at,
            updated_at: row.updated_at,
            job: JobView {
                id: row.job,
                state: row.state,
                revision: row.revision,
                priority: row.priority,
                attempt: row.attempt,
                max_attempts: row.max_attempts,
                scheduled_for: row.scheduled_for,
                held_reason: row.held_reason,
                started_at: row.started_at,
                finished_at: row.finished_at,
                error_kind: row.error_kind,
                error_message: row.error_message,
                supersedes: row.supersedes,
            },
            response: None,
        })
        .collect())
}

type Responses = HashMap<ResponseId, (ResponseView, Vec<EntityId>)>;

async fn responses(db: &Db, ids: &[ResponseId]) -> Result<Responses, Error> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query!(
        r#"-- repo::recent
         SELECT e.id AS "id: ResponseId", e.content, e.provider, e.model, e.state_class, e.source_refs,
                e.created_at AS "created_at: OffsetDateTime"
           FROM JSON_TABLE(?, '$[*]' COLUMNS (
                    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$'
                )) s
           STRAIGHT_JOIN sa_entity e FORCE INDEX (PRIMARY) ON e.id = s.id"#,
        json(ids),
    )
    .fetch_all(db.pool())
    .await?;
    let mut responses = HashMap::with_capacity(rows.len());
    for row in rows {
        let refs = serde_json::from_str(&row.source_refs).map_err(|_| Error::Corrupt {
            table: "sa_entity",
            column: "source_refs",
            id: row.id.to_string(),
        })?;
        let view = ResponseView {
            id: row.id,
            text: row.content,
            provider: row.provider,
            model: row.model,
            state_class: row.state_class,
            promoted: false,
            verdict: None,
            created_at: row.created_at,
        };
        responses.insert(row.id, (view, refs));
    }
    judge(db, ids, &mut responses).await?;
    Ok(responses)
}

/// Adds what people said of these responses; the last word counts.
async fn judge(db: &Db, ids: &[ResponseId], responses: &mut Responses) -> Result<(), Error> {
    let rows = sqlx::query!(
        r#"-- repo::recent
         SELECT e.from_id AS "response: ResponseId", e.kind, e.verdict
           FROM JSON_TABLE(?, '$[*]' COLUMNS (
                    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$'
                )) s
           STRAIGHT_JOIN sa_edge e FORCE INDEX (idx_edge_from) ON e.from_id = s.id
          WHERE e.kind IN ('promoted', 'verdict')
          ORDER BY e.created_at, e.id"#,
        json(ids),
    )
    .fetch_all(db.pool())
    .await?;
    for row in rows {
        let Some((view, _)) = responses.get_mut(&row.response) else { continue };
        match row.kind.as_str() {
            "promoted" => view.promoted = true,
            _ => view.verdict = row.verdict,
        }
    }
    Ok(())
}
