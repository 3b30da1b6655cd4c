//! What most tests begin with.

use std::time::Duration;

use sa_core::entity::{Answer, StateClass};
use sa_core::error_kind::{ErrorKind, Failure};
use sa_core::id::{JobId, LedgerId, OrgId, UserId, WorkerId};
use sa_core::job::{ExecutionOptions, Lane, MaxAttempts, Priority};
use sa_core::ledger::{CallOutcome, LedgerRow, Purpose, Usage};
use sa_core::repo::{self, Claim, Claimer, Db, Enqueued, Error, Finish, IfWaiting, NewPrompt, Outcome, Retry, Serves};
use sa_core::state::State;
use sa_core::viewer::{Actor, Scope, Viewer};
use sa_harness::{Database, wait_until};
use sqlx::Executor;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A fresh database and a pool on it. What the test leaves in it must keep the invariants.
pub async fn database() -> (Database, Db) {
    let database = Database::fresh().await.unwrap().judged();
    let db = Db::connect(database.url(), 8).await.unwrap();
    (database, db)
}

pub const VIEWER: Viewer = Viewer { org: OrgId(7), user: UserId(42) };
pub const STRANGER: Viewer = Viewer { org: OrgId(7), user: UserId(43) };

pub fn prompt(text: &str) -> NewPrompt {
    NewPrompt {
        viewer: VIEWER,
        actor: Actor::user(VIEWER.user),
        text: text.to_owned(),
        root: None,
        options: ExecutionOptions::default(),
        lane: Lane::new("echo"),
        priority: Priority::DEFAULT,
        max_attempts: MaxAttempts::DEFAULT,
        scheduled_for: None,
    }
}

pub fn urgent(text: &str, priority: u8) -> NewPrompt {
    NewPrompt { priority: Priority::new(priority).unwrap(), ..prompt(text) }
}

pub async fn submit(db: &Db, prompt: NewPrompt) -> Enqueued {
    repo::enqueue(db, vec![prompt]).await.remove(0).unwrap()
}

pub fn claimer() -> Claimer {
    claimer_of(&["echo"])
}

pub fn claimer_of(lanes: &[&str]) -> Claimer {
    let lanes: Vec<_> = lanes.iter().map(|&lane| Lane::new(lane)).collect();
    Claimer::new(WorkerId::new(), Serves::only(lanes), Priority::LOWEST)
}

/// Claims the one job there is.
pub async fn claim_one(db: &Db) -> Claim {
    let mut claims = claimer().claim(db, 1).await.unwrap();
    assert_eq!(claims.len(), 1, "there is one job to claim");
    claims.remove(0)
}

pub fn answer(text: &str) -> Answer {
    Answer {
        text: text.to_owned(),
        provider: "echo".into(),
        model: "echo".into(),
        state_class: StateClass::Settled,
        source_refs: vec![],
    }
}

pub fn call(outcome: CallOutcome) -> LedgerRow {
    LedgerRow {
        id: LedgerId::new(),
        purpose: Purpose::Answer,
        provider: "echo".into(),
        model: "echo".into(),
        usage: Usage { tokens_in: Some(3), tokens_out: Some(5), ..Usage::default() },
        cost_micro_usd: Some(u64::MAX / 2),
        first_token_ms: Some(1),
        total_ms: 2,
        outcome,
        error_kind: None,
        provider_request_id: Some("req-1".into()),
    }
}

pub fn failure(kind: ErrorKind) -> Failure {
    Failure::new(kind, "it did not work")
}

pub async fn finish(db: &Db, finish: Finish) -> Outcome {
    repo::finalize(db, vec![finish]).await.remove(0).unwrap()
}

/// Submits and answers a prompt.
pub async fn answered(db: &Db, text: &str, reply: &str) -> Enqueued {
    let ids = submit(db, prompt(text)).await;
    let claim = claim_one(db).await;
    assert_eq!(claim.job(), ids.job_id);
    let outcome = finish(db, claim.succeed(answer(reply), vec![call(CallOutcome::Succeeded)])).await;
    assert_eq!(outcome, Outcome::Written);
    ids
}

/// Submits a prompt and fails it for good.
pub async fn failed(db: &Db, text: &str) -> Enqueued {
    let ids = submit(db, prompt(text)).await;
    let claim = claim_one(db).await;
    assert_eq!(claim.job(), ids.job_id);
    let outcome = finish(db, claim.fail(failure(ErrorKind::Auth), vec![call(CallOutcome::Failed)])).await;
    assert_eq!(outcome, Outcome::Written);
    ids
}

/// A retry by the job's own viewer, on the old terms.
pub fn retry_of(job: JobId) -> Retry {
    Retry {
        job,
        scope: Scope::Viewer(VIEWER),
        actor: Actor::user(VIEWER.user),
        options: ExecutionOptions::default(),
        lane: Lane::new("echo"),
        priority: None,
        max_attempts: None,
        scheduled_for: None,
        if_waiting: IfWaiting::BringForward,
    }
}

pub async fn state(db: &Db, job: JobId) -> State {
    row(db, job).await.state
}

pub async fn row(db: &Db, job: JobId) -> repo::inspect::JobRow {
    repo::inspect::job(db, Scope::Everywhere, job).await.unwrap()
}

/// Runs plain SQL, to move a row in time. As text: MySQL takes no CREATE TRIGGER as a prepared statement.
pub async fn sql(database: &Database, statement: &'static str) {
    database.pool().execute(statement).await.unwrap();
}

/// Waits until a verb is at a statement that locks rows. Where another session holds its row, it waits there.
pub async fn row_is_waited_for(database: &Database) {
    let waiting = "SELECT COUNT(*) FROM information_schema.PROCESSLIST
        WHERE DB = DATABASE() AND COMMAND <> 'Sleep' AND INFO LIKE '-- repo::%FOR UPDATE%'";
    wait_until("somebody to wait for a row", PATIENCE, async || count(database, waiting).await == 1).await.unwrap();
}

/// Waits until a session of this database waits for a table that another holds.
pub async fn table_is_waited_for(database: &Database) {
    let waiting = "SELECT COUNT(*) FROM information_schema.PROCESSLIST
        WHERE DB = DATABASE() AND STATE LIKE 'Waiting for table%lock'";
    wait_until("somebody to wait for a table", PATIENCE, async || count(database, waiting).await == 1).await.unwrap();
}

pub async fn count(database: &Database, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(database.pool()).await.unwrap()
}

/// The reasons of a job's events, in order.
pub async fn reasons(database: &Database, job: JobId) -> Vec<String> {
    sqlx::query_scalar("SELECT reason FROM sa_job_event WHERE job_id = ? ORDER BY seq")
        .bind(job)
        .fetch_all(database.pool())
        .await
        .unwrap()
}

pub fn assert_conflict<T: std::fmt::Debug>(result: Result<T, Error>, id: JobId, found: State) {
    match result {
        Err(Error::Conflict { id: named, found: seen }) => assert_eq!((named, seen), (id, found)),
        other => panic!("expected a conflict, got {other:?}"),
    }
}

pub fn assert_not_found<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert!(matches!(result, Err(Error::NotFound)), "expected not found, got {result:?}");
}
