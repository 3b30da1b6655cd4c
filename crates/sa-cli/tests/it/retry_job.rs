//! A retry is a new job, a waiting one is brought forward, and one in flight is left alone.

use sa_harness::Database;

use crate::cli::{LIMIT, cli, fail, json, run, start, submit, succeed};

async fn column(database: &Database, statement: &'static str, job: &str) -> String {
    sqlx::query_scalar(statement).bind(job).fetch_one(database.pool()).await.unwrap()
}

#[tokio::test]
async fn ended_jobs_get_a_successor_each() {
    let database = Database::fresh().await.unwrap();
    let (failed, done) = (submit(&database, "a").await, submit(&database, "b").await);
    fail(&database, &failed).await;
    succeed(&database, &done).await;

    let retried = run(&database, &["retry-job", &failed, &done]).await;

    assert_eq!(retried.code, Some(0), "{retried:?}");
    for (line, old) in retried.stdout.lines().zip([&failed, &done]) {
        let (from, to) = line.split_once(" → ").unwrap();
        assert_eq!(from, old);
        assert_eq!(column(&database, "SELECT supersedes FROM sa_job WHERE id = ?", to).await, *old);
        assert_eq!(column(&database, "SELECT state FROM sa_job WHERE id = ?", old).await, "superseded");
    }
}

#[tokio::test]
async fn options_of_the_old_job_stay_unless_the_call_names_others() {
    let database = Database::fresh().await.unwrap();
    let old =
        json(&database, &["submit-prompt", "a", "--depth", "3", "--model", "m", "--priority", "9", "--json"]).await;
    let old = old["job_id"].as_str().unwrap();
    fail(&database, old).await;

    let new = json(&database, &["retry-job", old, "--model", "n", "--max-attempts", "5", "--json"]).await;

    let new = new[0]["job_id"].as_str().unwrap();
    let row: (String, u8, u16) =
        sqlx::query_as("SELECT execution_options, priority, max_attempts FROM sa_job WHERE id = ?")
            .bind(new)
            .fetch_one(database.pool())
            .await
            .unwrap();
    let options: serde_json::Value = serde_json::from_str(&row.0).unwrap();
    assert_eq!(options, serde_json::json!({"model": "n", "depth": 3}));
    assert_eq!((row.1, row.2), (9, 5));
}

#[tokio::test]
async fn waiting_job_is_brought_forward() {
    let database = Database::fresh().await.unwrap();
    let waiting = json(&database, &["submit-prompt", "a", "--at", "2027-06-01T00:00:00+02:00", "--json"]).await;
    let waiting = waiting["job_id"].as_str().unwrap();

    let moved = json(&database, &["retry-job", waiting, "--json"]).await;

    assert_eq!(moved[0]["job_id"], waiting);
    assert!(moved[0]["scheduled_for"].is_string(), "{moved}");
    let due: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM sa_job WHERE scheduled_for <= UTC_TIMESTAMP(6)")
        .fetch_one(database.pool())
        .await
        .unwrap();
    assert_eq!(due, 1);
}

#[tokio::test]
async fn due_running_and_superseded_jobs_are_refused_with_the_reason() {
    let database = Database::fresh().await.unwrap();
    let (due, running, old) =
        (submit(&database, "a").await, submit(&database, "b").await, submit(&database, "c").await);
    start(&database, &running).await;
    fail(&database, &old).await;
    let new = json(&database, &["retry-job", &old, "--json"]).await;
    let new = new[0]["job_id"].as_str().unwrap();

    let refused = run(&database, &["retry-job", &due, &running, &old]).await;

    assert_eq!((refused.code, refused.stdout.as_str()), (Some(4), ""));
    let reasons: Vec<_> = refused.stderr.lines().collect();
    assert!(reasons[0].contains("queued and due") && reasons[1].contains("it is running"), "{refused:?}");
    assert!(reasons[2].contains(&format!("superseded by {new}")), "{refused:?}");
}

#[tokio::test]
async fn closed_lane_is_named_with_the_command_that_opens_it() {
    let database = Database::fresh().await.unwrap();
    let submitted = cli(&database, &["submit-prompt", "a", "--output", "ids"]).env("SA_OPENAI_MODEL", "m");
    let job = submitted.run_to_end(LIMIT).await.unwrap().stdout.trim().to_owned();
    let close =
        "INSERT INTO sa_provider_gate (lane, closed_until) VALUES ('openai', UTC_TIMESTAMP(6) + INTERVAL 1 HOUR)";
    sqlx::query(close).execute(database.pool()).await.unwrap();

    let refused = run(&database, &["retry-job", &job]).await;

    assert_eq!(refused.code, Some(4));
    assert!(refused.stderr.contains("provider-open openai"), "{refused:?}");
}

#[tokio::test]
async fn unknown_job_is_not_found() {
    let database = Database::fresh().await.unwrap();
    let missing = run(&database, &["retry-job", "01900000-0000-7000-8000-000000000000", "0190abcd"]).await;
    assert_eq!((missing.code, missing.stderr.lines().count()), (Some(3), 2), "{missing:?}");
}
