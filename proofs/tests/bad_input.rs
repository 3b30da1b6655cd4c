//! What bad input gets: the status of the contract's §5 as a problem that names the field, the exit code of its §2 with
//! what is wrong, why and what to do; and nothing written.

use reqwest::{Method, RequestBuilder};
use sa_harness::Binary;
use serde_json::{Value, json};

use crate::stage::{Api, LIMIT, Stage};

/// The problem a request is answered with, after a look that it is one.
async fn problem(request: RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    assert_eq!(answer.headers()["content-type"], "application/problem+json", "{status}");
    let problem: Value = answer.json().await.unwrap();
    assert_eq!(problem["status"], status, "{problem}");
    for member in ["type", "title", "detail", "instance"] {
        assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{member} of {problem}");
    }
    (status, problem)
}

fn post(api: &Api, path: &str, body: impl Into<reqwest::Body>) -> RequestBuilder {
    api.request(Method::POST, path).header("content-type", "application/json").body(body)
}

/// A request that is refused with 422, naming exactly this field and saying something about it.
async fn names(request: RequestBuilder, field: &str, context: &Value) {
    let (status, problem) = problem(request).await;
    assert_eq!(status, 422, "{context}: {problem}");
    let errors = problem["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 1, "{context}: {problem}");
    assert_eq!(errors[0]["field"], field, "{context}: {problem}");
    assert!(!errors[0]["message"].as_str().unwrap().is_empty(), "{context}: {problem}");
}

/// Prompts, fields and numbers that are not acceptable: 422, by name.
#[tokio::test]
async fn a_field_that_cannot_be_accepted_is_named_and_nothing_is_written() {
    let stage = Stage::set().await;
    let api = stage.api().await;
    let before = stage.contents().await;
    let bodies = [
        ("prompt_text", json!({})),
        ("prompt_text", json!({ "prompt_text": null })),
        ("prompt_text", json!({ "prompt_text": "" })),
        ("prompt_text", json!({ "prompt_text": 5 })),
        ("prompt_text", json!({ "prompt_text": ["hello"] })),
        ("body", json!([])),
        ("body", json!("hello")),
        ("org_id", json!({ "prompt_text": "x", "org_id": 2 })),
        ("created_by", json!({ "prompt_text": "x", "created_by": 2 })),
        ("priority", json!({ "prompt_text": "x", "priority": 1 })),
        ("Prompt_text", json!({ "prompt_text": "x", "Prompt_text": "y" })),
        ("options", json!({ "prompt_text": "x", "options": [] })),
        ("root_entity_id", json!({ "prompt_text": "x", "root_entity_id": 7 })),
        ("root_entity_id", json!({ "prompt_text": "x", "root_entity_id": "the last one" })),
        ("root_entity_id", json!({ "prompt_text": "x", "root_entity_id": "" })),
    ];
    for (field, body) in bodies {
        names(post(&api, "/sa-core/v1/prompt", body.to_string()), field, &body).await;
    }
    let twice = r#"{"prompt_text":"x","prompt_text":"y"}"#;
    names(post(&api, "/sa-core/v1/prompt", twice), "prompt_text", &twice.into()).await;
    assert_eq!(stage.contents().await, before);
}

/// Options: unknown ones (CB-104 among them), numbers out of range, names that are not configured, times out of reach.
#[tokio::test]
async fn an_option_that_cannot_be_accepted_is_named_and_nothing_is_written() {
    let stage = Stage::set().await;
    let api = stage.api().await;
    let before = stage.contents().await;
    let options = [
        ("api_base", json!({ "api_base": "http://169.254.169.254" })),
        ("headers", json!({ "headers": { "authorization": "x" } })),
        ("priority", json!({ "priority": 101 })),
        ("priority", json!({ "priority": -1 })),
        ("priority", json!({ "priority": 300 })),
        ("priority", json!({ "priority": 1.5 })),
        ("priority", json!({ "priority": "1" })),
        ("max_attempts", json!({ "max_attempts": 0 })),
        ("max_attempts", json!({ "max_attempts": 21 })),
        ("max_attempts", json!({ "max_attempts": 65_536 })),
        ("depth", json!({ "depth": 51 })),
        ("depth", json!({ "depth": -1 })),
        ("model", json!({ "model": "no-such-model" })),
        ("model", json!({ "model": 7 })),
        ("prefer_provider", json!({ "prefer_provider": "http://example.com" })),
        ("router_model", json!({ "router_model": "no-such-model" })),
        ("scheduled_for", json!({ "scheduled_for": "tomorrow" })),
        ("scheduled_for", json!({ "scheduled_for": "2999-01-01T00:00:00Z" })),
    ];
    for (field, options) in &options {
        let body = json!({ "prompt_text": "x", "options": options });
        names(post(&api, "/sa-core/v1/prompt", body.to_string()), &format!("options.{field}"), &body).await;
    }
    // All that is wrong is told at once.
    let body = json!({ "prompt_text": "", "options": { "priority": 101, "max_attempts": 0, "url": "x" }, "more": 1 });
    let (status, problem) = problem(post(&api, "/sa-core/v1/prompt", body.to_string())).await;
    let fields: Vec<_> = problem["errors"].as_array().unwrap().iter().map(|error| &error["field"]).collect();
    let expected = ["prompt_text", "options.priority", "options.max_attempts", "options.url", "more"];
    assert_eq!((status, fields), (422, expected.map(Value::from).iter().collect()));
    assert_eq!(stage.contents().await, before);
    assert_eq!(stage.provider.calls().len(), 0, "no request leaves");
}

/// A root that is another viewer's is refused like one that nobody has.
#[tokio::test]
async fn a_root_of_somebody_else_is_as_unknown_as_one_that_is_not_there() {
    let stage = Stage::set().await;
    let api = stage.api().await;
    let foreign = stage.submit_ids("mine", &["--user", "2"]).await;
    let before = stage.contents().await;
    let absent = uuid::Uuid::now_v7().to_string();
    for root in [foreign["prompt_id"].as_str().unwrap(), foreign["job_id"].as_str().unwrap(), &absent] {
        let body = json!({ "prompt_text": "x", "root_entity_id": root });
        names(post(&api, "/sa-core/v1/prompt", body.to_string()), "root_entity_id", &body).await;
        let cli = stage.cli(&["submit-prompt", "x", "--root", root]).await;
        assert_eq!(cli.code, Some(3), "{}", cli.stderr);
        assert!(cli.stderr.contains(root) && cli.stderr.contains("--user"), "{}", cli.stderr);
    }
    assert_eq!(stage.contents().await, before);
}

/// What is no JSON, too large, of another kind, or has no token never gets as far as a field.
#[tokio::test]
async fn a_request_that_cannot_be_read_gets_its_status_and_writes_nothing() {
    let stage = Stage::set().await;
    let api = stage.api().await;
    let before = stage.contents().await;
    let path = "/sa-core/v1/prompt";
    let large = |text: usize| format!(r#"{{"prompt_text":"{}"}}"#, "x".repeat(text));
    let options = json!({ "prompt_text": "x", "options": { "model": "m".repeat(64 * 1024) } }).to_string();
    let readable = || post(&api, path, r#"{"prompt_text":"x"}"#);
    let stranger = |token: &str| {
        let request = reqwest::Client::builder().build().unwrap().post(api.url(path));
        if token.is_empty() { request.body("{}") } else { request.bearer_auth(token).body("{}") }
    };
    let plain = api.request(Method::POST, path).header("content-type", "text/plain").body(r#"{"prompt_text":"x"}"#);
    let cases = [
        (400, "not_json", "", post(&api, path, "")),
        (400, "not_json", "", post(&api, path, "{")),
        (400, "not_json", "", post(&api, path, r#"{"prompt_text":"x"} {}"#)),
        (400, "not_json", "", post(&api, path, r#"{"prompt_text":"\ud800"}"#)),
        (400, "not_json", "", post(&api, path, b"{\"prompt_text\":\"\xff\"}".to_vec())),
        (401, "no_token", "", stranger("")),
        (401, "no_token", "", stranger("sa_nobody")),
        (403, "forbidden", "", readable().header("x-sa-user", "2")),
        (404, "no_such_route", "", post(&api, "/sa-core/v1/prompts", "{}")),
        (405, "method_not_allowed", "", api.request(Method::PUT, path).body("{}")),
        (413, "too_large", "prompt_text", post(&api, path, large(1024 * 1024 + 1))),
        (413, "too_large", "options", post(&api, path, options)),
        (413, "too_large", "body", post(&api, path, large(8 * 1024 * 1024))),
        (415, "media_type", "application/json", plain),
    ];
    for (status, word, named, request) in cases {
        let (found, problem) = problem(request).await;
        assert_eq!((found, &problem["type"]), (status, &format!("urn:asterion:problem:{word}").into()), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(named), "{named}: {problem}");
    }
    assert_eq!(stage.contents().await, before);
}

/// The other routes: bodies and parameters that are not theirs, and ids that are none.
#[tokio::test]
async fn the_other_routes_refuse_by_name_too_and_change_nothing() {
    let stage = Stage::set().await;
    let api = stage.api().await;
    let job = stage.submit("hello", &[]).await;
    stage.work_once().await;
    let before = stage.contents().await;
    let acts = [
        ("cancel", "reason", json!({ "reason": "because" })),
        ("retry", "state", json!({ "state": "queued" })),
        ("retry", "options.priority", json!({ "options": { "priority": 101 } })),
        ("retry", "options.max_attempts", json!({ "options": { "max_attempts": 0 } })),
        ("retry", "options.model", json!({ "options": { "model": "no-such-model" } })),
        ("retry", "options.api_base", json!({ "options": { "api_base": "x" } })),
    ];
    for (act, field, body) in acts {
        names(post(&api, &format!("/sa-core/v1/jobs/{job}/{act}"), body.to_string()), field, &body).await;
    }
    for (query, field) in
        [("limit=0", "limit"), ("limit=201", "limit"), ("since=yesterday", "since"), ("sine=x", "sine")]
    {
        let request = api.request(Method::GET, &format!("/sa-core/v1/mission/recent?{query}"));
        names(request, field, &query.into()).await;
    }
    for path in ["jobs/7", "jobs/%00", "jobs/00000000-0000-0000-0000-000000000000"] {
        let (status, _) = problem(api.request(Method::GET, &format!("/sa-core/v1/{path}"))).await;
        assert_eq!(status, 404, "{path}");
    }
    let (status, ended) = problem(api.request(Method::POST, &format!("/sa-core/v1/jobs/{job}/cancel"))).await;
    assert_eq!((status, &ended["state"]), (409, &"succeeded".into()), "{ended}");
    assert_eq!(stage.contents().await, before);
}

/// A call that is refused with exit code 2 before anything is done: it says what is wrong, why, and what to do, the last
/// two on lines of their own where the message is ours; the parser of arguments names the argument and its own help.
async fn refused(binary: Binary, words: &[&str]) {
    let output = binary.run_to_end(LIMIT).await.unwrap();
    assert_eq!((output.code, output.stdout.as_str()), (Some(2), ""), "{words:?}: {}", output.stderr);
    let told = &output.stderr;
    let (ours, parsers) = (told.contains("\n  why: ") && told.contains("\n  do : "), told.contains("error: "));
    assert!(ours || parsers && told.contains("--help"), "{told}");
    for word in words {
        assert!(told.contains(word), "{word}: {told}");
    }
}

/// Settings of the daemons. CB-12: a stale limit that a live job could pass is refused by the worker and by the reaper.
#[tokio::test]
async fn daemons_refuse_settings_that_make_no_sense() {
    let stage = Stage::set().await;
    let before = stage.contents().await;
    let worker = || stage.binary("sa-worker").arg("run-worker");
    let stale = |binary: Binary| binary.env("SA_BEAT_EVERY", "30s").env("SA_STALE_AFTER", "60s");
    let needed = ["SA_BEAT_EVERY is 30s", "SA_STALE_AFTER to 2m"];
    refused(worker().args(["--beat-every", "30s", "--stale-after", "60s"]), &needed).await;
    refused(stale(worker()), &needed).await;
    refused(stale(stage.binary("sa-reaper").arg("reclaim-stuck-jobs")), &needed).await;

    refused(worker().args(["--batch-size", "0"]), &["--batch-size", "is 0", "1 to 64"]).await;
    refused(worker().env("SA_BATCH_SIZE", "65"), &["SA_BATCH_SIZE", "is 65", "1 to 64"]).await;
    refused(worker().args(["--batch-size", "five"]), &["'five'", "--batch-size"]).await;
    refused(worker().args(["--priority-ceiling", "101"]), &["--priority-ceiling", "is 101", "0 (", "100 ("]).await;
    refused(worker().args(["--idle-sleep", "0s"]), &["--idle-sleep", "10ms"]).await;
    refused(worker().args(["--stale-after", "60"]), &["'60'", "--stale-after", "60sec"]).await;
    refused(worker().arg("--onec"), &["'--onec'"]).await;
    refused(worker().env("SA_PROVIDERS", "/nowhere"), &["/nowhere", "SA_PROVIDERS"]).await;
    refused(worker().env("DATABASE_URL", ""), &["DATABASE_URL is not set", "mysql://"]).await;
    refused(worker().env("DATABASE_URL", "postgres://h/d"), &["DATABASE_URL", "mysql://"]).await;
    let api = || stage.binary("sa-api").arg("serve");
    refused(api().args(["--bind", "8787"]), &["'8787'", "--bind"]).await;
    refused(api().args(["--body-limit", "0"]), &["'0'", "--body-limit", "1 byte or more"]).await;
    refused(api().env("SA_PROVIDERS", "/nowhere"), &["/nowhere", "SA_PROVIDERS"]).await;
    assert_eq!(stage.contents().await, before);
}

/// Calls of the operator's program.
#[tokio::test]
async fn the_cli_refuses_calls_that_make_no_sense() {
    let stage = Stage::set().await;
    let jobs = [stage.submit("one", &[]).await, stage.submit("two", &[]).await];
    let jobs = [jobs[0].clone(), sharing_a_prefix(&stage, &jobs).await];
    let before = stage.contents().await;
    let cli = |args: &[&str]| stage.binary("sa-cli").args(args);
    let submit = |args: &[&str]| cli(&[&["submit-prompt", "x"], args].concat());
    let typed = |bytes: &[u8]| cli(&["submit-prompt", "-"]).stdin(bytes);
    refused(cli(&["submit-prompt", ""]), &["the text is empty"]).await;
    refused(cli(&["submit-prompt"]), &["TEXT", "--file"]).await;
    refused(cli(&["submit-prompt", "--file", "/nowhere"]), &["/nowhere"]).await;
    refused(typed(&vec![b'x'; 1024 * 1024 + 1]), &["longer than 1 MiB", "1,048,576"]).await;
    refused(typed(b"a\xffb"), &["UTF-8"]).await;
    refused(submit(&["--priority", "101"]), &["'101'", "--priority", "0 to 100"]).await;
    refused(submit(&["--priority", "high"]), &["'high'", "--priority", "0 to 100"]).await;
    refused(submit(&["--max-attempts", "0"]), &["'0'", "--max-attempts", "1 to 20"]).await;
    refused(submit(&["--max-attempts", "21"]), &["'21'", "--max-attempts", "1 to 20"]).await;
    refused(submit(&["--depth", "51"]), &["--depth", "50"]).await;
    refused(submit(&["--at", "tomorrow"]), &["'tomorrow'", "--at", "2026-12-01T08:00:00Z"]).await;
    refused(submit(&["--root", "the-last"]), &["'the-last'", "--root"]).await;
    refused(submit(&["--model", "no-such-model"]), &["no-such-model", "SA_PROVIDERS"]).await;
    refused(submit(&["--org", "us"]), &["'us'", "--org"]).await;
    refused(cli(&["list-jobs", "--state", "done"]), &["'done'", "succeeded"]).await;
    refused(cli(&["cancel-job", "abc"]), &["'abc'", "8 or more characters"]).await;
    refused(cli(&["cancel-job", &jobs[0][..8]]), &[&jobs[0], &jobs[1], "more characters"]).await;
    refused(cli(&["create-token", "--org", "1"]), &["--user"]).await;
    refused(cli(&["migrate", "--down"]), &["1 migration", "--yes"]).await;
    assert_eq!(stage.contents().await, before);
}

/// Ids of one minute share their first eight characters; the second one gets the first one's, whatever the minute.
async fn sharing_a_prefix(stage: &Stage, [first, second]: &[String; 2]) -> String {
    let renamed = format!("{}{}", &first[..8], &second[8..]);
    let rename = sqlx::query("UPDATE sa_job SET id = ? WHERE id = ?").bind(&renamed).bind(second);
    rename.execute(stage.pool()).await.unwrap();
    renamed
}
