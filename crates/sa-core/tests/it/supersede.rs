use sa_core::id::JobId;
use sa_core::job::{ExecutionOptions, Lane, MaxAttempts, Priority};
use sa_core::repo::{self, Db, Error, Retried, Retry};
use sa_core::state::State;
use sa_core::viewer::{Actor, Scope};

use crate::arrange::{
    STRANGER, answered, assert_conflict, assert_not_found, claim_one, count, database, failed, prompt, reasons,
    retry_of, row, sql, state, submit,
};

async fn successor(db: &Db, job: JobId) -> JobId {
    match repo::retry(db, retry_of(job)).await.unwrap() {
        Retried::Successor { job: new, supersedes, .. } => {
            assert_eq!(supersedes, job);
            new
        }
        other @ Retried::BroughtForward { .. } => panic!("expected a successor, got {other:?}"),
    }
}

#[tokio::test]
async fn a_retry_makes_a_new_job_and_supersedes_the_old() {
    let (database, db) = database().await;
    let ids = answered(&db, "p", "a").await;
    let before = row(&db, ids.job_id).await;
    let new = successor(&db, ids.job_id).await;
    let (old, new_row) = (row(&db, ids.job_id).await, row(&db, new).await);
    assert_eq!((old.state, old.successor), (State::Superseded, Some(new)));
    assert_eq!(
        (old.response_id, old.finished_at),
        (before.response_id, before.finished_at),
        "what was done stays done"
    );
    assert_eq!((new_row.state, new_row.attempt, new_row.supersedes), (State::Queued, 1, Some(ids.job_id)));
    assert_eq!((old.revision, new_row.revision), (before.revision + 1, before.revision + 2));
    assert_eq!(reasons(&database, ids.job_id).await.last().unwrap(), "supersede");
    assert_eq!(reasons(&database, new).await, ["enqueue"]);
}

#[tokio::test]
async fn failed_and_cancelled_jobs_are_retried_too() {
    let (_database, db) = database().await;
    let lost = failed(&db, "p").await;
    successor(&db, lost.job_id).await;
    assert_eq!(row(&db, lost.job_id).await.error_kind.as_deref(), Some("auth"), "its error stays readable");
    let ids = submit(&db, prompt("q")).await;
    repo::cancel(&db, ids.job_id, Scope::Everywhere, &Actor::operator("o")).await.unwrap();
    successor(&db, ids.job_id).await;
}

#[tokio::test]
async fn a_retry_copies_the_old_jobs_terms_and_may_change_them() {
    let (database, db) = database().await;
    let ids = failed(&db, "p").await;
    sql(&database, "UPDATE sa_job SET priority = 7, max_attempts = 9").await;
    let first = successor(&db, ids.job_id).await;
    let copied = row(&db, first).await;
    assert_eq!((copied.priority.get(), copied.max_attempts), (7, 9));
    repo::cancel(&db, first, Scope::Everywhere, &Actor::operator("o")).await.unwrap();
    let changed = Retry {
        options: ExecutionOptions { model: Some("m".into()), ..Default::default() },
        lane: Lane::new("other"),
        priority: Priority::new(99),
        max_attempts: MaxAttempts::new(1),
        ..retry_of(first)
    };
    let Retried::Successor { job, .. } = repo::retry(&db, changed).await.unwrap() else { panic!("a successor") };
    let row = row(&db, job).await;
    assert_eq!((row.priority.get(), row.max_attempts, row.lane.as_str()), (99, 1, "other"));
    assert_eq!(row.options().unwrap().model.as_deref(), Some("m"));
}

#[tokio::test]
async fn of_two_retries_at_once_one_wins_and_the_other_is_told_of_the_successor() {
    let (database, db) = database().await;
    let ids = failed(&db, "p").await;
    let (one, two) = tokio::join!(repo::retry(&db, retry_of(ids.job_id)), repo::retry(&db, retry_of(ids.job_id)));
    let (won, lost) = if one.is_ok() { (one, two) } else { (two, one) };
    let Retried::Successor { job, .. } = won.unwrap() else { panic!("a successor") };
    assert_conflict(lost, job, State::Superseded);
    assert_eq!(count(&database, "SELECT COUNT(*) FROM sa_job").await, 2);
}

#[tokio::test]
async fn a_due_or_running_job_is_refused() {
    let (_database, db) = database().await;
    let ids = submit(&db, prompt("p")).await;
    assert_conflict(repo::retry(&db, retry_of(ids.job_id)).await, ids.job_id, State::Queued);
    let _claim = claim_one(&db).await;
    assert_conflict(repo::retry(&db, retry_of(ids.job_id)).await, ids.job_id, State::Running);
}

#[tokio::test]
async fn a_waiting_job_is_brought_forward() {
    let (database, db) = database().await;
    let ids = submit(&db, prompt("p")).await;
    sql(&database, "UPDATE sa_job SET scheduled_for = UTC_TIMESTAMP(6) + INTERVAL 1 DAY, held_reason = 'schedule'")
        .await;
    let Retried::BroughtForward { job, .. } = repo::retry(&db, retry_of(ids.job_id)).await.unwrap() else {
        panic!("brought forward")
    };
    assert_eq!(job, ids.job_id);
    let row = row(&db, job).await;
    assert_eq!((row.held_reason, row.revision), (None, 2));
    assert_eq!(reasons(&database, job).await, ["enqueue", "brought_forward"]);
    assert_eq!(claim_one(&db).await.job(), job);
}

#[tokio::test]
async fn a_waiting_job_is_left_alone_by_a_retry_on_other_terms() {
    let (database, db) = database().await;
    let ids = submit(&db, prompt("p")).await;
    sql(&database, "UPDATE sa_job SET scheduled_for = UTC_TIMESTAMP(6) + INTERVAL 1 DAY").await;
    let other_terms = Retry { if_waiting: repo::IfWaiting::Refuse, ..retry_of(ids.job_id) };
    assert_conflict(repo::retry(&db, other_terms).await, ids.job_id, State::Queued);
    assert_eq!(row(&db, ids.job_id).await.revision, 1);
}

#[tokio::test]
async fn another_viewers_job_is_not_there() {
    let (_database, db) = database().await;
    let ids = failed(&db, "p").await;
    assert_not_found(repo::retry(&db, Retry { scope: Scope::Viewer(STRANGER), ..retry_of(ids.job_id) }).await);
    assert_not_found(repo::retry(&db, retry_of(JobId::new())).await);
    assert_eq!(state(&db, ids.job_id).await, State::Failed);
}

/// CB-23: superseding and inserting the successor are one step: what breaks the second undoes the first.
#[tokio::test]
async fn cb_23_a_retry_that_cannot_insert_leaves_the_old_job_as_it_was() {
    let (database, db) = database().await;
    let ids = failed(&db, "p").await;
    let before = row(&db, ids.job_id).await;
    sql(
        &database,
        "CREATE TRIGGER no_successors BEFORE INSERT ON sa_job FOR EACH ROW
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'planted'",
    )
    .await;
    assert!(matches!(repo::retry(&db, retry_of(ids.job_id)).await, Err(Error::Database(_))));
    let after = row(&db, ids.job_id).await;
    assert_eq!((after.state, after.revision), (State::Failed, before.revision));
    assert_eq!(reasons(&database, ids.job_id).await.last().unwrap(), "failure");
}
