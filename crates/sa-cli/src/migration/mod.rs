//! Brings a database from one schema version to another, alone: everything happens on one connection under one lock.

mod patient;

use std::{collections::HashMap, str::FromStr, time::Duration};

use anyhow::{Context, Result};
use sa_boot::{Exit, Problem};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use sqlx::{
    ConnectOptions, Connection, Executor,
    migrate::{Migrate, MigrateError, Migrator},
    mysql::MySqlConnectOptions,
};

use patient::Patient;

/// Where sqlx keeps what it has applied.
const TABLE: &str = "_sqlx_migrations";

const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// UTF-8 and strict whatever the server's defaults are; and a change of a table that somebody reads gives up after 2 s
/// and lets the others pass before it tries again, since all who come later queue up behind it.
const SESSION: &str = "SET SESSION \
    sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', \
    time_zone = '+00:00', lock_wait_timeout = 2, innodb_lock_wait_timeout = 2";

/// A connection that may change the schema.
pub(crate) struct Session {
    connection: Patient,
    migrator: Migrator,
}

/// One migration and what this database knows of it.
#[derive(Debug, Serialize)]
pub(crate) struct Step {
    pub(crate) version: i64,
    pub(crate) description: String,
    pub(crate) standing: Standing,
}

/// Whether a migration is in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Standing {
    /// It is.
    Applied,
    /// Not yet.
    Pending,
    /// It began and did not end.
    Dirty,
    /// It is, but its text was another one.
    Edited,
    /// It is, and this program does not know it.
    Unknown,
}

impl Standing {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Pending => "pending",
            Self::Dirty => "dirty",
            Self::Edited => "edited",
            Self::Unknown => "unknown",
        }
    }
}

impl Session {
    /// Connects; the database may be empty.
    pub(crate) async fn open(url: &SecretString) -> Result<Self> {
        let connecting = async {
            let options = MySqlConnectOptions::from_str(url.expose_secret())?.charset("utf8mb4");
            let mut connection = options.disable_statement_logging().connect().await?;
            connection.execute(SESSION).await?;
            Ok(connection)
        };
        let connection = match tokio::time::timeout(CONNECT_LIMIT, connecting).await {
            Ok(connected) => connected.map_err(|why: sqlx::Error| sa_boot::cannot_connect(url, why))?,
            Err(_) => return Err(sa_boot::cannot_connect(url, "no answer within 10 s").into()),
        };
        let mut session = Self { connection: Patient(connection), migrator: migrator() };
        let database: Option<String> = sqlx::query_scalar("SELECT DATABASE()").fetch_one(session.sql()).await?;
        match database {
            Some(_) => Ok(session),
            None => {
                Err(Problem::usage("no database is named", "DATABASE_URL ends before it", "add /DATABASE to it").into())
            }
        }
    }

    /// Waits until no other migration of this database runs. The lock ends with the connection.
    pub(crate) async fn lock(&mut self) -> Result<()> {
        // A lock's name may have 64 characters on MySQL; that two long names share a lock costs a wait and no more.
        let taken: Option<i64> =
            sqlx::query_scalar("SELECT CAST(GET_LOCK(CONCAT('sa_migrate:', LEFT(DATABASE(), 50)), 30) AS SIGNED)")
                .fetch_one(self.sql())
                .await
                .context("taking the migration lock")?;
        match taken {
            Some(1) => Ok(()),
            Some(_) => {
                let why = "its lock was not given up within 30 s";
                Err(Problem::new(Exit::TryAgain, "another migration of this database runs", why, "try again").into())
            }
            None => anyhow::bail!("the server gives no migration lock (GET_LOCK answered NULL); see its error log"),
        }
    }

    /// Every migration this program or this database knows, in order. Reads only.
    pub(crate) async fn status(&mut self) -> Result<Vec<Step>> {
        let mut applied = self.applied().await?;
        let mut steps: Vec<_> = self
            .migrator
            .iter()
            .filter(|migration| migration.migration_type.is_up_migration())
            .map(|migration| {
                let standing = match applied.remove(&migration.version) {
                    None => Standing::Pending,
                    Some((_, false, _)) => Standing::Dirty,
                    Some((_, true, checksum)) if checksum != *migration.checksum => Standing::Edited,
                    Some((_, true, _)) => Standing::Applied,
                };
                Step { version: migration.version, description: migration.description.to_string(), standing }
            })
            .collect();
        steps.extend(applied.into_iter().map(|(version, (description, success, _))| {
            let standing = if success { Standing::Unknown } else { Standing::Dirty };
            Step { version, description, standing }
        }));
        steps.sort_by_key(|step| step.version);
        Ok(steps)
    }

