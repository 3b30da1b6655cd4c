//! `proofs/run crash`: whatever is killed, what was promised is kept, and each prompt is answered once.

use std::{sync::Mutex, time::Duration};

use sa_harness::{Database, Engine, Gate, Reply, Rule, Server, wait_until};
use serde_json::{Value, json};

use crate::stage::{Api, LIMIT, Stage};

/// Makes running jobs silent for longer than any stale limit.
const SILENT: &str =
    "UPDATE sa_job SET running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 5 MINUTE WHERE state = 'running'";
const RESPONSES: &str = "SELECT COUNT(*) FROM sa_entity WHERE kind = 'response'";
/// What is not both or neither: a prompt without a job, a job without a prompt, a job whose enqueue left no event.
const HALVES: &str = "SELECT (SELECT COUNT(*) FROM sa_entity p LEFT JOIN sa_job j ON j.prompt_id = p.id
                               WHERE p.kind = 'prompt' AND j.id IS NULL)
                           + (SELECT COUNT(*) FROM sa_job j LEFT JOIN sa_entity p ON p.id = j.prompt_id WHERE p.id IS NULL)
                           + (SELECT COUNT(*) FROM sa_job j LEFT JOIN sa_job_event e ON e.job_id = j.id WHERE e.seq IS NULL)";

/// Criterion 5 in real time: a worker is killed in the middle of an answer, nobody moves a row, and within the stale limit
/// its job is back and completes on the next attempt, with exactly one response.
#[tokio::test]
async fn a_killed_workers_job_succeeds_in_attempt_2_with_one_response() {
    let stage = Stage::set().await;
    stage.provider.script(Rule::always().first(1).reply(Reply::wire("llama-chat-stream").hang_after_bytes(1500)));
    let job = stage.submit("hello", &[]).await;
    let mut worker = stage.worker().spawn().unwrap();
    stage.provider.wait_for_calls(1, LIMIT).await.unwrap();
    worker.kill9().unwrap();
    assert_eq!(stage.state(&job).await, "running", "nobody knows yet");
    wait_until("its silence to be noticed", LIMIT, async || stage.reap().await.stdout.contains(&job)).await.unwrap();
    assert_eq!(stage.job_text(&job, "error_kind").await.as_deref(), Some("worker_crash"));

    stage.work_once().await;
    assert_eq!(stage.walk(&job).await, "queued → running → queued → running → succeeded");
    assert_eq!(stage.job_text(&job, "attempt").await.as_deref(), Some("2"));
    assert_eq!(stage.count(RESPONSES).await, 1);
    let calls = stage.provider.calls();
    assert_eq!((calls.len(), &calls[0].headers["idempotency-key"]), (2, &job));
    assert_eq!(calls[1].headers["idempotency-key"], job, "a provider that knows the key need not work twice");
}

/// §8: whoever kills its worker three times is `stuck`, says so, and is run no fourth time until somebody asks.
#[tokio::test]
async fn a_job_that_kills_its_worker_three_times_is_stuck() {
    let stage = Stage::set().await;
    stage.provider.script(Rule::always().first(3).reply(Reply::wire("llama-chat-stream").hang_before_headers()));
    let job = stage.submit("a killer", &[]).await;
    for attempt in 1..=3 {
        assert_eq!(stage.job_text(&job, "attempt").await, Some(attempt.to_string()));
        kill_in_call(&stage, attempt).await;
    }
    let state = stage.state(&job).await;
    assert_eq!((state.as_str(), stage.job_text(&job, "error_kind").await.as_deref()), ("failed", Some("stuck")));
    assert_eq!(stage.job_text(&job, "error_message").await.as_deref(), Some("worker died 3 times"));
    stage.work_once().await;
    assert_eq!((stage.provider.calls().len(), stage.count(RESPONSES).await), (3, 0));

    let output = stage.cli(&["retry-job", &job, "--output", "ids"]).await;
    stage.work_once().await;
    assert_eq!(stage.state(output.stdout.trim()).await, "succeeded");
}

