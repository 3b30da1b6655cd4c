//! `proofs/run priority-queue-proof`: the urgent first, then first come, first served; who waits for a time blocks nobody.

use sa_harness::{Gate, Reply, Rule, wait_until};
use serde_json::{Value, json};

use crate::stage::{LIMIT, Stage, succeed};

/// Makes every waiting job due, as its own time would.
const ALL_ARE_DUE: &str = "UPDATE sa_job SET scheduled_for = UTC_TIMESTAMP(6) WHERE state = 'queued'";

/// Statement 3 of §2 and phase 3's test: three prompts at 90, 10 and 50 are claimed as 10, 50, 90.
#[tokio::test]
async fn three_priorities_are_claimed_in_their_order_whatever_order_they_came_in() {
    let stage = Stage::set().await;
    let bulk = stage.submit("bulk", &["--priority", "90"]).await;
    let urgent = stage.submit("urgent", &["--priority", "10"]).await;
    let normal = stage.submit("normal", &[]).await;
    let _worker = stage.worker().args(["--batch-size", "1"]).spawn().unwrap();
    stage.wait_for_state(&bulk, "succeeded").await;

    assert_eq!(called(&stage), ["urgent", "normal", "bulk"]);
    assert_eq!(claimed(&stage).await, [urgent, normal, bulk]);
}

/// Phase 2's concurrent-submit proof: of two prompts sent at the same moment the one at 10 runs, the one at 90 waits.
#[tokio::test]
async fn of_two_prompts_sent_at_once_the_urgent_one_runs_first() {
    let stage = Stage::set().await;
    let api = stage.api().await;
    let (bulk, urgent) = tokio::join!(
        api.prompt(json!({ "prompt_text": "bulk", "options": { "priority": 90 } })),
        api.prompt(json!({ "prompt_text": "urgent", "options": { "priority": 10 } })),
    );
    succeed(stage.worker().args(["--once", "--batch-size", "1"])).await;
    assert_eq!(stage.state(urgent["job_id"].as_str().unwrap()).await, "succeeded");
    assert_eq!(stage.state(bulk["job_id"].as_str().unwrap()).await, "queued");
    assert_eq!(called(&stage), ["urgent"]);
}

/// `--priority-ceiling` of §5: what is above it stays in the queue, for a worker that takes it.
#[tokio::test]
async fn a_worker_claims_nothing_above_its_priority_ceiling() {
    let stage = Stage::set().await;
    let mut jobs = Vec::new();
    for priority in ["51", "100", "50", "0"] {
        jobs.push(stage.submit(&format!("at {priority}"), &["--priority", priority]).await);
    }
    succeed(stage.worker().args(["--once", "--priority-ceiling", "50"])).await;
    let mut states = Vec::new();
    for job in &jobs {
        states.push(stage.state(job).await);
    }
    assert_eq!(states, ["queued", "queued", "succeeded", "succeeded"]);
    assert_eq!(stage.provider.calls().len(), 2);

    stage.work_once().await;
    assert_eq!(stage.count("SELECT COUNT(*) FROM sa_job WHERE state = 'succeeded'").await, 4);
}

/// The `created_at ASC` of §5's claim: within one priority the order of submission counts, and at one instant the id,
/// which rises with time too.
#[tokio::test]
async fn within_a_priority_first_come_is_first_served() {
    let stage = Stage::set().await;
    let mut submitted = Vec::new();
    for n in 0..5 {
        submitted.push(stage.submit(&format!("number {n}"), &[]).await);
    }
    succeed(stage.worker().args(["--once", "--batch-size", "1"])).await;
    assert_eq!(claimed(&stage).await, submitted[..1]);

    // The four others are made due at one and the same instant.
    stage.sql(ALL_ARE_DUE).await;
    let _worker = stage.worker().args(["--batch-size", "1"]).spawn().unwrap();
    stage.wait_for_state(&submitted[4], "succeeded").await;
    assert_eq!(claimed(&stage).await, submitted);
    assert_eq!(called(&stage), ["number 0", "number 1", "number 2", "number 3", "number 4"]);
}

/// A job whose time has not come is passed over even at the best priority, and runs when it has (§7 phase 6, §8 backoff).
#[tokio::test]
async fn a_delayed_urgent_job_does_not_block_one_that_is_due() {
    let stage = Stage::set().await;
    let tomorrow: String =
        sqlx::query_scalar("SELECT DATE_FORMAT(UTC_TIMESTAMP() + INTERVAL 1 DAY, '%Y-%m-%dT%H:%i:%sZ')")
            .fetch_one(stage.pool())
            .await
            .unwrap();
    let urgent = stage.submit("urgent", &["--priority", "0", "--at", &tomorrow]).await;
    let bulk = stage.submit("bulk", &["--priority", "90"]).await;
    succeed(stage.worker().args(["--once", "--batch-size", "1"])).await;
    assert_eq!(stage.state(&bulk).await, "succeeded");
    assert_eq!(stage.state(&urgent).await, "queued");
    assert_eq!(stage.job_text(&urgent, "held_reason").await.as_deref(), Some("schedule"));
    stage.work_once().await;
    assert_eq!(called(&stage), ["bulk"]);

    stage.sql(ALL_ARE_DUE).await;
    stage.work_once().await;
    assert_eq!(stage.state(&urgent).await, "succeeded");
}

/// A service that is busy with bulk work takes the urgent job next, not the bulk that has waited longer.
#[tokio::test]
async fn an_urgent_job_overtakes_the_bulk_that_waits() {
    let stage = Stage::set().await;
    let gate = Gate::closed();
    let answer = Reply::wire("llama-chat-stream").until(&gate);
    stage.provider.script(Rule::when("bulk 0").reply(answer));
    for n in 0..3 {
        stage.submit(&format!("bulk {n}"), &["--priority", "90"]).await;
    }
    let _worker = stage.worker().args(["--batch-size", "1"]).spawn().unwrap();
    stage.provider.wait_for_calls(1, LIMIT).await.unwrap();
    let urgent = stage.submit("urgent", &["--priority", "10"]).await;
    // A worker's picture of the queue may be a second old: make this one take a new look.
    let seen = "SELECT TIMESTAMPDIFF(MICROSECOND, MAX(created_at), UTC_TIMESTAMP(6)) DIV 1100000 FROM sa_job";
    wait_until("the picture to be old", LIMIT, async || stage.count(seen).await > 0).await.unwrap();
    gate.open();
    stage.wait_for_state(&urgent, "succeeded").await;
    let calls = stage.provider.wait_for_calls(4, LIMIT).await.unwrap();
    assert!(calls[1].body.contains("urgent"), "{:?}", called(&stage));
}

/// The prompts in the order in which the provider was called.
fn called(stage: &Stage) -> Vec<String> {
    let text = |body: &str| {
        let body: Value = serde_json::from_str(body).unwrap();
        body["messages"][0]["content"].as_str().unwrap().to_owned()
    };
    stage.provider.calls().iter().map(|call| text(&call.body)).collect()
}

/// The jobs in the order of their claims.
async fn claimed(stage: &Stage) -> Vec<String> {
    let query = "SELECT job_id FROM sa_job_event WHERE reason = 'claim' ORDER BY seq";
    sqlx::query_scalar(query).fetch_all(stage.pool()).await.unwrap()
}
