//! Connections, sessions and transactions.

use std::future::Future;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlPoolOptions};
use sqlx::pool::PoolConnection;
use sqlx::{ConnectOptions, Connection, Executor, MySql, MySqlPool};
use time::OffsetDateTime;

use super::error::{DatabaseError, Error, Fate};

/// The settings every session has, whatever the server's defaults are. The two comments are read by one engine each: a
/// worker that is frozen inside a transaction must not hold its rows for ever, which only MariaDB can see to.
const SESSION: &str = "SET SESSION \
    sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', \
    time_zone = '+00:00', innodb_lock_wait_timeout = 2 \
    /*M!100100 , max_statement_time = 30, idle_transaction_timeout = 15 */ /*!80000 , max_execution_time = 30000 */";
/// Claims must not lock the gaps between rows, and nobody here reads a snapshot twice.
const ISOLATION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";

/// A transaction older than this is undone and repeated: followers of changes rely on writers being quick.
const OLDEST_COMMIT: Duration = Duration::from_secs(4);
/// How often a transaction that the server undid is tried in all.
const TRIES: u32 = 5;

/// A pool of connections to one schema.
#[derive(Clone, Debug)]
pub struct Db {
    pool: MySqlPool,
    /// Connections made before this instant are not used again: the server behind them stopped writing.
    suspect: Arc<Mutex<Option<Instant>>>,
}

impl Db {
    /// Connects, and proves it by one connection. A caller waits at most 5 s for a connection of the pool.
    ///
    /// # Errors
    /// The URL is not one of MySQL, the server cannot be reached, or it refuses.
    pub async fn connect(url: &str, pool_size: u32) -> Result<Self, Error> {
        Self::connect_within(url, pool_size, Duration::from_secs(5)).await
    }

    /// Connects as [`Self::connect`] does; a caller waits at most `acquire` for a connection of the pool.
    ///
    /// # Errors
    /// The URL is not one of MySQL, the server cannot be reached, or it refuses.
    pub async fn connect_within(url: &str, pool_size: u32, acquire: Duration) -> Result<Self, Error> {
        // Kept open, so that the first requests after a quiet time need not wait for new ones.
        Self::pooled(url, pool_size, pool_size.min(4), acquire).await
    }

    /// Connects as [`Self::connect_within`] does, but opens no connection before somebody needs it: for a process that may
    /// find nothing to do.
    ///
    /// # Errors
    /// The URL is not one of MySQL, the server cannot be reached, or it refuses.
    pub async fn connect_on_demand(url: &str, pool_size: u32, acquire: Duration) -> Result<Self, Error> {
        Self::pooled(url, pool_size, 0, acquire).await
    }

    async fn pooled(url: &str, pool_size: u32, kept: u32, acquire: Duration) -> Result<Self, Error> {
        let options = MySqlConnectOptions::from_str(url)?
            .charset("utf8mb4")
            .statement_cache_capacity(256)
            .disable_statement_logging();
        // The pool would hide why the first connection fails behind a time-out.
        MySqlConnection::connect_with(&options).await?.close().await?;
        let suspect = Arc::new(Mutex::new(None));
        let suspects = Arc::clone(&suspect);
        let pool = MySqlPoolOptions::new()
            .max_connections(pool_size)
            .min_connections(kept)
            .acquire_timeout(acquire)
            .test_before_acquire(false)
            .max_lifetime(Duration::from_secs(600))
            .idle_timeout(Duration::from_secs(300))
            .after_connect(|session, _| {
                Box::pin(async move {
                    session.execute(SESSION).await?;
                    session.execute(ISOLATION).await?;
                    Ok(())
                })
            })
            .before_acquire(move |_, meta| {
                let since = *suspects.lock().unwrap_or_else(PoisonError::into_inner);
                let trusted = since.is_none_or(|since: Instant| meta.age < since.elapsed());
                Box::pin(async move { Ok(trusted) })
            })
            // A future dropped in mid-transaction must not hand its open transaction to the next caller.
            .after_release(|session, _| {
                Box::pin(async move {
                    session.execute("ROLLBACK").await?;
                    Ok(true)
                })
            })
            .connect_with(options)
            .await?;
        Ok(Self { pool, suspect })
    }

    /// Closes every connection; callers that still wait for one are told so.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    pub(super) const fn pool(&self) -> &MySqlPool {
        &self.pool
    }

    pub(super) async fn begin(&self) -> Result<Tx, Error> {
        let mut session = self.pool.acquire().await?;
        session.execute("BEGIN").await?;
        Ok(Tx { session, began: Instant::now() })
    }

    /// Runs a whole transaction, again if the server undid it (deadlock, lock wait) or the connection broke before COMMIT.
    ///
    /// One statement is never repeated by itself: after a deadlock everything before it is gone too.
    pub(super) async fn retrying<T, F>(&self, mut once: impl FnMut() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut tried = 1;
        loop {
            let error = match once().await {
                Err(error) => error,
                done => return done,
            };
            let again = match error.fate() {
                Fate::RolledBack => tried < TRIES,
                // A pooled connection may have died of age; a new one tells whether the server is there.
                Fate::Away => tried < 2,
                Fate::Unknown | Fate::Data | Fate::Duplicate | Fate::Refused => false,
            };
            if matches!(&error, Error::Database(error) if error.breaks_connections()) {
                self.distrust();
            }
            if !again {
                return Err(error);
            }
            tracing::debug!(tried, %error, "A transaction was undone and is repeated.");
            tokio::time::sleep(pause(tried)).await;
            tried += 1;
        }
    }

    fn distrust(&self) {
        *self.suspect.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

/// The database's clock, the only one that counts.
///
/// # Errors
/// `Database`.
pub async fn now(db: &Db) -> Result<OffsetDateTime, Error> {
    db.retrying(|| async {
        let now = sqlx::query_scalar!(
            r#"-- repo::now
             SELECT UTC_TIMESTAMP(6) AS "now!: OffsetDateTime""#
        );
        Ok(now.fetch_one(&db.pool).await?)
    })
    .await
}

/// 10 to 80 ms, so that two that met once do not meet again. `RandomState` is seeded anew by each `new`.
fn pause(tried: u32) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    Duration::from_millis(10 + RandomState::new().hash_one(tried) % (u64::from(tried) * 14))
}

/// An open transaction. Dropped without [`Self::commit`], it is rolled back when its session returns to the pool.
pub(super) struct Tx {
    session: PoolConnection<MySql>,
    began: Instant,
}

impl Tx {
    pub(super) fn session(&mut self) -> &mut MySqlConnection {
        &mut self.session
    }

    pub(super) async fn commit(mut self) -> Result<(), Error> {
        if self.began.elapsed() > OLDEST_COMMIT {
            return Err(DatabaseError::too_old().into());
        }
        match self.session.execute("COMMIT").await {
            Ok(_) => Ok(()),
            Err(error) => Err(DatabaseError::at_commit(error).into()),
        }
    }
}
