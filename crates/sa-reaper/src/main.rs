//! Gives back what dead workers held; see the library.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    sa_boot::run(sa_reaper::Options::parse(), sa_reaper::run)
}
