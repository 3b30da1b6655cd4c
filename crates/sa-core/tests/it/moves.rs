//! Every column that a move writes, of a row that says otherwise before it: what was left over is gone, and followers see it.

use std::time::Duration;

use sa_core::death::Here;
use sa_core::error_kind::ErrorKind;
use sa_core::id::JobId;
use sa_core::ledger::CallOutcome;
use sa_core::repo::inspect::JobRow;
use sa_core::repo::{self, Db, Retried};
use sa_core::retry::Backoff;
use sa_core::viewer::{Actor, Scope};
use sa_harness::Database;
use time::OffsetDateTime;

use crate::arrange::{answer, call, claim_one, database, failed, failure, finish, prompt, retry_of, row, sql, submit};

/// What a live row may say, and no move may leave standing.
const LEFT_OVER: &str = "UPDATE sa_job SET updated_at = '2001-01-01', held_reason = 'gate', error_kind = 'unknown',
    error_message = 'left over', scheduled_for = '2001-01-01'";
const SILENT: &str = "UPDATE sa_job SET running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 226 SECOND";

/// A queued job with things left over.
async fn queued() -> (Database, Db, JobId) {
    let (database, db) = database().await;
    let ids = submit(&db, prompt("p")).await;
    sql(&database, LEFT_OVER).await;
    (database, db, ids.job_id)
}

/// A running job with things left over, and its claim.
async fn running() -> (Database, Db, repo::Claim) {
    let (database, db) = database().await;
    submit(&db, prompt("p")).await;
    let claim = claim_one(&db).await;
    sql(&database, LEFT_OVER).await;
    (database, db, claim)
}

/// The row, whose change is seen by followers: its revision is this one, and it was updated by the move.
async fn moved(db: &Db, job: JobId, revision: u32) -> JobRow {
    let row = row(db, job).await;
    assert_eq!(row.revision, revision);
    assert!(is_new(row.updated_at), "followers find it by its time");
    row
}

fn is_new(at: OffsetDateTime) -> bool {
    at.year() > 2001
}

fn error(row: &JobRow) -> (Option<&str>, Option<&str>) {
    (row.error_kind.as_deref(), row.error_message.as_deref())
}

#[tokio::test]
async fn a_claim_begins_anew() {
    let (_database, db, job) = queued().await;
    let _claim = claim_one(&db).await;
    let row = moved(&db, job, 2).await;
    assert_eq!((row.held_reason.as_deref(), error(&row)), (None, (None, None)));
    assert_eq!(Some(row.updated_at), row.claimed_at);
}

#[tokio::test]
async fn a_cancel_clears_what_the_job_waited_for_and_failed_by() {
    for is_running in [false, true] {
        let (_database, db, job) = if is_running {
            let (database, db, claim) = running().await;
            (database, db, claim.job())
        } else {
            queued().await
        };
        repo::cancel(&db, job, Scope::Everywhere, &Actor::operator("o")).await.unwrap();
        let row = moved(&db, job, if is_running { 3 } else { 2 }).await;
        assert_eq!((row.held_reason.as_deref(), error(&row)), (None, (None, None)));
        assert_eq!(row.finished_at, Some(row.updated_at));
    }
}

#[tokio::test]
async fn an_end_says_how_and_when() {
    let (_database, db, claim) = running().await;
    let job = claim.job();
    let _ = finish(&db, claim.succeed(answer("a"), vec![call(CallOutcome::Succeeded)])).await;
    let row = moved(&db, job, 3).await;
    assert_eq!((row.held_reason.as_deref(), error(&row)), (None, (None, None)));
    assert_eq!(row.finished_at, Some(row.updated_at));

    let (_database, db, claim) = running().await;
    let job = claim.job();
    let _ = finish(&db, claim.fail(failure(ErrorKind::Auth), vec![])).await;
    let row = moved(&db, job, 3).await;
    assert_eq!((row.held_reason.as_deref(), error(&row)), (None, (Some("auth"), Some("it did not work"))));
    assert_eq!(row.finished_at, Some(row.updated_at));
}

#[tokio::test]
async fn a_requeue_says_why_and_until_when() {
    let (_database, db, claim) = running().await;
    let job = claim.job();
    let backoff = Backoff { base: Duration::from_secs(5), spread: Duration::ZERO };
    let _ = finish(&db, claim.requeue(failure(ErrorKind::Timeout), backoff, vec![])).await;
    let row = moved(&db, job, 3).await;
    assert_eq!(row.held_reason.as_deref(), Some("backoff"));
    assert_eq!(error(&row), (Some("timeout"), Some("it did not work")));
    assert_eq!(row.scheduled_for, row.updated_at + backoff.base);
}

#[tokio::test]
async fn a_release_leaves_nothing_but_its_place() {
    let (_database, db, claim) = running().await;
    let job = claim.job();
    let _ = finish(&db, claim.release(vec![])).await;
    let row = moved(&db, job, 3).await;
    assert_eq!((row.held_reason.as_deref(), error(&row)), (None, (None, None)));
    assert!(!is_new(row.scheduled_for));
}

#[tokio::test]
async fn a_reclaimed_run_is_due_at_once_and_says_why() {
    let (database, db, claim) = running().await;
    sql(&database, SILENT).await;
    repo::reclaim(&db, Duration::from_secs(225), &Here::default(), &Actor::reaper("here")).await.unwrap();
    let row = moved(&db, claim.job(), 3).await;
    assert_eq!(row.held_reason, None);
    assert_eq!(error(&row), (Some("worker_crash"), Some("its worker fell silent in attempt 1")));
    assert_eq!(row.scheduled_for, row.updated_at);
}

#[tokio::test]
async fn a_stuck_run_ends_and_says_why() {
    let (database, db, claim) = running().await;
    sql(&database, SILENT).await;
    sql(&database, "UPDATE sa_job SET max_attempts = 1").await;
    repo::reclaim(&db, Duration::from_secs(225), &Here::default(), &Actor::reaper("here")).await.unwrap();
    let row = moved(&db, claim.job(), 3).await;
    assert_eq!(row.held_reason, None);
    assert_eq!(error(&row), (Some("stuck"), Some("worker died once, and one attempt was allowed")));
    assert_eq!(row.finished_at, Some(row.updated_at));
}

#[tokio::test]
async fn a_superseded_job_is_seen_to_change() {
    let (database, db) = database().await;
    let ids = failed(&db, "p").await;
    sql(&database, "UPDATE sa_job SET updated_at = '2001-01-01'").await;
    repo::retry(&db, retry_of(ids.job_id)).await.unwrap();
    let row = moved(&db, ids.job_id, 4).await;
    assert_eq!(error(&row), (Some("auth"), Some("it did not work")), "its outcome stays");
}

#[tokio::test]
async fn a_job_brought_forward_is_due_by_the_servers_clock() {
    let (database, db) = database().await;
    let ids = submit(&db, prompt("p")).await;
    sql(&database, LEFT_OVER).await;
    sql(&database, "UPDATE sa_job SET scheduled_for = UTC_TIMESTAMP(6) + INTERVAL 1 DAY").await;
    let Retried::BroughtForward { scheduled_for, .. } = repo::retry(&db, retry_of(ids.job_id)).await.unwrap() else {
        panic!("brought forward")
    };
    let row = moved(&db, ids.job_id, 2).await;
    assert_eq!((row.held_reason.as_deref(), row.scheduled_for), (None, row.updated_at));
    assert_eq!(scheduled_for, row.scheduled_for);
}
