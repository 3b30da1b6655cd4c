//! The invariants of sa-core, asked of a stage.

use sa_core::repo::invariants::queries;
use sqlx::MySqlPool;

/// The invariants that do not hold, each with the first ids that break it.
pub async fn broken(pool: &MySqlPool) -> Vec<String> {
    let mut broken = Vec::new();
    for (name, query) in queries() {
        let ids: Vec<String> = sqlx::query_scalar(query).fetch_all(pool).await.unwrap();
        if !ids.is_empty() {
            broken.push(format!("{name}: {} of them, such as {}", ids.len(), ids[0]));
        }
    }
    broken
}
