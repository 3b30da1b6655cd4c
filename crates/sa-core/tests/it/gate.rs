use std::time::Duration;

use sa_core::error_kind::ErrorKind;
use sa_core::gate::{Effect, effect, trial_effect};
use sa_core::id::{JobId, WorkerId};
use sa_core::job::{Lane, Priority};
use sa_core::repo::gate::{self, Gate, Standing};
use sa_core::repo::{Claim, Claimer, Db, NewPrompt, Serves};
use sa_core::state::State;
use sa_harness::Database;

use crate::arrange::{
    claim_one, claimer, claimer_of, count, database, failure, finish, prompt, reasons, row, sql, submit,
};

fn echo() -> Lane {
    Lane::new("echo")
}

async fn limited(db: &Db, asked: Option<Duration>) {
    gate::failed(db, &echo(), ErrorKind::RateLimit, effect(ErrorKind::RateLimit, asked)).await.unwrap();
}

async fn the_gate(db: &Db) -> Gate {
    gate::list(db).await.unwrap().remove(0)
}

async fn waited_out(database: &Database) {
    sql(database, "UPDATE sa_provider_gate SET closed_until = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND").await;
}

fn closed_for(gate: &Gate) -> Duration {
    match gate.standing {
        Standing::Closed(left) => left,
        other => panic!("it is closed, not {other:?}"),
    }
}

#[tokio::test]
async fn a_429_closes_the_lane_for_the_wait_its_provider_named() {
    let (_database, db) = database().await;
    submit(&db, prompt("p")).await;
    limited(&db, Some(Duration::from_secs(100))).await;
    let gate = the_gate(&db).await;
    assert_eq!((gate.lane.clone(), gate.reason, gate.closures), (echo(), Some(ErrorKind::RateLimit), 1));
    let left = closed_for(&gate);
    assert!(left > Duration::from_secs(90) && left <= Duration::from_secs(110), "{left:?}");
    assert!(claimer().claim(&db, 5).await.unwrap().is_empty());
}

#[tokio::test]
async fn calls_that_fail_together_are_one_closure_and_closures_in_a_row_double() {
    let (database, db) = database().await;
    for (closures, least, most) in [(1, 60, 90), (2, 120, 180), (3, 240, 360)] {
        for _ in 0..5 {
            limited(&db, None).await;
        }
        let gate = the_gate(&db).await;
        let left = closed_for(&gate).as_secs();
        assert_eq!(gate.closures, closures);
        assert!((least - 5..=most).contains(&left), "closure {closures}: {left} s");
        waited_out(&database).await;
    }
    sql(&database, "UPDATE sa_provider_gate SET closures = 4000000000").await;
    limited(&db, None).await;
    let left = closed_for(&the_gate(&db).await).as_secs();
    assert!((3590..=3600).contains(&left), "an hour is the longest: {left} s");
}

#[tokio::test]
async fn a_worse_reason_makes_a_closure_longer_and_a_lesser_one_changes_nothing() {
    let (_database, db) = database().await;
    limited(&db, Some(Duration::from_secs(20))).await;
    gate::failed(&db, &echo(), ErrorKind::Quota, effect(ErrorKind::Quota, None)).await.unwrap();
    limited(&db, Some(Duration::from_secs(20))).await;
    let gate = the_gate(&db).await;
    assert_eq!((gate.reason, gate.closures), (Some(ErrorKind::Quota), 1));
    assert!(closed_for(&gate) > Duration::from_secs(3500));
}

#[tokio::test]
async fn five_errors_of_the_server_in_a_row_close_and_a_success_between_them_does_not() {
    let (_database, db) = database().await;
    let claim = {
        submit(&db, prompt("p")).await;
        claim_one(&db).await
    };
    let lane = echo();
    let error = || gate::failed(&db, &lane, ErrorKind::Provider5xx, effect(ErrorKind::Provider5xx, None));
    for _ in 0..4 {
        error().await.unwrap();
    }
    assert_eq!(the_gate(&db).await.standing, Standing::Open);
    gate::succeeded(&db, &echo(), claim.id()).await.unwrap();
    assert_eq!(gate::list(&db).await.unwrap(), []);
    for _ in 0..4 {
        error().await.unwrap();
    }
    assert!(the_gate(&db).await.is_open());
    error().await.unwrap();
    let gate = the_gate(&db).await;
    assert_eq!((gate.reason, gate.closures), (Some(ErrorKind::Provider5xx), 1));
    let left = closed_for(&gate).as_secs();
    assert!((20..=30).contains(&left), "{left} s");
    // Others that were under way meanwhile: neither a closure nor the beginning of a new row.
    for _ in 0..6 {
        error().await.unwrap();
    }
    assert_eq!(the_gate(&db).await.closures, 1);
    release(&db, claim).await;
}

