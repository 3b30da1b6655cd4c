//! `proofs/run retry-proof`: what may pass is tried again after its backoff; what will not pass fails at once.

use sa_harness::{Reply, Rule};
use serde_json::json;

use crate::stage::Stage;

/// Keeps a waiting job waiting, however slow this machine is.
const WAIT_LONGER: &str = "UPDATE sa_job SET scheduled_for = scheduled_for + INTERVAL 1 HOUR WHERE state = 'queued'";
/// Lets the wait of every job be over.
const WAIT_IS_OVER: &str = "UPDATE sa_job SET scheduled_for = UTC_TIMESTAMP(6) WHERE state = 'queued'";

/// The specification's own proof (§7 phase 2, §8): a transient failure puts the job back for 5 to 10 s, nobody claims it
/// before, and then it succeeds in attempt 2.
#[tokio::test]
async fn a_transient_failure_waits_out_its_backoff_and_then_succeeds() {
    let stage = Stage::set().await;
    stage.provider.script(Rule::always().first(1).reply(Reply::wire("aimock-503")));
    let job = stage.submit("hello", &[]).await;
    let created = stage.job_text(&job, "created_at").await;
    stage.work_once().await;
    assert_eq!(columns(&stage, &job).await, ["queued", "2", "provider_5xx", "backoff"]);
    assert_eq!(stage.job_text(&job, "worker_claim").await, None);
    within(backoff(&stage, &job).await, 5.0, 10.0);

    stage.sql(WAIT_LONGER).await;
    stage.work_once().await;
    assert_eq!(stage.provider.calls().len(), 1, "claimed before its time");

    stage.sql(WAIT_IS_OVER).await;
    stage.work_once().await;
    assert_eq!(columns(&stage, &job).await, ["succeeded", "2", "", ""]);
    assert_eq!(stage.walk(&job).await, "queued → running → queued → running → succeeded");
    assert_eq!(stage.job_text(&job, "created_at").await, created, "history stays true");
    let claims: Vec<_> = stage.events(&job).await.into_iter().filter(|event| event.reason == "claim").collect();
    assert_ne!(claims[0].claim, claims[1].claim);
    let calls = stage.provider.calls();
    assert_eq!(calls[0].headers["idempotency-key"], calls[1].headers["idempotency-key"]);
}

/// §8's table: each retryable kind is put back, by what the provider said.
#[tokio::test]
async fn every_transient_error_is_put_back_under_its_own_kind() {
    let stage = Stage::set().await;
    let cases = [
        ("five hundred", Reply::wire("aimock-500"), "provider_5xx"),
        ("overloaded", Reply::wire("aimock-529"), "provider_5xx"),
        ("cut off", Reply::wire("llama-chat-stream").cut_after_bytes(700), "provider_5xx"),
        ("reset", Reply::wire("llama-chat-stream").reset_after_bytes(700), "provider_5xx"),
    ];
    let mut jobs = Vec::new();
    for (text, reply, kind) in cases {
        stage.provider.script(Rule::when(text).reply(reply));
        jobs.push((stage.submit(text, &[]).await, kind));
    }
    stage.work_once().await;
    for (job, kind) in jobs {
        assert_eq!(columns(&stage, &job).await, ["queued", "2", kind, "backoff"], "{job}");
    }
}

/// §8 `rate_limit`: the wait the provider names, with up to a tenth on top and never early; without one 60 to 90 s. The lane
/// waits, not the job: its attempts and its place are kept.
#[tokio::test]
async fn a_rate_limit_is_waited_out_as_the_provider_asks() {
    let silent = Reply::by_hand("429 Too Many Requests", &[], "");
    for (reply, least, most) in [(Reply::wire("aimock-429-rate-limit"), 7.0, 7.7), (silent, 60.0, 90.0)] {
        let stage = Stage::set().await;
        stage.provider.script(Rule::always().first(1).reply(reply));
        let job = stage.submit("hello", &[]).await;
        stage.work_once().await;
        assert_eq!(columns(&stage, &job).await, ["queued", "1", "rate_limit", "gate"]);
        let wait = "SELECT TIMESTAMPDIFF(MICROSECOND, updated_at, closed_until) FROM sa_provider_gate";
        within(stage.count(wait).await as f64 / 1e6, least, most);
        stage.sql("UPDATE sa_provider_gate SET closed_until = closed_until + INTERVAL 1 HOUR").await;
        stage.work_once().await;
        assert_eq!(stage.provider.calls().len(), 1, "called before its time");
        stage.sql("UPDATE sa_provider_gate SET closed_until = UTC_TIMESTAMP(6)").await;
        stage.work_once().await;
        assert_eq!(columns(&stage, &job).await, ["succeeded", "1", "", ""]);
    }
}

