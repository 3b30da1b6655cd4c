//! Rows of the case bank: faults other projects reported, shown here to a user of ours, end to end.
//!
//! What each row means inside one crate is tested there, under the same `cb_NN`.

mod barrier;
mod claims;
mod crawl;
mod halves;
mod texts;
mod viewers;
mod wire;

use reqwest::Method;
use serde_json::Value;

use crate::stage::{Api, Stage};

/// What `GET /jobs/{id}` says of a job.
async fn seen(api: &Api, job: &str) -> Value {
    api.get(&format!("/sa-core/v1/jobs/{job}")).await
}

/// What `job-details --json` says of a job.
async fn details(stage: &Stage, job: &str) -> Value {
    let output = stage.cli(&["job-details", "--json", job]).await;
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    serde_json::from_str(&output.stdout).unwrap()
}

/// The text that the fake provider was asked last in a call.
fn asked(call: &sa_harness::Call) -> String {
    let body: Value = serde_json::from_str(&call.body).unwrap();
    let last = body["messages"].as_array().unwrap().last().unwrap();
    last["content"].as_str().unwrap().to_owned()
}

/// Sends a body as it is to `POST /prompt`.
async fn post_raw(api: &Api, body: impl Into<reqwest::Body>) -> reqwest::Response {
    let request = api.request(Method::POST, "/sa-core/v1/prompt").header("content-type", "application/json");
    request.body(body).send().await.unwrap()
}
