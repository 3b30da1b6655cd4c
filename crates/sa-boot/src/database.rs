//! Where the database is, and the way there.

use std::{fmt::Display, path::PathBuf, time::Duration};

use sa_core::repo::{
    self, Db,
    schema::{self, SchemaError},
};
use secrecy::{ExposeSecret, SecretString};

use crate::{BootOptions, Exit, Problem, Shutdown, shutdown::called_off};

/// For `after_help`: what is read from the environment alone.
pub const ENVIRONMENT: &str = "Environment:\n  DATABASE_URL       mysql://USER:PASSWORD@HOST:PORT/DATABASE; or\n  \
    DATABASE_URL_FILE  a file that holds it; or database-url in $CREDENTIALS_DIRECTORY";

const SYNTAX: &str =
    "set DATABASE_URL=mysql://USER:PASSWORD@HOST:PORT/DATABASE, or DATABASE_URL_FILE to a file that holds it";
/// A server that has not answered by then is away: the kernel alone would wait for minutes.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How many connections a process holds, and how long its callers wait for one.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    size: u32,
    patience: Duration,
    opening: Opening,
}

/// When the connections of a pool are opened.
#[derive(Clone, Copy, Debug)]
enum Opening {
    /// Some of them at once: a daemon's first work shall not wait for them.
    Ahead,
    /// Each when it is needed.
    OnDemand,
}

impl Pool {
    /// At most this many connections; callers wait up to 5 s for one.
    #[must_use]
    pub const fn of(size: u32) -> Self {
        Self { size, patience: Duration::from_secs(5), opening: Opening::Ahead }
    }

    /// The same, whose callers wait so long.
    #[must_use]
    pub const fn with_patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// The same, opening no connection before it is needed: for a process that may find nothing to do.
    #[must_use]
    pub const fn on_demand(self) -> Self {
        Self { opening: Opening::OnDemand, ..self }
    }

    async fn connect(self, url: &str) -> Result<Db, repo::Error> {
        match self.opening {
            Opening::Ahead => Db::connect_within(url, self.size, self.patience).await,
            Opening::OnDemand => Db::connect_on_demand(url, self.size, self.patience).await,
        }
    }
}

impl BootOptions {
    /// Connects, and makes sure that the schema is one this binary knows.
    ///
    /// # Errors
    /// A [`Problem`] that says what to do: exit code 2 without a URL, 5 without a connection, 1 for a foreign schema.
    pub async fn database(&self, pool: Pool) -> anyhow::Result<Db> {
        let url = database_url()?;
        let connecting = pool.connect(url.expose_secret());
        let db = match tokio::time::timeout(CONNECT_LIMIT, connecting).await {
            Ok(result) => result.map_err(|why| cannot_connect(&url, why))?,
            Err(_) => return Err(cannot_connect(&url, "no answer within 10 s").into()),
        };
        match schema::check(&db).await {
            Ok(()) => Ok(db),
            Err(SchemaError::Database(why)) => Err(why.into()),
            Err(why @ (SchemaError::Absent | SchemaError::Behind { .. } | SchemaError::Ahead { .. })) => {
                let what = "the database does not have the schema this program needs";
                let remedy = "bring program and schema to one release; sa-cli migrate --status compares them";
                Err(Problem::new(Exit::Failed, what, why, remedy).into())
            }
        }
    }

    /// As [`BootOptions::database`], but waits for a server that is away: a service outlives its database.
    ///
    /// # Errors
    /// As there, without exit code 5. When asked to stop meanwhile, an error that ends the process with exit code 0.
    pub async fn database_waiting(&self, pool: Pool, shutdown: &Shutdown) -> anyhow::Result<Db> {
        let mut pause = Duration::from_secs(1);
        loop {
            let attempt = tokio::select! {
                attempt = self.database(pool) => attempt,
                () = shutdown.requested() => return Err(called_off()),
            };
            match attempt {
                Err(error) if Exit::of(&error) == Exit::DatabaseUnreachable => {
                    tracing::warn!(pause_s = pause.as_secs(), "{error}; trying again");
                }
                settled => return settled,
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
                () = shutdown.requested() => return Err(called_off()),
            }
        }
    }
}

/// The database URL: `DATABASE_URL`, else the file named by `DATABASE_URL_FILE`, else `database-url` in
/// `$CREDENTIALS_DIRECTORY`.
///
/// # Errors
/// A usage [`Problem`] when there is none, its file cannot be read, or it names no MySQL or MariaDB server.
pub fn database_url() -> Result<SecretString, Problem> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let file = || variable("DATABASE_URL_FILE").map(PathBuf::from);
    let credential = || variable("CREDENTIALS_DIRECTORY").map(|folder| PathBuf::from(folder).join("database-url"));
    let url = match (variable("DATABASE_URL"), file().or_else(|| credential().filter(|path| path.exists()))) {
        (Some(url), _) => url,
        (None, Some(path)) => std::fs::read_to_string(&path).map_err(|why| {
            Problem::usage("the database URL cannot be read", format_args!("{}: {why}", path.display()), SYNTAX)
        })?,
        (None, None) => return Err(Problem::usage("no database is named", "DATABASE_URL is not set", SYNTAX)),
    };
    let url = url.trim();
    if !url.starts_with("mysql://") && !url.starts_with("mariadb://") {
        return Err(Problem::usage("DATABASE_URL cannot be used", "it does not begin with mysql://", SYNTAX));
    }
    Ok(SecretString::from(url))
}

/// The problem of a failed connection: names the server, never the password, and knows the usual causes. Its exit code is
/// 5, or 2 for a URL that cannot be one.
pub fn cannot_connect(url: &SecretString, why: impl Display) -> Problem {
    const CAUSES: [(&str, &str); 7] = [
        ("RSA", "a password of MySQL 8 needs TLS or a socket: add ?ssl-mode=REQUIRED or ?socket=/path/to/mysqld.sock"),
        ("error with configuration", SYNTAX),
        ("ertificate", "add ssl-ca=/path/to/ca.pem to the URL, or ssl-mode=REQUIRED, which checks no certificate"),
        ("TLS", "turn on TLS at the server, or connect by socket: ?socket=/path/to/mysqld.sock"),
        ("Access denied", "check user and password in DATABASE_URL"),
        ("Unknown database", "create it (CREATE DATABASE …), then run sa-cli migrate"),
        ("", "start the server, or check host, port and socket in DATABASE_URL"),
    ];
    let why = why.to_string();
    let remedy = CAUSES.iter().find_map(|(sign, remedy)| why.contains(sign).then_some(*remedy)).unwrap_or_default();
    if remedy == SYNTAX {
        return Problem::usage("DATABASE_URL cannot be used", why, remedy);
    }
    // All before the last `@` is dropped first, so that no odd password can slip through.
    let url = url.expose_secret();
    let server = url.rsplit_once('@').or_else(|| url.split_once("://")).map_or("", |(_, server)| server);
    let server = server.split('?').next().unwrap_or_default();
    Problem::new(Exit::DatabaseUnreachable, format_args!("the database at {server} cannot be reached"), why, remedy)
}
