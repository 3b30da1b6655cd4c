use sa_core::repo::changes::Changes;
use sa_core::state::State;

use crate::arrange::{answered, claim_one, database, prompt, submit};

#[tokio::test]
async fn each_change_is_seen_once_and_in_order() {
    let (_database, db) = database().await;
    submit(&db, prompt("before")).await;
    let mut changes = Changes::from_now(&db).await.unwrap();
    assert!(changes.poll(&db).await.unwrap().is_empty());
    let _running = claim_one(&db).await;
    answered(&db, "p", "a").await;
    let seen: Vec<_> = changes.poll(&db).await.unwrap().iter().map(|change| change.state).collect();
    assert_eq!(seen, [State::Running, State::Queued, State::Running, State::Succeeded]);
    assert!(changes.poll(&db).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_change_that_commits_late_is_not_missed() {
    let (database, db) = database().await;
    let first = submit(&db, prompt("p")).await;
    let mut changes = Changes::from_now(&db).await.unwrap();
    database.not_judged("its late event is no change of a job");
    // Takes a number, and commits after a later one was seen.
    let mut late = database.pool().begin().await.unwrap();
    sqlx::query(
        "INSERT INTO sa_job_event (job_id, prompt_id, org_id, created_by, to_state, attempt, revision, actor, reason)
         SELECT id, prompt_id, org_id, created_by, state, attempt, revision, 'test', 'claim' FROM sa_job WHERE id = ?",
    )
    .bind(first.job_id)
    .execute(&mut *late)
    .await
    .unwrap();
    let second = submit(&db, prompt("q")).await;
    let early: Vec<_> = changes.poll(&db).await.unwrap().iter().map(|change| change.job_id).collect();
    assert_eq!(early, [second.job_id]);
    late.commit().await.unwrap();
    let found: Vec<_> = changes.poll(&db).await.unwrap().iter().map(|change| change.job_id).collect();
    assert_eq!(found, [first.job_id]);
    assert!(changes.poll(&db).await.unwrap().is_empty());
}
