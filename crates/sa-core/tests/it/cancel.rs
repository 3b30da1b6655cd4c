use sa_core::id::JobId;
use sa_core::repo::{self, Cancelled, Db, Error};
use sa_core::state::State;
use sa_core::viewer::{Actor, Scope};

use crate::arrange::{
    STRANGER, VIEWER, answered, assert_conflict, assert_not_found, claim_one, claimer, database, failed, prompt,
    reasons, row, state, submit,
};

async fn cancel(db: &Db, job: JobId) -> Result<Cancelled, Error> {
    repo::cancel(db, job, Scope::Viewer(VIEWER), &Actor::user(VIEWER.user)).await
}

#[tokio::test]
async fn a_queued_job_is_withdrawn_and_never_claimed() {
    let (database, db) = database().await;
    let ids = submit(&db, prompt("p")).await;
    assert_eq!(cancel(&db, ids.job_id).await.unwrap().from, State::Queued);
    let job = row(&db, ids.job_id).await;
    assert_eq!((job.state, job.revision), (State::Cancelled, 2));
    assert!(job.finished_at.is_some() && job.response_id.is_none());
    assert!(claimer().claim(&db, 1).await.unwrap().is_empty());
    assert_eq!(reasons(&database, ids.job_id).await, ["enqueue", "cancel"]);
}

#[tokio::test]
async fn a_running_job_is_killed_at_once_and_keeps_its_claim() {
    let (_database, db) = database().await;
    let ids = submit(&db, prompt("p")).await;
    let claim = claim_one(&db).await;
    assert_eq!(cancel(&db, ids.job_id).await.unwrap().from, State::Running);
    let job = row(&db, ids.job_id).await;
    assert_eq!((job.state, job.worker_claim.as_deref()), (State::Cancelled, Some(claim.id().as_str())));
}

#[tokio::test]
async fn cancelling_twice_says_that_it_already_was() {
    let (_database, db) = database().await;
    let ids = submit(&db, prompt("p")).await;
    cancel(&db, ids.job_id).await.unwrap();
    assert_eq!(cancel(&db, ids.job_id).await.unwrap().from, State::Cancelled);
    assert_eq!(row(&db, ids.job_id).await.revision, 2, "nothing was written");
}

#[tokio::test]
async fn what_ended_otherwise_is_a_conflict() {
    let (_database, db) = database().await;
    let done = answered(&db, "p", "a").await;
    assert_conflict(cancel(&db, done.job_id).await, done.job_id, State::Succeeded);
    let lost = failed(&db, "q").await;
    assert_conflict(cancel(&db, lost.job_id).await, lost.job_id, State::Failed);
}

#[tokio::test]
async fn another_viewers_job_is_not_there() {
    let (_database, db) = database().await;
    let ids = submit(&db, prompt("p")).await;
    let theirs = repo::cancel(&db, ids.job_id, Scope::Viewer(STRANGER), &Actor::user(STRANGER.user)).await;
    assert_not_found(theirs);
    assert_not_found(cancel(&db, JobId::new()).await);
    assert_eq!(state(&db, ids.job_id).await, State::Queued);
    let everywhere = repo::cancel(&db, ids.job_id, Scope::Everywhere, &Actor::operator("root")).await;
    assert_eq!(everywhere.unwrap().from, State::Queued);
}
