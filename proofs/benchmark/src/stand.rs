//! The server that everything is measured on.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use sa_core::repo::Db;
use sa_harness::{Database, Engine, Server};
use sqlx::{AssertSqlSafe, Executor, MySqlPool, Row};

/// Tables in memory, a redo log that outlasts a load, and by the harness's own settings: each commit flushed, no binary log.
const TUNING: [&str; 1] = ["--innodb-buffer-pool-size=1536M"];

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Rounds of a cell whose rounds last a second or more.
    pub rounds: usize,
    /// Rounds of a cell whose rounds are short.
    pub short_rounds: usize,
    /// Jobs in a round of the cells about a job's life.
    pub jobs: usize,
    /// Rounds of a cell whose rounds last longest.
    pub long_rounds: usize,
    /// Jobs that were taken before, while a snapshot was held.
    pub taken: u64,
    /// Tables are this many times smaller than their cells say.
    pub shrunk: u64,
    /// What the run is called.
    pub name: &'static str,
}

impl Extent {
    pub const QUICK: Self =
        Self { rounds: 5, short_rounds: 11, jobs: 4_096, long_rounds: 3, taken: 40_000, shrunk: 1, name: "quick" };
    pub const FULL: Self =
        Self { rounds: 7, short_rounds: 21, jobs: 8_192, long_rounds: 7, taken: 80_000, shrunk: 1, name: "full" };
    pub const SMOKE: Self =
        Self { rounds: 1, short_rounds: 1, jobs: 512, long_rounds: 1, taken: 1_000, shrunk: 100, name: "smoke" };

    /// Whether what is measured means anything.
    pub fn counts(&self) -> bool {
        self.shrunk == 1
    }
}

/// A throwaway server, and how much is measured on it.
pub struct Stand {
    pub engine: Engine,
    pub extent: Extent,
    server: Server,
}

impl Stand {
    pub fn start(engine: Engine, extent: Extent) -> Result<Self> {
        let redo = match engine {
            Engine::MariaDb => "--innodb-log-file-size=1G",
            Engine::MySql => "--innodb-redo-log-capacity=1G",
        };
        let tuning: &'static [&'static str] = Box::leak(TUNING.into_iter().chain([redo]).collect());
        Ok(Self { engine, extent, server: Server::tuned(engine, tuning)? })
    }

    pub fn version(&self) -> &str {
        self.server.version()
    }

    pub fn port(&self) -> u16 {
        self.server.address().port()
    }

    /// A new migrated schema.
    pub async fn schema(&self) -> Result<Schema> {
        let database = Database::fresh_on(&self.server).await?;
        let db = Db::connect(database.url(), 16).await?;
        Ok(Schema { database, db })
    }
}

/// A migrated schema with the product's pool on it.
pub struct Schema {
    pub database: Database,
    pub db: Db,
}

impl Schema {
    pub fn pool(&self) -> &MySqlPool {
        self.database.pool()
    }

    pub async fn run(&self, statement: impl Into<String>) -> Result<()> {
        let statement = statement.into();
        let shown = statement.clone();
        self.pool().execute(AssertSqlSafe(statement)).await.context(shown)?;
        Ok(())
    }

    /// Empties the tables that a job's life writes.
    pub async fn empty(&self) -> Result<()> {
        for table in ["sa_job", "sa_job_event", "sa_entity", "sa_edge", "sa_audit", "sa_ledger"] {
            self.run(format!("TRUNCATE TABLE {table}")).await?;
        }
        self.settle().await
    }

    /// Puts the claimed jobs back to where they were, and waits until nothing is left to be seen of it.
    pub async fn restore(&self) -> Result<()> {
        self.run(
            "UPDATE sa_job
                SET state = 'queued', worker_claim = NULL, claimed_at = NULL, started_at = NULL,
                    running_heartbeat_at = NULL, revision = 1, updated_at = created_at
              WHERE state = 'running'",
        )
        .await?;
        self.run("TRUNCATE TABLE sa_job_event").await?;
        self.settle().await
    }

    /// Waits until the engine has cleared away what earlier changes left behind: a claim must not pay for a restore.
    pub async fn settle(&self) -> Result<()> {
        let began = Instant::now();
        let (mut least, mut since) = (u64::MAX, Instant::now());
        loop {
            let left = self.history().await?;
            if left < least {
                (least, since) = (left, Instant::now());
            }
            if left == 0 || since.elapsed() > Duration::from_millis(400) {
                return Ok(());
            }
            if began.elapsed() > Duration::from_secs(60) {
                eprintln!("bench: {left} old transactions are still not cleared away after a minute");
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Transactions whose leftovers the engine has not cleared away.
    pub async fn history(&self) -> Result<u64> {
        let row = match self.database.engine() {
            Engine::MariaDb => {
                let row = self.pool().fetch_one("SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'").await?;
                row.try_get_unchecked::<String, _>(1)?.parse()?
            }
            Engine::MySql => {
                let query = "SELECT CAST(`count` AS UNSIGNED) FROM information_schema.innodb_metrics
                              WHERE name = 'trx_rseg_history_len'";
                sqlx::query_scalar(query).fetch_one(self.pool()).await?
            }
        };
        Ok(row)
    }
}
