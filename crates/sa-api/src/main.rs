//! `sa-api`: the HTTP front of the job queue.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    sa_boot::run(sa_api::Options::parse(), sa_api::run)
}
