//! `proofs/run heartbeat-proof`: silence costs a worker its job, and nothing else does.

use std::time::Duration;

use sa_harness::{Gate, Reply, Rule, wait_until};
use sqlx::QueryBuilder;

use crate::stage::{LIMIT, Stage, succeed};

/// A worker that nobody ever started, and its claim.
const CLAIM: &str = "0199c0de-0000-7000-8000-00000000dead.1";

/// The specification's own proof (§7, §5, criterion 5): a synthetic running job past its beat window goes back to the
/// queue, without claim and with one attempt spent, and the next attempt completes it.
#[tokio::test]
async fn a_silent_job_goes_back_to_the_queue_and_its_next_attempt_completes_it() {
    let stage = Stage::set().await;
    stage.database.not_judged("it claims by plain SQL, which leaves no event");
    let job = running(&stage, &[], "5 MINUTE", "6 MINUTE").await;
    let said = reclaim(&stage).await;
    assert!(said.contains(&job) && said.lines().count() == 1, "{said}");
    assert_eq!(columns(&stage, &job, ["state", "attempt", "error_kind"]).await, ["queued", "2", "worker_crash"]);
    let cleared = ["worker_claim", "claimed_at", "started_at", "running_heartbeat_at", "held_reason"];
    assert_eq!(columns(&stage, &job, cleared).await, [""; 5]);
    let events = stage.events(&job).await;
    let last = events.last().unwrap();
    assert_eq!((last.from_state.as_deref(), last.to_state.as_str()), (Some("running"), "queued"));
    assert_eq!((last.reason.as_str(), last.attempt, last.claim.as_deref()), ("reclaim", 2, Some(CLAIM)));
    assert!(last.actor.starts_with("reaper:"), "{last:?}");
    assert_eq!(reclaim(&stage).await, "", "reclaimed once");

    stage.work_once().await;
    assert_eq!(columns(&stage, &job, ["state", "attempt", "error_kind"]).await, ["succeeded", "2", ""]);
}

/// §8 `stuck`: a silent job without attempts left, or one that began over 15 minutes ago, fails and is never run again.
#[tokio::test]
async fn a_silent_job_without_attempts_or_over_fifteen_minutes_old_is_stuck() {
    let stage = Stage::set().await;
    stage.database.not_judged("it claims by plain SQL, which leaves no event");
    let spent = running(&stage, &["--max-attempts", "1"], "5 MINUTE", "6 MINUTE").await;
    let old = running(&stage, &[], "5 MINUTE", "15 MINUTE").await;
    reclaim(&stage).await;
    for (job, message) in [(&spent, "worker died once"), (&old, "ran over 15 minutes")] {
        assert_eq!(columns(&stage, job, ["state", "attempt", "error_kind"]).await, ["failed", "1", "stuck"]);
        let said = stage.job_text(job, "error_message").await.unwrap();
        assert!(said.contains(message), "{said}");
        assert_eq!(stage.events(job).await.last().unwrap().reason, "reclaim");
    }
    stage.work_once().await;
    assert_eq!(stage.provider.calls().len(), 0);
}

/// Within the window nobody takes a job, however long it has run; and a worker that was started with a longer window of
/// its own is granted it.
#[tokio::test]
async fn a_job_within_its_window_is_left_alone() {
    let stage = Stage::set().await;
    stage.database.not_judged("it claims by plain SQL, which leaves no event");
    let young = running(&stage, &[], "3 MINUTE", "14 MINUTE").await;
    assert_eq!(reclaim(&stage).await, "");
    assert_eq!(stage.state(&young).await, "running");

    // Its worker says ten minutes, so five of silence are none.
    stage
        .sql(
            "INSERT INTO sa_pulse (id, role, host, pid, version, lanes, beat_ms, stale_ms)
             VALUES ('0199c0de-0000-7000-8000-00000000dead', 'worker', 'elsewhere', 1, '0', '[]', 60000, 600000)",
        )
        .await;
    stage.sql("UPDATE sa_job SET running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 5 MINUTE").await;
    assert_eq!(reclaim(&stage).await, "");
    stage.sql("UPDATE sa_job SET running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 11 MINUTE").await;
    assert!(reclaim(&stage).await.contains(&young));
}