async fn release(db: &Db, claim: Claim) {
    let outcome = finish(db, claim.release(Vec::new())).await;
    assert_eq!(outcome, sa_core::repo::Outcome::Written);
}

#[tokio::test]
async fn a_closed_lane_is_reopened_by_one_call_at_a_time() {
    let (database, db) = database().await;
    for _ in 0..3 {
        submit(&db, prompt("p")).await;
    }
    limited(&db, None).await;
    waited_out(&database).await;
    let trial = {
        let mut claims = claimer().claim(&db, 5).await.unwrap();
        assert_eq!(claims.len(), 1);
        claims.remove(0)
    };
    assert!(trial.is_trial());
    assert_eq!(the_gate(&db).await.standing, Standing::OnTrial);
    assert!(claimer().claim(&db, 5).await.unwrap().is_empty(), "one trial at a time");

    // Its end without a finding leaves it to the next.
    gate::trial_over(&db, &echo(), trial.id()).await.unwrap();
    release(&db, trial).await;
    let trial = claimer().claim(&db, 5).await.unwrap().remove(0);
    assert!(trial.is_trial());

    // A failure closes the lane again, for longer.
    let again = trial_effect(ErrorKind::Provider5xx, None);
    gate::failed(&db, &echo(), ErrorKind::Provider5xx, again).await.unwrap();
    let gate = the_gate(&db).await;
    assert_eq!((gate.reason, gate.closures), (Some(ErrorKind::Provider5xx), 2));
    assert!(closed_for(&gate) > Duration::from_secs(50));
    release(&db, trial).await;
    waited_out(&database).await;

    // A success opens it, for all.
    let trial = claimer().claim(&db, 5).await.unwrap().remove(0);
    gate::succeeded(&db, &echo(), trial.id()).await.unwrap();
    assert_eq!(gate::list(&db).await.unwrap(), []);
    let rest = claimer().claim(&db, 5).await.unwrap();
    assert_eq!(rest.iter().map(Claim::is_trial).collect::<Vec<_>>(), [false, false]);
    for claim in rest.into_iter().chain([trial]) {
        release(&db, claim).await;
    }
}

#[tokio::test]
async fn of_many_claimers_one_gets_the_trial() {
    let (database, db) = database().await;
    for _ in 0..20 {
        submit(&db, prompt("p")).await;
    }
    limited(&db, None).await;
    waited_out(&database).await;
    let claimers: Vec<_> = (0..8)
        .map(|_| {
            let db = db.clone();
            tokio::spawn(async move { claimer().claim(&db, 5).await.unwrap() })
        })
        .collect();
    let mut claims = Vec::new();
    for task in claimers {
        claims.extend(task.await.unwrap());
    }
    assert_eq!(claims.len(), 1);
    release(&db, claims.remove(0)).await;
}

#[tokio::test]
async fn a_trial_that_never_ended_may_be_taken_over() {
    let (database, db) = database().await;
    submit(&db, prompt("a")).await;
    submit(&db, prompt("b")).await;
    limited(&db, None).await;
    waited_out(&database).await;
    let lost = claim_one(&db).await;
    sql(&database, "UPDATE sa_provider_gate SET trial_at = trial_at - INTERVAL 199 SECOND").await;
    assert!(claimer().claim(&db, 5).await.unwrap().is_empty());
    sql(&database, "UPDATE sa_provider_gate SET trial_at = trial_at - INTERVAL 2 SECOND").await;
    let next = claim_one(&db).await;
    assert!(next.is_trial());
    // The word of the first counts no more.
    gate::succeeded(&db, &echo(), lost.id()).await.unwrap();
    gate::trial_over(&db, &echo(), lost.id()).await.unwrap();
    assert_eq!(the_gate(&db).await.standing, Standing::OnTrial);
    release(&db, lost).await;
    release(&db, next).await;
}

#[tokio::test]
async fn a_call_that_began_before_the_lane_closed_opens_nothing() {
    let (_database, db) = database().await;
    submit(&db, prompt("p")).await;
    let early = claim_one(&db).await;
    limited(&db, None).await;
    gate::succeeded(&db, &echo(), early.id()).await.unwrap();
    assert!(!the_gate(&db).await.is_open());
    release(&db, early).await;
}

