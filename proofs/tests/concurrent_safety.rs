//! `proofs/run concurrent-safety-proof`: of all who race for a job, one writes; who lost it changes nothing.

use std::collections::BTreeMap;

use sa_harness::{Gate, Outcome, Process, Proxy, Reply, Rule, wait_until};

use crate::stage::{LIMIT, Stage};

/// Silence of a minute, in the row alone: longer than any stale limit here.
const SILENT: &str =
    "UPDATE sa_job SET running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 2 MINUTE WHERE state = 'running'";
/// What a worker says whose end of a run was refused.
const REFUSED: &str = "The claim was lost";

/// The specification's own proof (§5, §7): two workers race for one set of jobs, all due at the same instant. The claims
/// are disjoint, each takes its share (case bank CB-31: 5 and 5), and each job is called exactly once.
#[tokio::test]
async fn two_workers_on_one_set_of_jobs_call_each_exactly_once() {
    let stage = Stage::set().await;
    let gate = Gate::closed();
    stage.provider.script(Rule::always().reply(Reply::wire("llama-chat-stream").until(&gate)));
    for n in 10..22 {
        stage.submit(&format!("job {n}."), &[]).await;
    }
    stage.sql("UPDATE sa_job SET scheduled_for = UTC_TIMESTAMP(6)").await;
    let _workers = [stage.worker().spawn().unwrap(), stage.worker().spawn().unwrap()];
    stage.provider.wait_for_calls(10, LIMIT).await.unwrap();
    assert_eq!(shares(&stage).await, [5, 5], "each holds its five while the provider thinks");

    gate.open();
    let ended = "SELECT COUNT(*) FROM sa_job WHERE state = 'succeeded' AND attempt = 1 AND releases = 0";
    wait_until("all twelve to succeed", LIMIT, async || stage.count(ended).await == 12).await.unwrap();
    for n in 10..22 {
        assert_eq!(stage.provider.calls_with(&format!("job {n}.")).len(), 1, "job {n}");
    }
    assert_eq!(stage.count("SELECT COUNT(*) FROM sa_job_event WHERE reason = 'claim'").await, 12);
    assert_eq!(stage.count("SELECT COUNT(*) FROM sa_entity WHERE kind = 'response'").await, 12);
}

/// §5 "double-execution safety": the worker that was taken for dead is told by its own beat, and drops the call. It writes
/// nothing but what the call may cost.
#[tokio::test]
async fn a_worker_that_lost_its_claim_drops_the_call() {
    let stage = Stage::set().await;
    let answer = Reply::wire("llama-chat-stream");
    stage.provider.script(Rule::always().first(1).reply(answer.hang_after_bytes(1500)));
    let job = stage.submit("hello", &[]).await;
    let mut slow = worker(&stage, stage.database.url());
    stage.provider.wait_for_calls(1, LIMIT).await.unwrap();
    take_from(&stage, &job).await;
    stage.provider.wait_for_client_gone(1, LIMIT).await.unwrap();
    assert!(slow.wait_exit(LIMIT).await.unwrap().success());

    let waiting = Picture::of(&stage, &job).await;
    assert_eq!((waiting.row["state"].as_str(), waiting.responses.len()), ("queued", 0));
    assert_eq!(ledger(&stage).await, ["1 cancelled"]);
    stage.work_once().await;
    assert_eq!(stage.state(&job).await, "succeeded");
    assert_eq!(ledger(&stage).await, ["1 cancelled", "2 succeeded"]);
}

/// "Done when" of the first milestone: a worker stopped past the stale limit wakes when its job was re-run and answered
/// elsewhere, with its own whole answer waiting in its socket. Nothing of the job changes.
///
/// Whether the waking worker learns of its loss first or hands in the answer is its own race; either way it ends here. The
/// next proof holds it to the second way.
#[tokio::test]
async fn a_worker_that_wakes_after_its_job_was_answered_changes_nothing() {
    let stage = Stage::set().await;
    let gate = Gate::closed();
    stage.provider.script(Rule::always().first(1).reply(Reply::wire("aimock-chat-stream").until(&gate)));
    let job = stage.submit("hello", &[]).await;
    let mut sleeper = worker(&stage, stage.database.url());
    stage.provider.wait_for_calls(1, LIMIT).await.unwrap();
    sleeper.sigstop().unwrap();
    take_from(&stage, &job).await;
    stage.work_once().await;
    let answered = Picture::of(&stage, &job).await;
    assert_eq!((answered.row["state"].as_str(), answered.row["attempt"].as_str()), ("succeeded", "2"));

    gate.open();
    stage.provider.wait_for_calls(2, LIMIT).await.unwrap();
    let sent = async || stage.provider.calls()[0].outcome == Outcome::Completed;
    wait_until("the late answer to be sent", LIMIT, sent).await.unwrap();
    sleeper.sigcont().unwrap();
    sleeper.wait_for_output(REFUSED, LIMIT).await.unwrap();
    assert!(sleeper.wait_exit(LIMIT).await.unwrap().success());

    assert_eq!(Picture::of(&stage, &job).await, answered);
    assert_eq!(answered.responses.len(), 1);
    let ledger = ledger(&stage).await;
    assert_eq!((ledger.len(), ledger[1].as_str()), (2, "2 succeeded"), "{ledger:?}");
    assert!(["1 discarded", "1 cancelled", "1 maybe_charged"].contains(&ledger[0].as_str()), "{ledger:?}");
}

