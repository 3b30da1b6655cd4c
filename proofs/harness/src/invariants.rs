//! What repository tests and proofs leave behind is judged: by the queries of `crates/sa-core/src/invariants.sql`.

use anyhow::{Context, Result};
use sqlx::{AssertSqlSafe, Connection, mysql::MySqlConnection};

use crate::repository_root;

/// The invariants that do not hold in the database behind this URL, each with the first id that breaks it.
pub(crate) async fn broken(url: &str) -> Result<Vec<String>> {
    let path = repository_root().join("crates/sa-core/src/invariants.sql");
    let text = std::fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    let mut connection = MySqlConnection::connect(url).await?;
    let mut broken = Vec::new();
    for part in text.split(";\n") {
        let Some((name, query)) = part.find("-- I").and_then(|at| part[at + 3..].split_once('\n')) else { continue };
        let ids: Vec<String> = sqlx::query_scalar(AssertSqlSafe(query.to_owned())).fetch_all(&mut connection).await?;
        if let Some(first) = ids.first() {
            broken.push(format!("{name}: {} of them, such as {first}", ids.len()));
        }
    }
    connection.close().await?;
    Ok(broken)
}
