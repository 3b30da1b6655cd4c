//! The command line.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use sa_boot::{Boot, BootOptions, Lifetime, Problem};
use sa_core::{
    id::{OrgId, UserId},
    job::{ExecutionOptions, Lane, MaxAttempts, Priority},
    provider::Catalog,
    viewer::Viewer,
};
use sa_worker::Providers;

use crate::{commands, output::OutputOptions};

/// Submit prompts to an Asterion queue, look into it and act on it.
#[derive(Debug, Parser)]
#[command(name = "sa-cli", version, after_help = sa_boot::ENVIRONMENT, propagate_version = true)]
pub struct Options {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
    #[command(flatten)]
    pub(crate) boot: BootOptions,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Bring the database to this version's schema.
    Migrate(commands::migrate::Args),
    /// Make an access token and print it, once.
    CreateToken(commands::create_token::Args),
    /// Put a prompt into the queue.
    SubmitPrompt(commands::submit_prompt::Args),
    /// Run a prompt here and now, and print the answer.
    RunPrompt(commands::run_prompt::Args),
    /// List jobs, the newest first.
    ListJobs(commands::list_jobs::Args),
    /// Show all there is about a job: its chain, events, calls and answer.
    JobDetails(commands::job_details::Args),
    /// Cancel jobs.
    CancelJob(commands::cancel_job::Args),
    /// Run jobs again, or bring waiting ones forward.
    RetryJob(commands::retry_job::Args),
    /// Open a provider's lane that is closed after its errors.
    ProviderOpen(commands::provider_open::Args),
    /// Look whether all is as it must be.
    Check(commands::check::Args),
}

impl Boot for Options {
    fn boot(&self) -> &BootOptions {
        &self.boot
    }

    fn lifetime(&self) -> Lifetime {
        Lifetime::OneShot
    }
}

/// Who a prompt is submitted for.
#[derive(Debug, Args)]
pub(crate) struct ViewerOptions {
    /// The organisation.
    #[arg(long, env = "SA_ORG", value_name = "N", default_value = "1")]
    org: OrgId,
    /// The user within it.
    #[arg(long, env = "SA_USER", value_name = "N", default_value = "1")]
    user: UserId,
}

impl ViewerOptions {
    pub(crate) fn viewer(&self) -> Viewer {
        Viewer { org: self.org, user: self.user }
    }
}

/// Where a prompt's text comes from: exactly one of the two.
#[derive(Debug, Args)]
pub(crate) struct TextOptions {
    /// The prompt, or - to read it from standard input.
    text: Option<String>,
    /// A file that holds the prompt.
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    file: Option<PathBuf>,
}

/// The longest prompt, in bytes.
const LONGEST_PROMPT: usize = 1 << 20;

impl TextOptions {
    pub(crate) fn read(self) -> anyhow::Result<String> {
        let bytes = match (self.text.as_deref(), &self.file) {
            (Some("-"), _) => {
                let mut bytes = Vec::new();
                // One byte more than allowed tells that there is more, without reading an endless pipe to its end.
                std::io::stdin()
                    .take(LONGEST_PROMPT as u64 + 1)
                    .read_to_end(&mut bytes)
                    .context("reading standard input")?;
                bytes
            }
            (Some(text), _) => text.as_bytes().to_vec(),
            (None, Some(file)) => std::fs::read(file).map_err(|why| {
                Problem::usage(format_args!("{} cannot be read", file.display()), why, "name a file you may read")
            })?,
            (None, None) => {
                return Err(refused("is missing", "give it as TEXT, as --file FILE, or as - for standard input"));
            }
        };
        match bytes.len() {
            0 => Err(refused("is empty", "give at least one character")),
            1..=LONGEST_PROMPT => String::from_utf8(bytes)
                .map_err(|why| refused(format_args!("is not UTF-8: {why}"), "convert it to UTF-8")),
            _ => Err(refused("is longer than 1 MiB", "shorten it to 1,048,576 bytes")),
        }
    }
}

