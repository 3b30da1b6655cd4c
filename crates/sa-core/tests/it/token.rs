use sa_core::repo::token::{create, verify};
use sa_core::viewer::Role;

use crate::arrange::{VIEWER, count, database, sql};

#[tokio::test]
async fn a_token_names_its_viewer_and_role_until_it_is_revoked_or_expires() {
    let (database, db) = database().await;
    let token = create(&db, VIEWER, Role::Operator).await.unwrap();
    assert!(token.secret.starts_with("sa_") && token.secret.len() == 46);
    let caller = verify(&db, &token.secret).await.unwrap().unwrap();
    assert_eq!((caller.token, caller.viewer, caller.role), (token.id, VIEWER, Role::Operator));
    assert_eq!(count(&database, "SELECT COUNT(*) FROM sa_token WHERE last_used_at IS NOT NULL").await, 1);
    sql(&database, "UPDATE sa_token SET expires_at = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND").await;
    assert_eq!(verify(&db, &token.secret).await.unwrap(), None);
    sql(&database, "UPDATE sa_token SET expires_at = NULL, revoked_at = UTC_TIMESTAMP(6)").await;
    assert_eq!(verify(&db, &token.secret).await.unwrap(), None);
}

#[tokio::test]
async fn nothing_else_is_a_token_and_the_database_holds_none() {
    let (database, db) = database().await;
    let token = create(&db, VIEWER, Role::Viewer).await.unwrap();
    let mut wrong = token.secret.clone();
    wrong.pop();
    for presented in ["", "sa_", "Bearer", wrong.as_str(), "' OR 1=1 --"] {
        assert_eq!(verify(&db, presented).await.unwrap(), None, "{presented:?}");
    }
    let hash: String = sqlx::query_scalar("SELECT token_hash FROM sa_token").fetch_one(database.pool()).await.unwrap();
    assert!(!hash.contains(&token.secret) && hash.len() == 64);
    assert_eq!(verify(&db, &format!("sa_{hash}")).await.unwrap(), None, "the hash is of no use");
}

#[tokio::test]
async fn a_token_that_is_used_says_nothing_of_others() {
    let (database, db) = database().await;
    let used = create(&db, VIEWER, Role::Viewer).await.unwrap();
    create(&db, VIEWER, Role::Viewer).await.unwrap();
    verify(&db, &used.secret).await.unwrap().unwrap();
    assert_eq!(count(&database, "SELECT COUNT(*) FROM sa_token WHERE last_used_at IS NOT NULL").await, 1);
}
