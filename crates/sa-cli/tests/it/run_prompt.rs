//! A prompt is run in the foreground and leaves the rows of any other job.

use sa_harness::Database;

use crate::cli::{LIMIT, cli, json, providers, run, run_by_echo, submit, succeed};

async fn states(database: &Database) -> Vec<String> {
    sqlx::query_scalar("SELECT state FROM sa_job ORDER BY id").fetch_all(database.pool()).await.unwrap()
}

/// A file with one provider at this address.
fn provider_at(database: &Database, url: &str) -> std::path::PathBuf {
    providers(database, &format!("name = 'p'\nkind = 'openai'\nauth = 'none'\nbase_url = '{url}'\nmodels = ['m']\n"))
}

#[tokio::test]
async fn answer_is_printed_alone_and_the_job_is_like_any_other() {
    let database = Database::fresh().await.unwrap();
    let text = "two\nlines 🦀";

    let ran = run(&database, &["run-prompt", text]).await;

    assert_eq!((ran.code, ran.stdout), (Some(0), format!("{text}\n")));
    let (job, prompt): (String, String) = sqlx::query_as("SELECT id, prompt_id FROM sa_job WHERE state = 'succeeded'")
        .fetch_one(database.pool())
        .await
        .unwrap();
    assert!(ran.stderr.contains(&job) && ran.stderr.contains(&prompt), "{}", ran.stderr);
    let reasons: Vec<String> =
        sqlx::query_scalar("SELECT reason FROM sa_job_event ORDER BY seq").fetch_all(database.pool()).await.unwrap();
    assert_eq!(reasons, ["enqueue", "claim", "success"]);
    let ended: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM sa_pulse WHERE role = 'worker' AND ended_at IS NOT NULL")
        .fetch_one(database.pool())
        .await
        .unwrap();
    assert_eq!(ended, 1);
}

#[tokio::test]
async fn queued_job_is_replayed_and_an_ended_one_is_refused() {
    let database = Database::fresh().await.unwrap();
    let (queued, ended) = (submit(&database, "hello").await, submit(&database, "a").await);
    succeed(&database, &ended).await;

    let ran = run_by_echo(&database, &queued).await;
    let refused = run(&database, &["run-prompt", "--job", &ended]).await;
    let missing = run(&database, &["run-prompt", "--job", "01900000-0000-7000-8000-000000000000"]).await;

    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "hello\n"));
    assert_eq!((refused.code, missing.code), (Some(4), Some(3)));
    assert!(refused.stderr.contains("succeeded"), "{refused:?}");
    assert_eq!(states(&database).await, ["succeeded", "succeeded"]);
}

#[tokio::test]
async fn job_is_left_to_the_workers_where_its_provider_is_not_configured() {
    let database = Database::fresh().await.unwrap();
    let of_p = cli(&database, &["submit-prompt", "a", "--output", "ids"]).env("SA_OPENAI_MODEL", "m");
    let of_p = of_p.run_to_end(LIMIT).await.unwrap().stdout.trim().to_owned();
    let of_anybody = submit(&database, "b").await;
    let other = provider_at(&database, "http://127.0.0.1:1/v1");

    let bare = [
        run(&database, &["run-prompt", "--job", &of_p]).await,
        run(&database, &["run-prompt", "--job", &of_anybody]).await,
    ];
    let foreign = cli(&database, &["run-prompt", "--job", &of_p]).env("SA_PROVIDERS", &other);
    let foreign = foreign.run_to_end(LIMIT).await.unwrap();

    std::fs::remove_file(&other).unwrap();
    for refused in bare.iter().chain([&foreign]) {
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(4), ""), "{refused:?}");
        assert!(refused.stderr.contains("not configured here") || refused.stderr.contains("none is configured here"));
        assert!(refused.stderr.contains("SA_PROVIDERS"), "{refused:?}");
    }
    let untouched: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM sa_job WHERE state = 'queued' AND revision = 1")
        .fetch_one(database.pool())
        .await
        .unwrap();
    assert_eq!(untouched, 2);
}

#[tokio::test]
async fn json_has_ids_state_and_text() {
    let database = Database::fresh().await.unwrap();
    let ran = json(&database, &["run-prompt", "hello", "--json"]).await;
    assert_eq!((&ran["state"], &ran["text"], &ran["provider"]), (&"succeeded".into(), &"hello".into(), &"echo".into()));
}

#[tokio::test]
async fn run_without_an_answer_fails_and_says_why() {
    let database = Database::fresh().await.unwrap();
    let job = submit(&database, "hello").await;
    sqlx::query("UPDATE sa_job SET execution_options = '{\"depth\": \"deep\"}'")
        .execute(database.pool())
        .await
        .unwrap();

    let failed = run(&database, &["run-prompt", "--job", &job]).await;

    assert_eq!((failed.code, failed.stdout.as_str()), (Some(1), ""));
    assert!(failed.stderr.contains("parse"), "{failed:?}");
    assert!(failed.stderr.contains(&format!("sa-cli retry-job {job}")), "{failed:?}");
    assert_eq!(states(&database).await, ["failed"]);
}

#[tokio::test]
async fn provider_that_is_away_leaves_the_job_to_the_workers() {
    let database = Database::fresh().await.unwrap();
    let file = provider_at(&database, "http://127.0.0.1:1/v1");

    let run = cli(&database, &["run-prompt", "hello"]).env("SA_PROVIDERS", &file);
    let failed = run.run_to_end(LIMIT).await.unwrap();

    std::fs::remove_file(&file).unwrap();
    assert!(failed.code == Some(1) && failed.stderr.contains("provider_5xx"), "{failed:?}");
    assert_eq!(states(&database).await, ["queued"]);
}

#[tokio::test]
async fn asked_to_stop_it_gives_the_job_back_and_spends_no_attempt() {
    let database = Database::fresh().await.unwrap();
    // Takes the call and never answers.
    let provider = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", provider.local_addr().unwrap());
    let file = provider_at(&database, &url);
    let mut running = cli(&database, &["run-prompt", "hello"]).env("SA_PROVIDERS", &file).spawn().unwrap();
    let _call = tokio::task::spawn_blocking(move || provider.accept().unwrap()).await.unwrap();

    running.sigterm().unwrap();
    let status = running.wait_exit(LIMIT).await.unwrap();

    std::fs::remove_file(&file).unwrap();
    assert_eq!(status.code(), Some(1), "{}", running.stderr());
    assert!(running.stderr().contains("given back"), "{}", running.stderr());
    let job: (String, u16, u8) =
        sqlx::query_as("SELECT state, attempt, releases FROM sa_job").fetch_one(database.pool()).await.unwrap();
    assert_eq!(job, ("queued".to_owned(), 1, 1));
}

#[tokio::test]
async fn stale_limit_under_four_beats_is_refused_before_anything_is_written() {
    let database = Database::fresh().await.unwrap();
    let run = cli(&database, &["run-prompt", "a"]).env("SA_BEAT_EVERY", "30s").env("SA_STALE_AFTER", "1m");
    assert_eq!(run.run_to_end(LIMIT).await.unwrap().code, Some(2));
    assert!(states(&database).await.is_empty());
}
