use std::time::Duration;

use sa_core::death::Here;
use sa_core::id::WorkerId;
use sa_core::pulse::{Pulse, PulseRole};
use sa_core::repo::{self, Db, Reclaimed};
use sa_core::state::State;
use sa_core::viewer::Actor;

use crate::arrange::{claim_one, claimer, database, prompt, reasons, row, sql, state, submit};

const STALE: Duration = Duration::from_secs(225);

async fn reclaim(db: &Db) -> Vec<Reclaimed> {
    repo::reclaim(db, STALE, &Here::default(), &Actor::reaper("here")).await.unwrap()
}

#[tokio::test]
async fn a_silent_run_is_queued_again_at_once_with_an_attempt_spent() {
    let (database, db) = database().await;
    let ids = submit(&db, prompt("p")).await;
    let _claim = claim_one(&db).await;
    assert!(reclaim(&db).await.is_empty(), "a fresh beat is left alone");
    sql(&database, "UPDATE sa_job SET running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 226 SECOND").await;
    let taken = reclaim(&db).await;
    assert_eq!((taken[0].job, taken[0].to, taken[0].attempt), (ids.job_id, State::Queued, 2));
    let job = row(&db, ids.job_id).await;
    assert_eq!((job.attempt, job.error_kind.as_deref()), (2, Some("worker_crash")));
    assert!(job.worker_claim.is_none());
    assert_eq!(reasons(&database, ids.job_id).await, ["enqueue", "claim", "reclaim"]);
    assert_eq!(claim_one(&db).await.attempt(), 2, "it is due at once");
    assert!(reclaim(&db).await.is_empty());
}

/// CB-52: a job is never started more often than it may be, whatever its workers do.
#[tokio::test]
async fn cb_52_with_no_attempt_left_it_is_stuck_and_says_why() {
    let (database, db) = database().await;
    let ids = submit(&db, prompt("p")).await;
    for _ in 0..3 {
        let _claim = claim_one(&db).await;
        sql(&database, "UPDATE sa_job SET running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 226 SECOND").await;
        assert_eq!(reclaim(&db).await.len(), 1);
    }
    let job = row(&db, ids.job_id).await;
    assert_eq!((job.state, job.error_kind.as_deref()), (State::Failed, Some("stuck")));
    assert_eq!(job.error_message.as_deref(), Some("worker died 3 times"));
    assert!(claimer().claim(&db, 1).await.unwrap().is_empty());
}

#[tokio::test]
async fn over_the_ceiling_it_is_stuck_though_attempts_are_left() {
    let (database, db) = database().await;
    let ids = submit(&db, prompt("p")).await;
    let _claim = claim_one(&db).await;
    sql(
        &database,
        "UPDATE sa_job SET running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 226 SECOND,
            started_at = UTC_TIMESTAMP(6) - INTERVAL 901 SECOND, claimed_at = started_at, created_at = started_at",
    )
    .await;
    assert_eq!(reclaim(&db).await[0].to, State::Failed);
    assert_eq!(row(&db, ids.job_id).await.error_kind.as_deref(), Some("stuck"));
}

#[tokio::test]
async fn the_workers_own_larger_limit_holds() {
    let (database, db) = database().await;
    let ids = submit(&db, prompt("p")).await;
    let claim = claim_one(&db).await;
    let worker: WorkerId = claim.id().as_str().split('.').next().unwrap().parse().unwrap();
    let pulse =
        Pulse::of_this_process(worker, PulseRole::Worker, Duration::from_secs(60), Duration::from_secs(600), vec![]);
    repo::pulse::record(&db, &pulse).await.unwrap();
    sql(&database, "UPDATE sa_job SET running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 300 SECOND").await;
    assert!(reclaim(&db).await.is_empty());
    sql(&database, "UPDATE sa_job SET running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 601 SECOND").await;
    assert_eq!(reclaim(&db).await.len(), 1);
    assert_eq!(state(&db, ids.job_id).await, State::Queued);
}

#[tokio::test]
async fn reapers_at_once_take_each_job_once() {
    let (database, db) = database().await;
    for _ in 0..20 {
        submit(&db, prompt("p")).await;
    }
    let _claims = claimer().claim(&db, 20).await.unwrap();
    sql(&database, "UPDATE sa_job SET running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 226 SECOND").await;
    let (one, two, three) = tokio::join!(reclaim(&db), reclaim(&db), reclaim(&db));
    assert_eq!(one.len() + two.len() + three.len(), 20);
    let attempts: i64 = crate::arrange::count(&database, "SELECT COUNT(*) FROM sa_job WHERE attempt = 2").await;
    assert_eq!(attempts, 20, "no attempt was spent twice");
}

#[tokio::test]
async fn another_workers_limit_does_not_count() {
    let (database, db) = database().await;
    submit(&db, prompt("p")).await;
    let _claim = claim_one(&db).await;
    let (beat, patient) = (Duration::from_secs(60), Duration::from_secs(600));
    let other = Pulse::of_this_process(WorkerId::new(), PulseRole::Worker, beat, patient, vec![]);
    repo::pulse::record(&db, &other).await.unwrap();
    sql(&database, "UPDATE sa_job SET running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 300 SECOND").await;
    assert_eq!(reclaim(&db).await.len(), 1);
}
