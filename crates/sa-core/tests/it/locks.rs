//! Somebody else is at work on the row: a verb waits for that, and then acts on what it finds. The reaper passes over it.

use std::time::Duration;

use sa_core::death::Here;
use sa_core::id::{ClaimIds, WorkerId};
use sa_core::ledger::CallOutcome;
use sa_core::repo::{self, Outcome, Retried};
use sa_core::state::State;
use sa_core::viewer::{Actor, Scope};
use sqlx::Executor;

use crate::arrange::{
    VIEWER, answer, assert_conflict, call, claim_one, claimer, count, database, finish, prompt, retry_of,
    row_is_waited_for, sql, state, submit, table_is_waited_for,
};

const BY_HAND: &str = "another session changes the row by hand, which leaves no event";
const CANCELS: &str = "UPDATE sa_job SET state = 'cancelled', finished_at = UTC_TIMESTAMP(6)";

#[tokio::test]
async fn a_cancel_waits_for_a_cancel_at_work() {
    let (database, db) = database().await;
    database.not_judged(BY_HAND);
    let ids = submit(&db, prompt("p")).await;
    let mut other = database.pool().begin().await.unwrap();
    other.execute(CANCELS).await.unwrap();
    let cancel = tokio::spawn(async move {
        repo::cancel(&db, ids.job_id, Scope::Viewer(VIEWER), &Actor::user(VIEWER.user)).await.unwrap().from
    });
    row_is_waited_for(&database).await;
    other.commit().await.unwrap();
    assert_eq!(cancel.await.unwrap(), State::Cancelled, "it already was");
}

#[tokio::test]
async fn a_retry_waits_for_a_cancel_at_work() {
    let (database, db) = database().await;
    database.not_judged(BY_HAND);
    let ids = submit(&db, prompt("p")).await;
    let mut other = database.pool().begin().await.unwrap();
    other.execute(CANCELS).await.unwrap();
    let retry = tokio::spawn(async move { repo::retry(&db, retry_of(ids.job_id)).await.unwrap() });
    row_is_waited_for(&database).await;
    other.commit().await.unwrap();
    assert!(matches!(retry.await.unwrap(), Retried::Successor { supersedes, .. } if supersedes == ids.job_id));
}

#[tokio::test]
async fn a_claim_by_name_waits_for_a_claim_at_work() {
    let (database, db) = database().await;
    database.not_judged(BY_HAND);
    let ids = submit(&db, prompt("p")).await;
    let mut other = database.pool().begin().await.unwrap();
    other
        .execute(
            "UPDATE sa_job SET state = 'running', worker_claim = 'another.1', claimed_at = UTC_TIMESTAMP(6),
                started_at = UTC_TIMESTAMP(6), running_heartbeat_at = UTC_TIMESTAMP(6)",
        )
        .await
        .unwrap();
    let claim = tokio::spawn(async move {
        repo::claim_job(&db, ids.job_id, Scope::Everywhere, &mut ClaimIds::new(WorkerId::new())).await
    });
    row_is_waited_for(&database).await;
    other.commit().await.unwrap();
    assert_conflict(claim.await.unwrap(), ids.job_id, State::Running);
}

#[tokio::test]
async fn a_finalize_waits_for_a_cancel_at_work_and_has_lost() {
    let (database, db) = database().await;
    database.not_judged(BY_HAND);
    submit(&db, prompt("p")).await;
    let claim = claim_one(&db).await;
    let mut other = database.pool().begin().await.unwrap();
    other.execute(CANCELS).await.unwrap();
    let end = tokio::spawn(async move { finish(&db, claim.succeed(answer("late"), vec![])).await });
    row_is_waited_for(&database).await;
    other.commit().await.unwrap();
    assert_eq!(end.await.unwrap(), Outcome::Lost { found: State::Cancelled });
}

