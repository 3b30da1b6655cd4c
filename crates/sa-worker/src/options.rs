//! What the worker is told, and whether that makes sense.

use std::{ffi::OsString, path::Path, time::Duration};

use sa_boot::{BeatOptions, Beats, Boot, BootOptions, Lifetime, Problem};
use sa_core::job::Priority;

use crate::Providers;

/// More jobs side by side than this belong into more workers.
const LARGEST_BATCH: u32 = 64;
/// A shorter pause would ask an idle database a hundred times a second and more.
const SHORTEST_IDLE: Duration = Duration::from_millis(10);

/// The command line of `sa-worker`.
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "sa-worker", version, about = "Claims jobs and calls providers.", after_help = sa_boot::ENVIRONMENT)]
pub struct Options {
    #[command(flatten)]
    boot: BootOptions,
    #[command(subcommand)]
    command: Command,
}

/// What to do.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Command {
    /// Runs waiting jobs: as a service until told to stop, or once.
    RunWorker(RunWorker),
}

/// How to run jobs.
#[derive(Clone, Debug, clap::Args)]
pub struct RunWorker {
    /// Claims one batch, runs it and exits; prints nothing if there was nothing to do.
    #[arg(long, env = "SA_ONCE", value_parser = clap::builder::FalseyValueParser::new())]
    once: bool,
    /// How many jobs run side by side: 1 to 64.
    #[arg(long, env = "SA_BATCH_SIZE", value_name = "N", default_value_t = 5)]
    batch_size: u32,
    /// Claims only jobs of this priority or a more urgent (lower) one: 0 to 100.
    #[arg(long, env = "SA_PRIORITY_CEILING", value_name = "N", default_value_t = 100)]
    priority_ceiling: u32,
    /// Every so many claims one takes the oldest job of any priority up to the ceiling; 0 leaves all to the priorities.
    #[arg(long, env = "SA_FAIR_EVERY", value_name = "N", default_value_t = 0)]
    fair_every: u32,
    /// The longest pause of an idle service; it begins with 50ms after activity and doubles.
    #[arg(long, env = "SA_IDLE_SLEEP", value_name = "TIME", default_value = "250ms", value_parser = humantime::parse_duration)]
    idle_sleep: Duration,
    /// With --once: how many may run at once on this database, 1 to 255; one more exits at once and says nothing.
    #[arg(long, env = "SA_SLOTS", value_name = "N", default_value_t = 2)]
    slots: u32,
    /// With --once: when to give back what still runs.
    #[arg(long, env = "SA_MAX_RUNTIME", value_name = "TIME", default_value = "14m", value_parser = humantime::parse_duration)]
    max_runtime: Duration,
    /// How long runs may still take after SIGTERM, before they are given back.
    #[arg(long, env = "SA_GRACE", value_name = "TIME", default_value = "170s", value_parser = humantime::parse_duration)]
    grace: Duration,
    #[command(flatten)]
    beats: BeatOptions,
    #[command(flatten)]
    providers: ProvidersOptions,
}

/// Where the providers are configured.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ProvidersOptions {
    /// The TOML file of providers; without it, SA_OPENAI_MODEL and OPENAI_API_KEY make one, and without those all is echoed.
    #[arg(long = "providers", env = "SA_PROVIDERS", value_name = "FILE")]
    // No PathBuf: its parser refuses the empty text, and an empty variable means none.
    file: Option<OsString>,
}

impl ProvidersOptions {
    /// Reads the configuration and the keys it names.
    ///
    /// # Errors
    /// A usage [`Problem`] that names the file, the provider and, for a missing key, its variable.
    pub fn load(&self) -> Result<Providers, Problem> {
        Providers::load(self.path(), &|name| std::env::var(name).ok())
    }

    fn path(&self) -> Option<&Path> {
        self.file.as_deref().filter(|file| !file.is_empty()).map(Path::new)
    }
}

impl Boot for Options {
    fn boot(&self) -> &BootOptions {
        &self.boot
    }

    fn lifetime(&self) -> Lifetime {
        let Command::RunWorker(run) = &self.command;
        if run.once { Lifetime::OneShot } else { Lifetime::Service }
    }
}

/// How long this worker means to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// One batch.
    Once(OneShot),
    /// Until told to stop, with pauses of at most so long.
    Service(Duration),
}

/// How long a one-shot may run, and beside how many others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OneShot {
    /// What runs longer is given back.
    pub(crate) max_runtime: Duration,
    /// How many places there are for one-shots.
    pub(crate) slots: u8,
}

/// Which jobs come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// No less urgent ones are claimed.
    pub(crate) ceiling: Priority,
    /// Every so many claims one takes the oldest; 0 means never.
    pub(crate) fair_every: u32,
}

