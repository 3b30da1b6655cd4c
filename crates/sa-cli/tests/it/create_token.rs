//! Tokens are shown once and stored as a hash.

use sa_harness::Database;

use crate::cli::{json, run};

#[tokio::test]
async fn token_is_printed_alone_and_stored_as_a_hash() {
    let database = Database::fresh().await.unwrap();

    let made = run(&database, &["create-token", "--org", "7", "--user", "9"]).await;

    assert_eq!(made.code, Some(0), "{made:?}");
    let secret = made.stdout.trim();
    assert!(secret.starts_with("sa_") && !made.stderr.contains(secret), "{made:?}");
    let row: (String, u64, u64, String) = sqlx::query_as("SELECT role, org_id, user_id, token_hash FROM sa_token")
        .fetch_one(database.pool())
        .await
        .unwrap();
    assert_eq!((row.0.as_str(), row.1, row.2), ("viewer", 7, 9));
    assert!(row.3.len() == 64 && !row.3.contains(secret));
}

#[tokio::test]
async fn json_names_the_token_and_its_role() {
    let database = Database::fresh().await.unwrap();
    let made = json(&database, &["create-token", "--org", "1", "--user", "1", "--role", "operator", "--json"]).await;
    assert_eq!(made["role"], "operator");
    assert!(made["token"].as_str().unwrap().starts_with("sa_") && made["token_id"].is_string(), "{made}");
}

#[tokio::test]
async fn unknown_role_and_missing_owner_are_usage_errors() {
    let database = Database::fresh().await.unwrap();
    assert_eq!(run(&database, &["create-token", "--org", "1", "--user", "1", "--role", "king"]).await.code, Some(2));
    assert_eq!(run(&database, &["create-token", "--org", "1"]).await.code, Some(2));
}
