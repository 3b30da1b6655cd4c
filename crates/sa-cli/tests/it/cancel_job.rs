//! A cancel says what it did, and the truth when it did nothing.

use sa_harness::Database;

use crate::cli::{json, run, start, submit, succeed};

#[tokio::test]
async fn queued_and_running_jobs_are_cancelled_and_again_is_no_error() {
    let database = Database::fresh().await.unwrap();
    let (queued, running) = (submit(&database, "a").await, submit(&database, "b").await);
    start(&database, &running).await;

    let first = run(&database, &["cancel-job", &queued, &running]).await;
    let again = run(&database, &["cancel-job", &queued]).await;

    let lines = format!("{queued} queued → cancelled\n{running} running → cancelled\n");
    assert_eq!((first.code, first.stdout), (Some(0), lines));
    assert_eq!((again.code, again.stdout), (Some(0), format!("{queued} was cancelled already\n")));
}

#[tokio::test]
async fn ended_job_is_refused_with_its_real_state() {
    let database = Database::fresh().await.unwrap();
    let job = submit(&database, "a").await;
    succeed(&database, &job).await;

    let refused = run(&database, &["cancel-job", &job]).await;

    assert_eq!((refused.code, refused.stdout.as_str()), (Some(4), ""));
    assert!(refused.stderr.contains("already succeeded"), "{refused:?}");
}

#[tokio::test]
async fn over_many_ids_each_has_its_line_and_the_worst_gives_the_code() {
    let database = Database::fresh().await.unwrap();
    let (ended, queued) = (submit(&database, "a").await, submit(&database, "b").await);
    succeed(&database, &ended).await;
    let unknown = "01900000-0000-7000-8000-000000000000";

    let refused = run(&database, &["cancel-job", &ended, &queued]).await;
    let missing = run(&database, &["cancel-job", unknown, &ended, &queued]).await;

    assert_eq!((refused.code, refused.stdout), (Some(4), format!("{queued} queued → cancelled\n")));
    assert_eq!((missing.code, &missing.stdout), (Some(3), &format!("{queued} was cancelled already\n")));
    assert!(missing.stderr.contains(unknown) && missing.stderr.contains("already succeeded"), "{missing:?}");
}

#[tokio::test]
async fn json_has_the_edge() {
    let database = Database::fresh().await.unwrap();
    let job = submit(&database, "a").await;
    let done = json(&database, &["cancel-job", &job, "--json"]).await;
    assert_eq!(done, serde_json::json!([{"job_id": job, "from": "queued", "to": "cancelled"}]));
}

#[tokio::test]
async fn ambiguous_prefix_lists_candidates_and_acts_on_nothing() {
    let database = Database::fresh().await.unwrap();
    let job = submit(&database, "a").await;
    // Twelve more with the same beginning: v7 ids of one millisecond share 13 characters.
    let copy = "INSERT INTO sa_job (id, prompt_id, org_id, created_by) SELECT CONCAT(LEFT(id, 24), LPAD(n, 12, '0')), UUID(), 1, 1 \
                FROM sa_job CROSS JOIN (WITH RECURSIVE s AS (SELECT 1 n UNION ALL SELECT n + 1 FROM s WHERE n < 12) SELECT n FROM s) s \
                WHERE id = ?";
    sqlx::query(copy).bind(&job).execute(database.pool()).await.unwrap();

    let ambiguous = run(&database, &["cancel-job", "--output", "ids", &job, &job[..8]]).await;
    let short = run(&database, &["cancel-job", &job[..7]]).await;
    let one = run(&database, &["cancel-job", &job[..30]]).await;

    assert_eq!((ambiguous.code, ambiguous.stdout.as_str()), (Some(2), ""));
    assert_eq!(ambiguous.stderr.matches(&job[..24]).count(), 10, "{ambiguous:?}");
    assert_eq!(short.code, Some(2), "{short:?}");
    let live: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM sa_job WHERE state = 'queued'")
        .fetch_one(database.pool())
        .await
        .unwrap();
    assert_eq!((one.code, live), (Some(0), 12), "{one:?}");
}
