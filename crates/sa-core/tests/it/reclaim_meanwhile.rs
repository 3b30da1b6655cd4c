//! What happens to a silent run between the reaper's look at it and its taking: whoever shows life keeps the job.

use std::time::Duration;

use sa_core::death::Here;
use sa_core::id::JobId;
use sa_core::repo::{self, NewPrompt};
use sa_core::state::State;
use sa_core::viewer::Actor;
use sqlx::Executor;

use crate::arrange::{claim_one, claimer, database, prompt, row, sql, state, submit, table_is_waited_for};

const STALE: Duration = Duration::from_secs(225);
const SILENT: &str = "UPDATE sa_job SET running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 226 SECOND";

/// The changes, one of each: any of them by itself is reason enough to leave the job alone.
const CHANGES: [&str; 4] = [
    "UPDATE sa_job SET running_heartbeat_at = UTC_TIMESTAMP(6) WHERE id = ?",
    "UPDATE sa_job SET worker_claim = 'another.1' WHERE id = ?",
    "UPDATE sa_job SET attempt = attempt + 1, max_attempts = 3 WHERE id = ?",
    "UPDATE sa_job SET state = 'cancelled', finished_at = UTC_TIMESTAMP(6) WHERE id = ?",
];

/// The first job is being taken when the others change: its event cannot be written while the table of events is held.
async fn changed_meanwhile(max_attempts: u8, first_becomes: State) {
    let (database, db) = database().await;
    database.not_judged("it changes rows by hand, which leaves no event");
    let max_attempts = sa_core::job::MaxAttempts::new(max_attempts).unwrap();
    let mut jobs: Vec<JobId> = Vec::new();
    for _ in 0..=CHANGES.len() {
        jobs.push(submit(&db, NewPrompt { max_attempts, ..prompt("p") }).await.job_id);
        // Each its own claim, so that no row can be taken for another.
        let _claim = claim_one(&db).await;
    }
    sql(&database, SILENT).await;
    let mut events = database.pool().acquire().await.unwrap();
    events.execute("LOCK TABLES sa_job_event WRITE").await.unwrap();
    let reaper = db.clone();
    let reclaim =
        tokio::spawn(
            async move { repo::reclaim(&reaper, STALE, &Here::default(), &Actor::reaper("here")).await.unwrap() },
        );
    table_is_waited_for(&database).await;
    for (job, change) in jobs[1..].iter().zip(CHANGES) {
        sqlx::query(change).bind(job).execute(database.pool()).await.unwrap();
    }
    let before: Vec<_> = standing(&db, &jobs[1..]).await;
    events.execute("UNLOCK TABLES").await.unwrap();
    let taken: Vec<_> = reclaim.await.unwrap().into_iter().map(|taken| taken.job).collect();
    assert_eq!(taken, jobs[..1]);
    assert_eq!(state(&db, jobs[0]).await, first_becomes);
    assert_eq!(standing(&db, &jobs[1..]).await, before);
}

/// What the reaper would have changed.
async fn standing(db: &repo::Db, jobs: &[JobId]) -> Vec<(State, u32, u16)> {
    let mut rows = Vec::new();
    for job in jobs {
        let row = row(db, *job).await;
        rows.push((row.state, row.revision, row.attempt));
    }
    rows
}

#[tokio::test]
async fn a_run_that_shows_life_meanwhile_is_not_queued_again() {
    changed_meanwhile(3, State::Queued).await;
}

#[tokio::test]
async fn a_run_that_shows_life_meanwhile_is_not_failed() {
    changed_meanwhile(1, State::Failed).await;
}

#[tokio::test]
async fn jobs_of_one_claim_are_failed_one_by_one() {
    let (database, db) = database().await;
    let max_attempts = sa_core::job::MaxAttempts::new(1).unwrap();
    for _ in 0..3 {
        submit(&db, NewPrompt { max_attempts, ..prompt("p") }).await;
    }
    let _claims = claimer().claim(&db, 3).await.unwrap();
    sql(&database, SILENT).await;
    assert_eq!(repo::reclaim(&db, STALE, &Here::default(), &Actor::reaper("here")).await.unwrap().len(), 3);
}
