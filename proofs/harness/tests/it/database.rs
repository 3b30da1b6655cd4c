use std::time::Duration;

use anyhow::Result;
use sa_harness::{Database, SharedServer, wait_until};
use sqlx::{Connection, Executor, MySqlConnection};

#[tokio::test]
async fn fresh_database_is_utf8mb4_and_has_every_migration() -> Result<()> {
    let database = Database::fresh().await?;

    let charset: String = sqlx::query_scalar("SELECT @@character_set_database").fetch_one(database.pool()).await?;
    assert_eq!(charset, "utf8mb4");
    let applied: i64 =
        sqlx::query_scalar("SELECT COUNT(*) FROM _sqlx_migrations WHERE success").fetch_one(database.pool()).await?;
    let folder = sa_harness::repository_root().join("migrations");
    let files = std::fs::read_dir(folder)?
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().ends_with(".up.sql"))
        .count();
    assert_eq!(usize::try_from(applied)?, files);
    Ok(())
}

#[tokio::test]
async fn databases_do_not_see_each_other() -> Result<()> {
    let (one, two) = (Database::empty().await?, Database::empty().await?);

    one.pool().execute("CREATE TABLE t (n INT)").await?;

    assert_ne!(one.name(), two.name());
    assert!(two.pool().execute("SELECT n FROM t").await.is_err());
    Ok(())
}

#[tokio::test]
async fn dropped_database_is_gone_even_with_sessions_open() -> Result<()> {
    let database = Database::empty().await?;
    database.pool().execute("CREATE TABLE t (n INT)").await?;
    let name = database.name().to_owned();
    let mut session = database.pool().acquire().await?;
    session.execute("SELECT n FROM t").await?;

    drop(database);

    let mut server = MySqlConnection::connect(SharedServer::get()?.url()).await?;
    let look = async || {
        sqlx::query_scalar::<_, i64>("SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = ?")
            .bind(&name)
            .fetch_one(&mut server)
            .await
            .map(|found| found == 0)
    };
    wait_until("the end of the database", Duration::from_secs(5), look).await
}
