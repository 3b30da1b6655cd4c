//! Runs migrations statement by statement, and waits for its turn at busy tables.
//!
//! MySQL and MariaDB commit each statement that changes a table, so a migration is no transaction whatever is written
//! around it. Sent one by one, a statement that met a lock can be repeated alone, which a whole file never could.

use std::{
    pin::Pin,
    time::{Duration, Instant},
};

use sqlx::{
    AssertSqlSafe, MySqlConnection,
    migrate::{AppliedMigration, Migrate, MigrateError, Migration},
    mysql::MySqlDatabaseError,
};

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, MigrateError>> + Send + 'a>>;

/// Two seconds of waiting and one of letting others pass, each.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_secs(1);

/// A connection whose migrations wait for locks without holding everybody up.
pub(super) struct Patient(pub(super) MySqlConnection);

impl Patient {
    /// Runs the statements in order. On failure, says how many are done: with none, nothing has happened.
    async fn run(&mut self, script: &str) -> Result<(), (usize, sqlx::Error)> {
        for (done, statement) in statements(script).into_iter().enumerate() {
            let mut tried = 1;
            while let Err(error) = sqlx::raw_sql(AssertSqlSafe(&*statement)).execute(&mut self.0).await {
                if !met_a_lock(&error) || tried == TRIES {
                    return Err((done, error));
                }
                tracing::warn!(tried, "a statement of this migration waits for a lock; trying again");
                tried += 1;
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    async fn record(&mut self, sql: String, migration: &Migration) -> Result<(), MigrateError> {
        sqlx::query(AssertSqlSafe(sql)).bind(migration.version).execute(&mut self.0).await?;
        Ok(())
    }
}

impl Migrate for Patient {
    fn create_schema_if_not_exists<'e>(&'e mut self, schema: &'e str) -> Answer<'e, ()> {
        self.0.create_schema_if_not_exists(schema)
    }

    fn ensure_migrations_table<'e>(&'e mut self, table: &'e str) -> Answer<'e, ()> {
        self.0.ensure_migrations_table(table)
    }

    fn dirty_version<'e>(&'e mut self, table: &'e str) -> Answer<'e, Option<i64>> {
        self.0.dirty_version(table)
    }

    fn list_applied_migrations<'e>(&'e mut self, table: &'e str) -> Answer<'e, Vec<AppliedMigration>> {
        self.0.list_applied_migrations(table)
    }

    fn lock(&mut self) -> Answer<'_, ()> {
        self.0.lock()
    }

    fn unlock(&mut self) -> Answer<'_, ()> {
        self.0.unlock()
    }

    fn apply<'e>(&'e mut self, table: &'e str, migration: &'e Migration) -> Answer<'e, Duration> {
        Box::pin(async move {
            let start = Instant::now();
            // Marked as unfinished first: a crash in between leaves the mark, and the next run refuses to guess.
            let begin = format!(
                "INSERT INTO {table} (version, description, success, checksum, execution_time) VALUES (?, ?, FALSE, ?, -1)"
            );
            sqlx::query(AssertSqlSafe(begin))
                .bind(migration.version)
                .bind(&*migration.description)
                .bind(&*migration.checksum)
                .execute(&mut self.0)
                .await?;
            if let Err((done, error)) = self.run(migration.sql.as_str()).await {
                if done == 0 {
                    self.record(format!("DELETE FROM {table} WHERE version = ?"), migration).await?;
                }
                return Err(MigrateError::ExecuteMigration(error, migration.version));
            }
            let elapsed = start.elapsed();
            let end =
                format!("UPDATE {table} SET success = TRUE, execution_time = {} WHERE version = ?", elapsed.as_nanos());
            self.record(end, migration).await?;
            Ok(elapsed)
        })
    }

    fn revert<'e>(&'e mut self, table: &'e str, migration: &'e Migration) -> Answer<'e, Duration> {
        Box::pin(async move {
            let start = Instant::now();
            self.record(format!("UPDATE {table} SET success = FALSE WHERE version = ?"), migration).await?;
            if let Err((done, error)) = self.run(migration.sql.as_str()).await {
                if done == 0 {
                    self.record(format!("UPDATE {table} SET success = TRUE WHERE version = ?"), migration).await?;
                }
                return Err(MigrateError::ExecuteMigration(error, migration.version));
            }
            self.record(format!("DELETE FROM {table} WHERE version = ?"), migration).await?;
            Ok(start.elapsed())
        })
    }
}

/// Lock wait time-out or deadlock: the statement is undone, and may be sent again.
fn met_a_lock(error: &sqlx::Error) -> bool {
    let number = error.as_database_error().and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>());
    number.is_some_and(|error| matches!(error.number(), 1205 | 1213))
}

/// The statements of a script, without the `;` between them. Comments stay where they are; a `;` in a comment, a text or
/// a quoted name ends nothing.
fn statements(script: &str) -> Vec<String> {
    let mut statements = vec![String::new()];
    let mut rest = script;
    while let Some(next) = rest.chars().next() {
        let length = match next {
            '-' if rest.starts_with("--") => until(rest, "\n", 0),
            '#' => until(rest, "\n", 0),
            '/' if rest.starts_with("/*") => until(rest, "*/", 2),
            '\'' | '"' | '`' => until(rest, &next.to_string(), 1),
            other => other.len_utf8(),
        };
        let (part, after) = rest.split_at(length);
        match statements.last_mut() {
            Some(statement) if part != ";" => statement.push_str(part),
            _ => statements.push(String::new()),
        }
        rest = after;
    }
    statements.retain(|statement| !is_blank(statement));
    statements
}

/// The length up to and with `end`, looked for after the first `skip` bytes. A doubled quote is two texts side by side.
fn until(text: &str, end: &str, skip: usize) -> usize {
    text[skip..].find(end).map_or(text.len(), |at| skip + at + end.len())
}

/// Whether there is nothing but line comments and blanks, which a server calls an empty query.
fn is_blank(statement: &str) -> bool {
    statement.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with("--"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semicolon_in_comment_text_or_name_ends_nothing() {
        let script = "-- a; b's\nCREATE TABLE `x;y` (a CHAR DEFAULT ('it''s; \"'));\n/* ; */ INSERT INTO x VALUES (';') ;\n-- end;\n";
        let parts = statements(script);
        assert_eq!(parts.len(), 2, "{parts:?}");
        assert!(parts[0].ends_with("('it''s; \"'))"));
        assert!(parts[1].trim_start().starts_with("/* ; */ INSERT"));
    }

    #[test]
    fn every_migration_of_ours_splits_into_statements_the_server_knows() {
        for migration in super::super::migrator().iter() {
            for statement in statements(migration.sql.as_str()) {
                let code: Vec<_> = statement.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
                let verb = code.join(" ");
                let known = ["CREATE TABLE ", "ALTER TABLE ", "DROP TABLE ", "INSERT INTO ", "UPDATE ", "DELETE FROM "];
                assert!(known.iter().any(|known| verb.trim_start().starts_with(known)), "{statement}");
            }
        }
    }
}
