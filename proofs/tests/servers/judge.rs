//! llmock: it breaks its answers as it is told, keeps a journal of what the client did then, and judges it.

use std::{collections::BTreeMap, time::Duration};

use sa_harness::wait_until;
use serde_json::{Value, json};

use super::{Server, installed, provider, worker};
use crate::stage::Stage;

/// The longest scenario is two backoffs: 10 s, then 40 s.
const ALL_OVER: Duration = Duration::from_secs(150);

/// The protocols it knows: kind here, what stands before its paths.
const PROTOCOLS: [(&str, &str); 4] =
    [("openai", "/v1"), ("openai-responses", "/v1"), ("anthropic", "/anthropic/v1"), ("gemini", "/gemini/v1beta")];

/// A scenario: its name, what the server does to its first calls, how many calls there are in all, how the job ends.
struct Scenario {
    name: String,
    fault: Value,
    calls: usize,
    end: &'static str,
}

fn scenario(name: &str, fault: Value, calls: usize, end: &'static str) -> Scenario {
    Scenario { name: name.to_owned(), fault, calls, end }
}

fn scenarios() -> Vec<Scenario> {
    let fail = |status: u16, times: u16| json!({"type": "fail", "status": status, "times": times});
    let stream = |kind: &str| json!({"type": "stream_fault", "kind": kind, "after_chunks": 2, "stall_seconds": 8});
    let mut all = vec![
        scenario("sound", Value::Null, 1, "succeeded"),
        scenario("rate limit", json!({"type": "fail", "status": 429, "retry_after": 2}), 2, "succeeded"),
        scenario("long wait", json!({"type": "fail", "status": 503, "retry_after": 15}), 2, "succeeded"),
        scenario("short wait", json!({"type": "fail", "status": 500, "retry_after": 0.2}), 2, "succeeded"),
        scenario("down twice", fail(503, 2), 3, "succeeded"),
        scenario("slow", json!({"type": "delay", "seconds": 8}), 2, "succeeded"),
    ];
    all.extend(
        [408, 409, 500, 502, 504, 529]
            .map(|status| scenario(&format!("passing {status}"), fail(status, 1), 2, "succeeded")),
    );
    all.extend(
        [400, 401, 402, 403, 404, 413, 422]
            .map(|status| scenario(&format!("lasting {status}"), fail(status, 9), 1, "failed")),
    );
    all.extend(
        ["disconnect", "truncate", "malformed", "stall"].map(|kind| scenario(kind, stream(kind), 2, "succeeded")),
    );
    all
}

/// Each scenario on each protocol, each in a lane of its own, all at once. The judge's verdict has neither an error nor a
/// warning, and the journal holds exactly the calls that the contract allows.
#[tokio::test]
async fn the_judge_finds_nothing_to_say_against_the_worker() {
    let server = Server::start(installed("llmock").args(["serve", "--host", "127.0.0.1", "--port"]), "/health").await;
    let mut cases = BTreeMap::new();
    for (kind, path) in PROTOCOLS {
        for scenario in scenarios() {
            cases.insert(format!("{kind}.{}", scenario.name.replace(' ', "-")), (kind, path, scenario));
        }
    }
    let mut file = String::new();
    for (name, (kind, path, scenario)) in &cases {
        file += &provider(name, kind, &format!("{}{path}", server.base), name);
        file += "first_byte_timeout = \"4s\"\nidle_timeout = \"4s\"\n";
        prepare(&server, name, &scenario.fault).await;
    }
    let stage = Stage::with_providers(&file).await;
    let mut jobs = Vec::new();
    for name in cases.keys() {
        jobs.push((name, stage.submit(&format!("About {name}"), &["--prefer-provider", name]).await));
    }

    let worker = worker(&stage).args(["--batch-size", "64"]).spawn().unwrap();
    let all_over = async || stage.count("SELECT COUNT(*) FROM sa_job WHERE state IN ('queued', 'running')").await == 0;
    wait_until("every job to be over", ALL_OVER, all_over)
        .await
        .unwrap_or_else(|error| panic!("{error}\n{}", worker.stderr()));

    let calls = calls_by_model(&server).await;
    for (name, job) in jobs {
        let (_, _, scenario) = &cases[name];
        let message = stage.job_text(&job, "error_message").await;
        assert_eq!(stage.state(&job).await, scenario.end, "{name}: {message:?}");
        assert_eq!(calls.get(name.as_str()), Some(&scenario.calls), "{name}: {message:?}");
    }
    let verdict = server.get("/_llmock/verdict").await;
    assert_eq!(
        (&verdict["passed"], &verdict["errors"], &verdict["warnings"]),
        (&json!(true), &json!(0), &json!(0)),
        "{verdict:#}"
    );
    println!("judge: {} calls, {} faults, no complaint", verdict["attempts"], verdict["faults_injected"]);
}

/// The faults of this scenario fall on the calls for its own model alone. The answer that is spoilt is long, so that the
/// judge has not sent all of it before the worker turns away: what was sent whole counts as read.
async fn prepare(server: &Server, model: &str, fault: &Value) {
    if fault.is_null() {
        return;
    }
    let mut fault = fault.clone();
    fault["match"] = json!({"model": model});
    let long = json!({"type": "reply", "text": "word ".repeat(20_000), "match": fault["match"]});
    let behaviors = if fault["kind"] == "malformed" { vec![fault, long] } else { vec![fault] };
    let call = reqwest::Client::builder().build().unwrap().post(format!("{}/_llmock/scenario", server.base));
    let answer = call.json(&json!({"behaviors": behaviors})).send().await.unwrap();
    assert_eq!(answer.status(), 201, "{}", answer.text().await.unwrap());
}

async fn calls_by_model(server: &Server) -> BTreeMap<String, usize> {
    let mut calls = BTreeMap::new();
    for request in server.get("/_llmock/requests").await["requests"].as_array().unwrap() {
        let model = request["model"].as_str().unwrap_or_default();
        *calls.entry(model.to_owned()).or_default() += 1;
    }
    calls
}
