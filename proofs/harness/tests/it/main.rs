//! The harness shown on real servers and real processes.

mod database;
mod fake_provider;
mod process;
mod proxy;
mod server;
