use sa_core::id::WorkerId;
use sa_core::job::{Lane, Priority};
use sa_core::repo::{Claimer, Db, Serves};

use crate::arrange::{database, prompt, sql, submit, urgent};

fn fair_claimer(every: u32) -> Claimer {
    Claimer::new(WorkerId::new(), Serves::only(vec![Lane::new("echo")]), Priority::new(90).unwrap())
        .with_fair_every(every)
}

/// The priorities of the next so many claims, each made by itself.
async fn one_by_one(claimer: &mut Claimer, db: &Db, count: usize) -> Vec<u8> {
    let mut priorities = Vec::new();
    for _ in 0..count {
        let claims = claimer.claim(db, 1).await.unwrap();
        priorities.extend(claims.iter().map(|claim| claim.priority().get()));
    }
    priorities
}

#[tokio::test]
async fn every_third_claim_takes_the_oldest_of_any_priority_within_the_ceiling() {
    let (database, db) = database().await;
    // The oldest of all is beyond the ceiling; behind it come two that are bulk, and then what is urgent.
    for (priority, age) in [(100, 90), (90, 80), (60, 70), (5, 10), (5, 9), (5, 8), (5, 7), (5, 6)] {
        let job = submit(&db, urgent("p", priority)).await.job_id;
        let back = "UPDATE sa_job SET created_at = UTC_TIMESTAMP(6) - INTERVAL ? MINUTE, scheduled_for = created_at WHERE id = ?";
        sqlx::query(back).bind(age).bind(job).execute(database.pool()).await.unwrap();
    }
    assert_eq!(one_by_one(&mut fair_claimer(3), &db, 8).await, [5, 5, 90, 5, 5, 60, 5]);
    sql(&database, "UPDATE sa_job SET priority = 90 WHERE priority = 100").await;
    assert_eq!(one_by_one(&mut fair_claimer(1), &db, 1).await, [90]);
}

#[tokio::test]
async fn without_fairness_or_with_the_rest_of_a_batch_priorities_decide() {
    let (database, db) = database().await;
    submit(&db, urgent("bulk", 80)).await;
    sql(&database, "UPDATE sa_job SET created_at = created_at - INTERVAL 1 HOUR, scheduled_for = created_at").await;
    for _ in 0..12 {
        submit(&db, prompt("normal")).await;
    }
    assert_eq!(one_by_one(&mut fair_claimer(0), &db, 4).await, [50; 4]);
    let mut claimer = fair_claimer(8);
    let batch = async |claimer: &mut Claimer| -> Vec<u8> {
        claimer.claim(&db, 5).await.unwrap().iter().map(|claim| claim.priority().get()).collect()
    };
    assert_eq!(batch(&mut claimer).await, [50; 5]);
    assert_eq!(batch(&mut claimer).await, [80, 50, 50, 50], "the eighth is in this batch, and the oldest comes first");
}
