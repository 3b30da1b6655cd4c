//! `proofs/bench`: what the design costs, as ratios of rates that were measured in turns in one run.
//!
//! The repository of sa-core stands beside a bare client that writes the same rows, or beside itself on a smaller table.

mod bare;
mod cell;
mod claims;
mod crowd;
mod enqueue;
mod floor;
mod held;
mod life;
mod options;
mod report;
mod rounds;
mod stand;
mod terminal;

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

use self::cell::Cell;
use self::options::Options;
use self::report::Report;
use self::stand::Stand;

fn main() -> ExitCode {
    match measure(&Options::parse()) {
        Ok(Report { missed: true, .. }) => ExitCode::FAILURE,
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure(options: &Options) -> Result<Report> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut report = Report::new(options);
    for engine in options.engines() {
        let stand = Stand::start(engine, options.extent())?;
        report.begins(&stand);
        for cell in options.cells() {
            let pairs =
                runtime.block_on(cell.measure(&stand)).with_context(|| format!("{cell} on {}", engine.name()))?;
            report.add(&stand, cell, pairs)?;
        }
    }
    report.ends();
    Ok(report)
}

impl Cell {
    async fn measure(self, stand: &Stand) -> Result<Vec<rounds::Pair>> {
        match self {
            Self::Floor => floor::measure(stand).await,
            Self::Enqueue => enqueue::measure(stand, 16).await,
            Self::EnqueueSingle => enqueue::measure(stand, 1).await,
            Self::Drain => life::measure(stand).await,
            Self::Claim100k => claims::backlog(stand, 100_000).await,
            Self::Claim1m => claims::backlog(stand, 1_000_000).await,
            Self::ClaimLanes => claims::lanes(stand).await,
            Self::ClaimClosed => claims::closed(stand).await,
            Self::ClaimDelayed => claims::delayed(stand).await,
            Self::ClaimHeld => held::measure(stand).await,
            Self::ClaimTerminal => terminal::measure(stand).await,
        }
    }
}
