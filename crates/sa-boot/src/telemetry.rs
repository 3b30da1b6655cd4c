//! Logs, on standard error: standard output is for data.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::{Lifetime, Problem};

/// How and what to log.
#[derive(Clone, Debug, clap::Args)]
pub struct TelemetryOptions {
    /// What to log, as a level or as target=level pairs [default: info for services, warn for the rest].
    #[arg(long, env = "SA_LOG", value_name = "FILTER", global = true)]
    pub log: Option<String>,
    /// How log lines are written.
    #[arg(long, env = "SA_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text, global = true)]
    pub log_format: LogFormat,
}

/// The shape of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl TelemetryOptions {
    /// Starts the log of this process.
    pub(crate) fn install(&self, lifetime: Lifetime) -> Result<(), Problem> {
        let default = match lifetime {
            Lifetime::Service => "info,actix_server=warn",
            Lifetime::OneShot => "warn",
        };
        // The driver reports every connection that an outage breaks; what an outage means is told once, by who meets it.
        let default = format!("{default},sqlx=off,sqlx_core=off,sqlx_mysql=off");
        let wanted = self.log.as_deref().filter(|log| !log.trim().is_empty()).unwrap_or(&default);
        let filter = EnvFilter::try_new(wanted).map_err(|why| {
            Problem::usage("SA_LOG is not a log filter", why, "say a level (debug) or pairs (sa_worker=debug,warn)")
        })?;
        let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
        // A log that was started before stays; only tests start two.
        let _ = match self.log_format {
            LogFormat::Text => lines.with_ansi(colour()).try_init(),
            LogFormat::Json => lines.json().flatten_event(true).try_init(),
        };
        Ok(())
    }
}

fn colour() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
