//! What a claimer read ahead may have changed by the time it is claimed, and what it must not be kept busy by.

use sa_core::job::Lane;
use sa_core::repo::{self, NewPrompt};

use crate::arrange::{claimer, database, prompt, sql, submit, urgent};

/// The second job was read ahead when the first one was claimed.
async fn changed_after_it_was_read(change: &'static str) {
    let (database, db) = database().await;
    database.not_judged("it changes rows by hand, which leaves no event");
    submit(&db, prompt("first")).await;
    submit(&db, prompt("second")).await;
    let mut claimer = claimer();
    assert_eq!(claimer.claim(&db, 1).await.unwrap().len(), 1);
    sql(&database, change).await;
    assert!(claimer.claim(&db, 1).await.unwrap().is_empty(), "{change}");
}

#[tokio::test]
async fn a_job_that_went_to_another_lane_is_not_claimed_from_its_old_one() {
    changed_after_it_was_read("UPDATE sa_job SET lane = 'elsewhere' WHERE state = 'queued'").await;
}

#[tokio::test]
async fn a_job_that_was_put_off_is_not_claimed() {
    changed_after_it_was_read(
        "UPDATE sa_job SET scheduled_for = UTC_TIMESTAMP(6) + INTERVAL 1 DAY WHERE state = 'queued'",
    )
    .await;
}

#[tokio::test]
async fn a_job_that_ended_is_not_claimed() {
    changed_after_it_was_read(
        "UPDATE sa_job SET state = 'cancelled', finished_at = UTC_TIMESTAMP(6) WHERE state = 'queued'",
    )
    .await;
}

/// A hundred rows that cannot be claimed stand before the one that can. Whoever read them ahead would come back without it.
async fn found_behind(others: NewPrompt, change: &'static str) {
    let (database, db) = database().await;
    database.not_judged("it changes rows by hand, which leaves no event");
    let batch = vec![others; 100];
    assert!(repo::enqueue(&db, batch).await.iter().all(Result::is_ok));
    sql(&database, change).await;
    let wanted = submit(&db, prompt("wanted")).await;
    let claims = claimer().claim(&db, 1).await.unwrap();
    assert_eq!(claims.iter().map(repo::Claim::job).collect::<Vec<_>>(), [wanted.job_id]);
}

#[tokio::test]
async fn jobs_that_ended_stand_in_nobodys_way() {
    found_behind(prompt("p"), "UPDATE sa_job SET state = 'cancelled', finished_at = UTC_TIMESTAMP(6)").await;
}

#[tokio::test]
async fn jobs_of_other_lanes_stand_in_nobodys_way() {
    found_behind(NewPrompt { lane: Lane::new("elsewhere"), ..prompt("p") }, "DO 0").await;
}

/// The level is due for its first row; the rows behind that one are not.
#[tokio::test]
async fn jobs_that_wait_for_their_time_stand_in_nobodys_way() {
    let (database, db) = database().await;
    assert!(repo::enqueue(&db, vec![urgent("later", 10); 100]).await.iter().all(Result::is_ok));
    sql(&database, "UPDATE sa_job SET scheduled_for = UTC_TIMESTAMP(6) + INTERVAL 1 DAY").await;
    let urgent = submit(&db, urgent("now", 10)).await;
    let normal = submit(&db, prompt("and now")).await;
    let claims = claimer().claim(&db, 2).await.unwrap();
    assert_eq!(claims.iter().map(repo::Claim::job).collect::<Vec<_>>(), [urgent.job_id, normal.job_id]);
}
