//! The way of a request to the database.

use std::{future::Future, time::Duration};

use sa_core::repo::{self, Db};
use tokio::runtime::Handle;

use crate::error::Problem;

/// How long a request waits for the database in all. Writers give up a transaction before, so what takes this long is a
/// server that has stopped answering.
const PATIENCE: Duration = Duration::from_secs(10);

/// The database, and the runtime its work runs on.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    db: Db,
    runtime: Handle,
}

impl Database {
    /// Must be called on the runtime that shall do the work: it has to outlive the server's own threads.
    pub(crate) fn new(db: Db) -> Self {
        Self { db, runtime: Handle::current() }
    }

    /// Runs `work` in a task of its own and waits for its result.
    ///
    /// Never call the repository from a handler itself: actix-web drops a handler whose client has gone, and a
    /// transaction dropped half-way has made acknowledged writes vanish (design/reliability.md, finding 1). A task is
    /// not dropped; it runs to its end, whoever still waits.
    pub(crate) async fn run<T, F, W>(&self, work: W) -> Result<Result<T, repo::Error>, Problem>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, repo::Error>> + Send + 'static,
        W: FnOnce(Db) -> F,
    {
        let task = self.runtime.spawn(work(self.db.clone()));
        match tokio::time::timeout(PATIENCE, task).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(panic)) => Err(Problem::fault(panic)),
            Err(_) => Err(Problem::unavailable(format_args!("no answer within {} s", PATIENCE.as_secs()))),
        }
    }
}
