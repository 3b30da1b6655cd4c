//! `proofs/run shutdown`: a worker that is asked to stop keeps what it was paid for, and gives the rest back unspent.

use sa_harness::{Gate, Reply, Rule, wait_until};

use crate::stage::{LIMIT, Stage, succeed};

const ANSWER: &str = "llama-chat-stream";

/// Case bank CB-15: asked to stop with work left, a worker goes on beating until the end of that work, far beyond the stale
/// limit, and a reaper that looks all the while takes nothing. The job runs once.
#[tokio::test]
async fn cb_15_beats_go_on_until_the_last_run_has_ended() {
    let stage = Stage::set().await;
    let gate = Gate::closed();
    stage.provider.script(Rule::always().reply(Reply::wire(ANSWER).until_after_bytes(700, &gate)));
    let job = stage.submit("a long answer", &[]).await;
    let mut worker = stage.worker().env("SA_STALE_AFTER", "8s").args(["--grace", "10m"]).spawn().unwrap();
    stage.provider.wait_for_calls(1, LIMIT).await.unwrap();
    worker.sigterm().unwrap();
    worker.wait_for_output("The worker stops", LIMIT).await.unwrap();

    let age = "SELECT TIMESTAMPDIFF(SECOND, started_at, UTC_TIMESTAMP(6)) FROM sa_job";
    wait_until("the run to be older than its window", LIMIT * 2, async || {
        assert_eq!(stage.reap().await.stdout, "", "a live job was taken");
        stage.count(age).await >= 12
    })
    .await
    .unwrap();
    let silent = "SELECT TIMESTAMPDIFF(SECOND, seen_at, UTC_TIMESTAMP(6)) FROM sa_pulse WHERE role = 'worker'";
    assert!(stage.count(silent).await < 8, "its pulse goes on too");
    gate.open();
    assert!(worker.wait_exit(LIMIT).await.unwrap().success());
    assert_eq!(stage.walk(&job).await, "queued → running → succeeded");
    assert_eq!(stage.provider.calls().len(), 1);
    assert_eq!(stage.count("SELECT COUNT(*) FROM sa_pulse WHERE role = 'worker' AND ended_at IS NULL").await, 0);
}

/// Case bank CB-27: four rollouts in a row interrupt the same job. Each gives it back, none spends an attempt, and then it
/// succeeds in its first.
#[tokio::test]
async fn cb_27_four_rollouts_spend_no_attempt() {
    let stage = Stage::set().await;
    stage.provider.script(Rule::always().first(4).reply(Reply::wire(ANSWER).hang_before_headers()));
    let job = stage.submit("hello", &[]).await;
    for rollout in 1..=4 {
        let mut worker = stage.worker().args(["--grace", "0s"]).spawn().unwrap();
        stage.provider.wait_for_calls(rollout, LIMIT).await.unwrap();
        worker.sigterm().unwrap();
        assert!(worker.wait_exit(LIMIT).await.unwrap().success());
        assert_eq!(stage.state(&job).await, "queued");
        assert_eq!(stage.job_text(&job, "releases").await, Some(rollout.to_string()));
        assert_eq!(stage.job_text(&job, "attempt").await.as_deref(), Some("1"));
    }
    stage.work_once().await;
    assert_eq!(stage.state(&job).await, "succeeded");
    assert_eq!(stage.job_text(&job, "attempt").await.as_deref(), Some("1"));
}

/// Case bank CB-28: a platform asks, and kills before the grace is over. Proof of death brings the job back at the reaper's
/// next run, whatever the stale limit is.
#[tokio::test]
async fn cb_28_a_worker_killed_in_its_grace_keeps_no_job() {
    let stage = Stage::set().await;
    stage.provider.script(Rule::always().first(1).reply(Reply::wire(ANSWER).hang_before_headers()));
    let job = stage.submit("hello", &[]).await;
    let mut worker = stage.binary("sa-worker").arg("run-worker").spawn().unwrap();
    stage.provider.wait_for_calls(1, LIMIT).await.unwrap();
    worker.sigterm().unwrap();
    worker.wait_for_output("The worker stops", LIMIT).await.unwrap();
    worker.kill9().unwrap();
    let said = succeed(stage.binary("sa-reaper").arg("reclaim-stuck-jobs")).await.stdout;
    assert_eq!(said, format!("{job} running → queued (attempt 2): its process ended in attempt 1\n"));
    stage.work_once().await;
    assert_eq!(stage.state(&job).await, "succeeded");
}

/// A one-shot is asked in the same way: what ends within the grace is kept, the second signal gives back the rest at once.
#[tokio::test]
async fn a_one_shot_told_twice_gives_back_at_once_what_still_runs() {
    let stage = Stage::set().await;
    let gate = Gate::closed();
    stage.provider.script(Rule::when("slow").reply(Reply::wire(ANSWER).hang_before_headers()));
    stage.provider.script(Rule::when("quick").reply(Reply::wire(ANSWER).until(&gate)));
    let (slow, quick) = (stage.submit("slow", &[]).await, stage.submit("quick", &[]).await);
    let mut worker = stage.worker().args(["--once", "--grace", "10m"]).spawn().unwrap();
    stage.provider.wait_for_calls(2, LIMIT).await.unwrap();
    worker.sigterm().unwrap();
    gate.open();
    stage.wait_for_state(&quick, "succeeded").await;
    assert_eq!(stage.state(&slow).await, "running", "the first signal asks");
    worker.sigterm().unwrap();
    assert!(worker.wait_exit(LIMIT).await.unwrap().success());
    assert_eq!(stage.walk(&slow).await, "queued → running → queued");
    assert_eq!(stage.job_text(&slow, "attempt").await.as_deref(), Some("1"));
}