/// §3's heartbeat: the provider is slower than the stale limit, the reaper looks all the while, and the job is still its
/// worker's, because it beats. The beats are no change a client would be told of.
#[tokio::test]
async fn a_beating_worker_keeps_its_job_beyond_the_stale_limit() {
    let stage = Stage::set().await;
    let gate = Gate::closed();
    stage.provider.script(Rule::always().reply(Reply::wire("llama-chat-stream").until_after_bytes(700, &gate)));
    let job = stage.submit("a long answer", &[]).await;
    let mut worker = stage.worker().arg("--once").env("SA_STALE_AFTER", "8s").spawn().unwrap();
    stage.provider.wait_for_calls(1, LIMIT).await.unwrap();
    let before = columns(&stage, &job, ["state", "attempt", "revision", "updated_at", "started_at"]).await;
    let silent_since = stage.job_text(&job, "running_heartbeat_at").await;

    let age = "SELECT TIMESTAMPDIFF(SECOND, started_at, UTC_TIMESTAMP(6)) FROM sa_job";
    wait_until("the run to be older than its window", Duration::from_secs(120), async || {
        assert_eq!(stage.reap().await.stdout, "", "a live job was taken");
        stage.count(age).await >= 10
    })
    .await
    .unwrap();
    let after = columns(&stage, &job, ["state", "attempt", "revision", "updated_at", "started_at"]).await;
    assert_eq!(before, after, "a beat is no change");
    assert_ne!(stage.job_text(&job, "running_heartbeat_at").await, silent_since);

    gate.open();
    assert!(worker.wait_exit(LIMIT).await.unwrap().success());
    assert_eq!(columns(&stage, &job, ["state", "attempt"]).await, ["succeeded", "1"]);
    assert_eq!(stage.provider.calls().len(), 1);
}

/// §8 "hard job ceiling": not even a beating worker holds a job for longer than 15 minutes.
#[tokio::test]
async fn no_beat_keeps_a_job_beyond_fifteen_minutes() {
    let stage = Stage::set().await;
    stage.database.not_judged("it moves the start of a run before the job's own");
    stage.provider.script(Rule::always().first(1).reply(Reply::wire("llama-chat-stream").hang_before_headers()));
    let job = stage.submit("for ever", &[]).await;
    let _worker = stage.worker().spawn().unwrap();
    stage.provider.wait_for_calls(1, LIMIT).await.unwrap();
    stage.sql("UPDATE sa_job SET started_at = UTC_TIMESTAMP(6) - INTERVAL 15 MINUTE").await;
    // The worker learns by its own beat that the claim is gone, and drops the call.
    stage.provider.wait_for_client_gone(1, LIMIT).await.unwrap();
    wait_until("the reaper to end it", LIMIT, async || stage.reap().await.stdout.contains(&job)).await.unwrap();
    assert_eq!(columns(&stage, &job, ["state", "attempt", "error_kind"]).await, ["failed", "1", "stuck"]);
}

/// A job that runs under a claim nobody beats for, last beaten and begun so long ago.
async fn running(stage: &Stage, args: &[&str], beaten: &str, started: &str) -> String {
    let job = stage.submit("hello", args).await;
    let mut query = QueryBuilder::new("UPDATE sa_job SET state = 'running', worker_claim = ");
    query.push_bind(CLAIM);
    query.push(format!(", claimed_at = UTC_TIMESTAMP(6) - INTERVAL {started}, started_at = claimed_at"));
    query.push(format!(", running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL {beaten} WHERE id = ")).push_bind(&job);
    query.build().execute(stage.pool()).await.unwrap();
    job
}

/// Runs the reaper as it comes, with the limits of production, and returns what it said.
async fn reclaim(stage: &Stage) -> String {
    succeed(stage.binary("sa-reaper").arg("reclaim-stuck-jobs")).await.stdout
}

/// Columns of a job; what is NULL is empty.
async fn columns<const N: usize>(stage: &Stage, job: &str, names: [&'static str; N]) -> [String; N] {
    let mut values = [const { String::new() }; N];
    for (value, name) in values.iter_mut().zip(names) {
        *value = stage.job_text(job, name).await.unwrap_or_default();
    }
    values
}
