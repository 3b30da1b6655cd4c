//! `proofs/run async-execution-proof`: queued → running → succeeded, whoever watches or goes away.

use std::time::{Duration, Instant};

use sa_harness::{Gate, Reply, Rule};
use serde_json::json;

use crate::stage::{LIMIT, Stage};

/// The specification's own proof: the walk of states, and the prompt's answer at its end.
#[tokio::test]
async fn a_prompt_walks_from_queued_over_running_to_succeeded() {
    let stage = Stage::set().await;
    let gate = Gate::closed();
    stage.provider.script(Rule::always().reply(Reply::wire("llama-chat-stream").until(&gate)));
    let api = stage.api().await;
    let ids = api.prompt(json!({ "prompt_text": "hello" })).await;
    let job = ids["job_id"].as_str().unwrap();
    assert_eq!((ids["state"].as_str(), stage.state(job).await.as_str()), (Some("queued"), "queued"));

    let mut worker = stage.worker().arg("--once").spawn().unwrap();
    stage.wait_for_state(job, "running").await;
    gate.open();
    assert!(worker.wait_exit(LIMIT).await.unwrap().success());

    let walk = stage.walk(job).await;
    println!("{job}: {walk}");
    assert_eq!(walk, "queued → running → succeeded");
    let seen = api.get("/sa-core/v1/mission/recent").await;
    let item = &seen["entities"][0];
    assert_eq!(item["state"], "succeeded");
    assert!(!item["response"]["text"].as_str().unwrap().is_empty());
}

/// Criterion 1: the answer of `POST /prompt` does not depend on the provider, which here never says a word.
#[tokio::test]
async fn a_prompt_is_accepted_while_the_provider_hangs() {
    let stage = Stage::set().await;
    stage.provider.script(Rule::always().reply(Reply::wire("llama-chat-stream").hang_before_headers()));
    let api = stage.api().await;
    let _worker = stage.worker().spawn().unwrap();
    api.prompt(json!({ "prompt_text": "first" })).await;
    stage.provider.wait_for_calls(1, LIMIT).await.unwrap();
    let began = Instant::now();
    api.prompt(json!({ "prompt_text": "second" })).await;
    assert!(began.elapsed() < Duration::from_secs(10), "the limit of a hung request, not a latency");
}

/// Criterion 2: the tab closes, and reopened finds the answer.
#[tokio::test]
async fn a_closed_tab_finds_its_answer_when_it_comes_back() {
    let stage = Stage::set().await;
    let api = stage.api().await;
    let prompt = {
        let tab = reqwest::Client::builder().build().unwrap();
        let request = tab.post(api.url("/sa-core/v1/prompt")).bearer_auth(&api.token);
        let answer: serde_json::Value =
            request.json(&json!({ "prompt_text": "hello" })).send().await.unwrap().json().await.unwrap();
        answer["prompt_id"].clone()
    };
    stage.work_once().await;
    let reopened = api.get("/sa-core/v1/mission/recent").await;
    assert_eq!(reopened["entities"][0]["prompt_id"], prompt);
    assert_eq!(reopened["entities"][0]["state"], "succeeded");
}
