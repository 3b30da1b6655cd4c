//! Run a prompt again: a new job that replaces an ended one. What was done stays done.

use sqlx::MySqlConnection;
use time::OffsetDateTime;

use super::db::Tx;
use super::enqueue::sql_time;
use super::error::Fate;
use super::event::{Change, Changed, record};
use super::{DatabaseError, Db, Error};
use crate::event::Reason;
use crate::id::{JobId, OrgId, PromptId, UserId};
use crate::job::{ExecutionOptions, Lane, MaxAttempts, Priority};
use crate::state::{State, Transition};
use crate::viewer::{Actor, Scope, Viewer};

/// A retry as it was asked.
#[derive(Clone, Debug)]
pub struct Retry {
    /// The job to run again: the newest of its prompt.
    pub job: JobId,
    /// How far the caller may see.
    pub scope: Scope,
    /// Who asks.
    pub actor: Actor,
    /// The successor's options, merged from the old job's and the caller's.
    pub options: ExecutionOptions,
    /// The lane these options lead to.
    pub lane: Lane,
    /// Another priority than the old job's.
    pub priority: Option<Priority>,
    /// Another number of runs than the old job's.
    pub max_attempts: Option<MaxAttempts>,
    /// Earliest instant; the past and nothing are now.
    pub scheduled_for: Option<OffsetDateTime>,
    /// What to do with a job that waits for its time.
    pub if_waiting: IfWaiting,
}

/// What a retry does with a job that waits for its time: it is not replaced, so it keeps the terms it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfWaiting {
    /// Make it due now.
    BringForward,
    /// Refuse: the caller asked for other terms, and they would be lost.
    Refuse,
}

/// What became of a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retried {
    /// A new job is queued and the old one superseded.
    Successor {
        /// The prompt that is run again.
        prompt: PromptId,
        /// The new job.
        job: JobId,
        /// The old one.
        supersedes: JobId,
    },
    /// The job was waiting for its time and is due now.
    BroughtForward {
        /// The job itself.
        job: JobId,
        /// The database's now.
        scheduled_for: OffsetDateTime,
    },
}

/// Runs an ended job again, or brings a waiting one forward. Of two retries at once one wins.
///
/// The old job is superseded and the new one queued in one transaction: both or neither.
///
/// # Errors
/// `NotFound` outside the scope; `Conflict` if the job is due or running, or naming the successor if it was superseded;
/// `Database`.
pub async fn retry(db: &Db, asked: Retry) -> Result<Retried, Error> {
    let successor = JobId::new();
    let mut unanswered = None;
    for _ in 0..3 {
        match db.retrying(|| once(db, &asked, successor)).await {
            // Ours, from a try whose COMMIT got no answer.
            Err(Error::Conflict { id, found: State::Superseded }) if id == successor => {
                let prompt = db.retrying(|| prompt_of(db, asked.job)).await?;
                return Ok(Retried::Successor { prompt, job: successor, supersedes: asked.job });
            }
            Err(Error::Conflict { found: State::Queued | State::Running, .. }) if unanswered.is_some() => {
                let brought = db.retrying(|| brought_forward(db, &asked)).await?;
                return brought.ok_or_else(|| unanswered.unwrap_or(Error::NotFound));
            }
            Err(error) if error.fate() == Fate::Unknown => unanswered = Some(error),
            settled => return settled,
        }
    }
    Err(unanswered.unwrap_or(Error::NotFound))
}

/// Whether this caller brought the job forward, in a try whose COMMIT got no answer: then that is the last thing that
/// happened to it. An earlier time that it was brought forward does not count.
async fn brought_forward(db: &Db, asked: &Retry) -> Result<Option<Retried>, Error> {
    let last = sqlx::query!(
        r#"-- repo::supersede
         SELECT reason AS "reason: Reason", actor, at AS "at: OffsetDateTime"
           FROM sa_job_event
          WHERE job_id = ?
          ORDER BY seq DESC
          LIMIT 1"#,
        asked.job,
    )
    .fetch_optional(db.pool())
    .await?;
    let ours = last.filter(|last| last.reason == Reason::BroughtForward && last.actor == asked.actor.as_str());
    Ok(ours.map(|last| Retried::BroughtForward { job: asked.job, scheduled_for: last.at }))
}

async fn prompt_of(db: &Db, job: JobId) -> Result<PromptId, Error> {
    sqlx::query_scalar!(
        r#"-- repo::supersede
         SELECT prompt_id AS "prompt: PromptId" FROM sa_job WHERE id = ?"#,
        job,
    )
    .fetch_optional(db.pool())
    .await?
    .ok_or(Error::NotFound)
}

