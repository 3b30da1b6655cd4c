//! A verb touches its own job and no other: jobs of the same viewer in all six states, older ones and younger ones, stay as
//! they are to the last column.

use std::time::Duration;

use sa_core::error_kind::ErrorKind;
use sa_core::id::{ClaimIds, JobId, WorkerId};
use sa_core::job::Lane;
use sa_core::ledger::CallOutcome;
use sa_core::repo::{self, Claim, Db, Enqueued, NewPrompt, Outcome, Retried};
use sa_core::retry::Backoff;
use sa_core::state::State;
use sa_core::viewer::{Actor, Scope};
use sa_harness::Database;
use sqlx::Row;

use crate::arrange::{
    answer, answered, assert_conflict, call, claim_one, claimer_of, database, failed, failure, finish, prompt,
    retry_of, state, submit,
};

/// Jobs in every state before the one that is acted on, and after it.
struct Stand {
    database: Database,
    db: Db,
    ours: Enqueued,
}

impl Stand {
    async fn with_ours_queued() -> Self {
        let (database, db) = database().await;
        bystanders(&db).await;
        let ours = submit(&db, prompt("ours")).await;
        hold_back(&database, ours.job_id).await;
        bystanders(&db).await;
        release(&database, ours.job_id).await;
        Self { database, db, ours }
    }

    async fn with_ours_running() -> (Self, Claim) {
        let stand = Self::with_ours_queued().await;
        let claim = claim_one(&stand.db).await;
        assert_eq!(claim.job(), stand.ours.job_id);
        (stand, claim)
    }

    /// Every column of every other job.
    async fn others(&self) -> Vec<String> {
        let rows = sqlx::query(
            "SELECT CONCAT_WS('|', id, state, scheduled_for, attempt, releases, IFNULL(held_reason, '-'),
                    IFNULL(worker_claim, '-'), IFNULL(claimed_at, '-'), IFNULL(started_at, '-'),
                    IFNULL(running_heartbeat_at, '-'), IFNULL(finished_at, '-'), IFNULL(response_id, '-'),
                    IFNULL(error_kind, '-'), IFNULL(error_message, '-'), revision, updated_at)
               FROM sa_job WHERE id <> ? AND COALESCE(supersedes, '') <> ? ORDER BY id",
        )
        .bind(self.ours.job_id)
        .bind(self.ours.job_id)
        .fetch_all(self.database.pool())
        .await
        .unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    async fn state(&self) -> State {
        state(&self.db, self.ours.job_id).await
    }
}

/// Out of the way of claims that are not meant for it.
async fn hold_back(database: &Database, job: JobId) {
    let later = "UPDATE sa_job SET scheduled_for = scheduled_for + INTERVAL 1 DAY WHERE id = ?";
    sqlx::query(later).bind(job).execute(database.pool()).await.unwrap();
}

async fn release(database: &Database, job: JobId) {
    let sooner = "UPDATE sa_job SET scheduled_for = scheduled_for - INTERVAL 1 DAY WHERE id = ?";
    sqlx::query(sooner).bind(job).execute(database.pool()).await.unwrap();
}

/// A job in each state, queued and running ones in a lane that no claim here is made of.
async fn bystanders(db: &Db) {
    answered(db, "succeeded", "a").await;
    let superseded = failed(db, "superseded").await;
    let cancelled = repo::retry(db, retry_of(superseded.job_id)).await.unwrap();
    let Retried::Successor { job, .. } = cancelled else { panic!("a successor") };
    repo::cancel(db, job, Scope::Everywhere, &Actor::operator("o")).await.unwrap();
    failed(db, "failed").await;
    let aside = |text: &str| NewPrompt { lane: Lane::new("aside"), ..prompt(text) };
    submit(db, aside("running")).await;
    assert_eq!(claimer_of(&["aside"]).claim(db, 1).await.unwrap().len(), 1);
    submit(db, aside("queued")).await;
}

#[tokio::test]
async fn a_cancel_ends_one_job() {
    let stand = Stand::with_ours_queued().await;
    let before = stand.others().await;
    let cancel = async || repo::cancel(&stand.db, stand.ours.job_id, Scope::Everywhere, &Actor::operator("o")).await;
    assert_eq!(cancel().await.unwrap().from, State::Queued);
    assert_eq!((stand.state().await, stand.others().await), (State::Cancelled, before.clone()));
    assert_eq!(cancel().await.unwrap().from, State::Cancelled);

    let (stand, _claim) = Stand::with_ours_running().await;
    let before = stand.others().await;
    let cancelled = repo::cancel(&stand.db, stand.ours.job_id, Scope::Everywhere, &Actor::operator("o")).await;
    assert_eq!(cancelled.unwrap().from, State::Running);
    assert_eq!((stand.state().await, stand.others().await), (State::Cancelled, before));
}

