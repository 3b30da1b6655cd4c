//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use sa_harness::Engine;

use crate::cell::Cell;
use crate::stand::Extent;

/// What the design costs, as ratios of rates measured in turns in one run
///
/// Each cell compares two rates, ours and its base, in rounds that take turns, and prints the median of their ratio with
/// the least and the greatest. A target is met when the median reaches it. Servers are throwaway ones with durable
/// commits; nothing else should keep this machine busy, but what does hits both sides of a round.
#[derive(Debug, Parser)]
#[command(name = "bench", after_help = "Exit: 0 all targets met · 1 a target missed, or it broke · 2 usage")]
pub struct Options {
    /// Fewer and shorter rounds on the same tables, in under five minutes for both engines
    #[arg(long)]
    quick: bool,
    /// One round each on tables a hundred times smaller, to see that all of it works; the ratios mean nothing
    #[arg(long, conflicts_with = "quick")]
    smoke: bool,
    /// Write every raw round here, as a JSON list of {engine, cell, ours, base}: rates, the ratio is ours / base
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// One engine alone: mariadb or mysql
    #[arg(long)]
    engine: Option<Engine>,
    /// The cells to measure, all without any
    #[arg(value_name = "CELL", value_enum)]
    cells: Vec<Cell>,
}

impl Options {
    /// The engines, in turn.
    pub fn engines(&self) -> Vec<Engine> {
        self.engine.map_or_else(|| vec![Engine::MariaDb, Engine::MySql], |engine| vec![engine])
    }

    /// The cells in their own order, each once.
    pub fn cells(&self) -> Vec<Cell> {
        let wanted = |cell: &Cell| self.cells.is_empty() || self.cells.contains(cell);
        Cell::value_variants().iter().copied().filter(wanted).collect()
    }

    /// How much is measured.
    pub fn extent(&self) -> Extent {
        match (self.quick, self.smoke) {
            (true, _) => Extent::QUICK,
            (false, true) => Extent::SMOKE,
            (false, false) => Extent::FULL,
        }
    }
}
