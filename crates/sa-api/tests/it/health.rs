//! Health, and a database that goes away and comes back.

use std::time::{Duration, Instant};

use reqwest::Method;
use sa_harness::{Database, Engine, Server, wait_until};
use serde_json::{Value, json};

use crate::site::{Site, see};

#[tokio::test(flavor = "multi_thread")]
async fn readiness_tells_the_schema_and_the_pulse() {
    let site = Site::open().await;
    let alive = see(site.request(Method::GET, "/healthz")).await;
    assert_eq!((alive.status.as_u16(), alive.json()), (200, json!({"status": "ok"})));
    let ready = see(site.request(Method::GET, "/readyz")).await;
    assert_eq!(ready.status, 200);
    let schema = sa_core::repo::schema::VERSION;
    assert_eq!(ready.json(), json!({"database": "ok", "schema_needed": schema, "pulse_age_seconds": Value::Null}));
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_schema_is_not_ready() {
    let site = Site::open().await;
    sqlx::query("UPDATE sa_schema SET version = 0, oldest_binary_version = 0")
        .execute(site.database.pool())
        .await
        .unwrap();
    let seen = see(site.request(Method::GET, "/readyz")).await;
    seen.problem(503, "wrong_schema");
    assert!(seen.header("retry-after").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn database_away_is_503_at_once_and_recovers_by_itself() {
    let server = tokio::task::spawn_blocking(|| Server::own(Engine::of_this_run().unwrap()).unwrap()).await.unwrap();
    let database = Database::fresh_on(&server).await.unwrap();
    let url = database.url().to_owned();
    let site = Site::open_on(database, &url, |api| api).await;
    let job = site.submit("before").await;

    let server = tokio::task::spawn_blocking(move || server.kill9().map(|()| server)).await.unwrap().unwrap();
    let calls = [
        site.post("/prompt").json(&json!({"prompt_text": "while away"})),
        site.get("/mission/recent"),
        site.get(&format!("/jobs/{job}")),
        site.post(&format!("/jobs/{job}/cancel")),
        site.post(&format!("/jobs/{job}/retry")),
        site.request(Method::GET, "/readyz"),
    ];
    for call in calls {
        let start = Instant::now();
        let seen = see(call).await;
        seen.problem(503, "database_unavailable");
        assert_eq!(seen.header("retry-after"), Some("5"));
        assert!(!seen.text.contains("127.0.0.1") && !seen.text.contains("onnection"), "{}", seen.text);
        assert!(start.elapsed() < Duration::from_secs(5), "took {:?}", start.elapsed());
    }
    assert_eq!(see(site.request(Method::GET, "/healthz")).await.status, 200);

    let _server = tokio::task::spawn_blocking(move || server.start_again().map(|()| server)).await.unwrap().unwrap();
    wait_until("readiness", Duration::from_secs(20), async || {
        see(site.request(Method::GET, "/readyz")).await.status == 200
    })
    .await
    .unwrap();
    assert_eq!(see(site.get(&format!("/jobs/{job}"))).await.json()["state"], "queued");
    site.submit("after").await;
    assert_eq!(site.rows().await, (2, 2));
}
