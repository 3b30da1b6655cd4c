//! `sa-cli` as its users run it: the real binary on a real server, one module a command.

#![expect(clippy::unwrap_used, reason = "a helper that cannot do its part fails its test")]

mod cancel_job;
mod check;
mod cli;
mod create_token;
mod job_details;
mod list_jobs;
mod migrate;
mod output;
mod retry_job;
mod run_prompt;
mod sa_core;
mod submit_prompt;
