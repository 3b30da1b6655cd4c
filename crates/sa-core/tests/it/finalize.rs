use std::time::Duration;

use sa_core::error_kind::ErrorKind;
use sa_core::id::ResponseId;
use sa_core::ledger::CallOutcome;
use sa_core::repo::{self, Outcome};
use sa_core::retry::Backoff;
use sa_core::state::State;
use sa_core::viewer::{Actor, Scope};

use crate::arrange::{
    VIEWER, answer, answered, call, claim_one, claimer, count, database, failure, finish, prompt, reasons, retry_of,
    row, sql, state, submit,
};

const SOON: Backoff = Backoff { base: Duration::from_secs(5), spread: Duration::from_secs(5) };

#[tokio::test]
async fn an_answer_brings_entity_edge_audit_ledger_and_event_in_one() {
    let (database, db) = database().await;
    let ids = answered(&db, "question", "answer 👩‍🚀").await;
    let job = row(&db, ids.job_id).await;
    let response = ResponseId::of(ids.prompt_id, ids.job_id);
    assert_eq!((job.state, job.response_id, job.error_kind, job.revision), (State::Succeeded, Some(response), None, 3));
    assert!(job.finished_at.is_some() && job.worker_claim.is_some(), "an ended row keeps its last claim");
    let text: String =
        sqlx::query_scalar("SELECT content FROM sa_entity WHERE id = ? AND parent_id = ? AND job_id = ?")
            .bind(response)
            .bind(ids.prompt_id)
            .bind(ids.job_id)
            .fetch_one(database.pool())
            .await
            .unwrap();
    assert_eq!(text, "answer 👩‍🚀");
    assert_eq!(count(&database, "SELECT COUNT(*) FROM sa_edge WHERE kind = 'flows-to'").await, 1);
    assert_eq!(count(&database, "SELECT COUNT(*) FROM sa_audit WHERE reason = 'answered'").await, 2);
    let ledger: i64 = count(
        &database,
        "SELECT COUNT(*) FROM sa_ledger WHERE outcome = 'succeeded' AND response_id IS NOT NULL
            AND cost_micro_usd = 9223372036854775807 AND tokens_in = 3 AND tokens_cached IS NULL",
    )
    .await;
    assert_eq!(ledger, 1);
    assert_eq!(reasons(&database, ids.job_id).await, ["enqueue", "claim", "success"]);
}

#[tokio::test]
async fn a_batch_writes_every_end_under_its_own_claim() {
    let (database, db) = database().await;
    for n in 0..40 {
        submit(&db, prompt(&format!("p{n}"))).await;
    }
    let claims = claimer().claim(&db, 40).await.unwrap();
    let jobs: Vec<_> = claims.iter().map(repo::Claim::job).collect();
    let finishes = claims
        .into_iter()
        .enumerate()
        .map(|(n, claim)| match n % 4 {
            0 | 1 => claim.succeed(answer(&format!("answer {n}")), vec![call(CallOutcome::Succeeded)]),
            2 => claim.requeue(failure(ErrorKind::Timeout), SOON, vec![call(CallOutcome::MaybeCharged)]),
            _ => claim.fail(failure(ErrorKind::Auth), vec![call(CallOutcome::Failed)]),
        })
        .collect();
    let outcomes = repo::finalize(&db, finishes).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(Outcome::Written))));
    for (n, job) in jobs.iter().enumerate() {
        let expected = [State::Succeeded, State::Succeeded, State::Queued, State::Failed][n % 4];
        assert_eq!(state(&db, *job).await, expected);
    }
    for n in [0, 1, 36, 37] {
        let text: String = sqlx::query_scalar("SELECT content FROM sa_entity WHERE job_id = ?")
            .bind(jobs[n])
            .fetch_one(database.pool())
            .await
            .unwrap();
        assert_eq!(text, format!("answer {n}"), "each answer goes to its own prompt");
    }
    assert_eq!(count(&database, "SELECT COUNT(*) FROM sa_ledger").await, 40);
}