/// Options that make sense.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) mode: Mode,
    pub(crate) batch_size: usize,
    pub(crate) order: Order,
    pub(crate) grace: Duration,
    pub(crate) beats: Beats,
    pub(crate) providers: ProvidersOptions,
}

impl Options {
    /// The shared options and the checked settings.
    pub(crate) fn settings(self) -> Result<(BootOptions, Settings), Problem> {
        let Command::RunWorker(run) = self.command;
        Ok((self.boot, run.settings()?))
    }
}

impl RunWorker {
    fn settings(self) -> Result<Settings, Problem> {
        if !(1..=LARGEST_BATCH).contains(&self.batch_size) {
            return Err(Problem::usage(
                "the batch size is out of range",
                format_args!("--batch-size (SA_BATCH_SIZE) is {}", self.batch_size),
                format_args!("say 1 to {LARGEST_BATCH}; for more, start more workers"),
            ));
        }
        let ceiling = u8::try_from(self.priority_ceiling).ok().and_then(Priority::new).ok_or_else(|| {
            Problem::usage(
                "the priority ceiling is out of range",
                format_args!("--priority-ceiling (SA_PRIORITY_CEILING) is {}", self.priority_ceiling),
                "say 0 (the most urgent jobs alone) to 100 (all jobs)",
            )
        })?;
        let slots = u8::try_from(self.slots).ok().filter(|&slots| slots > 0).ok_or_else(|| {
            Problem::usage(
                "the number of slots is out of range",
                format_args!("--slots (SA_SLOTS) is {}", self.slots),
                "say 1 to 255: how many one-shots may run at once",
            )
        })?;
        if self.idle_sleep < SHORTEST_IDLE {
            return Err(Problem::usage(
                "the idle pause is too short",
                format_args!("--idle-sleep (SA_IDLE_SLEEP) is {}", humantime::format_duration(self.idle_sleep)),
                "say 10ms or more",
            ));
        }
        Ok(Settings {
            mode: if self.once {
                Mode::Once(OneShot { max_runtime: self.max_runtime, slots })
            } else {
                Mode::Service(self.idle_sleep)
            },
            batch_size: self.batch_size as usize,
            order: Order { ceiling, fair_every: self.fair_every },
            grace: self.grace,
            beats: self.beats.validate()?,
            providers: self.providers,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory, Parser};
    use sa_boot::Exit;

    fn settings(arguments: &[&str]) -> Result<Settings, Problem> {
        let options = Options::try_parse_from(["sa-worker", "run-worker"].iter().chain(arguments)).unwrap();
        options.settings().map(|(_, settings)| settings)
    }

    #[test]
    fn defaults_are_the_contracts() {
        let settings = settings(&[]).unwrap();
        assert_eq!(settings.mode, Mode::Service(Duration::from_millis(250)));
        assert_eq!(
            (settings.batch_size, settings.order, settings.grace),
            (5, Order { ceiling: Priority::LOWEST, fair_every: 0 }, Duration::from_secs(170))
        );
        assert_eq!(settings.beats, Beats { every: Duration::from_secs(30), stale: Duration::from_secs(225) });
    }

    #[test]
    fn once_has_a_bound_of_fourteen_minutes_and_one_of_two_slots() {
        let one_shot = OneShot { max_runtime: Duration::from_secs(14 * 60), slots: 2 };
        assert_eq!(settings(&["--once"]).unwrap().mode, Mode::Once(one_shot));
    }

    #[test]
    fn settings_that_make_no_sense_are_usage_errors() {
        for arguments in [
            ["--batch-size", "0"],
            ["--batch-size", "65"],
            ["--priority-ceiling", "101"],
            ["--priority-ceiling", "300"],
            ["--idle-sleep", "0s"],
            ["--slots", "0"],
            ["--slots", "256"],
            ["--stale-after", "119s"],
        ] {
            assert_eq!(settings(&arguments).unwrap_err().exit(), Exit::Usage, "{arguments:?}");
        }
    }

    #[test]
    fn empty_providers_variable_means_none() {
        assert_eq!(settings(&["--providers", ""]).unwrap().providers.path(), None);
        let named = settings(&["--providers", "providers.toml"]).unwrap().providers;
        assert_eq!(named.path(), Some(Path::new("providers.toml")));
    }

    #[test]
    fn every_flag_has_its_environment_name() {
        let command = Options::command();
        let run = command.find_subcommand("run-worker").unwrap();
        for argument in run.get_arguments().filter(|argument| argument.get_id() != "help") {
            let name = argument.get_env().unwrap_or_else(|| panic!("{} has none", argument.get_id()));
            assert!(name.to_string_lossy().starts_with("SA_"), "{name:?}");
        }
    }
}
