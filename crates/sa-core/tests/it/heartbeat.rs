use sa_core::repo;
use sa_core::viewer::{Actor, Scope};

use crate::arrange::{VIEWER, claim_one, claimer, database, prompt, row, sql, submit};

#[tokio::test]
async fn a_beat_moves_the_heartbeat_and_nothing_a_follower_sees() {
    let (database, db) = database().await;
    let ids = submit(&db, prompt("p")).await;
    let claim = claim_one(&db).await;
    sql(&database, "UPDATE sa_job SET running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 60 SECOND").await;
    let before = row(&db, ids.job_id).await;
    assert!(repo::beat(&db, &[claim.held()]).await.unwrap().is_empty());
    let after = row(&db, ids.job_id).await;
    assert!(after.running_heartbeat_at > before.running_heartbeat_at);
    assert_eq!((after.updated_at, after.revision), (before.updated_at, before.revision));
}

#[tokio::test]
async fn two_beats_at_once_are_both_held() {
    let (_database, db) = database().await;
    submit(&db, prompt("p")).await;
    let held = [claim_one(&db).await.held()];
    for _ in 0..20 {
        assert!(repo::beat(&db, &held).await.unwrap().is_empty(), "a beat that changes nothing still counts");
    }
}

#[tokio::test]
async fn lost_claims_are_named_and_the_others_beat_on() {
    let (database, db) = database().await;
    for _ in 0..3 {
        submit(&db, prompt("p")).await;
    }
    let claims = claimer().claim(&db, 3).await.unwrap();
    let held: Vec<_> = claims.iter().map(repo::Claim::held).collect();
    repo::cancel(&db, held[0].job, Scope::Viewer(VIEWER), &Actor::user(VIEWER.user)).await.unwrap();
    sqlx::query("UPDATE sa_job SET worker_claim = 'another.1' WHERE id = ?")
        .bind(held[1].job)
        .execute(database.pool())
        .await
        .unwrap();
    let lost = vec![held[0].job, held[1].job];
    assert_eq!(repo::still_held(&db, &held).await.unwrap(), lost);
    assert_eq!(repo::beat(&db, &held).await.unwrap(), lost);
}

#[tokio::test]
async fn no_beat_keeps_a_claim_past_the_ceiling() {
    let (database, db) = database().await;
    submit(&db, prompt("p")).await;
    let held = [claim_one(&db).await.held()];
    sql(&database, "UPDATE sa_job SET started_at = UTC_TIMESTAMP(6) - INTERVAL 901 SECOND").await;
    assert_eq!(repo::beat(&db, &held).await.unwrap(), [held[0].job]);
}

#[tokio::test]
async fn a_beat_of_nothing_asks_nothing() {
    let (_database, db) = database().await;
    assert!(repo::beat(&db, &[]).await.unwrap().is_empty());
}

/// Each condition of the beat by itself: the claim that is lost for this one reason is named, and its row is not touched.
#[tokio::test]
async fn a_beat_of_a_lost_claim_moves_nothing() {
    let (database, db) = database().await;
    database.not_judged("it changes claims by hand");
    let ids = submit(&db, prompt("p")).await;
    let held = [claim_one(&db).await.held()];
    let losses = [
        ("another attempt", "UPDATE sa_job SET attempt = 2", "UPDATE sa_job SET attempt = 1"),
        (
            "another claim",
            "UPDATE sa_job SET worker_claim = CONCAT('x', worker_claim)",
            "UPDATE sa_job SET worker_claim = SUBSTRING(worker_claim, 2)",
        ),
        (
            "another state",
            "UPDATE sa_job SET state = 'cancelled', finished_at = UTC_TIMESTAMP(6)",
            "UPDATE sa_job SET state = 'running', finished_at = NULL",
        ),
    ];
    for (loss, lose, restore) in losses {
        sql(&database, lose).await;
        let before = row(&db, ids.job_id).await.running_heartbeat_at;
        assert_eq!(repo::beat(&db, &held).await.unwrap(), [ids.job_id], "{loss}");
        assert_eq!(row(&db, ids.job_id).await.running_heartbeat_at, before, "{loss}");
        sql(&database, restore).await;
        assert!(repo::beat(&db, &held).await.unwrap().is_empty(), "restored after {loss}");
    }
}

/// A worker holds two runs, and another of its claims has come to stand in the row of one: each is asked for by itself.
#[tokio::test]
async fn a_claim_is_not_held_because_another_of_the_same_worker_is() {
    let (database, db) = database().await;
    database.not_judged("it changes claims by hand");
    let [mine, other] = [submit(&db, prompt("p")).await, submit(&db, prompt("q")).await];
    let held = [claim_one(&db).await.held(), claim_one(&db).await.held()];
    assert_eq!((held[0].job, held[1].job), (mine.job_id, other.job_id));
    sqlx::query("UPDATE sa_job SET worker_claim = ? WHERE id = ?")
        .bind(held[1].claim.as_str())
        .bind(mine.job_id)
        .execute(database.pool())
        .await
        .unwrap();
    assert_eq!(repo::still_held(&db, &held).await.unwrap(), [mine.job_id]);
}