fn refused(why: impl std::fmt::Display, remedy: &str) -> anyhow::Error {
    Problem::usage("the prompt is not accepted", format_args!("the text {why}"), remedy).into()
}

/// How a prompt shall be run.
#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// A configured model that shall answer.
    #[arg(long)]
    model: Option<String>,
    /// A configured provider that shall answer.
    #[arg(long, value_name = "NAME")]
    prefer_provider: Option<String>,
    /// A configured model that is asked first which model should answer.
    #[arg(long, value_name = "MODEL")]
    router_model: Option<String>,
    /// How many earlier turns of the thread are sent.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=i64::from(ExecutionOptions::MAX_DEPTH)))]
    depth: Option<u8>,
    /// 0 to 100, lower is sooner.
    #[arg(long, value_name = "N", value_parser = priority)]
    pub(crate) priority: Option<Priority>,
    /// How many runs it may have, 1 to 20.
    #[arg(long, value_name = "N", value_parser = max_attempts)]
    pub(crate) max_attempts: Option<MaxAttempts>,
    #[command(flatten)]
    pub(crate) providers: ProvidersOption,
}

impl RunOptions {
    pub(crate) fn execution(&self) -> ExecutionOptions {
        ExecutionOptions {
            model: self.model.clone(),
            prefer_provider: self.prefer_provider.clone(),
            depth: self.depth,
            router_model: self.router_model.clone(),
        }
    }

    /// The lane for these options, by the providers known here; none known, the claiming worker decides.
    pub(crate) fn lane(&self, options: &ExecutionOptions) -> anyhow::Result<Lane> {
        let catalog = self.providers.catalog()?;
        if catalog.is_only_echo() {
            return Ok(Lane::default());
        }
        let refused = |why| Problem::usage("the options name what is not configured", why, "look into SA_PROVIDERS");
        catalog.lane_for(options).map_err(|why| refused(why).into())
    }
}

/// Where the providers are configured.
#[derive(Debug, Args)]
pub(crate) struct ProvidersOption {
    /// The file of providers; without it, those whose model variable is set (`SA_OPENAI_MODEL` …).
    #[arg(id = "providers", long, env = "SA_PROVIDERS", value_name = "FILE")]
    file: Option<PathBuf>,
}

impl ProvidersOption {
    /// Names and models; never a key.
    fn catalog(&self) -> anyhow::Result<Catalog> {
        let unusable = |why: String| Problem::usage("the providers file cannot be used", why, "look into SA_PROVIDERS");
        let read =
            |path: &Path| std::fs::read_to_string(path).map_err(|why| unusable(format!("{}: {why}", path.display())));
        let text = self.path().map(read).transpose()?;
        Ok(Catalog::load(text.as_deref(), |name| std::env::var(name).ok()).map_err(|why| unusable(why.to_string()))?)
    }

    /// The providers with their keys, to call them from here.
    pub(crate) fn load(&self) -> anyhow::Result<Providers> {
        Ok(Providers::load(self.path(), &|name| std::env::var(name).ok())?)
    }

    fn path(&self) -> Option<&Path> {
        self.file.as_deref().filter(|path| !path.as_os_str().is_empty())
    }
}

pub(crate) fn priority(text: &str) -> Result<Priority, String> {
    text.parse().ok().and_then(Priority::new).ok_or_else(|| "a priority is a number from 0 to 100".to_owned())
}

fn max_attempts(text: &str) -> Result<MaxAttempts, String> {
    text.parse().ok().and_then(MaxAttempts::new).ok_or_else(|| "a number of runs from 1 to 20".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        assert!(priority("100").is_ok() && priority("101").is_err() && priority("-1").is_err());
        assert!(max_attempts("20").is_ok() && max_attempts("0").is_err() && max_attempts("21").is_err());
    }
}
