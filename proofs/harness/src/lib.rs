//! What the proofs stand on: a throwaway database server, a fresh database per test, the real binaries, a provider
//! that replays recorded bytes, and a proxy that breaks connections on purpose.
//!
//! It depends on no crate of ours and may be a dev-dependency of any of them.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> anyhow::Result<()> {
//! use std::time::Duration;
//! use sa_harness::{Binary, Database};
//!
//! let database = Database::fresh().await?;
//! let worker = Binary::named("sa-worker")?.args(["run-worker", "--once"]).env("DATABASE_URL", database.url());
//! let output = worker.run_to_end(Duration::from_secs(20)).await?;
//! assert_eq!(output.code, Some(0), "{}", output.stderr);
//! # Ok(()) }
//! ```
//!
//! | environment | meaning |
//! |---|---|
//! | `SA_TEST_ENGINE` | `mariadb` (default) or `mysql`: what a server started here runs |
//! | `SA_TEST_SERVER_URL` | a throwaway server started for the whole run, by `sa-harness with-server ENGINE -- COMMAND` |
//! | `SA_TEST_DATABASE_URL` | a server of yours; only databases named `sa_test_*` are made and dropped on it |
//! | `SA_TEST_ENGINE_SCRIPT` | another script in place of `deploy/engine` |
//! | `SA_TEST_KEEP=1` | databases are kept for a look |
//! | `SA_BIN_DIR` | where the binaries lie; else cargo builds them |
//!
//! Without any of them the first test of a process starts a server, which ends with the process.

mod apart;
mod database;
mod engine;
mod fake_provider;
mod invariants;
mod message;
mod process;
mod proxy;
mod record;
mod server;
mod shared;
mod signal;
mod wait;
mod watchdog;

pub use database::Database;
pub use engine::{Engine, repository_root};
pub use fake_provider::{Call, FakeProvider, Gate, Outcome, Reply, Rule};
pub use process::{Binary, Output, Process};
pub use proxy::Proxy;
pub use record::record;
pub use server::Server;
pub use shared::SharedServer;
pub use wait::{Look, wait_until};
