//! Store a prompt and its queued job, both or neither.

use std::collections::HashMap;

use serde::Serialize;
use time::OffsetDateTime;

use super::children::{NewAudit, NewEntity, insert_audit, insert_entities, json};
use super::db::Tx;
use super::error::Fate;
use super::event::{Change, Changed, record};
use super::{Db, Error};
use crate::entity::{EntityKind, StateClass};
use crate::event::Reason;
use crate::id::{EntityId, JobId, OrgId, PromptId, UserId};
use crate::job::{ExecutionOptions, Lane, MaxAttempts, Priority};
use crate::state::State;
use crate::viewer::{Actor, Viewer};

/// A prompt as it was asked. Its text is stored byte for byte.
#[derive(Clone, Debug)]
pub struct NewPrompt {
    /// Whose it is.
    pub viewer: Viewer,
    /// Who submits it.
    pub actor: Actor,
    /// The text.
    pub text: String,
    /// The prompt or response it continues.
    pub root: Option<EntityId>,
    /// What the caller asked for.
    pub options: ExecutionOptions,
    /// The lane these options lead to, by `provider::Catalog::lane_for`.
    pub lane: Lane,
    /// How soon.
    pub priority: Priority,
    /// How many runs it may have.
    pub max_attempts: MaxAttempts,
    /// Earliest instant; the past and nothing are now.
    pub scheduled_for: Option<OffsetDateTime>,
}

/// The ids under which a prompt was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enqueued {
    /// The prompt entity.
    pub prompt_id: PromptId,
    /// Its queued job.
    pub job_id: JobId,
}

/// Stores each prompt with its queued job, event and audit row. An `Ok` is committed.
///
/// The prompts share one transaction; if that fails, each is tried in one of its own, so that none fails for another.
///
/// # Errors
/// Per prompt: `NotFound` if its root is absent or another viewer's; `Database`.
pub async fn enqueue(db: &Db, batch: Vec<NewPrompt>) -> Vec<Result<Enqueued, Error>> {
    let minted: Vec<Minted> = batch.into_iter().map(Minted::new).collect();
    match committed(db, &minted).await {
        Ok(outcomes) => return outcomes,
        Err(error) if minted.len() == 1 => return vec![Err(error)],
        // A server that is away is away for each of them.
        Err(Error::Database(error)) if error.fate() == Fate::Away => {
            return minted.iter().map(|_| Err(error.again().into())).collect();
        }
        Err(_) => {}
    }
    let mut outcomes = Vec::with_capacity(minted.len());
    for one in minted.chunks(1) {
        outcomes.push(committed(db, one).await.and_then(|mut outcome| outcome.remove(0)));
    }
    outcomes
}

/// A prompt with its ids, minted once: a repetition after a lost acknowledgement finds them, or collides with them.
pub(super) struct Minted {
    pub(super) ids: Enqueued,
    pub(super) prompt: NewPrompt,
}

impl Minted {
    pub(super) fn new(prompt: NewPrompt) -> Self {
        Self { ids: Enqueued { prompt_id: PromptId::new(), job_id: JobId::new() }, prompt }
    }
}

/// The batch in one transaction; an unanswered COMMIT is resolved by looking for its jobs.
async fn committed(db: &Db, batch: &[Minted]) -> Result<Vec<Result<Enqueued, Error>>, Error> {
    for _ in 0..3 {
        let error = match db.retrying(|| once(db, batch)).await {
            Err(error) => error,
            done => return done,
        };
        match error.fate() {
            Fate::Unknown | Fate::Duplicate if db.retrying(|| stored(db, batch)).await? => {
                return Ok(batch.iter().map(|new| Ok(new.ids)).collect());
            }
            Fate::Unknown => {}
            Fate::RolledBack | Fate::Away | Fate::Data | Fate::Duplicate | Fate::Refused => return Err(error),
        }
    }
    Err(Error::from(sqlx::Error::PoolTimedOut))
}

async fn stored(db: &Db, batch: &[Minted]) -> Result<bool, Error> {
    let ids: Vec<_> = batch.iter().map(|new| new.ids.job_id).collect();
    let found = sqlx::query_scalar!(
        r#"-- repo::enqueue
         SELECT COUNT(*) AS "n!: i64"
           FROM JSON_TABLE(?, '$[*]' COLUMNS (
                    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$'
                )) s
           STRAIGHT_JOIN sa_job j FORCE INDEX (PRIMARY) ON j.id = s.id"#,
        json(&ids),
    )
    .fetch_one(db.pool())
    .await?;
    Ok(usize::try_from(found).is_ok_and(|found| found == batch.len()))
}

async fn once(db: &Db, batch: &[Minted]) -> Result<Vec<Result<Enqueued, Error>>, Error> {
    let mut tx = db.begin().await?;
    let outcomes = insert(&mut tx, batch).await?;
    tx.commit().await?;
    Ok(outcomes)
}

/// Inserts the prompts whose roots are there, and says of each whether it was.
pub(super) async fn insert(tx: &mut Tx, batch: &[Minted]) -> Result<Vec<Result<Enqueued, Error>>, Error> {
    let roots = roots(tx, batch).await?;
    let correlation = |new: &Minted| match new.prompt.root {
        None => Some(new.ids.prompt_id.into()),
        Some(root) => roots.get(&(root, new.prompt.viewer)).copied(),
    };
    let rooted: Vec<(&Minted, EntityId)> = batch.iter().filter_map(|new| Some((new, correlation(new)?))).collect();
    if !rooted.is_empty() {
        insert_entities(tx.session(), rooted.iter().map(entity).collect()).await?;
        insert_jobs(tx, &rooted).await?;
        notes(tx, &rooted).await?;
    }
    Ok(batch.iter().map(|new| correlation(new).map(|_| new.ids).ok_or(Error::NotFound)).collect())
}