/// Case bank CB-52: with one attempt allowed, one start is all there is.
#[tokio::test]
async fn cb_52_one_attempt_is_one_start() {
    let stage = Stage::set().await;
    stage.provider.script(Rule::always().reply(Reply::wire("llama-chat-stream").hang_before_headers()));
    let job = stage.submit("a killer", &["--max-attempts", "1"]).await;
    kill_in_call(&stage, 1).await;
    stage.work_once().await;
    assert_eq!(stage.walk(&job).await, "queued → running → failed");
    assert_eq!(stage.job_text(&job, "error_kind").await.as_deref(), Some("stuck"));
    assert_eq!(stage.provider.calls().len(), 1);
}

/// P1 (and case bank CB-25): `sa-api` is killed under the hands of its clients, again and again. Each 202 they were given
/// has its prompt and its job, no half of one is there, and each is answered.
#[tokio::test]
async fn every_202_of_a_killed_api_has_its_prompt_and_job() {
    let stage = Stage::set().await;
    let accepted = Mutex::new(Vec::new());
    for round in 1..=3 {
        let Api { mut process, base, token } = stage.api().await;
        let kill = async {
            let enough = async || accepted.lock().unwrap().len() >= round * 12;
            wait_until("some prompts to be accepted", LIMIT, enough).await.unwrap();
            process.kill9().unwrap();
        };
        let ask = || async {
            let client = reqwest::Client::builder().timeout(LIMIT).build().unwrap();
            loop {
                let request = client.post(format!("{base}/sa-core/v1/prompt")).bearer_auth(&token);
                let Ok(response) = request.json(&json!({ "prompt_text": "hello" })).send().await else { break };
                assert_eq!(response.status(), 202);
                let Ok(ids) = response.json::<Value>().await else { break };
                accepted.lock().unwrap().push(ids["job_id"].as_str().unwrap().to_owned());
            }
        };
        tokio::join!(kill, ask(), ask(), ask(), ask());
    }
    assert_eq!(stage.count(HALVES).await, 0);
    let _worker = stage.worker().args(["--batch-size", "16"]).spawn().unwrap();
    for job in accepted.into_inner().unwrap() {
        stage.wait_for_state(&job, "succeeded").await;
    }
}

/// Contract §2 `--grace`: asked to stop, a worker gives back what does not end in time. No attempt is spent, and the job
/// keeps its place.
#[tokio::test]
async fn a_worker_asked_to_stop_gives_its_job_back_unspent() {
    let stage = Stage::set().await;
    stage.provider.script(Rule::always().first(1).reply(Reply::wire("llama-chat-stream").hang_before_headers()));
    let job = stage.submit("hello", &[]).await;
    let due = stage.job_text(&job, "scheduled_for").await;
    let mut worker = stage.worker().args(["--grace", "100ms"]).spawn().unwrap();
    stage.provider.wait_for_calls(1, LIMIT).await.unwrap();
    worker.sigterm().unwrap();
    assert!(worker.wait_exit(LIMIT).await.unwrap().success());

    assert_eq!(stage.walk(&job).await, "queued → running → queued");
    assert_eq!(stage.events(&job).await.last().unwrap().reason, "release");
    assert_eq!(stage.job_text(&job, "releases").await.as_deref(), Some("1"));
    assert_eq!(stage.job_text(&job, "scheduled_for").await, due);
    assert_eq!(stage.job_text(&job, "worker_claim").await, None);
    stage.work_once().await;
    assert_eq!(stage.state(&job).await, "succeeded");
    assert_eq!(stage.job_text(&job, "attempt").await.as_deref(), Some("1"));
}

