//! Which lanes are closed for a while.

use super::{Db, Error};
use crate::job::Lane;

/// The lanes that no job may be claimed from at present.
///
/// # Errors
/// `Database`.
pub async fn closed(db: &Db) -> Result<Vec<Lane>, Error> {
    let lanes = sqlx::query_scalar!(
        r#"-- repo::gate
         SELECT lane AS "lane: Lane" FROM sa_provider_gate WHERE closed_until > UTC_TIMESTAMP(6)"#
    )
    .fetch_all(db.pool())
    .await?;
    Ok(lanes)
}