#[tokio::test]
async fn a_requeue_spends_an_attempt_and_waits_within_its_bounds() {
    let (database, db) = database().await;
    let ids = submit(&db, prompt("p")).await;
    let claim = claim_one(&db).await;
    assert_eq!(finish(&db, claim.requeue(failure(ErrorKind::Timeout), SOON, vec![])).await, Outcome::Written);
    let job = row(&db, ids.job_id).await;
    assert_eq!((job.state, job.attempt, job.held_reason.as_deref()), (State::Queued, 2, Some("backoff")));
    assert_eq!(job.error_kind.as_deref(), Some("timeout"));
    assert!(job.worker_claim.is_none() && job.started_at.is_none() && job.running_heartbeat_at.is_none());
    let wait = job.scheduled_for - job.updated_at;
    assert!(wait >= SOON.base && wait <= SOON.base + SOON.spread, "{wait}");
    assert_eq!(reasons(&database, ids.job_id).await, ["enqueue", "claim", "transient"]);
    assert!(claimer().claim(&db, 1).await.unwrap().is_empty(), "it is not due yet");
    sql(&database, "UPDATE sa_job SET scheduled_for = UTC_TIMESTAMP(6)").await;
    let again = claim_one(&db).await;
    assert_eq!(again.attempt(), 2);
    assert_eq!(row(&db, ids.job_id).await.error_kind, None, "a claim clears the last error");
}

#[tokio::test]
async fn a_release_keeps_attempt_and_place_until_there_are_too_many() {
    let (database, db) = database().await;
    let ids = submit(&db, prompt("p")).await;
    let place = row(&db, ids.job_id).await.scheduled_for;
    for releases in 1..=10 {
        let claim = claim_one(&db).await;
        assert_eq!(finish(&db, claim.release(vec![])).await, Outcome::Written);
        let job = row(&db, ids.job_id).await;
        assert_eq!((job.state, job.attempt, job.releases), (State::Queued, 1, releases));
        assert_eq!((job.scheduled_for, job.held_reason, job.error_kind), (place, None, None));
    }
    assert_eq!(finish(&db, claim_one(&db).await.release(vec![])).await, Outcome::Written);
    let job = row(&db, ids.job_id).await;
    assert_eq!((job.state, job.attempt, job.error_kind.as_deref()), (State::Queued, 2, Some("worker_crash")));
    assert_eq!((job.releases, job.held_reason), (10, None), "it is a requeue, and due at once");
    assert_eq!(reasons(&database, ids.job_id).await.last().unwrap(), "transient");
    sql(&database, "UPDATE sa_job SET max_attempts = 2").await;
    assert_eq!(finish(&db, claim_one(&db).await.release(vec![])).await, Outcome::Written);
    let job = row(&db, ids.job_id).await;
    assert_eq!((job.state, job.error_kind.as_deref()), (State::Failed, Some("stuck")));
}

#[tokio::test]
async fn a_stale_claim_cannot_finish_in_any_way() {
    let (database, db) = database().await;
    let ids = submit(&db, prompt("p")).await;
    database.not_judged("it takes claims back by hand, which leaves no event");
    let mut stale = Vec::new();
    for _ in 0..4 {
        stale.push(claim_one(&db).await);
        sql(
            &database,
            "UPDATE sa_job SET state = 'queued', worker_claim = NULL, claimed_at = NULL, started_at = NULL,
                running_heartbeat_at = NULL",
        )
        .await;
    }
    let current = claim_one(&db).await;
    let before = row(&db, ids.job_id).await;
    let mut stale = stale.into_iter();
    let mut next = || stale.next().unwrap();
    let late = vec![
        next().succeed(answer("late"), vec![call(CallOutcome::Succeeded)]),
        next().requeue(failure(ErrorKind::Timeout), SOON, vec![]),
        next().fail(failure(ErrorKind::Auth), vec![]),
        next().release(vec![]),
    ];
    for outcome in repo::finalize(&db, late).await {
        assert_eq!(outcome.unwrap(), Outcome::Lost { found: State::Running });
    }
    let after = row(&db, ids.job_id).await;
    assert_eq!((after.revision, after.state), (before.revision, before.state));
    assert_eq!(count(&database, "SELECT COUNT(*) FROM sa_entity WHERE kind = 'response'").await, 0);
    assert_eq!(
        count(&database, "SELECT COUNT(*) FROM sa_ledger WHERE outcome = 'discarded'").await,
        1,
        "its cost is kept"
    );
    assert_eq!(finish(&db, current.succeed(answer("in time"), vec![])).await, Outcome::Written);
}

