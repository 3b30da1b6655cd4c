//! A COMMIT whose answer is lost: the verb finds out what became of it by rows of its own, whatever else lies beside them.

use std::net::SocketAddr;
use std::time::Duration;

use sa_core::death::Here;
use sa_core::error_kind::ErrorKind;
use sa_core::id::{JobId, WorkerId};
use sa_core::job::{Lane, Priority};
use sa_core::ledger::CallOutcome;
use sa_core::repo::{self, Claimer, Db, Enqueued, Outcome, Retried, Serves};
use sa_core::retry::Backoff;
use sa_core::state::State;
use sa_core::viewer::{Actor, Scope};
use sa_harness::{Database, Proxy};

use crate::arrange::{
    VIEWER, answer, answered, call, claim_one, claimer, count, database, failed, failure, finish, prompt, retry_of,
    row_is_waited_for, sql, state, submit,
};

const AGAIN_LATER: Backoff = Backoff { base: Duration::from_secs(5), spread: Duration::ZERO };

/// A database reached directly, and by way of a proxy that loses answers.
struct Apart {
    database: Database,
    direct: Db,
    proxy: Proxy,
    db: Db,
}

async fn apart() -> Apart {
    let (database, direct) = database().await;
    let authority = database.url().split(['@', '/']).nth(3).unwrap();
    let proxy = Proxy::start(authority.parse::<SocketAddr>().unwrap()).await.unwrap();
    let db = Db::connect(&database.url_by_way_of(proxy.address()).unwrap(), 4).await.unwrap();
    Apart { database, direct, proxy, db }
}

/// Jobs of other prompts in many states, before or after the one that is asked for.
async fn neighbours(db: &Db) -> Enqueued {
    answered(db, "answered", "a").await;
    failed(db, "failed").await;
    let cancelled = submit(db, prompt("cancelled")).await;
    repo::cancel(db, cancelled.job_id, Scope::Everywhere, &Actor::operator("o")).await.unwrap();
    cancelled
}

/// The events from now on get numbers below those of other jobs: a look at the newest one of all is then no help.
async fn events_of_others_are_newer(database: &Database, than_of: JobId) {
    let newer = "UPDATE sa_job_event SET seq = seq + 1000000 WHERE job_id <> ?";
    sqlx::query(newer).bind(than_of).execute(database.pool()).await.unwrap();
    sql(database, "CREATE TABLE numbers (n BIGINT UNSIGNED NOT NULL)").await;
    sql(database, "INSERT INTO numbers VALUES (1000)").await;
    sql(
        database,
        "CREATE TRIGGER older BEFORE INSERT ON sa_job_event FOR EACH ROW BEGIN
            UPDATE numbers SET n = n + 1; SET NEW.seq = (SELECT n FROM numbers); END",
    )
    .await;
}

#[tokio::test]
async fn an_enqueue_is_found_among_others() {
    let Apart { database, direct, proxy, db } = apart().await;
    neighbours(&direct).await;
    proxy.cut_ack_of_next_commit();
    let ids = repo::enqueue(&db, vec![prompt("p"), prompt("q")]).await;
    assert!(ids.iter().all(Result::is_ok), "{ids:?}");
    assert_eq!((proxy.commits_cut(), count(&database, "SELECT COUNT(*) FROM sa_job").await), (1, 5));
}

#[tokio::test]
async fn a_cancel_says_what_its_own_job_was() {
    let Apart { database, direct, proxy, db } = apart().await;
    let ids = submit(&direct, prompt("p")).await;
    let _claim = claim_one(&direct).await;
    neighbours(&direct).await;
    database.not_judged("it numbers events by hand");
    events_of_others_are_newer(&database, ids.job_id).await;
    // What a worker adds to a cancelled job comes after the cancel, and says cancelled.
    sql(
        &database,
        "INSERT INTO sa_job_event (job_id, prompt_id, org_id, created_by, from_state, to_state, attempt, revision, actor, reason)
         SELECT id, prompt_id, org_id, created_by, 'cancelled', 'cancelled', 1, 3, 'test', 'partial'
           FROM sa_job WHERE state = 'running'",
    )
    .await;
    sql(&database, "UPDATE sa_job_event SET seq = 2000 WHERE reason = 'partial'").await;
    proxy.cut_ack_of_next_commit();
    let cancelled = repo::cancel(&db, ids.job_id, Scope::Viewer(VIEWER), &Actor::user(VIEWER.user)).await.unwrap();
    assert_eq!((cancelled.from, proxy.commits_cut()), (State::Running, 1));
}

