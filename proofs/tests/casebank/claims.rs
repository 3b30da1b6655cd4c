//! Claims that fail, are shared, or die at once: rows CB-07, CB-17, CB-31 and CB-52.

use std::collections::{BTreeMap, BTreeSet};

use sa_harness::{Gate, Reply, Rule};
use sqlx::Executor;

use super::{
    asked,
    barrier::{Barrier, Place},
    details, seen,
};
use crate::stage::{LIMIT, Stage};

/// CB-07: one job that nobody can read fails by itself; the three good ones of the same run are answered.
#[tokio::test]
async fn cb_07_unreadable_options_fail_their_job_and_no_other() {
    let stage = Stage::set().await;
    let good = [stage.submit("one", &[]).await, stage.submit("two", &[]).await, stage.submit("three", &[]).await];
    // More urgent than the others, so that it stands in their way.
    let bad = stage.submit("four", &["--priority", "0"]).await;
    stage.sql(r#"UPDATE sa_job SET execution_options = '{"depth":' WHERE priority = 0"#).await;

    stage.work_once().await;

    let api = stage.api().await;
    let failed = seen(&api, &bad).await;
    assert_eq!((failed["state"].as_str(), failed["error_kind"].as_str()), (Some("failed"), Some("parse")), "{failed}");
    assert!(failed["error_message"].as_str().unwrap().contains("execution_options"), "{failed}");
    for job in &good {
        let answered = seen(&api, job).await;
        assert_eq!(answered["state"], "succeeded");
        assert!(!answered["response"]["text"].as_str().unwrap().is_empty());
    }
    let asked: BTreeSet<_> = stage.provider.calls().iter().map(asked).collect();
    assert_eq!(asked, BTreeSet::from(["one", "two", "three"].map(str::to_owned)));
}

/// CB-17: the claim's UPDATE answers an error, to a one-shot and to a service. Nobody is called; when the database takes
/// claims again, the service runs the job once.
#[tokio::test]
async fn cb_17_a_refused_claim_starts_no_call() {
    let stage = Stage::set().await;
    let refuse = "CREATE TRIGGER refuse_claims BEFORE UPDATE ON sa_job FOR EACH ROW \
                  IF NEW.state = 'running' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no claims today'; END IF";
    stage.pool().execute(refuse).await.unwrap();
    let job = stage.submit("hello", &[]).await;

    let once = stage.worker().arg("--once").run_to_end(LIMIT).await.unwrap();
    assert_eq!(once.code, Some(1), "{}", once.stderr);
    assert!(once.stderr.contains("no claims today"), "{}", once.stderr);
    let mut service = stage.worker().spawn().unwrap();
    service.wait_for_output("Jobs cannot be claimed", LIMIT).await.unwrap();
    assert_eq!(stage.state(&job).await, "queued");
    assert_eq!(stage.provider.calls().len(), 0);

    stage.pool().execute("DROP TRIGGER refuse_claims").await.unwrap();
    stage.wait_for_state(&job, "succeeded").await;
    assert_eq!(stage.provider.calls().len(), 1);
    assert_eq!(stage.walk(&job).await, "queued → running → succeeded");
}

/// CB-17: the claim was committed, but its worker never heard so. It calls nobody until it has found its own claim in the
/// row, and then runs it once. A claim whose COMMIT never arrived is made anew.
#[tokio::test]
async fn cb_17_an_unanswered_claim_starts_no_call_before_it_is_confirmed() {
    let stage = Stage::set().await;
    let (proxy, url) = stage.proxy().await;
    // Its jobs are not given up within the seconds that this takes.
    let worker = stage.worker().env("DATABASE_URL", &url).env("SA_STALE_AFTER", "60s");
    let mut worker = worker.spawn().unwrap();
    let mut barrier = Barrier::at(&stage, Place::Claim).await;
    let unheard = stage.submit("unheard", &[]).await;
    barrier.reached().await;
    barrier.let_go_unheard(&proxy).await;
    worker.wait_for_output("Jobs cannot be claimed", LIMIT).await.unwrap();
    barrier.remove().await;
    assert_eq!(stage.state(&unheard).await, "running");
    assert_eq!(stage.provider.calls_with("unheard").len(), 0);
    proxy.accept().await.unwrap();
    stage.wait_for_state(&unheard, "succeeded").await;

    proxy.cut_before_next_commit();
    let undone = stage.submit("undone", &[]).await;
    stage.wait_for_state(&undone, "succeeded").await;

    assert_eq!(proxy.commits_cut(), 2);
    for (job, text) in [(unheard, "unheard"), (undone, "undone")] {
        assert_eq!(stage.walk(&job).await, "queued → running → succeeded", "{text}");
        assert_eq!(stage.provider.calls_with(text).len(), 1, "{text}");
    }
}

/// CB-17: a one-shot whose claim gets no answer, and that cannot ask again, calls nobody and exits with 5; the reaper takes
/// the job back, and it is run once.
#[tokio::test]
async fn cb_17_a_one_shot_that_cannot_confirm_its_claim_leaves_the_job_to_the_reaper() {
    let stage = Stage::set().await;
    let job = stage.submit("hello", &[]).await;
    let (proxy, url) = stage.proxy().await;
    let mut barrier = Barrier::at(&stage, Place::Claim).await;
    let mut once = stage.worker().arg("--once").env("DATABASE_URL", &url).spawn().unwrap();
    barrier.reached().await;
    barrier.let_go_unheard(&proxy).await;
    let status = once.wait_exit(LIMIT).await.unwrap();
    barrier.remove().await;
    assert_eq!(status.code(), Some(5), "{}", once.stderr());
    assert_eq!((stage.state(&job).await.as_str(), stage.provider.calls().len()), ("running", 0));

    stage.sql("UPDATE sa_job SET running_heartbeat_at = running_heartbeat_at - INTERVAL 10 MINUTE").await;
    stage.reap().await;
    stage.work_once().await;
    assert_eq!(stage.walk(&job).await, "queued → running → queued → running → succeeded");
    assert_eq!(stage.provider.calls().len(), 1);
}

/// CB-31: ten jobs of one instant and two workers that come at once: five each, none twice.
#[tokio::test]
async fn cb_31_two_workers_share_ten_jobs_of_one_instant() {
    let stage = Stage::set().await;
    let gate = Gate::closed();
    stage.provider.script(Rule::always().reply(Reply::wire("llama-chat-stream").until(&gate)));
    let api = stage.api().await;
    for n in 0..10 {
        api.prompt(serde_json::json!({ "prompt_text": format!("prompt {n}") })).await;
    }
    stage.sql("UPDATE sa_job SET scheduled_for = '2026-01-01', created_at = '2026-01-01'").await;

    let once = stage.worker().args(["--once", "--batch-size", "5"]);
    let mut workers = [once.spawn().unwrap(), once.spawn().unwrap()];
    // Both hold what they claimed, as nobody is answered before all have asked.
    let calls = stage.provider.wait_for_calls(10, LIMIT).await.unwrap();
    gate.open();
    for worker in &mut workers {
        assert!(worker.wait_exit(LIMIT).await.unwrap().success());
    }

    assert_eq!(calls.iter().map(asked).collect::<BTreeSet<_>>().len(), 10, "none was asked twice");
    let claims: Vec<(String, String)> = sqlx::query_as("SELECT actor, job_id FROM sa_job_event WHERE reason = 'claim'")
        .fetch_all(stage.pool())
        .await
        .unwrap();
    let mut shares = BTreeMap::new();
    for (worker, _) in &claims {
        *shares.entry(worker).or_insert(0) += 1;
    }
    assert_eq!(shares.into_values().collect::<Vec<_>>(), [5, 5]);
    assert_eq!(claims.iter().map(|(_, job)| job).collect::<BTreeSet<_>>().len(), 10, "none was claimed twice");
    assert_eq!(stage.count("SELECT COUNT(*) FROM sa_job WHERE state = 'succeeded'").await, 10);
}

/// CB-52: with one attempt, a worker that dies on it ends the job: one start, then `failed`, `stuck`.
#[tokio::test]
async fn cb_52_the_only_attempt_is_started_once() {
    let stage = Stage::set().await;
    stage.provider.script(Rule::always().reply(Reply::wire("llama-chat-stream").hang_before_headers()));
    let job = stage.submit("hello", &["--max-attempts", "1"]).await;
    let mut worker = stage.worker().spawn().unwrap();
    stage.provider.wait_for_calls(1, LIMIT).await.unwrap();
    worker.kill9().unwrap();
    stage.sql("UPDATE sa_job SET running_heartbeat_at = running_heartbeat_at - INTERVAL 10 MINUTE").await;

    stage.reap().await;
    stage.work_once().await;
    stage.reap().await;

    assert_eq!(stage.walk(&job).await, "queued → running → failed");
    assert_eq!(stage.provider.calls().len(), 1);
    let told = details(&stage, &job).await;
    assert_eq!((&told["job"]["state"], &told["job"]["error_kind"]), (&"failed".into(), &"stuck".into()), "{told}");
    assert!(!told["job"]["error_message"].as_str().unwrap().is_empty());
}
