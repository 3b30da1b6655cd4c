//! The schema comes, goes and comes back, and two who bring it at once do not meet.

use sa_harness::Database;
use sqlx::{AssertSqlSafe, Executor};

use crate::cli::{LIMIT, cli, json, run};

async fn standings(database: &Database) -> Vec<String> {
    let steps = json(database, &["migrate", "--status", "--json"]).await;
    steps.as_array().unwrap().iter().map(|step| step["standing"].as_str().unwrap().to_owned()).collect()
}

async fn tables(database: &Database) -> Vec<String> {
    sqlx::query_scalar(
        "SELECT CAST(table_name AS CHAR) FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY table_name",
    )
    .fetch_all(database.pool())
    .await
    .unwrap()
}

#[tokio::test]
async fn empty_database_gets_the_schema_and_a_second_run_changes_nothing() {
    let database = Database::empty().await.unwrap();
    let looked = run(&database, &["migrate", "--status"]).await;
    assert!(looked.code == Some(0) && looked.stdout.contains("pending"), "{looked:?}");
    assert!(tables(&database).await.is_empty(), "a look changes nothing");

    let first = run(&database, &["migrate"]).await;
    let second = run(&database, &["migrate"]).await;

    assert!(first.stdout.contains("applied 0001 entities"), "{first:?}");
    assert_eq!((second.code, second.stdout.as_str()), (Some(0), "the schema is up to date\n"));
    assert!(standings(&database).await.iter().all(|standing| standing == "applied"));
}

#[tokio::test]
async fn runs_at_once_on_a_fresh_database_apply_everything_once() {
    let database = Database::empty().await.unwrap();
    let migrate = cli(&database, &["migrate", "--json"]);
    let mut runs: Vec<_> = (0..4).map(|_| migrate.spawn().unwrap()).collect();

    let mut applied = 0;
    for run in &mut runs {
        let status = run.wait_exit(LIMIT).await.unwrap();
        assert!(status.success(), "{}", run.stderr());
        let report: serde_json::Value = serde_json::from_str(&run.stdout()).unwrap();
        applied += report["applied"].as_array().unwrap().len();
    }

    assert_eq!(applied, standings(&database).await.len());
    assert!(standings(&database).await.iter().all(|standing| standing == "applied"));
}

#[tokio::test]
async fn schema_goes_down_step_by_step_and_comes_up_again() {
    let database = Database::empty().await.unwrap();
    run(&database, &["migrate"]).await;
    let steps = standings(&database).await.len();
    let before = tables(&database).await;

    let asked = run(&database, &["migrate", "--down"]).await;
    assert!(asked.code == Some(2) && asked.stderr.contains("--yes"), "{asked:?}");
    assert_eq!(tables(&database).await, before);
    for _ in 0..steps {
        assert_eq!(run(&database, &["migrate", "--down", "--yes"]).await.code, Some(0));
    }

    assert_eq!(tables(&database).await, ["_sqlx_migrations"]);
    let beyond = run(&database, &["migrate", "--down", "--yes"]).await;
    assert_eq!((beyond.code, beyond.stdout.as_str()), (Some(0), "there is no migration to undo\n"));
    assert_eq!(run(&database, &["migrate"]).await.code, Some(0));
    assert_eq!(tables(&database).await, before);
}

#[tokio::test]
async fn held_table_delays_a_migration_and_does_not_break_it() {
    let database = Database::empty().await.unwrap();
    run(&database, &["migrate"]).await;
    let mut reader = database.pool().begin().await.unwrap();
    reader.execute("SELECT COUNT(*) FROM sa_token").await.unwrap();

    let mut down = cli(&database, &["migrate", "--down", "--yes"]).spawn().unwrap();
    down.wait_for_output("waits for a lock", LIMIT).await.unwrap();
    reader.rollback().await.unwrap();

    assert!(down.wait_exit(LIMIT).await.unwrap().success());
    assert_eq!(standings(&database).await.last().unwrap(), "pending");
}

async fn waits_for_lock(database: &Database) {
    let waits = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND state LIKE 'User lock%'";
    sa_harness::wait_until("a migration that waits for the lock", LIMIT, async || {
        let waiting: i64 = sqlx::query_scalar(waits).fetch_one(database.pool()).await?;
        anyhow::Ok(waiting == 1)
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn other_databases_migration_is_not_waited_for_and_the_same_ones_is() {
    let database = Database::empty().await.unwrap();
    let mut holder = database.pool().acquire().await.unwrap();
    let other = format!("SELECT GET_LOCK('sa_migrate:{}x', 0)", database.name());
    let same = format!("SELECT GET_LOCK('sa_migrate:{}', 0)", database.name());
    holder.execute(AssertSqlSafe(other)).await.unwrap();
    assert_eq!(run(&database, &["migrate"]).await.code, Some(0));

    holder.execute(AssertSqlSafe(same)).await.unwrap();
    let mut given_up = cli(&database, &["migrate"]).spawn().unwrap();
    waits_for_lock(&database).await;
    given_up.sigterm().unwrap();
    assert_eq!(given_up.wait_exit(LIMIT).await.unwrap().code(), Some(1), "{}", given_up.stderr());

    let mut waiting = cli(&database, &["migrate"]).spawn().unwrap();
    waits_for_lock(&database).await;
    holder.execute("DO RELEASE_ALL_LOCKS()").await.unwrap();

    assert!(waiting.wait_exit(LIMIT).await.unwrap().success());
}

#[tokio::test]
async fn half_applied_migration_is_explained_and_nothing_is_guessed() {
    let database = Database::empty().await.unwrap();
    run(&database, &["migrate"]).await;
    database.pool().execute("UPDATE _sqlx_migrations SET success = FALSE WHERE version = 4").await.unwrap();

    let refused = run(&database, &["migrate"]).await;

    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("migration 0004 stopped half-way"), "{refused:?}");
    assert!(refused.stderr.contains("DELETE FROM _sqlx_migrations WHERE version = 4"), "{refused:?}");
    assert_eq!(standings(&database).await.last().unwrap(), "dirty");
}

#[tokio::test]
async fn migration_that_fails_at_its_first_statement_leaves_nothing_behind() {
    let database = Database::empty().await.unwrap();
    database.pool().execute("CREATE TABLE sa_pulse (a INT)").await.unwrap();
    let failed = run(&database, &["migrate"]).await;
    assert!(failed.code == Some(1) && failed.stderr.contains("migration 0003 failed"), "{failed:?}");

    database.pool().execute("DROP TABLE sa_pulse").await.unwrap();

    assert_eq!(run(&database, &["migrate"]).await.code, Some(0));
}

#[tokio::test]
async fn database_without_schema_or_with_a_newer_one_is_refused_with_a_way_out() {
    let database = Database::empty().await.unwrap();
    let absent = run(&database, &["list-jobs"]).await;
    assert!(absent.code == Some(1) && absent.stderr.contains("sa-cli migrate"), "{absent:?}");

    run(&database, &["migrate"]).await;
    let newer = "INSERT INTO _sqlx_migrations VALUES (9999, 'later', NOW(), TRUE, 'x', 1)";
    database.pool().execute(newer).await.unwrap();
    let refused = run(&database, &["migrate"]).await;
    assert!(refused.code == Some(1) && refused.stderr.contains("newer than this program"), "{refused:?}");
}