#[tokio::test]
async fn a_retry_names_the_prompt_of_its_own_job() {
    let Apart { database: _database, direct, proxy, db } = apart().await;
    // A scan may begin at either end of any key: of three prompts one lies between the others.
    let mut prompts = Vec::new();
    for _ in 0..3 {
        prompts.push(failed(&direct, "p").await);
    }
    prompts.sort_by_key(|ids| ids.prompt_id);
    proxy.cut_ack_of_next_commit();
    let retried = repo::retry(&db, retry_of(prompts[1].job_id)).await.unwrap();
    let Retried::Successor { prompt, supersedes, .. } = retried else { panic!("a successor") };
    assert_eq!((prompt, supersedes, proxy.commits_cut()), (prompts[1].prompt_id, prompts[1].job_id, 1));
}

#[tokio::test]
async fn a_job_brought_forward_is_known_by_its_own_event() {
    let Apart { database, direct, proxy, db } = apart().await;
    let ids = submit(&direct, prompt("p")).await;
    sql(&database, "UPDATE sa_job SET scheduled_for = UTC_TIMESTAMP(6) + INTERVAL 1 DAY").await;
    neighbours(&direct).await;
    database.not_judged("it numbers events by hand");
    events_of_others_are_newer(&database, ids.job_id).await;
    proxy.cut_ack_of_next_commit();
    let retried = repo::retry(&db, retry_of(ids.job_id)).await.unwrap();
    assert!(matches!(retried, Retried::BroughtForward { job, .. } if job == ids.job_id), "{retried:?}");
    assert_eq!(proxy.commits_cut(), 1);
}

/// The look for a claim takes the rows of that claim, and waits for no other.
#[tokio::test]
async fn a_claim_is_found_while_somebody_holds_another_row() {
    let Apart { database, direct, proxy, db } = apart().await;
    let other = neighbours(&direct).await;
    let jobs = [submit(&direct, prompt("p")).await.job_id, submit(&direct, prompt("q")).await.job_id];
    let mut claimer = claimer();
    proxy.cut_ack_of_next_commit();
    claimer.claim(&db, 2).await.unwrap_err();
    let mut session = database.pool().begin().await.unwrap();
    sqlx::query("SELECT id FROM sa_job WHERE id = ? FOR UPDATE")
        .bind(other.job_id)
        .execute(&mut *session)
        .await
        .unwrap();
    let claims = claimer.claim(&db, 0).await.unwrap();
    assert_eq!(claims.iter().map(repo::Claim::job).collect::<Vec<_>>(), jobs);
    session.rollback().await.unwrap();
    drop(claims);
    assert_eq!(proxy.commits_cut(), 1);
}

/// The server may still be at work on the COMMIT when the claimer asks. It is played by another session that holds the row
/// and makes it run under the claim.
#[tokio::test]
async fn a_claim_at_work_is_waited_for() {
    let Apart { database, direct, proxy, db } = apart().await;
    database.not_judged("another session claims by hand, which leaves no event");
    let ids = submit(&direct, prompt("p")).await;
    let (worker, lane) = (WorkerId::new(), Lane::new("echo"));
    let mut claimer = Claimer::new(worker, Serves::only(vec![lane]), Priority::LOWEST);
    proxy.cut_before_next_commit();
    claimer.claim(&db, 1).await.unwrap_err();
    let mut server = database.pool().begin().await.unwrap();
    sqlx::query(
        "UPDATE sa_job SET state = 'running', worker_claim = ?, claimed_at = UTC_TIMESTAMP(6),
                started_at = UTC_TIMESTAMP(6), running_heartbeat_at = UTC_TIMESTAMP(6)",
    )
    .bind(format!("{worker}.1"))
    .execute(&mut *server)
    .await
    .unwrap();
    let claims = tokio::spawn(async move { claimer.claim(&db, 0).await.unwrap() });
    row_is_waited_for(&database).await;
    server.commit().await.unwrap();
    assert_eq!(claims.await.unwrap().iter().map(repo::Claim::job).collect::<Vec<_>>(), [ids.job_id]);
}