    async fn applied(&mut self) -> Result<HashMap<i64, (String, bool, Vec<u8>)>> {
        let there: i64 = sqlx::query_scalar(
            "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '_sqlx_migrations'",
        )
        .fetch_one(self.sql())
        .await?;
        if there == 0 {
            return Ok(HashMap::new());
        }
        let rows: Vec<(i64, String, bool, Vec<u8>)> =
            sqlx::query_as("SELECT version, description, success, checksum FROM _sqlx_migrations")
                .fetch_all(self.sql())
                .await?;
        Ok(rows
            .into_iter()
            .map(|(version, description, success, sum)| (version, (description, success, sum)))
            .collect())
    }

    /// Applies all that is pending; answers what it applied.
    pub(crate) async fn up(&mut self) -> Result<Vec<Step>> {
        let before = self.status().await?;
        self.migrator.run_direct(None, &mut self.connection, false).await.map_err(explained)?;
        let new = before.into_iter().filter(|step| step.standing == Standing::Pending);
        Ok(new.map(|step| Step { standing: Standing::Applied, ..step }).collect())
    }

    /// Undoes the newest migration; answers which one, or nothing if there is none.
    pub(crate) async fn down(&mut self) -> Result<Option<Step>> {
        let Some(newest) = self.newest().await? else { return Ok(None) };
        match newest.standing {
            Standing::Applied | Standing::Edited => {}
            Standing::Dirty => return Err(explained(MigrateError::Dirty(newest.version))),
            Standing::Unknown | Standing::Pending => {
                return Err(explained(MigrateError::VersionMissing(newest.version)));
            }
        }
        let mut downs = self.migrator.iter().filter(|migration| migration.migration_type.is_down_migration());
        let undo = downs.find(|migration| migration.version == newest.version);
        let undo = undo.with_context(|| format!("migration {:04} cannot be undone", newest.version))?;
        self.connection.revert(TABLE, undo).await.map_err(explained)?;
        Ok(Some(Step { standing: Standing::Pending, ..newest }))
    }

    /// The newest migration in the database.
    pub(crate) async fn newest(&mut self) -> Result<Option<Step>> {
        Ok(self.status().await?.into_iter().rfind(|step| step.standing != Standing::Pending))
    }

    /// Gives the lock up and leaves.
    pub(crate) async fn close(self) {
        // The work is committed; a connection that breaks now gives the lock up all the same.
        let _ = self.connection.0.close().await;
    }

    fn sql(&mut self) -> &mut sqlx::MySqlConnection {
        &mut self.connection.0
    }
}

/// The schema's history, compiled in: a binary and its schema cannot come apart.
fn migrator() -> Migrator {
    let mut migrator = sqlx::migrate!("../../migrations");
    // On MariaDB sqlx's own GET_LOCK(…, -1) answers NULL and locks nothing; ours is checked.
    migrator.set_locking(false);
    migrator
}

/// What a failed migration means, and what to do about it.
fn explained(error: MigrateError) -> anyhow::Error {
    match error {
        MigrateError::Dirty(version) => Problem::new(
            Exit::Failed,
            format_args!("migration {version:04} stopped half-way in an earlier run"),
            "the server commits each statement that changes a table, so those before the failure are still there",
            format_args!(
                "undo them by hand (migrations/{version:04}_*.down.sql names what there can be), \
                 DELETE FROM _sqlx_migrations WHERE version = {version}, then run sa-cli migrate again"
            ),
        )
        .into(),
        MigrateError::VersionMismatch(version) => Problem::new(
            Exit::Failed,
            format_args!("migration {version:04} is not the one that was applied"),
            "its text was changed afterwards",
            "use the release this database was migrated with, or a later one",
        )
        .into(),
        MigrateError::VersionMissing(version) => Problem::new(
            Exit::Failed,
            "the schema is newer than this program",
            format_args!("migration {version:04} is applied and not known here"),
            "use the sa-cli of the newer release",
        )
        .into(),
        MigrateError::Execute(source) | MigrateError::ExecuteMigration(source, _) if lost(&source) => Problem::new(
            Exit::DatabaseUnreachable,
            "the connection was lost in mid-migration",
            source,
            "run sa-cli migrate again when the server is back; it says so if something was left half-way",
        )
        .into(),
        MigrateError::ExecuteMigration(source, version) => Problem::new(
            Exit::Failed,
            format_args!("migration {version:04} failed"),
            source,
            "remove the cause and run sa-cli migrate again; migrate --status shows whether it was left half-way",
        )
        .into(),
        other => other.into(),
    }
}

fn lost(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Io(_) | sqlx::Error::Protocol(_))
}
