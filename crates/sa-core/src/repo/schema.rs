//! Whether this binary may work on this schema.

use super::{Db, Error};

/// The schema version this binary was made for: the number of its newest migration.
pub const VERSION: u32 = 4;

/// Why a daemon does not start on this schema.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The database could not be asked.
    #[error(transparent)]
    Database(Error),
    /// There is no schema here.
    #[error("the database has no Asterion schema; run `sa-cli migrate`")]
    Absent,
    /// Migrations are missing.
    #[error("the schema is at version {found}, this binary needs {VERSION}; run `sa-cli migrate` of this release")]
    Behind {
        /// The schema's version.
        found: u32,
    },
    /// The schema moved on past this binary.
    #[error("the schema takes binaries from version {oldest} on, this one is of {VERSION}; install the newer release")]
    Ahead {
        /// The oldest binary version it takes.
        oldest: u32,
    },
}

/// Whether a binary of [`VERSION`] may run: not above the schema's version, not below the oldest it takes. Old and new
/// run side by side through an upgrade.
///
/// # Errors
/// The reason why it may not.
pub async fn check(db: &Db) -> Result<(), SchemaError> {
    let row = sqlx::query!(
        "-- repo::schema
         SELECT version, oldest_binary_version FROM sa_schema WHERE id = 1"
    )
    .fetch_optional(db.pool())
    .await;
    let row = match row.map_err(Error::from) {
        Ok(Some(row)) => row,
        Ok(None) => return Err(SchemaError::Absent),
        Err(Error::Database(error)) if error.number() == Some(1146) => return Err(SchemaError::Absent),
        Err(error) => return Err(SchemaError::Database(error)),
    };
    if VERSION > row.version {
        return Err(SchemaError::Behind { found: row.version });
    }
    if VERSION < row.oldest_binary_version {
        return Err(SchemaError::Ahead { oldest: row.oldest_binary_version });
    }
    Ok(())
}
