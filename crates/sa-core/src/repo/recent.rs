//! What a viewer's prompts look like now: pages of changes, and single ones.

mod items;

use time::OffsetDateTime;

pub use self::items::{Item, JobView, ResponseView};
use super::{Db, Error};
use crate::id::{JobId, PromptId};
use crate::viewer::Viewer;

/// A page of a viewer's prompts that changed.
#[derive(Clone, Debug)]
pub struct Recent {
    /// What the caller asks from next: a change that commits late lies behind it, never before.
    pub as_of: OffsetDateTime,
    /// Where the event feed may be taken up without a gap.
    pub last_event_id: u64,
    /// Whether more have changed than this page holds.
    pub has_more: bool,
    /// The prompts, oldest first.
    pub entities: Vec<Item>,
}

/// Where a page's rows come from.
struct Keys {
    jobs: Vec<JobId>,
    /// The last change on a page that was cut.
    cut: Option<OffsetDateTime>,
}

struct Key {
    job: JobId,
    updated_at: OffsetDateTime,
}

/// How many are answered to a caller that does not say since when.
const FIRST_PAGE: u32 = 50;

/// The viewer's prompts that changed at or after `since`: all that changed at that very instant, then the next `limit` and
/// all that share the last one's instant. Without `since` the 50 that changed last.
///
/// # Errors
/// `Database`.
pub async fn recent(db: &Db, viewer: Viewer, since: Option<OffsetDateTime>, limit: u32) -> Result<Recent, Error> {
    db.retrying(|| once(db, viewer, since, limit)).await
}

async fn once(db: &Db, viewer: Viewer, since: Option<OffsetDateTime>, limit: u32) -> Result<Recent, Error> {
    // Before the rows: what commits meanwhile is then asked for again.
    let now = sqlx::query!(
        r#"-- repo::recent
         SELECT UTC_TIMESTAMP(6) - INTERVAL 5 SECOND AS "as_of!: OffsetDateTime",
                CAST(COALESCE((SELECT e.seq FROM sa_job_event e
                                WHERE e.at < UTC_TIMESTAMP(6) - INTERVAL 10 SECOND
                                ORDER BY e.seq DESC LIMIT 1), 0) AS UNSIGNED) AS "last_event_id!: u64""#
    )
    .fetch_one(db.pool())
    .await?;
    let keys = match since {
        Some(since) => changed_since(db, viewer, since, limit).await?,
        None => Keys { jobs: newest(db, viewer).await?, cut: None },
    };
    let mut jobs = keys.jobs;
    // A job that changed between two of the reads was found by both.
    jobs.sort_unstable();
    jobs.dedup();
    let entities = items::read(db, &jobs).await?;
    let as_of = keys.cut.map_or(now.as_of, |cut| cut.min(now.as_of));
    Ok(Recent { as_of, last_event_id: now.last_event_id, has_more: keys.cut.is_some(), entities })
}

/// One prompt of this viewer, as a page of [`recent`] would hold it.
///
/// # Errors
/// `NotFound` if it is absent or another viewer's; `Database`.
pub async fn item(db: &Db, viewer: Viewer, prompt: PromptId) -> Result<Item, Error> {
    db.retrying(|| item_once(db, viewer, prompt)).await
}

async fn item_once(db: &Db, viewer: Viewer, prompt: PromptId) -> Result<Item, Error> {
    let job = sqlx::query_scalar!(
        r#"-- repo::recent
         SELECT id AS "job: JobId"
           FROM sa_job
          WHERE prompt_id = ?
            AND org_id = ?
            AND created_by = ?
            AND state <> 'superseded'"#,
        prompt,
        viewer.org,
        viewer.user,
    )
    .fetch_optional(db.pool())
    .await?
    .ok_or(Error::NotFound)?;
    items::read(db, &[job]).await?.pop().ok_or(Error::NotFound)
}

/// A prompt's newest job is the one that is not superseded: each row of a chain but the last is.
async fn newest(db: &Db, viewer: Viewer) -> Result<Vec<JobId>, Error> {
    let jobs = sqlx::query_scalar!(
        r#"-- repo::recent
         SELECT id AS "job: JobId"
           FROM sa_job FORCE INDEX (idx_viewer)
          WHERE org_id = ?
            AND created_by = ?
            AND state <> 'superseded'
          ORDER BY updated_at DESC, id DESC
          LIMIT ?"#,
        viewer.org,
        viewer.user,
        FIRST_PAGE,
    )
    .fetch_all(db.pool())
    .await?;
    Ok(jobs)
}

async fn changed_since(db: &Db, viewer: Viewer, since: OffsetDateTime, limit: u32) -> Result<Keys, Error> {
    let mut jobs = changed_at(db, viewer, since).await?;
    let after = changed_after(db, viewer, since, limit.saturating_add(1)).await?;
    let page = usize::try_from(limit).unwrap_or(usize::MAX);
    if after.len() <= page {
        jobs.extend(after.into_iter().map(|key| key.job));
        return Ok(Keys { jobs, cut: None });
    }
    let last = after[page - 1].updated_at;
    jobs.extend(after.iter().filter(|key| key.updated_at < last).map(|key| key.job));
    jobs.extend(changed_at(db, viewer, last).await?);
    let more = !changed_after(db, viewer, last, 1).await?.is_empty();
    Ok(Keys { jobs, cut: more.then_some(last) })
}

async fn changed_at(db: &Db, viewer: Viewer, at: OffsetDateTime) -> Result<Vec<JobId>, Error> {
    let jobs = sqlx::query_scalar!(
        r#"-- repo::recent
         SELECT id AS "job: JobId"
           FROM sa_job FORCE INDEX (idx_viewer)
          WHERE org_id = ?
            AND created_by = ?
            AND updated_at = ?
            AND state <> 'superseded'"#,
        viewer.org,
        viewer.user,
        at,
    )
    .fetch_all(db.pool())
    .await?;
    Ok(jobs)
}

async fn changed_after(db: &Db, viewer: Viewer, since: OffsetDateTime, limit: u32) -> Result<Vec<Key>, Error> {
    let keys = sqlx::query_as!(
        Key,
        r#"-- repo::recent
         SELECT id AS "job: JobId", updated_at AS "updated_at: OffsetDateTime"
           FROM sa_job FORCE INDEX (idx_viewer)
          WHERE org_id = ?
            AND created_by = ?
            AND updated_at > ?
            AND state <> 'superseded'
          ORDER BY updated_at, id
          LIMIT ?"#,
        viewer.org,
        viewer.user,
        since,
        limit,
    )
    .fetch_all(db.pool())
    .await?;
    Ok(keys)
}
