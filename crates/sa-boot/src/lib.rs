//! How an Asterion process starts and stops: options every binary shares, logs, signals, the database, exit codes.
//!
//! Five files, and no sixth: what two roles share for any other reason belongs to `sa-core` or stays twice.

mod database;
mod exit;
mod shutdown;
mod telemetry;

use std::{future::Future, process::ExitCode, time::Duration};

pub use database::{ENVIRONMENT, Pool, cannot_connect, database_url};
pub use exit::{Exit, Problem};
pub use shutdown::Shutdown;
pub use telemetry::{LogFormat, TelemetryOptions};

/// The options of every binary; flatten it into your own.
///
/// The database comes from the environment alone (see [`database_url`]): arguments are visible to every user of a host.
#[derive(Clone, Debug, clap::Args)]
pub struct BootOptions {
    /// How and what to log.
    #[command(flatten)]
    pub telemetry: TelemetryOptions,
}

/// What [`run`] asks of a binary's options.
pub trait Boot {
    /// The shared options inside.
    fn boot(&self) -> &BootOptions;
    /// Whether this run stays or ends by itself.
    fn lifetime(&self) -> Lifetime;
}

/// How long a process means to live; it decides how much is logged unless `SA_LOG` says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Runs until it is told to stop, and logs from `info` up.
    Service,
    /// Ends by itself, and logs from `warn` up: cron mails whatever is printed.
    OneShot,
}

/// Runs `role` to its end: builds the runtime, starts the log, listens for signals, prints one error, gives the exit code.
///
/// The first SIGTERM or SIGINT is a request, the second one forces; see [`Shutdown`].
pub fn run<O, F, Fut>(options: O, role: F) -> ExitCode
where
    O: Boot,
    F: FnOnce(O, Shutdown) -> Fut,
    Fut: Future<Output = anyhow::Result<Exit>>,
{
    let telemetry = options.boot().telemetry.clone();
    if let Err(problem) = telemetry.install(options.lifetime()) {
        return exit::report(&problem.into(), LogFormat::Text).into();
    }
    let result = tokio::runtime::Runtime::new().map_err(anyhow::Error::from).and_then(|runtime| {
        let result = runtime.block_on(async {
            let shutdown = Shutdown::on_signals()?;
            shutdown.bounded(role(options, shutdown.clone())).await
        });
        // What still blocks a thread (a name look-up, say) must not hold the process: all that counts is done.
        runtime.shutdown_background();
        result
    });
    match result {
        Ok(exit) => exit.into(),
        Err(error) => exit::report(&error, telemetry.log_format).into(),
    }
}

/// How often running jobs show that they are alive, and when silence counts as death.
#[derive(Clone, Debug, clap::Args)]
pub struct BeatOptions {
    /// How often each running job is marked as alive.
    #[arg(long, env = "SA_BEAT_EVERY", value_name = "TIME", default_value = "30s", value_parser = humantime::parse_duration)]
    beat_every: Duration,
    /// How long a running job may be silent before it is taken back: at least four beats.
    #[arg(long, env = "SA_STALE_AFTER", value_name = "TIME", default_value = "225s", value_parser = humantime::parse_duration)]
    stale_after: Duration,
}

/// A pair of beat and stale limit that fits together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beats {
    /// The time between two beats.
    pub every: Duration,
    /// The silence after which a job is taken back; at least four times `every`.
    pub stale: Duration,
}

impl BeatOptions {
    /// The pair, if a job may miss three beats in a row without being taken for dead.
    ///
    /// # Errors
    /// A usage [`Problem`] (exit code 2) when the stale limit is under four beats or the beat is under a millisecond.
    pub fn validate(&self) -> Result<Beats, Problem> {
        let beats = Beats { every: self.beat_every, stale: self.stale_after };
        let show = humantime::format_duration;
        if beats.every < Duration::from_millis(1) {
            return Err(Problem::usage("the beat is too short", show(beats.every), "set SA_BEAT_EVERY to 1ms or more"));
        }
        if beats.stale < beats.every.saturating_mul(4) {
            return Err(Problem::usage(
                "the stale limit is under four beats, so a live job could be taken for dead",
                format_args!("SA_BEAT_EVERY is {}, SA_STALE_AFTER is {}", show(beats.every), show(beats.stale)),
                format_args!("set SA_STALE_AFTER to {} or more", show(beats.every.saturating_mul(4))),
            ));
        }
        Ok(beats)
    }
}