#[tokio::test]
async fn an_end_is_found_by_its_claim_state_and_reason() {
    let Apart { database: _database, direct, proxy, db } = apart().await;
    neighbours(&direct).await;
    for n in 1..=3 {
        let ids = submit(&direct, prompt("p")).await;
        let claim = claim_one(&direct).await;
        let end = match n {
            1 => claim.succeed(answer("a"), vec![call(CallOutcome::Succeeded)]),
            2 => claim.fail(failure(ErrorKind::Auth), vec![call(CallOutcome::Failed)]),
            _ => claim.requeue(failure(ErrorKind::Timeout), AGAIN_LATER, vec![call(CallOutcome::MaybeCharged)]),
        };
        proxy.cut_ack_of_next_commit();
        assert_eq!((finish(&db, end).await, proxy.commits_cut()), (Outcome::Written, n));
        let expected = [State::Succeeded, State::Failed, State::Queued][n - 1];
        assert_eq!(state(&direct, ids.job_id).await, expected);
    }
}

/// Another run's end of the same kind is not this run's.
#[tokio::test]
async fn an_end_of_a_later_claim_is_not_taken_for_ones_own() {
    let (database, db) = database().await;
    submit(&db, prompt("p")).await;
    let late = claim_one(&db).await;
    sql(&database, "UPDATE sa_job SET running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 226 SECOND").await;
    repo::reclaim(&db, Duration::from_secs(225), &Here::default(), &Actor::reaper("here")).await.unwrap();
    let next = claim_one(&db).await;
    assert_eq!(
        finish(&db, next.succeed(answer("in time"), vec![call(CallOutcome::Succeeded)])).await,
        Outcome::Written
    );
    let outcome = finish(&db, late.succeed(answer("late"), vec![call(CallOutcome::Succeeded)])).await;
    assert_eq!(outcome, Outcome::Lost { found: State::Succeeded });
}

/// The reaper's event has the claim of the run that it took, and the state of a requeue.
#[tokio::test]
async fn what_the_reaper_did_is_not_taken_for_ones_own_requeue() {
    let (database, db) = database().await;
    submit(&db, prompt("p")).await;
    let late = claim_one(&db).await;
    sql(&database, "UPDATE sa_job SET running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 226 SECOND").await;
    repo::reclaim(&db, Duration::from_secs(225), &Here::default(), &Actor::reaper("here")).await.unwrap();
    let outcome = finish(&db, late.requeue(failure(ErrorKind::Timeout), AGAIN_LATER, vec![])).await;
    assert_eq!(outcome, Outcome::Lost { found: State::Queued });
}

/// What a lost run cost is written once, and the state that is answered is its own job's.
#[tokio::test]
async fn the_cost_of_a_lost_run_is_found_and_not_written_twice() {
    let Apart { database, direct, proxy, db } = apart().await;
    neighbours(&direct).await;
    submit(&direct, prompt("p")).await;
    let claim = claim_one(&direct).await;
    neighbours(&direct).await;
    let costs = "SELECT COUNT(*) FROM sa_ledger WHERE outcome = 'cancelled'";
    proxy.cut_ack_of_next_commit();
    let abandoned = claim.abandon(None, vec![call(CallOutcome::Cancelled)]);
    let (_error, again) = repo::finalize(&db, vec![abandoned]).await.remove(0).unwrap_err();
    assert_eq!(finish(&db, again).await, Outcome::Lost { found: State::Running });
    assert_eq!((proxy.commits_cut(), count(&database, costs).await), (1, 1));
}

/// A text that was kept is no end of the run: the run was lost, also if it is asked again.
#[tokio::test]
async fn a_kept_text_is_not_taken_for_an_end() {
    let Apart { database: _database, direct, proxy, db } = apart().await;
    let ids = submit(&direct, prompt("p")).await;
    let claim = claim_one(&direct).await;
    repo::cancel(&direct, ids.job_id, Scope::Everywhere, &Actor::operator("o")).await.unwrap();
    proxy.cut_ack_of_next_commit();
    let abandoned = claim.abandon(Some(answer("half an ans")), vec![call(CallOutcome::Cancelled)]);
    let (_error, again) = repo::finalize(&db, vec![abandoned]).await.remove(0).unwrap_err();
    assert_eq!(finish(&db, again).await, Outcome::Lost { found: State::Cancelled });
    assert_eq!(proxy.commits_cut(), 1);
}
