//! The one server that the tests of a process, or of a whole run, have in common.

use std::{
    env,
    str::FromStr,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Context, Result, anyhow};
use sqlx::{ConnectOptions, mysql::MySqlConnectOptions};

use crate::{apart::apart, engine::Engine, server::Server};

/// A server for databases named `sa_test_*`; it may be a user's, so nothing else on it is touched and it is never stopped.
#[derive(Debug)]
pub struct SharedServer {
    url: String,
    version: String,
    /// Held for its destructor's sake only in name: statics are not dropped, the watchdog ends this server.
    _started_here: Option<Server>,
}

impl SharedServer {
    /// The server given by `SA_TEST_SERVER_URL` (a test run's) or `SA_TEST_DATABASE_URL` (a user's), else one that
    /// this process starts on first use and that ends with it. Blocks for the seconds a start takes.
    ///
    /// # Errors
    /// When the server given does not answer, or none can be started; a failed start is not tried again.
    pub fn get() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<SharedServer, String>> = OnceLock::new();
        SHARED
            .get_or_init(|| Self::find().map_err(|error| format!("{error:#}")))
            .as_ref()
            .map_err(|error| anyhow!("no server to test on: {error}"))
    }

    fn find() -> Result<Self> {
        let given = ["SA_TEST_SERVER_URL", "SA_TEST_DATABASE_URL"]
            .into_iter()
            .find_map(|name| Some((name, env::var(name).ok().filter(|url| !url.is_empty())?)));
        if let Some((name, url)) = given {
            // The URL itself may hold a password, so errors carry the variable's name instead.
            let version = version_of(url.clone()).with_context(|| format!("the server of {name} does not answer"))?;
            return Ok(Self { url, version, _started_here: None });
        }
        let server = Server::own(Engine::of_this_run()?)?;
        let version = version_of(server.url())?;
        Ok(Self { url: server.url(), version, _started_here: Some(server) })
    }

    /// Which engine answers.
    #[must_use]
    pub fn engine(&self) -> Engine {
        Engine::from_version(&self.version)
    }

    /// What `SELECT VERSION()` answers.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The server's URL; a database in it is not to be used.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

fn version_of(url: String) -> Result<String> {
    apart(async move {
        let mut connection = MySqlConnectOptions::from_str(&url)?.connect().await?;
        Ok(sqlx::query_scalar("SELECT VERSION()").fetch_one(&mut connection).await?)
    })
}

/// Whether databases and folders stay for a look afterwards (`SA_TEST_KEEP=1`); says so once.
pub(crate) fn keeps() -> bool {
    static SAID: AtomicBool = AtomicBool::new(false);
    let keeps = env::var("SA_TEST_KEEP").is_ok_and(|value| value == "1");
    if keeps && !SAID.swap(true, Ordering::Relaxed) {
        eprintln!("SA_TEST_KEEP=1: databases are kept as long as their server runs");
    }
    keeps
}