#[tokio::test]
async fn a_trial_comes_with_the_jobs_of_open_lanes_and_takes_unnamed_ones_of_the_default() {
    let (database, db) = database().await;
    submit(&db, NewPrompt { lane: Lane::default(), ..prompt("unnamed") }).await;
    submit(&db, NewPrompt { lane: Lane::new("other"), ..prompt("other") }).await;
    limited(&db, None).await;
    waited_out(&database).await;
    let claims = claimer_of(&["echo", "other"]).claim(&db, 5).await.unwrap();
    let seen: Vec<_> = claims.iter().map(|claim| (claim.lane().as_str().to_owned(), claim.is_trial())).collect();
    assert_eq!(seen, [(String::new(), true), ("other".to_owned(), false)]);
    for claim in claims {
        release(&db, claim).await;
    }
}

#[tokio::test]
async fn a_closed_lane_is_claimed_from_while_a_fallback_is_open() {
    let (_database, db) = database().await;
    let job = submit(&db, prompt("p")).await.job_id;
    limited(&db, None).await;
    let serves = || Serves {
        fallbacks: [(echo(), vec![Lane::new("spare")])].into(),
        ..Serves::only(vec![echo(), Lane::new("spare")])
    };
    let mut claimer = Claimer::new(WorkerId::new(), serves(), Priority::LOWEST);
    let claim = claimer.claim(&db, 5).await.unwrap().remove(0);
    assert_eq!((claim.job(), claim.is_trial()), (job, false));
    release(&db, claim).await;
    let closing = effect(ErrorKind::Quota, None);
    assert!(matches!(closing, Effect::Close(_)));
    gate::failed(&db, &Lane::new("spare"), ErrorKind::Quota, closing).await.unwrap();
    assert!(claimer.claim(&db, 5).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_held_job_keeps_its_place_and_its_attempts() {
    let (database, db) = database().await;
    let job = submit(&db, prompt("p")).await.job_id;
    let before = row(&db, job).await;
    for held in [None, Some(Duration::ZERO)] {
        let claim = claim_one(&db).await;
        assert_eq!(claim.held_for().is_some(), held.is_some());
        finished(&db, claim, None).await;
    }
    let after = row(&db, job).await;
    assert_eq!((after.state, after.attempt, after.releases), (State::Queued, 1, 0));
    assert_eq!((after.scheduled_for, after.lane), (before.scheduled_for, before.lane));
    assert_eq!((after.held_reason.as_deref(), after.error_kind.as_deref()), (Some("gate"), Some("rate_limit")));
    assert_eq!(after.error_message.as_deref(), Some("it did not work"));
    assert_eq!(reasons(&database, job).await, ["enqueue", "claim", "gate", "claim", "gate"]);
    let first = count(&database, "SELECT held_since < updated_at FROM sa_job").await;
    assert_eq!(first, 1, "held since the first time");
}

async fn finished(db: &Db, claim: Claim, lane: Option<Lane>) {
    let outcome = finish(db, claim.hold(failure(ErrorKind::RateLimit), lane, Vec::new())).await;
    assert_eq!(outcome, sa_core::repo::Outcome::Written);
}

#[tokio::test]
async fn a_job_can_be_held_by_the_lane_its_router_chose() {
    let (_database, db) = database().await;
    let job: JobId = submit(&db, prompt("p")).await.job_id;
    let claim = claim_one(&db).await;
    finished(&db, claim, Some(Lane::new("chosen"))).await;
    assert_eq!(row(&db, job).await.lane, "chosen");
}

#[tokio::test]
async fn an_operator_opens_what_is_closed_and_frees_all() {
    let (_database, db) = database().await;
    submit(&db, prompt("p")).await;
    assert!(!gate::open(&db, &echo()).await.unwrap());
    gate::failed(&db, &echo(), ErrorKind::Auth, effect(ErrorKind::Auth, None)).await.unwrap();
    assert!(!gate::open(&db, &Lane::new("other")).await.unwrap());
    assert!(gate::open(&db, &echo()).await.unwrap());
    assert_eq!(gate::list(&db).await.unwrap(), []);
    let claim = claim_one(&db).await;
    assert!(!claim.is_trial());
    release(&db, claim).await;
}