/// The same with the late answer at the fence itself (§5: "whichever update lands second sees no matching row"): the worker
/// is frozen in the midst of writing its whole answer. The call is kept in the ledger as discarded.
#[tokio::test]
async fn a_late_answer_is_refused_by_the_fence() {
    let stage = Stage::set().await;
    let (job, mut sleeper, _way_to_the_database) = frozen_while_writing_its_answer(&stage).await;
    take_from(&stage, &job).await;
    stage.work_once().await;
    let answered = Picture::of(&stage, &job).await;
    assert_eq!((answered.row["state"].as_str(), answered.row["attempt"].as_str()), ("succeeded", "2"));

    sleeper.sigcont().unwrap();
    sleeper.wait_for_output(REFUSED, LIMIT).await.unwrap();
    assert!(sleeper.wait_exit(LIMIT).await.unwrap().success());
    assert_eq!(Picture::of(&stage, &job).await, answered);
    assert_eq!(answered.responses.len(), 1);
    assert_eq!(ledger(&stage).await, ["1 discarded", "2 succeeded"]);
}

/// And with the second run still under way: the job is `running` as it was, but under another claim, and the late answer
/// must not end the run that replaced its own.
#[tokio::test]
async fn a_late_answer_does_not_end_the_run_that_replaced_it() {
    let stage = Stage::set().await;
    let gate = Gate::closed();
    stage.provider.script(Rule::always().nth(2).reply(Reply::wire("llama-chat-stream").until(&gate)));
    let (job, mut sleeper, _way_to_the_database) = frozen_while_writing_its_answer(&stage).await;
    take_from(&stage, &job).await;
    let mut other = worker(&stage, stage.database.url());
    stage.provider.wait_for_calls(2, LIMIT).await.unwrap();
    let running = Picture::of(&stage, &job).await;
    assert_eq!((running.row["state"].as_str(), running.row["attempt"].as_str()), ("running", "2"));

    sleeper.sigcont().unwrap();
    sleeper.wait_for_output(REFUSED, LIMIT).await.unwrap();
    assert!(sleeper.wait_exit(LIMIT).await.unwrap().success());
    assert_eq!(Picture::of(&stage, &job).await, running);
    assert_eq!(ledger(&stage).await, ["1 discarded"]);

    gate.open();
    assert!(other.wait_exit(LIMIT).await.unwrap().success());
    assert_eq!(stage.state(&job).await, "succeeded");
    assert_eq!(ledger(&stage).await, ["1 discarded", "2 succeeded"]);
    assert_eq!(Picture::of(&stage, &job).await.responses.len(), 1);
}

/// A job whose worker holds its whole answer and is stopped while it writes the end: at that instant its statement waited
/// for a lock of ours, and its connections are gone since, as they are when a host is frozen for long.
async fn frozen_while_writing_its_answer(stage: &Stage) -> (String, Process, Proxy) {
    let (proxy, url) = stage.proxy().await;
    let gate = Gate::closed();
    stage.provider.script(Rule::always().first(1).reply(Reply::wire("aimock-chat-stream").until(&gate)));
    let job = stage.submit("hello", &[]).await;
    let sleeper = worker(stage, &url);
    stage.provider.wait_for_calls(1, LIMIT).await.unwrap();
    let mut lock = stage.pool().begin().await.unwrap();
    sqlx::query("SELECT id FROM sa_job WHERE id = ? FOR UPDATE").bind(&job).execute(&mut *lock).await.unwrap();
    gate.open();
    let finalizing = "SELECT COUNT(*) FROM information_schema.processlist
        WHERE db = DATABASE() AND id <> CONNECTION_ID() AND info LIKE '%repo::finalize%FOR UPDATE%'";
    wait_until("the end to be written", LIMIT, async || stage.count(finalizing).await == 1).await.unwrap();
    sleeper.sigstop().unwrap();
    proxy.cut().await;
    lock.rollback().await.unwrap();
    (job, sleeper, proxy)
}

