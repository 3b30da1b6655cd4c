//! Processes that are killed between two writes that belong together: rows CB-23 and CB-25.

use reqwest::Method;
use sa_harness::{Process, Proxy, Reply, Rule};
use serde_json::json;

use super::barrier::{Barrier, Place};
use crate::stage::{Api, Stage};

/// When a process is killed.
#[derive(Clone, Copy, Debug)]
enum When {
    /// Between its two writes.
    BeforeTheSecondWrite,
    /// The server has done its COMMIT, and it does not know yet.
    AfterTheCommit,
}

/// Kills a process that comes to the barrier.
async fn kill(mut barrier: Barrier<'_>, process: &mut Process, proxy: &Proxy, when: When) {
    barrier.reached().await;
    match when {
        When::BeforeTheSecondWrite => {
            process.kill9().unwrap();
            barrier.let_go().await;
        }
        When::AfterTheCommit => {
            barrier.let_go_unheard(proxy).await;
            process.kill9().unwrap();
        }
    }
    barrier.remove().await;
}

/// Starts `sa-api`, sends it this request and does not wait for the answer.
async fn asked_api(stage: &Stage, url: &str, path: &str, body: serde_json::Value) -> Process {
    let api = stage.api_of(stage.binary("sa-api").env("DATABASE_URL", url)).await;
    let request = api.request(Method::POST, path).json(&body);
    tokio::spawn(async move { request.send().await.map(|answer| answer.status()) });
    let Api { process, .. } = api;
    process
}

/// A job that has failed for good, so that it may be retried.
async fn failed_job(stage: &Stage) -> String {
    stage.provider.script(Rule::always().first(1).reply(Reply::wire("aimock-400-content-policy")));
    let job = stage.submit("hello", &[]).await;
    stage.work_once().await;
    assert_eq!(stage.state(&job).await, "failed");
    job
}

/// What is left of the retry: after a kill between the two writes nothing, so that it can be asked for again.
async fn settled(stage: &Stage, job: &str, before: &[(String, i64)], when: When) {
    match when {
        When::BeforeTheSecondWrite => assert_eq!(stage.contents().await, before, "nothing is left of it"),
        When::AfterTheCommit => both(stage, job).await,
    }
}

/// The old job is superseded and has one successor, which is answered.
async fn both(stage: &Stage, job: &str) {
    assert_eq!(stage.state(job).await, "superseded");
    let successors: Vec<String> = sqlx::query_scalar("SELECT id FROM sa_job WHERE supersedes = ?")
        .bind(job)
        .fetch_all(stage.pool())
        .await
        .unwrap();
    let [successor] = successors.as_slice() else { panic!("successors: {successors:?}") };
    stage.work_once().await;
    assert_eq!(stage.walk(successor).await, "queued → running → succeeded");
    assert_eq!(stage.walk(job).await, "queued → running → failed → superseded");
}

/// CB-23: `sa-api` is killed between superseding a job and inserting its successor: neither; and after the commit: both.
#[tokio::test]
async fn cb_23_a_killed_api_has_retried_the_job_whole_or_not_at_all() {
    let stage = Stage::set().await;
    let job = failed_job(&stage).await;
    for when in [When::BeforeTheSecondWrite, When::AfterTheCommit] {
        let before = stage.contents().await;
        let (proxy, url) = stage.proxy().await;
        let barrier = Barrier::at(&stage, Place::JobInsert).await;
        let mut process = asked_api(&stage, &url, &format!("/sa-core/v1/jobs/{job}/retry"), json!({})).await;
        kill(barrier, &mut process, &proxy, when).await;
        settled(&stage, &job, &before, when).await;
    }
}

/// CB-23, of the other program that retries.
#[tokio::test]
async fn cb_23_a_killed_cli_has_retried_the_job_whole_or_not_at_all() {
    let stage = Stage::set().await;
    let job = failed_job(&stage).await;
    for when in [When::BeforeTheSecondWrite, When::AfterTheCommit] {
        let before = stage.contents().await;
        let (proxy, url) = stage.proxy().await;
        let barrier = Barrier::at(&stage, Place::JobInsert).await;
        let retry = stage.binary("sa-cli").env("DATABASE_URL", &url).args(["retry-job", &job]);
        let mut process = retry.spawn().unwrap();
        kill(barrier, &mut process, &proxy, when).await;
        assert_eq!(process.stdout(), "", "it has promised nothing");
        settled(&stage, &job, &before, when).await;
    }
}

/// CB-25: `sa-api` is killed after the prompt's INSERT: no prompt is left without a job; and after the commit: both.
#[tokio::test]
async fn cb_25_a_killed_api_leaves_no_prompt_without_its_job() {
    let stage = Stage::set().await;
    for when in [When::BeforeTheSecondWrite, When::AfterTheCommit] {
        let before = stage.contents().await;
        let (proxy, url) = stage.proxy().await;
        let barrier = Barrier::at(&stage, Place::JobInsert).await;
        let mut process = asked_api(&stage, &url, "/sa-core/v1/prompt", json!({ "prompt_text": "hello" })).await;
        kill(barrier, &mut process, &proxy, when).await;
        match when {
            When::BeforeTheSecondWrite => assert_eq!(stage.contents().await, before, "nothing is left of it"),
            When::AfterTheCommit => {
                stage.work_once().await;
                let answered = "SELECT COUNT(*) FROM sa_entity prompt JOIN sa_job job ON job.prompt_id = prompt.id \
                                JOIN sa_entity answer ON answer.id = job.response_id WHERE job.state = 'succeeded'";
                assert_eq!(stage.count(answered).await, 1);
            }
        }
    }
    assert_eq!(stage.count("SELECT COUNT(*) FROM sa_job").await, 1);
}
