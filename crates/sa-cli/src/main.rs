//! The operator's command line; see the library.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    sa_boot::run(sa_cli::Options::parse(), sa_cli::run)
}
