//! A database of one test's own.

use std::{
    str::FromStr,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::{Context, Result};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, Executor, MySqlPool,
    migrate::Migrator,
    mysql::{MySqlConnectOptions, MySqlPoolOptions},
};
use tokio::sync::OnceCell;

use crate::{
    apart::apart,
    engine::{Engine, repository_root},
    invariants,
    server::Server,
    shared::{SharedServer, keeps},
};

/// How long a drop may wait; a killed server must not hold up the end of its test.
const DROP_LIMIT: Duration = Duration::from_secs(10);
/// sqlx tries again and again until this, even where nobody listens: a test that kills its server would wait 30 s.
const ACQUIRE_LIMIT: Duration = Duration::from_secs(10);

/// A database named `sa_test_…`, dropped with this value unless `SA_TEST_KEEP=1`.
#[derive(Debug)]
pub struct Database {
    name: String,
    engine: Engine,
    server_url: String,
    url: String,
    pool: MySqlPool,
    /// Whether the invariants must hold when it is dropped.
    judged: AtomicBool,
}

impl Database {
    /// A new database with all migrations of `migrations/` applied, on the shared server.
    ///
    /// # Errors
    /// When there is no server, or a migration fails.
    pub async fn fresh() -> Result<Self> {
        Self::empty().await?.migrated().await
    }

    /// A new database without any table, on the shared server.
    ///
    /// # Errors
    /// When there is no server.
    pub async fn empty() -> Result<Self> {
        let shared = tokio::task::spawn_blocking(SharedServer::get).await??;
        Self::create(shared.url().to_owned(), shared.engine()).await
    }

    /// A new migrated database on a private server.
    ///
    /// # Errors
    /// When the server does not answer, or a migration fails.
    pub async fn fresh_on(server: &Server) -> Result<Self> {
        Self::create(server.url(), server.engine()).await?.migrated().await
    }

    /// The same, whose rows must keep the invariants of sa-core when it is dropped: otherwise the test fails.
    #[must_use]
    pub fn judged(self) -> Self {
        self.judged.store(true, Ordering::Relaxed);
        self
    }

    /// For a test that breaks the rows itself, and says why.
    pub fn not_judged(&self, _because: &str) {
        self.judged.store(false, Ordering::Relaxed);
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The engine it lives on.
    #[must_use]
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// Its URL, as the binaries want it in `DATABASE_URL`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its URL by way of another address, such as [`crate::Proxy::address`].
    ///
    /// # Errors
    /// When the server's URL has no host to replace.
    pub fn url_by_way_of(&self, address: std::net::SocketAddr) -> Result<String> {
        let (scheme, rest) = self.url.split_once("://").context("the URL has no scheme")?;
        let (authority, path) = rest.split_once('/').context("the URL has no path")?;
        let user = authority.rsplit_once('@').map_or_else(String::new, |(user, _host)| format!("{user}@"));
        Ok(format!("{scheme}://{user}{address}/{path}"))
    }

    /// A small pool for the test's own statements; it has sqlx's own session settings, not those of the product.
    #[must_use]
    pub fn pool(&self) -> &MySqlPool {
        &self.pool
    }

    async fn create(server_url: String, engine: Engine) -> Result<Self> {
        let id = uuid::Uuid::new_v4().simple().to_string();
        let name = format!("sa_test_{}", &id[..12]);
        let mut connection = MySqlConnectOptions::from_str(&server_url)?.connect().await?;
        connection.execute(AssertSqlSafe(format!("CREATE DATABASE {name} CHARACTER SET utf8mb4"))).await?;
        connection.close().await?;
        let url = with_database(&server_url, &name)?;
        let pool = MySqlPoolOptions::new().max_connections(5).acquire_timeout(ACQUIRE_LIMIT).connect_lazy(&url)?;
        Ok(Self { name, engine, server_url, url, pool, judged: AtomicBool::new(false) })
    }

    async fn migrated(self) -> Result<Self> {
        static MIGRATOR: OnceCell<Migrator> = OnceCell::const_new();
        let migrator = MIGRATOR
            .get_or_try_init(async || {
                let mut migrator = Migrator::new(repository_root().join("migrations")).await?;
                // Nobody else knows this database yet; and the lock sqlx takes is none on MariaDB.
                migrator.set_locking(false);
                anyhow::Ok(migrator)
            })
            .await?;
        migrator.run(&self.pool).await.with_context(|| format!("migrating {} on {:?}", self.name, self.engine))?;
        Ok(self)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let judged = self.judged.load(Ordering::Relaxed) && !std::thread::panicking();
        let broken = if judged { apart(invariants::broken(&self.url)) } else { Ok(Vec::new()) };
        self.remove();
        match broken {
            Ok(broken) => assert!(broken.is_empty(), "the test left rows that must not be: {broken:#?}"),
            Err(error) => panic!("the rows that the test left could not be judged: {error:#}"),
        }
    }
}

impl Database {
    fn remove(&self) {
        if keeps() {
            return;
        }
        // Best effort: a server that was killed by its test takes the database along, and a user's server keeps at
        // most a database whose name says what it is.
        let _ = apart(drop_database(&self.server_url, &self.name));
    }
}

async fn drop_database(server_url: &str, name: &str) -> Result<()> {
    let options = MySqlConnectOptions::from_str(server_url)?;
    let work = async {
        let mut connection = options.connect().await?;
        // A session left in a transaction holds its tables; waiting for it would only delay the next test.
        connection.execute("SET SESSION lock_wait_timeout = 5").await?;
        connection.execute(AssertSqlSafe(format!("DROP DATABASE IF EXISTS {name}"))).await?;
        Ok(())
    };
    tokio::time::timeout(DROP_LIMIT, work).await?
}

/// Puts a database's name into a server's URL, in place of one that is there, before the options.
fn with_database(server_url: &str, name: &str) -> Result<String> {
    let (base, options) = server_url.split_once('?').map_or((server_url, None), |(base, rest)| (base, Some(rest)));
    let (scheme, rest) = base.split_once("://").context("a server's URL starts with mysql://")?;
    let authority = rest.split('/').next().unwrap_or(rest);
    let options = options.map_or_else(String::new, |options| format!("?{options}"));
    Ok(format!("{scheme}://{authority}/{name}{options}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn database_name_goes_before_the_options() {
        assert_eq!(with_database("mysql://root@h:1/", "x").unwrap(), "mysql://root@h:1/x");
        assert_eq!(with_database("mysql://u:p@h", "x").unwrap(), "mysql://u:p@h/x");
        assert_eq!(with_database("mysql://u@h/old?socket=/a/b", "x").unwrap(), "mysql://u@h/x?socket=/a/b");
    }
}