async fn once(db: &Db, asked: &Retry, successor: JobId) -> Result<Retried, Error> {
    let mut tx = db.begin().await?;
    let row = sqlx::query!(
        r#"-- repo::supersede
         SELECT prompt_id AS "prompt: PromptId", state AS "state: State", org_id AS "org: OrgId",
                created_by AS "user: UserId", scheduled_for > UTC_TIMESTAMP(6) AS "waits: bool"
           FROM sa_job
          WHERE id = ?
            FOR UPDATE"#,
        asked.job,
    )
    .fetch_optional(tx.session())
    .await?
    .ok_or(Error::NotFound)?;
    if !asked.scope.admits(Viewer { org: row.org, user: row.user }) {
        return Err(Error::NotFound);
    }
    let Some(edge) = Transition::supersession_of(row.state) else {
        return match row.state {
            State::Queued if row.waits && asked.if_waiting == IfWaiting::BringForward => bring_forward(tx, asked).await,
            State::Superseded => Err(conflict_with_successor(&mut tx, asked.job).await?),
            State::Queued | State::Running | State::Succeeded | State::Failed | State::Cancelled => {
                Err(Error::Conflict { id: asked.job, found: row.state })
            }
        };
    };
    replace(&mut tx, asked, edge).await?;
    insert_successor(&mut tx, asked, successor).await?;
    let queued = Change { from: None, to: State::Queued, actor: &asked.actor, reason: Reason::Enqueue };
    record(tx.session(), &[Changed { id: successor, claim: None }], &queued).await?;
    tx.commit().await?;
    Ok(Retried::Successor { prompt: row.prompt, job: successor, supersedes: asked.job })
}

/// The end state becomes `superseded`; outcome, times and claim stay.
async fn replace(tx: &mut Tx, asked: &Retry, edge: Transition) -> Result<(), Error> {
    let met = sqlx::query!(
        "-- repo::supersede
         UPDATE sa_job
            SET state = ?,
                revision = revision + 1,
                updated_at = UTC_TIMESTAMP(6)
          WHERE id = ?
            AND state = ?",
        edge.to(),
        asked.job,
        edge.from(),
    )
    .execute(tx.session())
    .await?
    .rows_affected();
    if met != 1 {
        return Err(DatabaseError::guard_missed("a supersession").into());
    }
    let change = Change { from: Some(edge.from()), to: edge.to(), actor: &asked.actor, reason: Reason::Supersede };
    record(tx.session(), &[Changed { id: asked.job, claim: None }], &change).await
}

async fn insert_successor(tx: &mut Tx, asked: &Retry, successor: JobId) -> Result<(), Error> {
    sqlx::query!(
        "-- repo::supersede
         INSERT INTO sa_job (id, prompt_id, state, priority, lane, scheduled_for, held_reason, max_attempts,
                             execution_options, supersedes, revision, org_id, created_by, created_at, updated_at)
         SELECT ?, old.prompt_id, ?, COALESCE(?, old.priority), ?,
                GREATEST(COALESCE(t.scheduled_for, UTC_TIMESTAMP(6)), UTC_TIMESTAMP(6)),
                CASE WHEN t.scheduled_for > UTC_TIMESTAMP(6) THEN 'schedule' END, COALESCE(?, old.max_attempts),
                ?, old.id, old.revision + 1, old.org_id, old.created_by, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6)
           FROM sa_job old
           CROSS JOIN (SELECT CAST(? AS DATETIME(6)) AS scheduled_for) t
          WHERE old.id = ?",
        successor,
        State::Queued,
        asked.priority,
        asked.lane,
        asked.max_attempts,
        asked.options.to_json(),
        asked.scheduled_for.map(sql_time),
        asked.job,
    )
    .execute(tx.session())
    .await?;
    Ok(())
}

/// A waiting job waits no longer. It is the same job: nothing ended that could be superseded.
async fn bring_forward(mut tx: Tx, asked: &Retry) -> Result<Retried, Error> {
    let met = sqlx::query!(
        "-- repo::supersede
         UPDATE sa_job
            SET scheduled_for = UTC_TIMESTAMP(6),
                held_reason = NULL,
                revision = revision + 1,
                updated_at = UTC_TIMESTAMP(6)
          WHERE id = ?
            AND state = ?",
        asked.job,
        State::Queued,
    )
    .execute(tx.session())
    .await?
    .rows_affected();
    if met != 1 {
        return Err(DatabaseError::guard_missed("bringing a job forward").into());
    }
    let note =
        Change { from: Some(State::Queued), to: State::Queued, actor: &asked.actor, reason: Reason::BroughtForward };
    record(tx.session(), &[Changed { id: asked.job, claim: None }], &note).await?;
    let scheduled_for = sqlx::query_scalar!(
        r#"-- repo::supersede
         SELECT scheduled_for AS "at: OffsetDateTime" FROM sa_job WHERE id = ?"#,
        asked.job,
    )
    .fetch_one(tx.session())
    .await?;
    tx.commit().await?;
    Ok(Retried::BroughtForward { job: asked.job, scheduled_for })
}

/// The error that names who replaced this job.
pub(super) async fn conflict_with_successor(tx: &mut Tx, job: JobId) -> Result<Error, Error> {
    let id = successor_of(tx.session(), job).await?.unwrap_or(job);
    Ok(Error::Conflict { id, found: State::Superseded })
}

/// The job that supersedes this one.
pub(super) async fn successor_of(session: &mut MySqlConnection, job: JobId) -> Result<Option<JobId>, Error> {
    let successor = sqlx::query_scalar!(
        r#"-- repo::supersede
         SELECT id AS "id: JobId" FROM sa_job WHERE supersedes = ?"#,
        job,
    )
    .fetch_optional(session)
    .await?;
    Ok(successor)
}