/// Criterion 4 and the dead letter of §8: with its attempts used up the job is failed, both client and operator see it,
/// and a retry makes a new job with `supersedes`, which answers the same prompt.
#[tokio::test]
async fn used_up_attempts_leave_a_failed_job_that_can_be_retried() {
    let stage = Stage::set().await;
    stage.provider.script(Rule::always().first(3).reply(Reply::wire("aimock-503")));
    let api = stage.api().await;
    let ids = api.prompt(json!({ "prompt_text": "hello" })).await;
    let job = ids["job_id"].as_str().unwrap();
    stage.work_once().await;
    stage.sql(WAIT_IS_OVER).await;
    stage.work_once().await;
    within(backoff(&stage, job).await, 25.0, 40.0);
    stage.sql(WAIT_IS_OVER).await;
    stage.work_once().await;
    assert_eq!(columns(&stage, job).await, ["failed", "3", "provider_5xx", ""]);
    stage.work_once().await;
    assert_eq!(stage.provider.calls().len(), 3, "failed is never run again");

    let orphan = api.get("/sa-core/v1/mission/recent").await["entities"][0].clone();
    assert_eq!((orphan["state"].as_str(), orphan["response"].is_null()), (Some("failed"), true));
    assert_eq!(orphan["job"]["error_kind"], "provider_5xx");
    assert_eq!(ids_of(&stage, &["list-jobs", "--state", "failed"]).await, [job]);

    let successor = ids_of(&stage, &["retry-job", job]).await.remove(0);
    assert_ne!(successor, job);
    assert_eq!(stage.job_text(&successor, "supersedes").await.as_deref(), Some(job));
    assert_eq!(columns(&stage, &successor).await, ["queued", "1", "", ""]);
    assert_eq!(columns(&stage, job).await, ["superseded", "3", "provider_5xx", ""], "its outcome stays");
    stage.work_once().await;
    let answered = api.get("/sa-core/v1/mission/recent").await["entities"][0].clone();
    assert_eq!(answered["prompt_id"], ids["prompt_id"]);
    assert_eq!((&answered["state"], &answered["job"]["id"]), (&json!("succeeded"), &json!(successor)));
}

/// §8: `auth`, `provider_4xx` and `parse` are not retried: one call, failed in attempt 1.
#[tokio::test]
async fn what_will_not_pass_fails_at_once() {
    let stage = Stage::set().await;
    let no_json = Reply::by_hand("200 OK", &[("content-type", "application/json")], "{\"choices\": oops}");
    let cases = [
        ("wrong key", Reply::wire("aimock-401"), "auth"),
        ("refused", Reply::wire("aimock-400-content-policy"), "provider_4xx"),
        ("too long", Reply::wire("llama-400-context"), "provider_4xx"),
        ("unknown", Reply::wire("aimock-404-no-match"), "provider_4xx"),
        ("garbled", no_json, "parse"),
    ];
    let mut jobs = Vec::new();
    for (text, reply, kind) in cases {
        stage.provider.script(Rule::when(text).reply(reply));
        jobs.push((stage.submit(text, &[]).await, kind));
    }
    stage.work_once().await;
    stage.work_once().await;
    for (job, kind) in &jobs {
        assert_eq!(columns(&stage, job).await, ["failed", "1", kind, ""], "{job}");
        assert_eq!(stage.walk(job).await, "queued → running → failed");
    }
    assert_eq!(stage.provider.calls().len(), jobs.len());
}

/// Criterion 4: a time-out of the adapter, of whichever of its three limits, is `timeout` and retried by itself.
#[tokio::test]
async fn a_timeout_is_retried_by_itself() {
    let stage = Stage::with_settings(
        "first_byte_timeout = \"2s\"\nidle_timeout = \"2s\"\ntotal_timeout = \"4s\"\nconnect_timeout = \"2s\"",
    )
    .await;
    let answer = || Reply::wire("llama-chat-stream");
    let cases = [
        ("never begins", answer().hang_before_headers()),
        ("stops", answer().hang_after_bytes(700)),
        ("drips", answer().drip(10, std::time::Duration::from_millis(50))),
    ];
    let mut jobs = Vec::new();
    for (text, reply) in cases {
        stage.provider.script(Rule::when(text).first(1).reply(reply));
        jobs.push(stage.submit(text, &[]).await);
    }
    stage.work_once().await;
    for job in &jobs {
        assert_eq!(columns(&stage, job).await, ["queued", "2", "timeout", "backoff"], "{job}");
        within(backoff(&stage, job).await, 5.0, 10.0);
    }
    stage.sql(WAIT_IS_OVER).await;
    stage.work_once().await;
    for job in &jobs {
        assert_eq!(columns(&stage, job).await, ["succeeded", "2", "", ""], "{job}");
    }
}

/// State, attempt, error kind and the reason to wait; what is NULL is empty.
async fn columns(stage: &Stage, job: &str) -> [String; 4] {
    let text = async |column| stage.job_text(job, column).await.unwrap_or_default();
    [text("state").await, text("attempt").await, text("error_kind").await, text("held_reason").await]
}

/// How long the job was told to wait when it was put back, in seconds.
async fn backoff(stage: &Stage, job: &str) -> f64 {
    let query = "SELECT TIMESTAMPDIFF(MICROSECOND, updated_at, scheduled_for) FROM sa_job WHERE id = ?";
    let micros: i64 = sqlx::query_scalar(query).bind(job).fetch_one(stage.pool()).await.unwrap();
    micros as f64 / 1e6
}

fn within(wait: f64, least: f64, most: f64) {
    assert!((least..=most).contains(&wait), "{wait} s is not within {least} to {most} s");
}

/// The ids a command of the operator's prints.
async fn ids_of(stage: &Stage, args: &[&str]) -> Vec<String> {
    let output = stage.cli(&[args, &["--output", "ids"]].concat()).await;
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    output.stdout.lines().map(str::to_owned).collect()
}
