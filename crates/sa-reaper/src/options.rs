//! The command line.

use clap::{Parser, Subcommand};
use sa_boot::{BeatOptions, Boot, BootOptions, Lifetime};

/// Give jobs of dead workers back to the queue; cron or a timer calls this every minute.
#[derive(Debug, Parser)]
#[command(name = "sa-reaper", version, after_help = sa_boot::ENVIRONMENT, propagate_version = true)]
pub struct Options {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) boot: BootOptions,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Take back running jobs that have been silent for too long.
    ReclaimStuckJobs(BeatOptions),
}

impl Boot for Options {
    fn boot(&self) -> &BootOptions {
        &self.boot
    }

    fn lifetime(&self) -> Lifetime {
        Lifetime::OneShot
    }
}
