//! Somebody else holds a row.

use serde_json::json;
use sqlx::Connection;

use super::{complaints, complaints_of};
use crate::stage::Stage;

/// Case bank CB-34: another session holds the lock of the most urgent queued row, and of a running one. Everything else is
/// taken, claimed and answered, nobody fails or complains, and the row itself is run as soon as it is let go.
#[tokio::test]
async fn cb_34_a_locked_row_keeps_no_other_from_being_claimed() {
    let stage = Stage::set().await;
    let held = stage.submit("held", &["--priority", "1"]).await;
    let mut session = sqlx::MySqlConnection::connect(stage.database.url()).await.unwrap();
    let mut lock = session.begin().await.unwrap();
    sqlx::query("SELECT id FROM sa_job WHERE id = ? FOR UPDATE").bind(&held).execute(&mut *lock).await.unwrap();

    let mut api = stage.api().await;
    let mut worker = stage.worker().args(["--batch-size", "2"]).env("SA_STALE_AFTER", "60s").spawn().unwrap();
    let mut others = Vec::new();
    for n in 1..=8 {
        let ids = api.prompt(json!({ "prompt_text": format!("other {n}") })).await;
        others.push(ids["job_id"].as_str().unwrap().to_owned());
    }
    for job in &others {
        stage.wait_for_state(job, "succeeded").await;
        assert_eq!(stage.walk(job).await, "queued → running → succeeded");
    }
    let once = stage.work_once().await;
    let reaper = stage.reap().await;
    assert_eq!(complaints(&(once.stderr + &reaper.stderr)), Vec::<&str>::new());
    assert_eq!(api.get(&format!("/sa-core/v1/jobs/{held}")).await["state"], "queued");
    assert_eq!(stage.walk(&held).await, "queued");

    lock.rollback().await.unwrap();
    stage.wait_for_state(&held, "succeeded").await;
    assert_eq!(stage.walk(&held).await, "queued → running → succeeded");
    for process in [&mut worker, &mut api.process] {
        process.sigterm().unwrap();
        assert!(process.wait_exit(crate::stage::LIMIT).await.unwrap().success());
        assert_eq!(complaints_of(process), Vec::<String>::new());
    }
}
