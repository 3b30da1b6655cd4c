use std::collections::HashSet;

use sa_core::id::{ClaimIds, JobId, OrgId, WorkerId};
use sa_core::job::{Lane, Priority};
use sa_core::repo::{self, Claimer, NewPrompt, Serves};
use sa_core::state::State;
use sa_core::viewer::{Actor, Scope};

use crate::arrange::{
    STRANGER, VIEWER, assert_conflict, assert_not_found, claim_one, claimer, claimer_of, count, database, prompt,
    reasons, row, sql, state, submit, urgent,
};

#[tokio::test]
async fn a_claim_takes_the_most_urgent_first_and_then_the_oldest() {
    let (_database, db) = database().await;
    let mut expected = Vec::new();
    for priority in [90, 10, 50, 10] {
        expected.push((priority, submit(&db, urgent("p", priority)).await.job_id));
    }
    expected.sort();
    let claims = claimer().claim(&db, 10).await.unwrap();
    let claimed: Vec<_> = claims.iter().map(|claim| (claim.priority().get(), claim.job())).collect();
    assert_eq!(claimed, expected);
}

#[tokio::test]
async fn a_claimed_row_carries_claim_times_and_its_event() {
    let (database, db) = database().await;
    let ids = submit(&db, prompt("p")).await;
    let claim = claim_one(&db).await;
    assert_eq!((claim.prompt(), claim.viewer(), claim.attempt()), (ids.prompt_id, VIEWER, 1));
    let job = row(&db, ids.job_id).await;
    assert_eq!((job.state, job.revision), (State::Running, 2));
    assert_eq!(job.worker_claim.as_deref(), Some(claim.id().as_str()));
    assert!(job.claimed_at.is_some() && job.started_at == job.claimed_at && job.running_heartbeat_at == job.claimed_at);
    assert_eq!(reasons(&database, ids.job_id).await, ["enqueue", "claim"]);
}

#[tokio::test]
async fn each_claim_statement_mints_a_claim_of_its_own() {
    let (_database, db) = database().await;
    submit(&db, prompt("a")).await;
    submit(&db, prompt("b")).await;
    let mut claimer = claimer();
    let first = claimer.claim(&db, 1).await.unwrap().remove(0);
    let second = claimer.claim(&db, 1).await.unwrap().remove(0);
    assert_ne!(first.id(), second.id());
}

#[tokio::test]
async fn nothing_due_is_an_empty_claim() {
    let (database, db) = database().await;
    assert!(claimer().claim(&db, 5).await.unwrap().is_empty());
    submit(&db, prompt("later")).await;
    sql(&database, "UPDATE sa_job SET scheduled_for = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR").await;
    assert!(claimer().claim(&db, 5).await.unwrap().is_empty());
    assert!(claimer().claim(&db, 0).await.unwrap().is_empty());
}

#[tokio::test]
async fn priorities_above_the_ceiling_are_left() {
    let (_database, db) = database().await;
    let low = submit(&db, urgent("low", 60)).await;
    let high = submit(&db, urgent("high", 59)).await;
    let serves = Serves::only(vec![Lane::new("echo")]);
    let mut claimer = Claimer::new(WorkerId::new(), serves, Priority::new(59).unwrap());
    let claims = claimer.claim(&db, 5).await.unwrap();
    assert_eq!(claims.iter().map(repo::Claim::job).collect::<Vec<_>>(), [high.job_id]);
    assert_eq!(state(&db, low.job_id).await, State::Queued);
}

#[tokio::test]
async fn only_lanes_that_are_served_and_open_are_claimed() {
    let (database, db) = database().await;
    for lane in ["open", "closed", "elsewhere", ""] {
        submit(&db, NewPrompt { lane: Lane::new(lane), ..prompt("p") }).await;
    }
    sql(
        &database,
        "INSERT INTO sa_provider_gate (lane, closed_until) VALUES
            ('closed', UTC_TIMESTAMP(6) + INTERVAL 1 HOUR), ('open', NULL)",
    )
    .await;
    let lanes = |claims: &[repo::Claim]| claims.iter().map(|claim| claim.lane().to_string()).collect::<HashSet<_>>();
    let under_a_closed_default = claimer_of(&["closed", "open"]).claim(&db, 10).await.unwrap();
    assert_eq!(lanes(&under_a_closed_default), HashSet::from(["open".to_owned()]));
    let under_an_open_one = claimer_of(&["open", "closed"]).claim(&db, 10).await.unwrap();
    assert_eq!(lanes(&under_an_open_one), HashSet::from([String::new()]));
}

#[tokio::test]
async fn a_gate_that_closes_is_seen_by_the_next_claim() {
    let (database, db) = database().await;
    for _ in 0..4 {
        submit(&db, prompt("p")).await;
    }
    let mut claimer = claimer();
    assert_eq!(claimer.claim(&db, 2).await.unwrap().len(), 2);
    sql(&database, "INSERT INTO sa_provider_gate (lane, closed_until) VALUES ('echo', '9999-12-31')").await;
    assert!(claimer.claim(&db, 2).await.unwrap().is_empty());
}

