//! The crowd in which statements are judged: a long backlog, as many delayed ahead of it, and far more that has ended.

use sa_harness::{Database, Engine, Server};
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection};

/// Running jobs, every beat of them fresh; they are the first.
pub const RUNNING: u64 = 20;
/// The first of the queued jobs that are due.
pub const FIRST_QUEUED: u64 = 1_000;
/// How many are due, and how many more are delayed.
const BACKLOG: u64 = 100_000;
const FIRST_DELAYED: u64 = 200_000;
/// The first of the ended jobs. Every 20th of them is of viewer 1 of org 1.
pub const FIRST_ENDED: u64 = 1_000_000;
/// Priority levels in all lanes: three that are due and two that are delayed, in each of four.
pub const LEVELS: u64 = 5 * 4;
/// The worker that holds the running ones.
pub const WORKER: &str = "01960000-0000-7000-8000-000000000001";
/// The hash of a token that is there.
pub const TOKEN_HASH: &str = "00000000000000000000000000000000000000000000000000000000000000aa";

/// How many have ended.
fn ended() -> u64 {
    if std::env::var("SA_PROOFS_FULL").is_ok_and(|full| full == "1") { 1_000_000 } else { 200_000 }
}

/// A server of its own, because the rows it reads are counted, and the crowd on it.
pub async fn gather() -> (Server, Database) {
    let server = tokio::task::spawn_blocking(|| Server::own(Engine::of_this_run().unwrap())).await.unwrap().unwrap();
    let database = Database::fresh_on(&server).await.unwrap();
    let mut session = MySqlConnection::connect(database.url()).await.unwrap();
    let began = std::time::Instant::now();
    for statement in statements(ended()) {
        session.execute(AssertSqlSafe(statement)).await.unwrap();
    }
    println!("{} jobs gathered in {:.1?}", ended() + 2 * BACKLOG, began.elapsed());
    session.close().await.unwrap();
    (server, database)
}

/// The id of the n-th job, its prompt or its response in SQL.
fn id(kind: u64, n: &str) -> String {
    format!("CONCAT('0193{kind:04}-0000-7000-8000-', LPAD(LOWER(HEX({n})), 12, '0'))")
}

fn statements(ended: u64) -> Vec<String> {
    let (job, prompt, response) = (id(1, "n"), id(2, "n"), id(3, "n"));
    let most = ended.max(BACKLOG);
    let mut all = vec![
        // It is dropped with the database, and nobody waits for its disk.
        "SET SESSION unique_checks = 0".to_owned(),
        "CREATE TABLE numbers (n BIGINT UNSIGNED NOT NULL PRIMARY KEY)".to_owned(),
        "INSERT INTO numbers VALUES (0)".to_owned(),
    ];
    let mut numbered = 1;
    while numbered < most {
        all.push(format!("INSERT INTO numbers SELECT n + {numbered} FROM numbers WHERE n + {numbered} < {most}"));
        numbered *= 2;
    }
    let lane = "ELT(1 + n MOD 4, 'fake', 'one', 'two', 'three')";
    let level = "ELT(1 + n MOD 3, 10, 50, 90)";
    let from = |first: u64, count: u64| format!("FROM (SELECT n + {first} AS n FROM numbers WHERE n < {count}) k");
    let columns = "INSERT INTO sa_job (id, prompt_id, state, priority, lane, scheduled_for, org_id, created_by,
                                       created_at, updated_at";
    let (past, now) = ("UTC_TIMESTAMP(6) - INTERVAL (2000000 - n) SECOND", "UTC_TIMESTAMP(6)");
    all.push(format!(
        "{columns}, worker_claim, claimed_at, started_at, running_heartbeat_at)
         SELECT {job}, {prompt}, 'running', 50, 'fake', {past}, 1, 1, {past}, {past}, CONCAT('{WORKER}.', n),
                {now}, {now}, {now} {}",
        from(0, RUNNING)
    ));
    all.push(format!(
        "{columns}) SELECT {job}, {prompt}, 'queued', {level}, {lane}, {past}, 1, 2 + n MOD 50, {past}, {past} {}",
        from(FIRST_QUEUED, BACKLOG)
    ));
    all.push(format!(
        "{columns}, held_reason) SELECT {job}, {prompt}, 'queued', 5 + n MOD 2, {lane},
                {now} + INTERVAL 1 DAY + INTERVAL n SECOND, 1, 2 + n MOD 50, {past}, {past}, 'schedule' {}",
        from(FIRST_DELAYED, BACKLOG)
    ));
    let state =
        "ELT(1 + n MOD 10, 'succeeded', 'failed', 'cancelled', 'superseded', 'succeeded', 'succeeded', 'succeeded',
                     'succeeded', 'succeeded', 'succeeded')";
    all.push(format!(
        "{columns}, finished_at, response_id, error_kind, supersedes)
         SELECT {job}, {prompt}, {state}, {level}, {lane}, {past}, 1, 1 + n MOD 20, {past}, {past}, {past},
                CASE WHEN {state} = 'succeeded' THEN {response} END, CASE WHEN {state} = 'failed' THEN 'auth' END,
                CASE WHEN n MOD 7 = 0 THEN {} END {}",
        id(1, "n + 5000000"),
        from(FIRST_ENDED, ended)
    ));
    all.extend(writings(&from, ended));
    all.extend(beside());
    let tables = "sa_job, sa_job_event, sa_entity, sa_edge, sa_ledger, sa_audit, sa_pulse, sa_token";
    all.push(format!("ANALYZE TABLE {tables}"));
    all
}

