use std::{str::FromStr, time::Duration};

use anyhow::Result;
use sa_harness::{Database, Engine, Proxy, Server};
use sqlx::{ConnectOptions, Connection, Executor, MySqlConnection, mysql::MySqlConnectOptions};

const SOON: Duration = Duration::from_millis(300);

struct Line {
    database: Database,
    proxy: Proxy,
    // Dropped last, so that the database can still be dropped on it.
    _server: Server,
}

impl Line {
    async fn new() -> Result<Self> {
        let server = Server::own(Engine::of_this_run()?)?;
        let database = Database::fresh_on(&server).await?;
        database.pool().execute("CREATE TABLE t (n INT) ENGINE = InnoDB").await?;
        let proxy = Proxy::start(server.address()).await?;
        Ok(Self { database, proxy, _server: server })
    }

    async fn connect(&self) -> Result<MySqlConnection> {
        let url = self.database.url_by_way_of(self.proxy.address())?;
        Ok(MySqlConnectOptions::from_str(&url)?.connect().await?)
    }

    async fn rows(&self) -> Result<i64> {
        Ok(sqlx::query_scalar("SELECT COUNT(*) FROM t").fetch_one(self.database.pool()).await?)
    }

    /// Inserts a row in a transaction by way of the proxy; an error is the commit's.
    async fn insert(&self) -> Result<Result<(), sqlx::Error>> {
        let mut connection = self.connect().await?;
        let mut transaction = connection.begin().await?;
        transaction.execute("INSERT INTO t VALUES (1)").await?;
        Ok(transaction.commit().await)
    }
}

#[tokio::test]
async fn commit_faults_split_what_the_server_did_from_what_the_client_heard() -> Result<()> {
    let line = Line::new().await?;

    line.insert().await??;
    assert_eq!(line.rows().await?, 1);

    line.proxy.cut_ack_of_next_commit();
    assert!(line.insert().await?.is_err(), "the client heard of a commit whose answer was cut");
    assert_eq!((line.rows().await?, line.proxy.commits_cut()), (2, 1), "the server had done it");

    line.proxy.cut_before_next_commit();
    assert!(line.insert().await?.is_err());
    assert_eq!((line.rows().await?, line.proxy.commits_cut()), (2, 2), "the server never saw it");

    line.insert().await??;
    assert_eq!((line.rows().await?, line.proxy.commits_cut()), (3, 2), "a fault happens once");
    Ok(())
}

#[tokio::test]
async fn connections_are_cut_refused_held_and_slowed() -> Result<()> {
    let line = Line::new().await?;
    let mut connection = line.connect().await?;

    line.proxy.half_open();
    assert!(tokio::time::timeout(SOON, connection.ping()).await.is_err(), "a half-open connection answered");
    line.proxy.forward();
    let mut connection = line.connect().await?;

    line.proxy.hold_server_bytes();
    let insert = connection.execute("INSERT INTO t VALUES (1)");
    assert!(tokio::time::timeout(SOON, insert).await.is_err(), "held bytes arrived");
    assert_eq!(line.rows().await?, 1, "what the client sent did reach the server");
    line.proxy.forward();

    let mut connection = line.connect().await?;
    line.proxy.refuse().await?;
    let refused = line.connect().await.expect_err("a refused connection was accepted");
    assert!(format!("{refused:?}").contains("Connection refused"), "{refused:?}");
    connection.ping().await?;
    line.proxy.cut().await;
    assert!(connection.ping().await.is_err(), "a cut connection answered");
    line.proxy.accept().await?;

    let mut connection = line.connect().await?;
    line.proxy.latency(SOON);
    let start = std::time::Instant::now();
    connection.ping().await?;
    assert!(start.elapsed() >= 2 * SOON, "{:?}", start.elapsed());
    Ok(())
}
