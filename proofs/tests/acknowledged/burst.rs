//! Everybody at once: enqueue, claim, finalize, reclaim and cancel over the same rows.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use reqwest::StatusCode;
use sa_harness::{Binary, Process, Reply, Rule, wait_until};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{HALVES, complaints, complaints_of};
use crate::stage::{Stage, succeed};

const WORKERS: usize = 8;
const ENQUEUERS: usize = 8;
const PROMPTS_EACH: usize = 40;
/// Several hundred jobs on two cores that others use as well.
const BURST_LIMIT: Duration = Duration::from_secs(240);

/// Makes every eighth job look silent in its first run, so that reapers contend for rows with workers that are alive.
const SOME_FALL_SILENT: &str = "UPDATE sa_job SET running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 5 MINUTE
     WHERE state = 'running' AND attempt = 1 AND CRC32(id) % 8 = 0";
const OPEN: &str = "SELECT COUNT(*) FROM sa_job WHERE state IN ('queued', 'running')";

/// Case bank CB-33: workers, reapers, enqueuers and cancels at once. What deadlocks and lock waits this brings is settled
/// inside: every answer is 202, 200 or the 409 of a job that has ended, every process ends well and without a complaint, no
/// job fails, and each that nobody cancelled is answered.
#[tokio::test]
async fn cb_33_a_burst_of_everything_at_once_lets_no_error_out() {
    let stage = Stage::set().await;
    stage.provider.script(Rule::always().reply(Reply::wire("llama-chat-stream").after(Duration::from_millis(300))));
    let mut api = stage.api().await;
    let mut workers: Vec<Process> = (0..WORKERS).map(|_| worker(&stage).spawn().unwrap()).collect();
    let (mut enqueuers, settled) = (JoinSet::new(), AtomicBool::new(false));
    for number in 0..ENQUEUERS {
        enqueuers.spawn(enqueue_and_cancel(api.url("/sa-core/v1"), api.token.clone(), number));
    }
    let reaper = with_limits(stage.binary("sa-reaper").arg("reclaim-stuck-jobs"));
    let handed_in = AtomicBool::new(false);
    let hand_in = async {
        let jobs: Vec<Job> = enqueuers.join_all().await.into_iter().flatten().collect();
        handed_in.store(true, Ordering::SeqCst);
        jobs
    };
    let settle = async {
        let at_rest = async || {
            // This session may be a deadlock's victim itself; then nobody falls silent this time.
            drop(sqlx::query(SOME_FALL_SILENT).execute(stage.pool()).await);
            handed_in.load(Ordering::SeqCst) && stage.count(OPEN).await == 0
        };
        wait_until("the burst to settle", BURST_LIMIT, at_rest).await.unwrap();
        settled.store(true, Ordering::SeqCst);
    };
    let reap = || reap_until(&settled, &reaper);
    let (jobs, ..) = tokio::join!(hand_in, settle, reap(), reap(), reap());

    for process in workers.iter_mut().chain([&mut api.process]) {
        process.sigterm().unwrap();
        assert!(process.wait_exit(BURST_LIMIT).await.unwrap().success());
        assert_eq!(complaints_of(process), Vec::<String>::new());
    }
    assert_eq!(jobs.len(), ENQUEUERS * PROMPTS_EACH);
    for Job { id, cancelled } in jobs {
        assert_eq!(stage.state(&id).await, if cancelled { "cancelled" } else { "succeeded" }, "{id}");
    }
    assert_eq!(stage.count(HALVES).await, 0);
    assert!(stage.count("SELECT COUNT(*) FROM sa_job_event WHERE reason = 'reclaim'").await > 0, "reapers had work");
}

/// One reaper after the other, as an impatient cron would start them; each ends well and has nothing to complain of.
async fn reap_until(settled: &AtomicBool, reaper: &Binary) {
    while !settled.load(Ordering::SeqCst) {
        let output = succeed(reaper.clone()).await;
        assert_eq!(complaints(&(output.stderr + &output.stdout)), Vec::<&str>::new());
    }
}

/// What an enqueuer was told about one prompt.
struct Job {
    id: String,
    cancelled: bool,
}

/// One enqueuer: its prompts one after the other, of which it cancels every fifth at once, as a user who thinks again.
async fn enqueue_and_cancel(base: String, token: String, number: usize) -> Vec<Job> {
    let client = reqwest::Client::builder().timeout(BURST_LIMIT).build().unwrap();
    let post = async |path: String, body: Value| {
        let answer = client.post(format!("{base}{path}")).bearer_auth(&token).json(&body).send().await.unwrap();
        (answer.status(), answer.json::<Value>().await.unwrap())
    };
    let mut jobs = Vec::new();
    for n in 0..PROMPTS_EACH {
        let (status, ids) = post("/prompt".to_owned(), json!({ "prompt_text": format!("{n} of {number}") })).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{ids}");
        let id = ids["job_id"].as_str().unwrap().to_owned();
        let mut cancelled = false;
        if n % 5 == 4 {
            let (status, answer) = post(format!("/jobs/{id}/cancel"), json!({})).await;
            assert!([StatusCode::OK, StatusCode::CONFLICT].contains(&status), "{answer}");
            cancelled = status == StatusCode::OK;
        }
        jobs.push(Job { id, cancelled });
    }
    jobs
}

/// A service with little patience for an empty queue.
fn worker(stage: &Stage) -> Binary {
    let worker = stage.binary("sa-worker").args(["run-worker", "--batch-size", "4"]);
    with_limits(worker).env("SA_IDLE_SLEEP", "50ms")
}

/// A busy machine shall not look like a death.
fn with_limits(binary: Binary) -> Binary {
    binary.env("SA_BEAT_EVERY", "10s").env("SA_STALE_AFTER", "60s")
}
