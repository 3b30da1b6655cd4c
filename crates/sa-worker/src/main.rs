//! The worker: claims jobs and calls providers.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    sa_boot::run(sa_worker::Options::parse(), sa_worker::run)
}
