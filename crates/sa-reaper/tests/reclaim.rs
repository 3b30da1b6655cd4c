//! The real binary on a real server.

#![expect(clippy::unwrap_used, reason = "a helper that cannot do its part fails its test")]

use std::time::Duration;

use sa_harness::{Binary, Database, Output};

/// The reaper with this stale limit. It may have to be built first, so take it before the clock of a test starts to matter.
fn reaper(database: &Database, stale: &str) -> Binary {
    let reaper = Binary::named("sa-reaper").unwrap().arg("reclaim-stuck-jobs");
    reaper.env("DATABASE_URL", database.url()).env("SA_BEAT_EVERY", "10s").env("SA_STALE_AFTER", stale)
}

async fn run(reaper: &Binary) -> Output {
    reaper.run_to_end(Duration::from_secs(60)).await.unwrap()
}

/// A running job, last beaten so many seconds ago.
async fn running(database: &Database, attempt: u16, silent: u32) -> String {
    let insert = "INSERT INTO sa_job (id, prompt_id, state, attempt, worker_claim, claimed_at, started_at, running_heartbeat_at, \
                  org_id, created_by) VALUES (?, UUID(), 'running', ?, 'w.1', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), \
                  UTC_TIMESTAMP(6) - INTERVAL ? SECOND, 1, 1)";
    let id = format!("01900000-0000-7000-8000-0000000{attempt:02}{silent:03}");
    sqlx::query(insert).bind(&id).bind(attempt).bind(silent).execute(database.pool()).await.unwrap();
    id
}

#[tokio::test]
async fn silent_jobs_are_taken_and_told_and_live_ones_are_not() {
    let database = Database::fresh().await.unwrap();
    let reaper = reaper(&database, "60s");
    let (dead, spent, _live) =
        (running(&database, 1, 61).await, running(&database, 3, 61).await, running(&database, 1, 0).await);

    let output = run(&reaper).await;

    assert_eq!(output.code, Some(0), "{output:?}");
    let mut lines: Vec<_> = output.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines.len(), 2, "{output:?}");
    assert!(lines[0].starts_with(&format!("{dead} running → queued (attempt 2): ")), "{lines:?}");
    assert!(lines[1].starts_with(&format!("{spent} running → failed (attempt 3): ")), "{lines:?}");
}

#[tokio::test]
async fn after_an_outage_nothing_is_taken_until_workers_could_beat() {
    let database = Database::fresh().await.unwrap();
    let reaper = reaper(&database, "60s");
    run(&reaper).await;
    let silent = running(&database, 1, 61).await;
    let away = "UPDATE sa_pulse SET seen_at = UTC_TIMESTAMP(6) - INTERVAL 14 MINUTE";
    sqlx::query(away).execute(database.pool()).await.unwrap();
    let state = async || -> String {
        let query = sqlx::query_scalar("SELECT state FROM sa_job WHERE id = ?").bind(&silent);
        query.fetch_one(database.pool()).await.unwrap()
    };

    for _ in 0..2 {
        let output = run(&reaper).await;
        assert_eq!((output.code, output.stdout.as_str()), (Some(0), ""), "{output:?}");
        assert!(output.stderr.lines().count() == 1 && output.stderr.contains("nothing is taken back"), "{output:?}");
        assert_eq!(state().await, "running");
    }
    let resumed = "UPDATE sa_pulse SET resumed_at = UTC_TIMESTAMP(6) - INTERVAL 21 SECOND";
    sqlx::query(resumed).execute(database.pool()).await.unwrap();
    assert_eq!(run(&reaper).await.stderr, "");
    assert_eq!(state().await, "queued");
}

#[tokio::test]
async fn run_with_nothing_to_do_is_silent_and_recorded_in_one_row() {
    let database = Database::fresh().await.unwrap();
    for _ in 0..2 {
        let output = run(&reaper(&database, "225s")).await;
        assert_eq!((output.code, output.stdout.as_str(), output.stderr.as_str()), (Some(0), "", ""));
    }
    let pulses: Vec<(String, u32)> =
        sqlx::query_as("SELECT role, stale_ms FROM sa_pulse").fetch_all(database.pool()).await.unwrap();
    assert_eq!(pulses, [("reaper".to_owned(), 225_000)]);
}

#[tokio::test]
async fn wrong_limits_and_a_dead_server_have_their_codes() {
    let database = Database::fresh().await.unwrap();
    assert_eq!(run(&reaper(&database, "39s")).await.code, Some(2));
    let dead =
        Binary::named("sa-reaper").unwrap().arg("reclaim-stuck-jobs").env("DATABASE_URL", "mysql://root@127.0.0.1:1/x");
    assert_eq!(dead.run_to_end(Duration::from_secs(60)).await.unwrap().code, Some(5));
}