#[tokio::test]
async fn cursors_pass_over_rows_of_one_instant_without_losing_any() {
    let (database, db) = database().await;
    let batch: Vec<_> = (0..100).map(|n| urgent("p", if n % 2 == 0 { 10 } else { 20 })).collect();
    assert!(repo::enqueue(&db, batch).await.iter().all(Result::is_ok));
    sql(&database, "UPDATE sa_job SET scheduled_for = '2026-01-01 00:00:00'").await;
    let mut claimer = claimer();
    let mut order = Vec::new();
    loop {
        let claims = claimer.claim(&db, 7).await.unwrap();
        if claims.is_empty() {
            break;
        }
        order.extend(claims.iter().map(|claim| (claim.priority(), claim.job())));
    }
    assert_eq!(order.len(), 100);
    assert!(order.is_sorted(), "priority first, then id among rows of one instant");
}

/// CB-31: the index matches the order, so that two workers share what is there.
#[tokio::test]
async fn cb_31_two_workers_share_ten_rows_of_one_instant() {
    let (database, db) = database().await;
    assert!(repo::enqueue(&db, (0..10).map(|_| prompt("p")).collect()).await.iter().all(Result::is_ok));
    sql(&database, "UPDATE sa_job SET scheduled_for = '2026-01-01 00:00:00'").await;
    let (mut one, mut two) = (claimer(), claimer());
    let (first, second) = tokio::join!(one.claim(&db, 5), two.claim(&db, 5));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!((first.len(), second.len()), (5, 5));
    let jobs: HashSet<JobId> = first.iter().chain(&second).map(repo::Claim::job).collect();
    assert_eq!(jobs.len(), 10, "no job twice");
}

#[tokio::test]
async fn a_row_that_another_session_holds_is_passed_over() {
    let (database, db) = database().await;
    let held = submit(&db, urgent("held", 1)).await;
    let free = submit(&db, urgent("free", 2)).await;
    let mut session = database.pool().begin().await.unwrap();
    sqlx::query("SELECT id FROM sa_job WHERE id = ? FOR UPDATE")
        .bind(held.job_id)
        .execute(&mut *session)
        .await
        .unwrap();
    let claims = claimer().claim(&db, 1).await.unwrap();
    assert_eq!(claims[0].job(), free.job_id);
    session.rollback().await.unwrap();
    assert_eq!(claim_one(&db).await.job(), held.job_id);
}

/// Rows that others hold make a claimer give candidates back. It must find its way back to them in order.
#[tokio::test]
async fn order_holds_while_other_sessions_hold_rows() {
    let (database, db) = database().await;
    let batch = (0..120).map(|_| prompt("p")).collect();
    let stored: Vec<JobId> = repo::enqueue(&db, batch).await.into_iter().map(|ids| ids.unwrap().job_id).collect();
    // Each its own instant: a level whose next row is unread then stands behind all rows of it that were given back.
    sql(
        &database,
        "UPDATE sa_job j JOIN (SELECT id, ROW_NUMBER() OVER (ORDER BY id) AS n FROM sa_job) k ON k.id = j.id
            SET j.scheduled_for = '2026-01-01 00:00:00' + INTERVAL k.n SECOND",
    )
    .await;
    let mut session = database.pool().begin().await.unwrap();
    sqlx::query("SELECT id FROM sa_job ORDER BY id LIMIT 5 FOR UPDATE").execute(&mut *session).await.unwrap();
    let (mut claimer, mut order) = (claimer(), Vec::new());
    while order.len() < 115 {
        let claims = claimer.claim(&db, 5).await.unwrap();
        assert!(!claims.is_empty(), "{} of 115 claimed", order.len());
        order.extend(claims.iter().map(repo::Claim::job));
    }
    session.rollback().await.unwrap();
    assert_eq!(order, stored[5..], "no row is passed over");
}

#[tokio::test]
async fn an_id_that_is_no_uuid_cannot_be_stored() {
    let (database, _db) = database().await;
    for id in ["'job-1'", "UPPER('0195a5a0-0000-7000-8000-00000000000a')", "'0195a5a00000700080000000000000aa'"] {
        let statement = format!("INSERT INTO sa_job (id, prompt_id, org_id, created_by) VALUES ({id}, UUID(), 1, 1)");
        let refused = sqlx::query(sqlx::AssertSqlSafe(statement)).execute(database.pool()).await;
        assert!(refused.is_err(), "{id}");
    }
}

