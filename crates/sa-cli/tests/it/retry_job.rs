//! A retry is a new job, a waiting one is brought forward, and one in flight is left alone.

use sa_harness::Database;

use crate::cli::{LIMIT, cli, fail, json, run, sql, start, submit, succeed};

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
async fn waiting_job_keeps_its_time_and_terms_when_others_are_asked_for() {
    let database = Database::fresh().await.unwrap();
    let waiting = submit(&database, "a").await;
    let later = "UPDATE sa_job SET scheduled_for = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR WHERE id = ?";
    sql(&database, later, &waiting).await;

    for change in [["--priority", "1"], ["--max-attempts", "5"], ["--model", "n"], ["--at", "2026-01-01T00:00:00Z"]] {
        let refused = run(&database, &["retry-job", &waiting, change[0], change[1]]).await;
        assert_eq!(refused.code, Some(4), "{change:?}");
        assert!(refused.stderr.contains("it waits until"), "{refused:?}");
    }
    let untouched: i64 = sqlx::query_scalar(
        "SELECT COUNT(*) FROM sa_job WHERE priority = 50 AND scheduled_for > UTC_TIMESTAMP(6) + INTERVAL 30 MINUTE",
    )
    .fetch_one(database.pool())
    .await
    .unwrap();
    assert_eq!(untouched, 1);
}

#[tokio::test]
async fn options_that_cannot_be_read_must_be_replaced() {
    let database = Database::fresh().await.unwrap();
    let job = submit(&database, "a").await;
    sql(&database, "UPDATE sa_job SET execution_options = '{broken' WHERE id = ?", &job).await;
    fail(&database, &job).await;

    let refused = run(&database, &["retry-job", &job]).await;
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert!(refused.stderr.contains("cannot be read") && refused.stderr.contains("--model"), "{refused:?}");

    let retried = json(&database, &["retry-job", &job, "--depth", "3", "--json"]).await;
    let new = retried[0]["job_id"].as_str().unwrap();
    assert_eq!(column(&database, "SELECT execution_options FROM sa_job WHERE id = ?", new).await, r#"{"depth":3}"#);
}

#[tokio::test]
async fn time_out_of_reach_is_a_usage_error() {
    let database = Database::fresh().await.unwrap();
    let job = submit(&database, "a").await;
    fail(&database, &job).await;
    for at in ["2999-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59", "tomorrow"] {
        assert_eq!(run(&database, &["retry-job", &job, "--at", at]).await.code, Some(2), "{at}");
        assert_eq!(run(&database, &["submit-prompt", "b", "--at", at]).await.code, Some(2), "{at}");
    }
    let jobs: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM sa_job").fetch_one(database.pool()).await.unwrap();
    assert_eq!(jobs, 1);
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
async fn closed_lane_is_named_and_how_it_is_opened() {
    let database = Database::fresh().await.unwrap();
    let submitted = cli(&database, &["submit-prompt", "a", "--output", "ids"]).env("SA_OPENAI_MODEL", "m");
    let job = submitted.run_to_end(LIMIT).await.unwrap().stdout.trim().to_owned();
    let close =
        "INSERT INTO sa_provider_gate (lane, closed_until) VALUES ('openai', UTC_TIMESTAMP(6) + INTERVAL 1 HOUR)";
    sqlx::query(close).execute(database.pool()).await.unwrap();

    let refused = run(&database, &["retry-job", &job]).await;

    assert_eq!(refused.code, Some(4));
    assert!(refused.stderr.contains("its lane openai is closed"), "{refused:?}");
    assert!(refused.stderr.contains("sa-cli provider-open openai"), "{refused:?}");
}

#[tokio::test]
async fn unknown_job_is_not_found() {
    let database = Database::fresh().await.unwrap();
    let missing = run(&database, &["retry-job", "01900000-0000-7000-8000-000000000000", "0190abcd"]).await;
    assert_eq!((missing.code, missing.stderr.lines().count()), (Some(3), 2), "{missing:?}");
}
