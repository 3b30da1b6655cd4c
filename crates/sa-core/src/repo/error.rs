//! What can go wrong with a verb, and what is then known about its transaction.

use sqlx::mysql::MySqlDatabaseError;

use crate::id::JobId;
use crate::state::State;

/// What a verb answers when it did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The database refused, or could not be asked.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A row holds what no row may hold.
    #[error("{table}.{column} of {id} cannot be read")]
    Corrupt {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The row.
        id: String,
    },
    /// No such row, or another viewer's, which is the same.
    #[error("not found")]
    NotFound,
    /// The job is not in a state that allows it.
    #[error("job {id} is {found}")]
    Conflict {
        /// The job that stands in the way: the one asked for, or its successor.
        id: JobId,
        /// The state that the job asked for was found in.
        found: State,
    },
}

impl Error {
    /// Whether the database is away or too busy, so that asking again later may work.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        match self {
            Self::Database(error) => error.is_unreachable(),
            Self::Corrupt { .. } | Self::NotFound | Self::Conflict { .. } => false,
        }
    }

    /// Whether the database is there, but undid the work again and again: somebody holds what it needs.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.fate() == Fate::RolledBack
    }

    pub(super) fn fate(&self) -> Fate {
        match self {
            Self::Database(error) => error.fate(),
            Self::Corrupt { .. } | Self::NotFound | Self::Conflict { .. } => Fate::Refused,
        }
    }
}

impl From<sqlx::Error> for Error {
    fn from(source: sqlx::Error) -> Self {
        Self::Database(source.into())
    }
}

/// An error of the database, with what is known about the transaction it met.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct DatabaseError {
    fate: Fate,
    #[source]
    source: sqlx::Error,
}

/// What became of the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Undone by the server; the same again may succeed at once.
    RolledBack,
    /// Never committed, because the server could not be reached or does not write at present.
    Away,
    /// The server was asked to commit and did not answer.
    Unknown,
    /// The server will never take these values.
    Data,
    /// A unique key holds such a row already.
    Duplicate,
    /// Undone, and the same again will fail again.
    Refused,
}

impl DatabaseError {
    /// Whether the database is away or too busy, so that asking again later may work.
    #[must_use]
    pub const fn is_unreachable(&self) -> bool {
        match self.fate {
            // Undone again and again: it is there, but too busy.
            Fate::Away | Fate::Unknown | Fate::RolledBack => true,
            Fate::Data | Fate::Duplicate | Fate::Refused => false,
        }
    }

    pub(super) const fn fate(&self) -> Fate {
        self.fate
    }

    /// The server's own error number, if it was the server that refused.
    #[must_use]
    pub fn number(&self) -> Option<u16> {
        number(&self.source)
    }

    /// This error, met by the COMMIT itself: unless the server says that it undid the transaction, nobody knows.
    pub(super) fn at_commit(source: sqlx::Error) -> Self {
        let error = Self::from(source);
        let undone = error.fate == Fate::RolledBack || error.number().is_some_and(is_read_only);
        if undone { error } else { Self { fate: Fate::Unknown, ..error } }
    }

    /// Whether connections made before this error are not to be trusted: they broke, or lead to a server that stopped
    /// writing. A busy server is no reason to make every connection anew.
    pub(super) fn breaks_connections(&self) -> bool {
        match &self.source {
            sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => true,
            _ => self.number().is_some_and(|number| is_lost(number) || is_read_only(number)),
        }
    }

    /// The same once more, for another part of the batch that met it.
    pub(super) fn again(&self) -> Self {
        Self { fate: self.fate, source: sqlx::Error::Protocol(self.to_string()) }
    }

    /// A run that is still held although its fence was missed: to be written again.
    pub(super) fn undecided() -> Self {
        Self {
            fate: Fate::RolledBack,
            source: sqlx::Error::Protocol("the claim is held, and was not a moment ago".into()),
        }
    }

    /// A transaction that took too long to still be committed: undone, and to be repeated.
    pub(super) fn too_old() -> Self {
        Self { fate: Fate::RolledBack, source: sqlx::Error::Protocol("the transaction is older than 4 s".into()) }
    }

    /// A guarded statement that met fewer rows than its lock had promised.
    pub(super) fn guard_missed(what: &str) -> Self {
        Self { fate: Fate::Refused, source: sqlx::Error::Protocol(format!("{what} met fewer rows than it had locked")) }
    }
}

impl From<sqlx::Error> for DatabaseError {
    fn from(source: sqlx::Error) -> Self {
        let fate = match &source {
            sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => {
                Fate::Away
            }
            // The server hung up in the middle of an answer.
            sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => Fate::Away,
            sqlx::Error::Database(_) => number(&source).map_or(Fate::Refused, fate_of),
            _ => Fate::Refused,
        };
        Self { fate, source }
    }
}

fn number(error: &sqlx::Error) -> Option<u16> {
    Some(error.as_database_error()?.try_downcast_ref::<MySqlDatabaseError>()?.number())
}

/// The connection went away under the statement.
const fn is_lost(number: u16) -> bool {
    matches!(number, 1053 | 1158..=1161 | 1927 | 2006 | 2013 | 4031)
}

/// The server does not write at present.
const fn is_read_only(number: u16) -> bool {
    matches!(number, 1047 | 1290 | 1792 | 1836 | 3032)
}

/// The classes of reliability.md §2.
const fn fate_of(number: u16) -> Fate {
    match number {
        // Deadlock, lock wait, snapshot conflict, certification conflict.
        1205 | 1213 | 1020 | 3101 => Fate::RolledBack,
        // Too many connections, of all or of this user.
        1040 | 1203 | 1226 => Fate::Away,
        away if is_lost(away) || is_read_only(away) => Fate::Away,
        // Too long, wrong character, out of range, wrong date, packet too big, CHECK.
        1406 | 1366 | 1264 | 1292 | 1153 | 3819 | 4025 => Fate::Data,
        1062 => Fate::Duplicate,
        _ => Fate::Refused,
    }
}

#[cfg(test)]
mod tests;
