//! What claims cost when hardly anything of a huge table is due: row CB-32.

use std::time::Duration;

use sa_core::id::WorkerId;
use sa_core::job::{Lane, Priority};
use sa_core::repo::{self, Claim, Claimer, Db, Serves};
use sa_harness::{Database, Engine, Server, wait_until};
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection};
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};

use super::barrier::{Barrier, Place};
use crate::explain::{RowsRead, Scope};
use crate::stage::{LIMIT, Stage};

/// Jobs that failed and wait for their next attempt.
const BACKED_OFF: u32 = 20_000;
const ELIGIBLE: usize = 10;
const RUNNERS: usize = 5;
/// Of the one lane, due or not.
const LEVELS: u64 = 10;
/// The closed lanes, the read ahead, the lock, the update and the events.
const STATEMENTS: u64 = 5;
/// The rows that an open transaction has locked, in any index; the server is ours alone. MariaDB counts also those that it
/// passed over because they were another's.
const LOCKED: &str = "SELECT CAST(SUM(trx_rows_locked) AS SIGNED) FROM information_schema.innodb_trx
     WHERE trx_mysql_thread_id IN (SELECT id FROM information_schema.processlist WHERE db = DATABASE())";
/// The rows that nobody withholds from another session.
const FREE: &str = "SELECT COUNT(*) FROM sa_job FORCE INDEX (PRIMARY) WHERE org_id = 1 FOR UPDATE SKIP LOCKED";
const WAITING: &str =
    "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND state = 'User lock'";

/// CB-32: a million jobs have ended, 20,000 wait out their backoff at the same levels and better ones, and 10 are due. A
/// claim locks at most twice its batch, and reads what its statements may, each twice the batch and ten rows: alone, as one
/// of five at once, and when nothing is left. How long it takes is the benchmark's question.
#[tokio::test]
async fn cb_32_a_claim_locks_and_reads_its_batch_whatever_has_ended_or_waits() {
    let engine = Engine::of_this_run().unwrap();
    let server = tokio::task::spawn_blocking(move || Server::own(engine)).await.unwrap().unwrap();
    let stage = Stage::over(Database::fresh_on(&server).await.unwrap(), "").await;
    fill(&stage).await;
    let db = Db::connect(stage.database.url(), 1).await.unwrap();

    // Tables that are opened for the first time are looked up.
    release(&db, claim(&db, 1).await).await;
    for batch in [1, 5, ELIGIBLE] {
        let (claims, read) = counted(&stage, claim(&db, batch)).await;
        println!("claim of {batch}: {read} rows read");
        assert_eq!(claims.len(), batch);
        assert!(read <= most_read(batch), "{read} rows read by a claim of {batch}");
        release(&db, claims).await;

        let (locked, claims) = held(&stage, 1, batch, LOCKED).await;
        println!("claim of {batch}: {locked} rows locked");
        assert!(claims.len() == batch && locked >= batch, "{locked} rows locked by a claim of {batch}");
        assert!(locked <= 2 * batch, "{locked} rows locked by a claim of {batch}");
        release(&db, claims).await;
    }
    five_runners_share(&stage, &db).await;
    db.close().await;
}

/// Five claim at the same moment, and hold their rows at the same moment: each its own, and no more locks than alone.
async fn five_runners_share(stage: &Stage, db: &Db) {
    let batch = ELIGIBLE / RUNNERS;
    let all = usize::try_from(stage.count("SELECT COUNT(*) FROM sa_job").await).unwrap();
    let (free, claims) = held(stage, RUNNERS, batch, FREE).await;
    println!("{RUNNERS} claims of {batch} at once: {} rows locked", all - free);
    assert!(all - free <= RUNNERS * 2 * batch, "{} rows locked by {RUNNERS} claims of {batch}", all - free);
    let mut jobs: Vec<_> = claims.iter().map(Claim::job).collect();
    jobs.sort();
    jobs.dedup();
    assert_eq!(jobs.len(), ELIGIBLE, "each job is one runner's");

    let (left, read) = counted(stage, claim(db, 5)).await;
    println!("claim of 5 with nothing left: {read} rows read");
    assert!(left.is_empty());
    assert!(read <= most_read(5), "{read} rows read by a claim with nothing to take");
}

/// As each statement of the claim may read it, and three rows for the head of each level.
fn most_read(batch: usize) -> u64 {
    3 * LEVELS + STATEMENTS * (2 * batch as u64 + 10)
}

/// A claim by a worker that knows nothing yet.
async fn claim(db: &Db, batch: usize) -> Vec<Claim> {
    let lane = Lane::new("fake");
    let serves = Serves::only(vec![lane]);
    Claimer::new(WorkerId::new(), serves, Priority::LOWEST).claim(db, batch).await.unwrap()
}

/// Puts claimed jobs back where they were.
async fn release(db: &Db, claims: Vec<Claim>) {
    let given_back = claims.into_iter().map(|claim| claim.release(Vec::new())).collect();
    assert!(repo::finalize(db, given_back).await.iter().all(Result::is_ok));
}