/// A partial text is kept of a cancelled job only. The retry begins after the fence was passed, which the table of events
/// being held makes certain.
#[tokio::test]
async fn a_lost_run_waits_for_a_retry_at_work_and_keeps_no_text() {
    let (database, db) = database().await;
    database.not_judged(BY_HAND);
    let ids = submit(&db, prompt("p")).await;
    let claim = claim_one(&db).await;
    repo::cancel(&db, ids.job_id, Scope::Everywhere, &Actor::operator("o")).await.unwrap();
    let mut events = database.pool().acquire().await.unwrap();
    events.execute("LOCK TABLES sa_job_event WRITE").await.unwrap();
    let late = claim.succeed(answer("paid for"), vec![call(CallOutcome::Succeeded)]);
    let end = tokio::spawn(async move { finish(&db, late).await });
    table_is_waited_for(&database).await;
    let mut other = database.pool().begin().await.unwrap();
    other.execute("UPDATE sa_job SET state = 'superseded'").await.unwrap();
    events.execute("UNLOCK TABLES").await.unwrap();
    row_is_waited_for(&database).await;
    other.commit().await.unwrap();
    assert_eq!(end.await.unwrap(), Outcome::Lost { found: State::Superseded });
    assert_eq!(count(&database, "SELECT COUNT(*) FROM sa_entity WHERE kind = 'response'").await, 0);
}

/// An end is no hostage of other jobs, even of the same claim.
#[tokio::test]
async fn a_finalize_waits_for_no_other_job_of_its_claim() {
    let (database, db) = database().await;
    let [first, second] = [submit(&db, prompt("p")).await, submit(&db, prompt("q")).await];
    let mut claims = claimer().claim(&db, 2).await.unwrap();
    let mut other = database.pool().begin().await.unwrap();
    sqlx::query("SELECT id FROM sa_job WHERE id = ? FOR UPDATE")
        .bind(second.job_id)
        .execute(&mut *other)
        .await
        .unwrap();
    let outcome = finish(&db, claims.remove(0).succeed(answer("a"), vec![call(CallOutcome::Succeeded)])).await;
    assert_eq!((outcome, state(&db, first.job_id).await), (Outcome::Written, State::Succeeded));
    other.rollback().await.unwrap();
}

#[tokio::test]
async fn the_reaper_passes_over_a_row_that_is_held_and_takes_those_behind_it() {
    let (database, db) = database().await;
    let [held, free] = [submit(&db, prompt("p")).await, submit(&db, prompt("q")).await];
    let _claims = claimer().claim(&db, 2).await.unwrap();
    sql(&database, "UPDATE sa_job SET running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 226 SECOND").await;
    let reclaim = async || {
        let taken =
            repo::reclaim(&db, Duration::from_secs(225), &Here::default(), &Actor::reaper("here")).await.unwrap();
        taken.into_iter().map(|taken| taken.job).collect::<Vec<_>>()
    };
    let mut other = database.pool().begin().await.unwrap();
    sqlx::query("SELECT id FROM sa_job WHERE id = ? FOR UPDATE").bind(held.job_id).execute(&mut *other).await.unwrap();
    assert_eq!(reclaim().await, [free.job_id]);
    other.rollback().await.unwrap();
    assert_eq!(reclaim().await, [held.job_id]);
}

/// A page shows no job that was superseded after the page had found it.
#[tokio::test]
async fn a_job_superseded_while_its_page_is_read_is_not_on_it() {
    let (database, db) = database().await;
    database.not_judged(BY_HAND);
    submit(&db, prompt("p")).await;
    sql(&database, CANCELS).await;
    let mut entities = database.pool().acquire().await.unwrap();
    entities.execute("LOCK TABLES sa_entity WRITE").await.unwrap();
    let page = tokio::spawn(async move { repo::recent(&db, VIEWER, None, 50).await.unwrap().entities.len() });
    table_is_waited_for(&database).await;
    sql(&database, "UPDATE sa_job SET state = 'superseded'").await;
    entities.execute("UNLOCK TABLES").await.unwrap();
    assert_eq!(page.await.unwrap(), 0);
}
