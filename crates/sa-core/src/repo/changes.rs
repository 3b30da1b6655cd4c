//! The feed of changes, in which nothing is missed although rows become visible out of order.
//!
//! A transaction takes its event's number when it inserts and shows it when it commits, so a higher number may be seen
//! before a lower one. A missing number is asked for again at each poll, and given up after longer than any transaction may
//! last: it belonged to one that was undone, or the engine set it aside for a batch and did not use it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::Serialize;
use time::OffsetDateTime;

use super::children::json;
use super::{Db, Error};
use crate::event::Reason;
use crate::id::{JobId, OrgId, PromptId, UserId};
use crate::state::State;
use crate::viewer::Viewer;

/// How long a missing number is asked for: writers undo a transaction that is older than 4 s.
const REMEMBERED_FOR: Duration = Duration::from_secs(10);
/// Most events a poll reads.
const PAGE: u32 = 1_000;
/// Most missing numbers that are remembered: a jump over more is a table that was restored or renumbered.
const MOST_MISSING: u64 = 100_000;

/// A change that a viewer may see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// The event's number.
    #[serde(skip)]
    pub seq: u64,
    /// Whose job it is.
    #[serde(skip)]
    pub owner: Viewer,
    /// The job.
    pub job_id: JobId,
    /// Its prompt.
    pub prompt_id: PromptId,
    /// The state it has now.
    pub state: State,
    /// The state it had; nothing at enqueue.
    pub previous_state: Option<State>,
    /// What made the change.
    #[serde(skip)]
    pub reason: Reason,
    /// Its revision.
    pub revision: u32,
    /// Its attempt.
    pub attempt: u16,
    /// Why, if a run did not succeed.
    pub error_kind: Option<String>,
    /// When.
    #[serde(serialize_with = "crate::timestamp::serialize")]
    pub at: OffsetDateTime,
}

/// A place in the feed. Make one a process and give its changes to all listeners.
#[derive(Debug)]
pub struct Changes {
    last: u64,
    missing: BTreeMap<u64, Instant>,
}

impl Changes {
    /// The feed from now on.
    ///
    /// # Errors
    /// `Database`.
    pub async fn from_now(db: &Db) -> Result<Self, Error> {
        let last = db.retrying(|| newest(db)).await?;
        Ok(Self { last, missing: BTreeMap::new() })
    }

    /// What became visible since the last poll, each event once, ordered by number within the poll.
    ///
    /// # Errors
    /// `Database`; the next poll then answers what this one would have.
    pub async fn poll(&mut self, db: &Db) -> Result<Vec<Changed>, Error> {
        let missing: Vec<u64> = self.missing.keys().copied().collect();
        let mut found = if missing.is_empty() { Vec::new() } else { read(db, Wanted::These(&missing)).await? };
        let after = read(db, Wanted::After(self.last)).await?;
        for change in &found {
            self.missing.remove(&change.seq);
        }
        let now = Instant::now();
        for change in &after {
            let first = (self.last + 1).max(change.seq.saturating_sub(MOST_MISSING));
            self.missing.extend((first..change.seq).map(|seq| (seq, now)));
            self.last = change.seq;
        }
        self.missing.retain(|_, since| now.duration_since(*since) < REMEMBERED_FOR);
        found.extend(after);
        // A partial text is shown in the history only: no revision rose, and nobody who follows is told.
        found.retain(|change| change.reason != Reason::Partial);
        Ok(found)
    }
}

async fn newest(db: &Db) -> Result<u64, Error> {
    let seq = sqlx::query_scalar!(
        r#"-- repo::changes
         SELECT CAST(COALESCE(MAX(seq), 0) AS UNSIGNED) AS "seq!: u64" FROM sa_job_event"#
    )
    .fetch_one(db.pool())
    .await?;
    Ok(seq)
}

#[derive(Clone, Copy)]
enum Wanted<'a> {
    After(u64),
    These(&'a [u64]),
}

struct EventRow {
    seq: u64,
    org: OrgId,
    user: UserId,
    job: JobId,
    prompt: PromptId,
    from: Option<State>,
    to: State,
    reason: Reason,
    revision: u32,
    attempt: u16,
    error_kind: Option<String>,
    at: OffsetDateTime,
}

async fn read(db: &Db, wanted: Wanted<'_>) -> Result<Vec<Changed>, Error> {
    let rows = db
        .retrying(|| async move {
            match wanted {
                Wanted::After(seq) => after(db, seq).await,
                Wanted::These(seqs) => these(db, seqs).await,
            }
        })
        .await?;
    Ok(rows.into_iter().map(Changed::from).collect())
}

async fn after(db: &Db, seq: u64) -> Result<Vec<EventRow>, Error> {
    Ok(sqlx::query_as!(
        EventRow,
        r#"-- repo::changes
         SELECT seq, org_id AS "org: OrgId", created_by AS "user: UserId", job_id AS "job: JobId",
                prompt_id AS "prompt: PromptId", from_state AS "from: State", to_state AS "to: State", reason AS "reason: Reason", revision, attempt,
                error_kind, at AS "at: OffsetDateTime"
           FROM sa_job_event
          WHERE seq > ?
          ORDER BY seq
          LIMIT ?"#,
        seq,
        PAGE,
    )
    .fetch_all(db.pool())
    .await?)
}

async fn these(db: &Db, seqs: &[u64]) -> Result<Vec<EventRow>, Error> {
    Ok(sqlx::query_as!(
        EventRow,
        r#"-- repo::changes
         SELECT e.seq, e.org_id AS "org: OrgId", e.created_by AS "user: UserId", e.job_id AS "job: JobId",
                e.prompt_id AS "prompt: PromptId", e.from_state AS "from: State", e.to_state AS "to: State", e.reason AS "reason: Reason", e.revision,
                e.attempt, e.error_kind, e.at AS "at: OffsetDateTime"
           FROM JSON_TABLE(?, '$[*]' COLUMNS (seq BIGINT UNSIGNED PATH '$')) s
           STRAIGHT_JOIN sa_job_event e FORCE INDEX (PRIMARY) ON e.seq = s.seq
          ORDER BY s.seq"#,
        json(seqs),
    )
    .fetch_all(db.pool())
    .await?)
}

impl From<EventRow> for Changed {
    fn from(row: EventRow) -> Self {
        Self {
            seq: row.seq,
            owner: Viewer { org: row.org, user: row.user },
            job_id: row.job,
            prompt_id: row.prompt,
            state: row.to,
            previous_state: row.from,
            reason: row.reason,
            revision: row.revision,
            attempt: row.attempt,
            error_kind: row.error_kind,
            at: row.at,
        }
    }
}
