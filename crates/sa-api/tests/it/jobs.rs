//! `/jobs/{id}`: looking, cancelling, retrying, and who wins.

use sa_core::{
    error_kind::{ErrorKind, Failure},
    repo,
};
use serde_json::{Value, json};

use crate::site::{Seen, Site, see};

async fn cancel(site: &Site, id: &str) -> Seen {
    see(site.post(&format!("/jobs/{id}/cancel"))).await
}

async fn retry(site: &Site, id: &str) -> Seen {
    see(site.post(&format!("/jobs/{id}/retry"))).await
}

async fn job(site: &Site, id: &str) -> Value {
    let seen = see(site.get(&format!("/jobs/{id}"))).await;
    assert_eq!(seen.status, 200, "{}", seen.text);
    seen.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn job_is_seen_from_queue_to_answer() {
    let site = Site::open().await;
    let id = site.submit("question").await;
    let queued = job(&site, &id).await;
    assert_eq!((&queued["job_id"], &queued["state"]), (&json!(id), &json!("queued")));
    assert_eq!((&queued["attempt"], &queued["max_attempts"], &queued["priority"]), (&json!(1), &json!(3), &json!(50)));
    assert_eq!((&queued["response"], &queued["successor"]), (&Value::Null, &Value::Null));
    site.answer("answer").await;
    let done = job(&site, &id).await;
    assert_eq!((&done["state"], &done["response"]["text"]), (&json!("succeeded"), &json!("answer")));
    assert_eq!(done["response"]["id"], done["response_id"]);
    assert!(done["finished_at"].as_str().unwrap().ends_with('Z'));
    assert!(done.get("worker_claim").is_none() && done.get("org_id").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_tells_what_it_ended() {
    let site = Site::open().await;
    let waiting = site.submit("waiting").await;
    let seen = cancel(&site, &waiting).await;
    assert_eq!(seen.status, 200);
    assert_eq!(seen.json(), json!({"job_id": waiting, "from": "queued", "to": "cancelled"}));
    let again = cancel(&site, &waiting).await;
    assert_eq!(again.json(), json!({"job_id": waiting, "from": "cancelled", "to": "cancelled"}));

    let running = site.submit("running").await;
    let claim = site.claim().await;
    assert_eq!(cancel(&site, &running).await.json()["from"], "running");
    let late = claim.fail(Failure::new(ErrorKind::Parse, "late"), vec![]);
    let outcome = repo::finalize(&site.db, vec![late]).await.remove(0);
    assert!(matches!(outcome, Ok(repo::Outcome::Lost { .. })), "an acknowledged cancel is final");

    let done = site.submit("done").await;
    site.answer("answer").await;
    let refused = cancel(&site, &done).await.problem(409, "job_ended");
    assert_eq!((&refused["state"], &refused["job_id"]), (&json!("succeeded"), &json!(done)));
    assert!(refused.get("successor").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_takes_no_body_but_an_empty_one() {
    let site = Site::open().await;
    let id = site.submit("x").await;
    let path = format!("/jobs/{id}/cancel");
    let seen = see(site.post(&path).json(&json!({"force": true}))).await;
    assert_eq!(seen.refused_fields(), ["force"]);
    see(site.post(&path).body("now")).await.problem(415, "media_type");
    assert_eq!(job(&site, &id).await["state"], "queued");
    assert_eq!(see(site.post(&path).json(&json!({}))).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_of_an_ended_job_makes_a_successor() {
    let site = Site::open().await;
    let old = site.submit("question").await;
    site.answer("first").await;
    let seen =
        see(site.post(&format!("/jobs/{old}/retry")).json(&json!({"options": {"model": "large", "priority": 3}})))
            .await;
    assert_eq!(seen.status, 202, "{}", seen.text);
    let body = seen.json();
    let new = body["job_id"].as_str().unwrap();
    assert_eq!((&body["supersedes"], &body["state"]), (&json!(old), &json!("queued")));
    assert_eq!(body["prompt_id"], job(&site, &old).await["prompt_id"]);
    assert_eq!(seen.header("location"), Some(format!("/sa-core/v1/jobs/{new}").as_str()));
    assert_eq!(seen.header("retry-after"), Some("2"));

    let successor = job(&site, new).await;
    assert_eq!((&successor["priority"], &successor["supersedes"]), (&json!(3), &json!(old)));
    let superseded = job(&site, &old).await;
    assert_eq!((&superseded["state"], &superseded["successor"]), (&json!("superseded"), &json!(new)));
    let recent = see(site.get("/mission/recent")).await.json();
    assert_eq!(recent["entities"][0]["response"]["text"], "first", "the old answer stays until there is a new one");

    for act in ["retry", "cancel"] {
        let seen = see(site.post(&format!("/jobs/{old}/{act}"))).await;
        let refused = seen.problem(409, "job_superseded");
        assert_eq!((&refused["state"], &refused["job_id"]), (&json!("superseded"), &json!(old)));
        assert_eq!(refused["successor"], new);
    }
    site.answer("second").await;
    assert_eq!(job(&site, new).await["response"]["text"], "second");
    assert_eq!(job(&site, &old).await["state"], "superseded");
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_of_a_job_in_flight_is_refused() {
    let site = Site::open().await;
    let id = site.submit("x").await;
    let refused = retry(&site, &id).await.problem(409, "job_in_flight");
    assert_eq!((&refused["state"], &refused["job_id"]), (&json!("queued"), &json!(id)));
    assert!(refused["detail"].as_str().unwrap().contains(&format!("sa-cli job-details {id}")), "{refused}");
    let with_options = see(site.post(&format!("/jobs/{id}/retry")).json(&json!({"options": {"priority": 1}}))).await;
    assert_eq!(with_options.problem(409, "job_in_flight")["state"], "queued");
    let _claim = site.claim().await;
    assert_eq!(retry(&site, &id).await.problem(409, "job_in_flight")["state"], "running");
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_of_a_job_behind_a_closed_provider_names_it() {
    let site = Site::open().await;
    let id = site.submit("x").await;
    sqlx::query(
        "INSERT INTO sa_provider_gate (lane, closed_until, reason, updated_at)
         VALUES ('one', UTC_TIMESTAMP(6) + INTERVAL 1 HOUR, 'rate_limit', UTC_TIMESTAMP(6))",
    )
    .execute(site.database.pool())
    .await
    .unwrap();
    let refused = retry(&site, &id).await.problem(409, "job_in_flight");
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("its provider one is closed") && detail.contains("sa-cli provider-open one"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_brings_a_waiting_job_forward() {
    let site = Site::open().await;
    let (year, rest) = job_time(&site).await;
    let later = json!({"prompt_text": "later", "options": {"scheduled_for": format!("{}{rest}", year + 1)}});
    let seen = see(site.post("/prompt").json(&later)).await;
    assert_eq!(seen.status, 202, "{}", seen.text);
    let id = seen.json()["job_id"].as_str().unwrap().to_owned();
    assert_eq!(job(&site, &id).await["held_reason"], "schedule");

    let path = format!("/jobs/{id}/retry");
    let refused = see(site.post(&path).json(&json!({"options": {"priority": 1}}))).await;
    assert_eq!(refused.refused_fields(), ["options"]);
    assert_eq!(job(&site, &id).await["held_reason"], "schedule", "it keeps its time");
    let seen = see(site.post(&path).json(&json!({"options": {}}))).await;
    assert_eq!(seen.status, 200, "{}", seen.text);
    assert_eq!(seen.json()["job_id"], json!(id));
    let moved = job(&site, &id).await;
    assert_eq!((&moved["scheduled_for"], &moved["held_reason"]), (&seen.json()["scheduled_for"], &Value::Null));
    assert_eq!(seen.json().as_object().unwrap().len(), 2);
}

/// The year of the database's clock, and a month and day just short of a year ahead of it.
async fn job_time(site: &Site) -> (i32, String) {
    let (year, rest): (i32, String) = sqlx::query_as(
        "SELECT CAST(YEAR(UTC_TIMESTAMP()) AS SIGNED), DATE_FORMAT(UTC_TIMESTAMP() - INTERVAL 1 DAY, '-%m-%dT%H:%i:%sZ')",
    )
    .fetch_one(site.database.pool())
    .await
    .unwrap();
    (year, rest)
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_options_are_checked_like_those_of_a_prompt() {
    let site = Site::open().await;
    let id = site.submit("x").await;
    cancel(&site, &id).await;
    let path = format!("/jobs/{id}/retry");
    let matrix = [
        (json!({"options": {"priority": 101}}), "options.priority"),
        (json!({"options": {"api_base": "http://x"}}), "options.api_base"),
        (json!({"options": {"model": "unheard-of"}}), "options.model"),
        (json!({"options": 7}), "options"),
        (json!({"prompt_text": "y"}), "prompt_text"),
        (json!([]), "body"),
    ];
    for (body, field) in matrix {
        assert_eq!(see(site.post(&path).json(&body)).await.refused_fields(), [field], "{body}");
    }
    assert_eq!(job(&site, &id).await["state"], "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_of_unreadable_options_needs_new_ones() {
    let site = Site::open().await;
    let id = site.submit("x").await;
    sqlx::query("UPDATE sa_job SET execution_options = '{broken'").execute(site.database.pool()).await.unwrap();
    cancel(&site, &id).await;
    assert_eq!(job(&site, &id).await["state"], "cancelled", "a broken row can still be looked at");
    assert_eq!(retry(&site, &id).await.refused_fields(), ["options"]);
    let path = format!("/jobs/{id}/retry");
    assert_eq!(see(site.post(&path).json(&json!({"options": {"model": "large"}}))).await.status, 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_retries_at_once_one_wins() {
    let site = Site::open().await;
    let id = site.submit("x").await;
    cancel(&site, &id).await;
    let (one, other) = tokio::join!(retry(&site, &id), retry(&site, &id));
    let (won, lost) = if one.status == 202 { (one, other) } else { (other, one) };
    assert_eq!(won.status, 202, "{}", won.text);
    assert_eq!(lost.problem(409, "job_superseded")["successor"], won.json()["job_id"]);
}