/// A worker that runs one batch and tells what becomes of it. It takes itself for lost only after a minute.
fn worker(stage: &Stage, url: &str) -> Process {
    let worker = stage.worker().arg("--once").env("DATABASE_URL", url);
    worker.env("SA_STALE_AFTER", "60s").env("SA_LOG", "info").spawn().unwrap()
}

/// Has the reaper take a job for a dead worker's; a live one may beat in between, so it is tried until it works.
async fn take_from(stage: &Stage, job: &str) {
    let taken = async || {
        stage.sql(SILENT).await;
        stage.reap().await;
        stage.state(job).await == "queued"
    };
    wait_until("the job to be taken back", LIMIT, taken).await.unwrap();
}

/// How many running jobs each worker holds.
async fn shares(stage: &Stage) -> Vec<i64> {
    let query = "SELECT COUNT(*) FROM sa_job WHERE state = 'running' GROUP BY SUBSTRING_INDEX(worker_claim, '.', 1)";
    sqlx::query_scalar(query).fetch_all(stage.pool()).await.unwrap()
}

/// The calls that are accounted for: `attempt outcome`.
async fn ledger(stage: &Stage) -> Vec<String> {
    let query = "SELECT CONCAT(attempt, ' ', outcome) FROM sa_ledger ORDER BY attempt";
    sqlx::query_scalar(query).fetch_all(stage.pool()).await.unwrap()
}

/// All there is of a job but its beats and what its calls cost.
#[derive(Debug, PartialEq, Eq)]
struct Picture {
    row: BTreeMap<&'static str, String>,
    events: Vec<String>,
    responses: Vec<String>,
    edges_and_audit: i64,
}

impl Picture {
    async fn of(stage: &Stage, job: &str) -> Self {
        const COLUMNS: [&str; 15] = [
            "state",
            "attempt",
            "priority",
            "lane",
            "scheduled_for",
            "releases",
            "worker_claim",
            "claimed_at",
            "started_at",
            "finished_at",
            "response_id",
            "error_kind",
            "error_message",
            "revision",
            "updated_at",
        ];
        let mut row = BTreeMap::new();
        for column in COLUMNS {
            row.insert(column, stage.job_text(job, column).await.unwrap_or_default());
        }
        let responses = "SELECT CONCAT_WS(' ', id, state_class, content) FROM sa_entity WHERE job_id = ? ORDER BY id";
        Self {
            row,
            events: stage.events(job).await.iter().map(|event| format!("{event:?}")).collect(),
            responses: sqlx::query_scalar(responses).bind(job).fetch_all(stage.pool()).await.unwrap(),
            edges_and_audit: stage
                .count("SELECT (SELECT COUNT(*) FROM sa_edge) + (SELECT COUNT(*) FROM sa_audit)")
                .await,
        }
    }
}
/// P5: a worker that is frozen in the midst of a write holds its row's lock for as long as its connection lives. That keeps
/// the reaper from its job, and from no other.
#[tokio::test]
async fn a_row_that_is_locked_keeps_the_reaper_from_no_other() {
    let stage = Stage::set().await;
    stage.database.not_judged("it claims by plain SQL, which leaves no event");
    let locked = stage.submit("locked", &[]).await;
    let other = stage.submit("other", &[]).await;
    stage
        .sql(
            "UPDATE sa_job SET state = 'running', worker_claim = '0199c0de-0000-7000-8000-00000000dead.1',
                    claimed_at = UTC_TIMESTAMP(6), started_at = UTC_TIMESTAMP(6),
                    running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 5 MINUTE",
        )
        .await;
    let mut lock = stage.pool().begin().await.unwrap();
    sqlx::query("SELECT id FROM sa_job WHERE id = ? FOR UPDATE").bind(&locked).execute(&mut *lock).await.unwrap();
    let reaper = stage.binary("sa-reaper").arg("reclaim-stuck-jobs").run_to_end(LIMIT).await.unwrap();
    assert_eq!(
        (stage.state(&locked).await, stage.state(&other).await),
        ("running".into(), "queued".into()),
        "{reaper:?}"
    );
    lock.rollback().await.unwrap();
    stage.reap().await;
    assert_eq!(stage.state(&locked).await, "queued");
}