#[tokio::test]
async fn a_claim_of_another_attempt_cannot_finish() {
    let (database, db) = database().await;
    submit(&db, prompt("p")).await;
    let claim = claim_one(&db).await;
    sql(&database, "UPDATE sa_job SET attempt = 2").await;
    assert_eq!(finish(&db, claim.succeed(answer("late"), vec![])).await, Outcome::Lost { found: State::Running });
}

#[tokio::test]
async fn an_answer_to_a_cancelled_job_is_kept_once_as_partial() {
    let (database, db) = database().await;
    let ids = submit(&db, prompt("p")).await;
    let claim = claim_one(&db).await;
    repo::cancel(&db, ids.job_id, Scope::Viewer(VIEWER), &Actor::user(VIEWER.user)).await.unwrap();
    let outcome = finish(&db, claim.succeed(answer("already paid for"), vec![call(CallOutcome::Succeeded)])).await;
    assert_eq!(outcome, Outcome::Lost { found: State::Cancelled });
    let job = row(&db, ids.job_id).await;
    assert_eq!((job.state, job.response_id), (State::Cancelled, None));
    let partial = "SELECT COUNT(*) FROM sa_entity WHERE state_class = 'partial' AND content = 'already paid for'";
    assert_eq!(count(&database, partial).await, 1);
    assert_eq!(reasons(&database, ids.job_id).await, ["enqueue", "claim", "cancel", "partial"]);
    let item = repo::item(&db, VIEWER, ids.prompt_id).await.unwrap();
    assert!(item.response.is_none(), "a partial is never shown as an answer");
}

#[tokio::test]
async fn an_abandoned_run_only_leaves_its_cost() {
    let (database, db) = database().await;
    let ids = submit(&db, prompt("p")).await;
    let claim = claim_one(&db).await;
    let outcome = finish(&db, claim.abandon(None, vec![call(CallOutcome::Cancelled)])).await;
    assert_eq!(outcome, Outcome::Lost { found: State::Running });
    assert_eq!(state(&db, ids.job_id).await, State::Running);
    assert_eq!(count(&database, "SELECT COUNT(*) FROM sa_ledger WHERE outcome = 'cancelled'").await, 1);
}

#[tokio::test]
async fn a_retrys_answer_supersedes_the_one_before() {
    let (database, db) = database().await;
    let ids = answered(&db, "p", "old").await;
    repo::retry(&db, retry_of(ids.job_id)).await.unwrap();
    let item = repo::item(&db, VIEWER, ids.prompt_id).await.unwrap();
    assert_eq!(item.response.unwrap().text, "old", "until the retry answers, the old answer is shown");
    let claim = claim_one(&db).await;
    let new = ResponseId::of(ids.prompt_id, claim.job());
    assert_eq!(finish(&db, claim.succeed(answer("new"), vec![call(CallOutcome::Succeeded)])).await, Outcome::Written);
    let (from, to): (ResponseId, ResponseId) =
        sqlx::query_as("SELECT from_id, to_id FROM sa_edge WHERE kind = 'superseded-by'")
            .fetch_one(database.pool())
            .await
            .unwrap();
    assert_eq!((from, to), (ResponseId::of(ids.prompt_id, ids.job_id), new));
    let item = repo::item(&db, VIEWER, ids.prompt_id).await.unwrap();
    assert_eq!(item.response.unwrap().text, "new");
}
