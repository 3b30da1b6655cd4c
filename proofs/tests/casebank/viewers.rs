//! Another viewer's ids: row CB-107.

use reqwest::{Method, header::HeaderMap};
use sa_harness::{Reply, Rule};
use serde_json::{Value, json};

use super::seen;
use crate::stage::{Api, LIMIT, Stage};

/// All that a client can tell two answers apart by, but the date.
#[derive(Debug, PartialEq)]
struct Seen {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

/// Asks as this viewer, with a request id of ours, as that stands in the answer.
async fn ask(api: &Api, token: &str, method: &Method, path: &str, body: Option<&Value>) -> Seen {
    let client = reqwest::Client::builder().pool_max_idle_per_host(0).timeout(LIMIT).build().unwrap();
    let mut request = client.request(method.clone(), api.url(path)).bearer_auth(token).header("x-request-id", "same");
    if let Some(body) = body {
        request = request.json(body);
    }
    let answer = request.send().await.unwrap();
    let (status, mut headers) = (answer.status().as_u16(), answer.headers().clone());
    headers.remove("date");
    Seen { status, headers, body: answer.bytes().await.unwrap().to_vec() }
}

/// What A has: a job in each state that a stranger could spoil, its prompts and an answer.
struct Belongings {
    jobs: Vec<String>,
    entities: Vec<String>,
}

async fn belongings(stage: &Stage, api: &Api) -> Belongings {
    let done = api.prompt(json!({ "prompt_text": "done" })).await;
    stage.work_once().await;
    let running = api.prompt(json!({ "prompt_text": "running" })).await;
    stage.provider.script(Rule::when("running").reply(Reply::wire("llama-chat").hang_before_headers()));
    // Its worker dies, so that no beat changes the row while we look.
    let mut worker = stage.worker().spawn().unwrap();
    stage.provider.wait_for_calls(2, LIMIT).await.unwrap();
    worker.kill9().unwrap();
    let queued = api.prompt(json!({ "prompt_text": "queued" })).await;
    let next_month = "SELECT DATE_FORMAT(UTC_TIMESTAMP() + INTERVAL 30 DAY, '%Y-%m-%dT%H:%i:%sZ')";
    let next_month: String = sqlx::query_scalar(next_month).fetch_one(stage.pool()).await.unwrap();
    let waiting = json!({ "prompt_text": "waiting", "options": { "scheduled_for": next_month } });
    let waiting = api.prompt(waiting).await;

    let ids = |name: &str| [&done, &running, &queued, &waiting].map(|ids| ids[name].as_str().unwrap().to_owned());
    let jobs = ids("job_id").to_vec();
    let answer = seen(api, &jobs[0]).await["response_id"].as_str().unwrap().to_owned();
    Belongings { jobs, entities: [ids("prompt_id").to_vec(), vec![answer]].concat() }
}

/// CB-107: whoever is not A gets the same bytes for A's ids as for ids that nobody has, on every route that takes one,
/// and nothing of A's changes.
#[tokio::test]
async fn cb_107_another_viewers_ids_are_the_same_as_absent_ones() {
    let stage = Stage::set().await;
    let api = stage.api().await;
    let Belongings { jobs, entities } = belongings(&stage, &api).await;
    let strangers = [stage.token(1, 2).await, stage.token(2, 1).await, stage.token(2, 2).await];
    let before = stage.contents().await;

    let options = json!({ "options": { "priority": 1 } });
    let routes = [
        (Method::GET, "", None),
        (Method::HEAD, "", None),
        (Method::POST, "/cancel", None),
        (Method::POST, "/retry", None),
        (Method::POST, "/retry", Some(&options)),
    ];
    for stranger in &strangers {
        for (method, act, body) in &routes {
            let at = async |id: &str| ask(&api, stranger, method, &format!("/sa-core/v1/jobs/{id}{act}"), *body).await;
            let absent = at(&uuid::Uuid::now_v7().to_string()).await;
            assert_eq!(absent.status, 404, "{method} {act}");
            for id in jobs.iter().chain(&entities) {
                assert_eq!(at(id).await, absent, "{method} {act} of {id}");
            }
        }
        let continued = async |root: &str| {
            let body = json!({ "prompt_text": "what did it say?", "root_entity_id": root });
            ask(&api, stranger, &Method::POST, "/sa-core/v1/prompt", Some(&body)).await
        };
        let absent = continued(&uuid::Uuid::now_v7().to_string()).await;
        assert_eq!(absent.status, 422);
        for root in &entities {
            assert_eq!(continued(root).await, absent, "continuing {root}");
        }
        let recent = ask(&api, stranger, &Method::GET, "/sa-core/v1/mission/recent", None).await;
        let page: Value = serde_json::from_slice(&recent.body).unwrap();
        assert_eq!(page["entities"], json!([]));
    }

    assert_eq!(stage.contents().await, before, "nothing has changed");
    // The ids are real: their owner has them all.
    for job in &jobs {
        assert_eq!(seen(&api, job).await["job_id"], **job);
    }
    assert_eq!(api.get("/sa-core/v1/mission/recent").await["entities"].as_array().unwrap().len(), jobs.len());
}
