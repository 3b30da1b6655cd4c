//! Claims of one certain job, for the synchronous run.

use super::Claim;
use super::rows::{ClaimRow, Taken, commit, confirmed, start};
use crate::id::{ClaimId, ClaimIds, JobId, OrgId, PromptId, UserId};
use crate::job::{Lane, Priority};
use crate::repo::enqueue::{Minted, NewPrompt, insert};
use crate::repo::{Db, Error};
use crate::state::{State, Transition};
use crate::viewer::{Actor, Scope};

/// Claims this one job, whatever its lane, priority or time: a person asked for it by name.
///
/// # Errors
/// `NotFound` outside the scope; `Conflict` if it is not queued; `Database`.
pub async fn claim_job(db: &Db, job: JobId, scope: Scope, ids: &mut ClaimIds) -> Result<Claim, Error> {
    let claim = ids.mint();
    let actor = Actor::worker(ids.worker());
    let taken = db.retrying(|| claim_job_once(db, job, scope, &claim, &actor)).await?;
    answered(db, taken).await
}

/// The one claim, if it took place.
async fn answered(db: &Db, taken: Taken) -> Result<Claim, Error> {
    let (mut claims, error) = match taken {
        Taken::Committed(claims) => (claims, None),
        Taken::Unanswered(claims, error) => (claims, Some(error)),
    };
    if let Some(error) = error
        && db.retrying(|| confirmed(db, &claims)).await?.is_empty()
    {
        return Err(error);
    }
    Ok(claims.remove(0))
}

async fn claim_job_once(db: &Db, job: JobId, scope: Scope, claim: &ClaimId, actor: &Actor) -> Result<Taken, Error> {
    let mut tx = db.begin().await?;
    let state = sqlx::query_scalar!(
        r#"-- repo::claim
         SELECT state AS "state: State" FROM sa_job WHERE id = ? FOR UPDATE"#,
        job,
    )
    .fetch_optional(tx.session())
    .await?
    .ok_or(Error::NotFound)?;
    let row = sqlx::query_as!(
        ClaimRow,
        r#"-- repo::claim
         SELECT id AS "id: JobId", prompt_id AS "prompt: PromptId", org_id AS "org: OrgId", created_by AS "user: UserId",
                lane AS "lane: Lane", priority AS "priority: Priority", attempt, max_attempts, releases,
                TIMESTAMPDIFF(MICROSECOND, held_since, UTC_TIMESTAMP(6)) AS "held_us: i64",
                supersedes AS "supersedes: JobId", execution_options AS options
           FROM sa_job
          WHERE id = ?"#,
        job,
    )
    .fetch_one(tx.session())
    .await?;
    if !scope.admits(row.viewer()) {
        return Err(Error::NotFound);
    }
    if state != Transition::CLAIM.from() {
        return Err(Error::Conflict { id: job, found: state });
    }
    let taken = vec![row.claimed_by(claim)];
    start(&mut tx, claim, &taken, actor).await?;
    commit(tx, taken).await
}

/// Stores a prompt and claims its job in one transaction, so that no other worker can take it: the synchronous run.
///
/// # Errors
/// `NotFound` if its root is absent or another viewer's; `Database`.
pub async fn enqueue_claimed(db: &Db, prompt: NewPrompt, ids: &mut ClaimIds) -> Result<Claim, Error> {
    let claim = ids.mint();
    let actor = Actor::worker(ids.worker());
    let minted = [Minted::new(prompt)];
    let taken = db.retrying(|| enqueue_claimed_once(db, &minted, &claim, &actor)).await?;
    answered(db, taken).await
}

async fn enqueue_claimed_once(db: &Db, minted: &[Minted; 1], claim: &ClaimId, actor: &Actor) -> Result<Taken, Error> {
    let mut tx = db.begin().await?;
    let ids = insert(&mut tx, minted).await?.remove(0)?;
    let [Minted { prompt, .. }] = minted;
    let row = ClaimRow {
        id: ids.job_id,
        prompt: ids.prompt_id,
        org: prompt.viewer.org,
        user: prompt.viewer.user,
        lane: prompt.lane.clone(),
        priority: prompt.priority,
        attempt: 1,
        max_attempts: prompt.max_attempts.get(),
        releases: 0,
        held_us: None,
        supersedes: None,
        options: prompt.options.to_json(),
    };
    let taken = vec![row.claimed_by(claim)];
    start(&mut tx, claim, &taken, actor).await?;
    commit(tx, taken).await
}