/// What the jobs wrote.
fn writings(from: &dyn Fn(u64, u64) -> String, ended: u64) -> Vec<String> {
    let (job, prompt, response) = (id(1, "n"), id(2, "n"), id(3, "n"));
    let mut all = Vec::new();
    let past = "UTC_TIMESTAMP(6) - INTERVAL (2000000 - n) SECOND";
    let entity = "INSERT INTO sa_entity (id, kind, job_id, org_id, created_by, correlation_id, parent_id,
                                         truth_class, state_class, content, created_at)";
    let few = ended / 4;
    for (first, count) in [(0, RUNNING), (FIRST_QUEUED, BACKLOG), (FIRST_ENDED, few)] {
        all.push(format!(
            "{entity} SELECT {prompt}, 'prompt', NULL, 1, 1, {prompt}, NULL, 'authored', 'settled', 'hello', {past} {}",
            from(first, count)
        ));
    }
    let few = from(FIRST_ENDED, few);
    all.push(format!(
        "{entity} SELECT {response}, 'response', {job}, 1, 1, {prompt}, {prompt}, 'generated', 'settled', 'hi',
                {past} {few}"
    ));
    let events = from(FIRST_ENDED, ended);
    all.push(format!(
        "INSERT INTO sa_job_event (job_id, prompt_id, org_id, created_by, to_state, attempt, revision, claim, actor,
                                   reason, at)
         SELECT {job}, {prompt}, 1, 1 + n MOD 20, 'succeeded', 1, 3, CONCAT('{WORKER}.', n), 'user:1',
                ELT(1 + n MOD 3, 'success', 'cancel', 'brought_forward'), {past} {events}"
    ));
    all.push(format!(
        "INSERT INTO sa_edge (id, kind, from_id, to_id, org_id, created_by)
         SELECT {job}, ELT(1 + n MOD 2, 'flows-to', 'promoted'), {response}, CASE WHEN n MOD 2 = 0 THEN {prompt} END,
                1, 1 {few}"
    ));
    all.push(format!(
        "INSERT INTO sa_ledger (id, job_id, prompt_id, org_id, attempt, claim, purpose, provider, model, total_ms,
                                outcome)
         SELECT {job}, {job}, {prompt}, 1, 1, 'x', 'answer', 'fake', 'm', 1, 'succeeded' {few}"
    ));
    all.push(format!(
        "INSERT INTO sa_audit (subject_kind, subject_id, job_id, actor, reason, org_id, created_by)
         SELECT 'entity', {response}, {job}, 'user:1', 'answered', 1, 1 {few}"
    ));
    all
}

/// The small tables: processes and tokens.
fn beside() -> Vec<String> {
    let (pulse, token) = (id(4, "n"), id(5, "n"));
    let pulses = "INSERT INTO sa_pulse (id, role, host, pid, version, lanes, beat_ms, stale_ms, seen_at, ended_at)";
    vec![
        format!(
            "{pulses} SELECT {pulse}, 'worker', 'h', 1, '0', '[]', 30000, 225000, UTC_TIMESTAMP(6) - INTERVAL n MINUTE,
                UTC_TIMESTAMP(6) FROM numbers WHERE n < 5000"
        ),
        format!("{pulses} VALUES ('{WORKER}', 'worker', 'h', 1, '0', '[]', 30000, 225000, UTC_TIMESTAMP(6), NULL)"),
        format!(
            "INSERT INTO sa_token (id, token_hash, kind, role, org_id, user_id)
             SELECT {token}, LPAD(LOWER(HEX(n)), 64, '0'), 'token', 'viewer', 1, n FROM numbers WHERE n < 5000"
        ),
    ]
}