/// Within the grace an answer that comes is kept and nothing new is begun; the second SIGTERM does not wait for the rest of
/// the grace, which is far longer than this proof.
#[tokio::test]
async fn a_worker_told_once_finishes_and_told_twice_gives_back_at_once() {
    let stage = Stage::set().await;
    let gate = Gate::closed();
    let answer = || Reply::wire("llama-chat-stream");
    stage.provider.script(Rule::when("slow").reply(answer().hang_before_headers()));
    stage.provider.script(Rule::when("quick").reply(answer().until(&gate)));
    let slow = stage.submit("slow", &[]).await;
    let quick = stage.submit("quick", &[]).await;
    let mut worker = stage.worker().args(["--grace", "1h"]).spawn().unwrap();
    stage.provider.wait_for_calls(2, LIMIT).await.unwrap();
    worker.sigterm().unwrap();
    worker.wait_for_output("The worker stops", LIMIT).await.unwrap();
    let late = stage.submit("late", &[]).await;
    gate.open();
    stage.wait_for_state(&quick, "succeeded").await;
    assert_eq!(stage.state(&slow).await, "running", "the first signal asks");

    worker.sigterm().unwrap();
    assert!(worker.wait_exit(LIMIT).await.unwrap().success());
    assert_eq!(stage.walk(&slow).await, "queued → running → queued");
    assert_eq!(stage.job_text(&slow, "attempt").await.as_deref(), Some("1"));
    assert_eq!(stage.walk(&late).await, "queued");
}

/// The server is killed as by a power cut, right after the last 202 and in the middle of two calls. It comes back, both
/// daemons find it by themselves, and all is answered once; the answer that came meanwhile is kept, not asked for again.
#[tokio::test]
async fn daemons_outlive_a_killed_database_and_no_acknowledged_prompt_is_lost() {
    let server = tokio::task::spawn_blocking(|| Server::own(Engine::of_this_run().unwrap())).await.unwrap().unwrap();
    let stage = Stage::over(Database::fresh_on(&server).await.unwrap(), "").await;
    let gate = Gate::closed();
    stage.provider.script(Rule::always().first(2).reply(Reply::wire("llama-chat-stream").until(&gate)));
    let mut api = stage.api().await;
    let worker = stage.worker().args(["--batch-size", "2"]).env("SA_STALE_AFTER", "5m");
    let mut worker = worker.env("SA_IDLE_SLEEP", "50ms").spawn().unwrap();
    let mut jobs = Vec::new();
    for n in 1..=6 {
        let ids = api.prompt(json!({ "prompt_text": format!("prompt {n}.") })).await;
        jobs.push(ids["job_id"].as_str().unwrap().to_owned());
        stage.provider.wait_for_calls(n.min(2), LIMIT).await.unwrap();
    }
    server.kill9().unwrap();
    gate.open();
    worker.wait_for_output("The end of a run could not be written", LIMIT).await.unwrap();
    server.start_again().unwrap();

    for job in &jobs {
        wait_until(&format!("job {job} to succeed"), LIMIT * 2, async || has_succeeded(&stage, job).await)
            .await
            .unwrap();
        assert_eq!(stage.job_text(job, "attempt").await.as_deref(), Some("1"));
    }
    assert_eq!((stage.count(RESPONSES).await, stage.count(HALVES).await), (6, 0));
    for n in 1..=6 {
        assert_eq!(stage.provider.calls_with(&format!("prompt {n}.")).len(), 1, "prompt {n}");
    }
    assert_eq!(api.get("/sa-core/v1/mission/recent").await["entities"].as_array().unwrap().len(), 6);
    api.prompt(json!({ "prompt_text": "and on" })).await;
    for process in [&mut worker, &mut api.process] {
        assert!(process.wait_exit(Duration::ZERO).await.is_err(), "it should still run:\n{}", process.stderr());
    }
}

/// Kills a worker in its call, the one of this number, and lets the reaper find it.
async fn kill_in_call(stage: &Stage, number: usize) {
    let mut worker = stage.worker().spawn().unwrap();
    stage.provider.wait_for_calls(number, LIMIT).await.unwrap();
    worker.kill9().unwrap();
    stage.sql(SILENT).await;
    stage.reap().await;
}

/// Whether this job has succeeded, asked of a server that may be on its way back.
async fn has_succeeded(stage: &Stage, job: &str) -> bool {
    let state = sqlx::query_scalar("SELECT state FROM sa_job WHERE id = ?").bind(job).fetch_one(stage.pool()).await;
    state.is_ok_and(|state: String| state == "succeeded")
}