#[tokio::test]
async fn racing_claimers_never_share_a_job() {
    let (database, db) = database().await;
    let batch = (0..200).map(|n| urgent("p", (n % 5) * 10)).collect();
    assert!(repo::enqueue(&db, batch).await.iter().all(Result::is_ok));
    let workers = (0..6).map(|_| {
        let db = db.clone();
        tokio::spawn(async move {
            let (mut claimer, mut jobs) = (claimer(), Vec::new());
            loop {
                let claims = claimer.claim(&db, 3).await.unwrap();
                if claims.is_empty() {
                    return jobs;
                }
                jobs.extend(claims.iter().map(repo::Claim::job));
            }
        })
    });
    let mut all = Vec::new();
    for worker in workers.collect::<Vec<_>>() {
        all.extend(worker.await.unwrap());
    }
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "a job was claimed twice");
    assert_eq!(all.len(), 200);
    assert_eq!(count(&database, "SELECT COUNT(*) FROM sa_job_event WHERE reason = 'claim'").await, 200);
}

#[tokio::test]
async fn one_job_is_claimed_by_name_whatever_its_time() {
    let (database, db) = database().await;
    let ids = submit(&db, prompt("later")).await;
    sql(&database, "UPDATE sa_job SET scheduled_for = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR").await;
    let mut mint = ClaimIds::new(WorkerId::new());
    assert_not_found(repo::claim_job(&db, ids.job_id, Scope::Viewer(STRANGER), &mut mint).await);
    let claim = repo::claim_job(&db, ids.job_id, Scope::Viewer(VIEWER), &mut mint).await.unwrap();
    assert_eq!(claim.job(), ids.job_id);
    let again = repo::claim_job(&db, ids.job_id, Scope::Everywhere, &mut mint).await;
    assert_conflict(again, ids.job_id, State::Running);
}

#[tokio::test]
async fn a_synchronous_run_is_never_seen_queued() {
    let (database, db) = database().await;
    let claim = repo::enqueue_claimed(&db, prompt("now"), &mut ClaimIds::new(WorkerId::new())).await.unwrap();
    assert_eq!(state(&db, claim.job()).await, State::Running);
    assert_eq!(reasons(&database, claim.job()).await, ["enqueue", "claim"]);
}

#[tokio::test]
async fn a_job_inserted_with_the_specifications_columns_alone_is_claimed() {
    let (database, db) = database().await;
    let ids = submit(&db, prompt("asked in plain SQL")).await;
    sqlx::query("DELETE FROM sa_job").execute(database.pool()).await.unwrap();
    sqlx::query(
        "INSERT INTO sa_job (id, prompt_id, state, priority, attempt, max_attempts, execution_options, org_id, created_by)
         VALUES (?, ?, 'queued', 50, 1, 3, '{}', 7, 42)",
    )
    .bind(JobId::new())
    .bind(ids.prompt_id)
    .execute(database.pool())
    .await
    .unwrap();
    let claim = claim_one(&db).await;
    assert!(claim.lane().is_unresolved());
    assert_eq!(claim.viewer().org, OrgId(7));
}

#[tokio::test]
async fn unreadable_options_do_not_stop_a_claim() {
    let (database, db) = database().await;
    submit(&db, prompt("bad")).await;
    sql(&database, "UPDATE sa_job SET execution_options = '{\"depth\":'").await;
    submit(&db, prompt("good")).await;
    let claims = claimer().claim(&db, 5).await.unwrap();
    let readable: Vec<_> = claims.iter().map(|claim| claim.options().is_ok()).collect();
    assert_eq!(readable, [false, true]);
}

#[tokio::test]
async fn unknown_options_of_a_newer_release_are_ignored_and_wrong_types_are_not() {
    let (database, db) = database().await;
    submit(&db, prompt("p")).await;
    sql(&database, "UPDATE sa_job SET execution_options = '{\"depth\":3,\"from_the_future\":true}'").await;
    let claim = claim_one(&db).await;
    assert_eq!(claim.options().unwrap().depth(), 3);
    sql(&database, "UPDATE sa_job SET execution_options = '{\"depth\":\"three\"}'").await;
}

/// A claim looks at some candidates and no more, so those must be of its own lane and still waiting.
#[tokio::test]
async fn what_lies_between_two_jobs_of_a_level_hides_not_the_second() {
    let (_database, db) = database().await;
    let first = submit(&db, prompt("first")).await.job_id;
    let crowd = |lane: &str| (0..150).map(|_| NewPrompt { lane: Lane::new(lane), ..prompt("between") }).collect();
    for ended in repo::enqueue(&db, crowd("echo")).await {
        repo::cancel(&db, ended.unwrap().job_id, Scope::Everywhere, &Actor::operator("test")).await.unwrap();
    }
    for elsewhere in repo::enqueue(&db, crowd("elsewhere")).await {
        elsewhere.unwrap();
    }
    let second = submit(&db, prompt("second")).await.job_id;

    let claims = claimer().claim(&db, 2).await.unwrap();

    assert_eq!(claims.iter().map(repo::Claim::job).collect::<Vec<_>>(), [first, second]);
}