#[tokio::test]
async fn a_claim_by_name_takes_one_job_and_is_told_of_no_other() {
    let stand = Stand::with_ours_queued().await;
    let before = stand.others().await;
    let mut ids = ClaimIds::new(WorkerId::new());
    let claim = repo::claim_job(&stand.db, stand.ours.job_id, Scope::Everywhere, &mut ids).await.unwrap();
    assert_eq!((claim.job(), claim.prompt()), (stand.ours.job_id, stand.ours.prompt_id));
    assert_eq!((stand.state().await, stand.others().await), (State::Running, before));
    let again = repo::claim_job(&stand.db, stand.ours.job_id, Scope::Everywhere, &mut ids).await;
    assert_conflict(again, stand.ours.job_id, State::Running);
}

#[tokio::test]
async fn an_end_ends_one_run() {
    for end in [State::Succeeded, State::Failed, State::Queued] {
        let (stand, claim) = Stand::with_ours_running().await;
        let before = stand.others().await;
        let backoff = Backoff { base: Duration::from_secs(5), spread: Duration::ZERO };
        let ended = match end {
            State::Succeeded => claim.succeed(answer("a"), vec![call(CallOutcome::Succeeded)]),
            State::Failed => claim.fail(failure(ErrorKind::Auth), vec![]),
            State::Queued | State::Running | State::Cancelled | State::Superseded => {
                claim.requeue(failure(ErrorKind::Timeout), backoff, vec![])
            }
        };
        assert_eq!(finish(&stand.db, ended).await, Outcome::Written);
        assert_eq!((stand.state().await, stand.others().await), (end, before), "{end}");
    }
}

#[tokio::test]
async fn an_end_ends_one_run_even_of_those_of_one_claim() {
    let (_database, db) = database().await;
    for _ in 0..6 {
        submit(&db, prompt("p")).await;
    }
    let mut claims = claimer_of(&["echo"]).claim(&db, 6).await.unwrap().into_iter();
    let mut next = || claims.next().unwrap();
    let backoff = Backoff { base: Duration::from_secs(5), spread: Duration::ZERO };
    let ends = [
        next().requeue(failure(ErrorKind::Timeout), backoff, vec![]),
        next().release(vec![]),
        next().fail(failure(ErrorKind::Auth), vec![]),
        next().succeed(answer("a"), vec![call(CallOutcome::Succeeded)]),
    ];
    for end in ends {
        assert_eq!(finish(&db, end).await, Outcome::Written);
    }
    for claim in claims {
        assert_eq!(state(&db, claim.job()).await, State::Running);
    }
}

#[tokio::test]
async fn a_lost_run_is_told_the_state_of_its_own_job() {
    let (stand, claim) = Stand::with_ours_running().await;
    stand.database.not_judged("it takes a claim away by hand");
    let taken = "UPDATE sa_job SET worker_claim = 'another.1' WHERE id = ?";
    sqlx::query(taken).bind(claim.job()).execute(stand.database.pool()).await.unwrap();
    let before = stand.others().await;
    let lost = finish(&stand.db, claim.succeed(answer("late"), vec![call(CallOutcome::Succeeded)])).await;
    assert_eq!((lost, stand.others().await), (Outcome::Lost { found: State::Running }, before));
}

#[tokio::test]
async fn a_beat_moves_one_run_even_of_those_of_one_claim() {
    let (database, db) = database().await;
    for _ in 0..3 {
        submit(&db, prompt("p")).await;
    }
    let claims = claimer_of(&["echo"]).claim(&db, 3).await.unwrap();
    let old = "UPDATE sa_job SET running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 60 SECOND";
    sqlx::query(old).execute(database.pool()).await.unwrap();
    assert!(repo::beat(&db, &[claims[1].held()]).await.unwrap().is_empty());
    let fresh: Vec<JobId> =
        sqlx::query_scalar("SELECT id FROM sa_job WHERE running_heartbeat_at > UTC_TIMESTAMP(6) - INTERVAL 50 SECOND")
            .fetch_all(database.pool())
            .await
            .unwrap();
    assert_eq!(fresh, [claims[1].job()]);
}

#[tokio::test]
async fn a_retry_replaces_one_job() {
    let (stand, claim) = Stand::with_ours_running().await;
    assert_eq!(finish(&stand.db, claim.fail(failure(ErrorKind::Auth), vec![])).await, Outcome::Written);
    let before = stand.others().await;
    let Retried::Successor { prompt, job, .. } = repo::retry(&stand.db, retry_of(stand.ours.job_id)).await.unwrap()
    else {
        panic!("a successor")
    };
    assert_eq!(prompt, stand.ours.prompt_id);
    assert_eq!((stand.state().await, stand.others().await), (State::Superseded, before));
    assert_conflict(repo::retry(&stand.db, retry_of(stand.ours.job_id)).await, job, State::Superseded);
}

#[tokio::test]
async fn a_job_is_brought_forward_alone() {
    let stand = Stand::with_ours_queued().await;
    hold_back(&stand.database, stand.ours.job_id).await;
    let before = stand.others().await;
    let brought = repo::retry(&stand.db, retry_of(stand.ours.job_id)).await.unwrap();
    let Retried::BroughtForward { job, scheduled_for } = brought else { panic!("brought forward") };
    let row = crate::arrange::row(&stand.db, job).await;
    assert_eq!((row.id, row.scheduled_for), (stand.ours.job_id, scheduled_for));
    assert_eq!(stand.others().await, before);
}