/// The thread of each root, by root and owner: one that belongs to another viewer is not found.
async fn roots(tx: &mut Tx, batch: &[Minted]) -> Result<HashMap<(EntityId, Viewer), EntityId>, Error> {
    let ids: Vec<_> = batch.iter().filter_map(|new| new.prompt.root).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query!(
        r#"-- repo::enqueue
         SELECT e.id AS "id: EntityId", e.correlation_id AS "correlation_id: EntityId",
                e.org_id AS "org: OrgId", e.created_by AS "user: UserId"
           FROM JSON_TABLE(?, '$[*]' COLUMNS (
                    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$'
                )) s
           STRAIGHT_JOIN sa_entity e FORCE INDEX (PRIMARY) ON e.id = s.id"#,
        json(&ids),
    )
    .fetch_all(tx.session())
    .await?;
    let owned = |org, user| Viewer { org, user };
    Ok(rows.into_iter().map(|row| ((row.id, owned(row.org, row.user)), row.correlation_id)).collect())
}

fn entity<'a>(&(new, thread): &(&'a Minted, EntityId)) -> NewEntity<'a> {
    NewEntity {
        id: new.ids.prompt_id.into(),
        kind: EntityKind::Prompt,
        job: None,
        viewer: new.prompt.viewer,
        thread,
        parent: new.prompt.root,
        source_refs: &[],
        state_class: StateClass::Settled,
        provider: None,
        model: None,
        content: &new.prompt.text,
    }
}

#[derive(Serialize)]
struct JobJson<'a> {
    id: JobId,
    prompt: PromptId,
    priority: Priority,
    lane: &'a Lane,
    scheduled_for: Option<String>,
    max_attempts: MaxAttempts,
    options: String,
    org: OrgId,
    user: UserId,
}

/// A time as SQL reads it; the `T` and `Z` of RFC 3339 make MariaDB warn.
pub(super) fn sql_time(at: OffsetDateTime) -> String {
    crate::timestamp::format(at).replace('T', " ").replace('Z', "")
}

async fn insert_jobs(tx: &mut Tx, rooted: &[(&Minted, EntityId)]) -> Result<(), Error> {
    let rows: Vec<_> = rooted
        .iter()
        .map(|(Minted { ids, prompt }, _)| JobJson {
            id: ids.job_id,
            prompt: ids.prompt_id,
            priority: prompt.priority,
            lane: &prompt.lane,
            scheduled_for: prompt.scheduled_for.map(sql_time),
            max_attempts: prompt.max_attempts,
            options: prompt.options.to_json(),
            org: prompt.viewer.org,
            user: prompt.viewer.user,
        })
        .collect();
    sqlx::query!(
        "-- repo::enqueue
         INSERT INTO sa_job (id, prompt_id, state, priority, lane, scheduled_for, held_reason, max_attempts,
                             execution_options, org_id, created_by, created_at, updated_at)
         SELECT s.id, s.prompt, ?, s.priority, s.lane,
                GREATEST(COALESCE(s.scheduled_for, UTC_TIMESTAMP(6)), UTC_TIMESTAMP(6)),
                CASE WHEN s.scheduled_for > UTC_TIMESTAMP(6) THEN 'schedule' END, s.max_attempts,
                s.options, s.org_id, s.created_by, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6)
           FROM JSON_TABLE(?, '$[*]' COLUMNS (
                    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$.id',
                    prompt CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$.prompt',
                    priority TINYINT UNSIGNED PATH '$.priority',
                    lane VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.lane',
                    scheduled_for DATETIME(6) PATH '$.scheduled_for',
                    max_attempts SMALLINT UNSIGNED PATH '$.max_attempts',
                    options LONGTEXT CHARACTER SET utf8mb4 PATH '$.options',
                    org_id BIGINT UNSIGNED PATH '$.org',
                    created_by BIGINT UNSIGNED PATH '$.user'
                )) s",
        State::Queued,
        json(&rows),
    )
    .execute(tx.session())
    .await?;
    Ok(())
}

/// The event and the audit row of each prompt.
async fn notes(tx: &mut Tx, rooted: &[(&Minted, EntityId)]) -> Result<(), Error> {
    let change = |actor| Change { from: None, to: State::Queued, actor, reason: Reason::Enqueue };
    let mut by_actor: HashMap<&str, (&Actor, Vec<Changed<'_>>)> = HashMap::new();
    let mut audit = Vec::with_capacity(rooted.len());
    for (Minted { ids, prompt }, _) in rooted {
        let (_, jobs) = by_actor.entry(prompt.actor.as_str()).or_insert((&prompt.actor, Vec::new()));
        jobs.push(Changed { id: ids.job_id, claim: None });
        audit.push(NewAudit {
            kind: "entity",
            subject: ids.prompt_id.as_uuid().hyphenated(),
            job: ids.job_id,
            org: prompt.viewer.org,
            user: prompt.viewer.user,
            actor: prompt.actor.clone(),
            reason: "submitted",
        });
    }
    for (actor, jobs) in by_actor.values() {
        record(tx.session(), jobs, &change(actor)).await?;
    }
    insert_audit(tx.session(), &audit).await
}
