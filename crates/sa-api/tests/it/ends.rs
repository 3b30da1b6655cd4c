//! Clients that leave in mid-request, and a server that is asked to stop.

use std::time::Duration;

use sa_harness::wait_until;
use sqlx::{MySql, Transaction};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::site::{Site, see};

const LIMIT: Duration = Duration::from_secs(10);

/// Holds the row of a job, so that a request has to wait in the middle of its transaction.
async fn hold(site: &Site, job: &str) -> Transaction<'static, MySql> {
    let mut transaction = site.database.pool().begin().await.unwrap();
    sqlx::query("SELECT id FROM sa_job WHERE id = ? FOR UPDATE").bind(job).fetch_all(&mut *transaction).await.unwrap();
    transaction
}

/// Waits until a cancel stands in line for its row. (`innodb_trx` would never tell: it is cached as long as one looks.)
async fn cancel_waits(site: &Site) {
    let sql = "SELECT COUNT(*) FROM information_schema.processlist
                WHERE db = DATABASE() AND id <> CONNECTION_ID() AND info LIKE '%repo::cancel%FOR UPDATE%'";
    wait_until("a cancel that waits", LIMIT, async || {
        sqlx::query_scalar::<_, i64>(sql).fetch_one(site.database.pool()).await.map(|waiting| waiting > 0)
    })
    .await
    .unwrap();
}

async fn state(site: &Site) -> String {
    sqlx::query_scalar("SELECT state FROM sa_job").fetch_one(site.database.pool()).await.unwrap()
}

/// Finding 1 of reliability.md: a transaction that is dropped half-way takes acknowledged writes of others with it.
#[tokio::test(flavor = "multi_thread")]
async fn work_of_a_client_that_has_gone_is_finished() {
    let site = Site::open().await;
    let job = site.submit("x").await;
    let held = hold(&site, &job).await;
    let mut stream = TcpStream::connect(site.address).await.unwrap();
    let token = &site.token;
    let request =
        format!("POST /sa-core/v1/jobs/{job}/cancel HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    cancel_waits(&site).await;
    // A reset, upon which actix-web drops the handler at once.
    stream.set_zero_linger().unwrap();
    drop(stream);
    let other = site.submit("acknowledged meanwhile").await;
    held.commit().await.unwrap();
    wait_until("the cancel", LIMIT, async || {
        let query = sqlx::query_scalar::<_, String>("SELECT state FROM sa_job WHERE id = ?").bind(&job);
        query.fetch_one(site.database.pool()).await.map(|state| state == "cancelled")
    })
    .await
    .unwrap();
    assert_eq!(see(site.get(&format!("/jobs/{other}"))).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_had_begun_are_answered_before_the_end() {
    let site = Site::open().await;
    let job = site.submit("x").await;
    let held = hold(&site, &job).await;
    let begun = tokio::spawn(see(site.post(&format!("/jobs/{job}/cancel"))));
    cancel_waits(&site).await;
    site.shutdown.request();
    wait_until("closed doors", LIMIT, async || TcpStream::connect(site.address).await.is_err()).await.unwrap();
    assert_eq!(state(&site).await, "queued");
    held.commit().await.unwrap();
    assert_eq!(begun.await.unwrap().status, 200);
    assert_eq!(state(&site).await, "cancelled");
    wait_until("the end", LIMIT, async || site.server.is_finished()).await.unwrap();
}
