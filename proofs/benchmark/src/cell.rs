//! What is measured.

use std::fmt;

use clap::ValueEnum;

/// One comparison: what is ours, what is its base, and what the ratio has to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cell {
    /// Full-life jobs a second / single-row durable commits a second by the engine's own load tool, 16 connections
    Floor,
    /// Prompts stored a second, 16 a transaction, 4 callers / a bare client that writes the same rows in the same batches
    Enqueue,
    /// Prompts stored a second, one a transaction, 16 callers / a bare client that does the same
    EnqueueSingle,
    /// Full life with a provider that does nothing, claimed and finalized by 64 / a bare client that writes the same rows
    Drain,
    /// Claims a second with 100,000 jobs queued / with 1,000
    #[value(name = "claim-100k")]
    Claim100k,
    /// Claims a second with 1,000,000 jobs queued / with 1,000
    #[value(name = "claim-1m")]
    Claim1m,
    /// Claims a second from 100,000 jobs in ten open lanes / in one lane
    ClaimLanes,
    /// Claims a second with ten lanes, eight of them closed and 300,000 better jobs in those / with none in those
    ClaimClosed,
    /// Claims a second with 100,000 delayed jobs of better priority ahead / with none
    ClaimDelayed,
    /// Jobs claimed a second after many others, while a REPEATABLE READ snapshot keeps the rows of those / without one
    ClaimHeld,
    /// Claims a second of 10 due jobs behind 1,000,000 ended and 20,000 backed off / of the 10 alone; and the p99 of both
    ClaimTerminal,
}

impl Cell {
    /// What the median of ours / base has to reach; nothing where it is only told.
    pub fn target(self) -> Option<f64> {
        match self {
            Self::Drain => Some(0.7),
            Self::Claim100k
            | Self::Claim1m
            | Self::ClaimLanes
            | Self::ClaimClosed
            | Self::ClaimDelayed
            | Self::ClaimHeld
            | Self::ClaimTerminal => Some(0.9),
            Self::Floor | Self::Enqueue | Self::EnqueueSingle => None,
        }
    }

    /// Its name on the command line and in the JSON.
    pub fn name(self) -> String {
        self.to_possible_value().expect("no cell is hidden").get_name().to_owned()
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name())
    }
}
