use sa_core::repo::Db;
use sa_core::repo::schema::{SchemaError, VERSION, check};
use sa_harness::Database;

use crate::arrange::{database, sql};

#[tokio::test]
async fn the_newest_migration_is_the_version_this_binary_needs() {
    let (database, db) = database().await;
    check(&db).await.unwrap();
    let newest: u32 =
        sqlx::query_scalar("SELECT CAST(version AS UNSIGNED) FROM sa_schema").fetch_one(database.pool()).await.unwrap();
    assert_eq!(newest, VERSION);
}

#[tokio::test]
async fn old_and_new_run_side_by_side_until_the_old_ones_are_cut_off() {
    let (database, db) = database().await;
    sql(&database, "UPDATE sa_schema SET version = version + 1").await;
    check(&db).await.unwrap();
    sql(&database, "UPDATE sa_schema SET oldest_binary_version = version").await;
    assert!(matches!(check(&db).await, Err(SchemaError::Ahead { .. })));
    sql(&database, "UPDATE sa_schema SET version = 1, oldest_binary_version = 1").await;
    assert!(matches!(check(&db).await, Err(SchemaError::Behind { found: 1 })));
}

#[tokio::test]
async fn an_empty_database_has_no_schema() {
    let database = Database::empty().await.unwrap();
    let db = Db::connect(database.url(), 1).await.unwrap();
    assert!(matches!(check(&db).await, Err(SchemaError::Absent)));
}