/// What somebody does, and how many rows the server reads meanwhile.
async fn counted<T>(stage: &Stage, doing: impl Future<Output = T>) -> (T, u64) {
    let mut session = MySqlConnection::connect(stage.database.url()).await.unwrap();
    let before = RowsRead::now(&mut session, Scope::Server).await;
    let done = doing.await;
    let read = RowsRead::now(&mut session, Scope::Server).await.since(before);
    session.close().await.unwrap();
    (done, read)
}

/// Lets so many claim at once, holds them where all their rows are locked and changed, and counts from another session what
/// this query counts; then lets them commit, one after the other.
async fn held(stage: &Stage, runners: usize, batch: usize, query: &'static str) -> (usize, Vec<Claim>) {
    let mut barrier = Barrier::at(stage, Place::ClaimEvent).await;
    let look = async {
        let all_there = async || stage.count(WAITING).await == i64::try_from(runners).unwrap();
        wait_until("all claims to hold their rows", LIMIT, all_there).await.unwrap();
        let counted = timeout(LIMIT, count(stage, query)).await.expect("the server knows its transactions");
        barrier.let_go().await;
        usize::try_from(counted).unwrap()
    };
    let mut claiming = JoinSet::new();
    for _ in 0..runners {
        let url = stage.database.url().to_owned();
        claiming.spawn(async move {
            // The barrier lets the next one go on when this session ends.
            let db = Db::connect(&url, 1).await.unwrap();
            let claims = claim(&db, batch).await;
            db.close().await;
            claims
        });
    }
    let (counted, claims) = tokio::join!(look, claiming.join_all());
    barrier.remove().await;
    (counted, claims.into_iter().flatten().collect())
}

/// Asks again where there is no answer yet: a server goes on showing an old picture of its transactions as long as somebody
/// looks more often than every 0.1 s.
async fn count(stage: &Stage, query: &'static str) -> i64 {
    let mut session = MySqlConnection::connect(stage.database.url()).await.unwrap();
    // Rows that do not fit are let go at once.
    session.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await.unwrap();
    let mut looks = interval(Duration::from_millis(150));
    loop {
        looks.tick().await;
        let counted: Option<i64> = sqlx::query_scalar(query).fetch_one(&mut session).await.unwrap();
        if let Some(counted) = counted {
            session.close().await.unwrap();
            return counted;
        }
    }
}

/// A million that have ended (a hundred thousand in a short run), those that wait, and the few that are due.
async fn fill(stage: &Stage) {
    let full = std::env::var("SA_PROOFS_FULL").is_ok_and(|full| full == "1");
    let ended = if full { 1_000_000 } else { 100_000 };
    let began = std::time::Instant::now();
    let mut session = MySqlConnection::connect(stage.database.url()).await.unwrap();
    let columns =
        "INSERT INTO sa_job (id, prompt_id, state, priority, lane, scheduled_for, org_id, created_by, created_at";
    let ids = |kind: u8| {
        let id = |kind| format!("CONCAT('0193000{kind}-0000-7000-8000-', LPAD(n, 12, '0'))");
        format!("{}, {}", id(kind), id(kind + 1))
    };
    let past = "UTC_TIMESTAMP(6) - INTERVAL 1 HOUR - INTERVAL (n MOD 100000) SECOND";
    session.execute("CREATE TABLE numbers (n INT UNSIGNED NOT NULL PRIMARY KEY)").await.unwrap();
    session.execute("INSERT INTO numbers VALUES (0)").await.unwrap();
    let mut numbered = 1;
    while numbered < ended {
        let more = format!("INSERT INTO numbers SELECT n + {numbered} FROM numbers WHERE n + {numbered} < {ended}");
        session.execute(AssertSqlSafe(more)).await.unwrap();
        numbered *= 2;
    }
    let statements = [
        format!(
            "{columns}, claimed_at, started_at, running_heartbeat_at, finished_at, response_id, error_kind)
             SELECT {}, ELT(1 + n MOD 3, 'succeeded', 'failed', 'cancelled'), 10 * (n MOD 10), 'fake', {past}, 1, 1, {past},
                    {past}, {past}, {past}, {past}, CASE WHEN n MOD 3 = 0 THEN UUID() END,
                    CASE WHEN n MOD 3 = 1 THEN 'auth' END
               FROM numbers WHERE n < {ended}",
            ids(1)
        ),
        format!(
            "{columns}, attempt, held_reason, error_kind)
             SELECT {}, 'queued', 10 * (n MOD 10), 'fake', UTC_TIMESTAMP(6) + INTERVAL 1 HOUR + INTERVAL n SECOND, 1, 1,
                    {past}, 2, 'backoff', 'provider_5xx'
               FROM numbers WHERE n < {BACKED_OFF}",
            ids(3)
        ),
        format!(
            "{columns}) SELECT {}, 'queued', 50, 'fake', {past}, 1, 1, {past} FROM numbers WHERE n < {ELIGIBLE}",
            ids(5)
        ),
        "ANALYZE TABLE sa_job".to_owned(),
    ];
    for statement in statements {
        session.execute(AssertSqlSafe(statement)).await.unwrap();
    }
    session.close().await.unwrap();
    println!("{ended} ended, {BACKED_OFF} backed off and {ELIGIBLE} due jobs written in {:.1?}", began.elapsed());
}
