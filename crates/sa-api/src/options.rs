//! The command line of `sa-api`.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand};
use sa_boot::{Boot, BootOptions, Lifetime, Problem};
use sa_core::provider::Catalog;

/// The HTTP front of the job queue: takes prompts, shows answers, runs none.
#[derive(Debug, Parser)]
#[command(name = "sa-api", version)]
pub struct Options {
    #[command(flatten)]
    boot: BootOptions,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Boot for Options {
    fn boot(&self) -> &BootOptions {
        &self.boot
    }

    fn lifetime(&self) -> Lifetime {
        Lifetime::Service
    }
}

impl Options {
    pub(crate) fn boot_options(&self) -> &BootOptions {
        &self.boot
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Answers HTTP requests until it is told to stop.
    #[command(after_help = sa_boot::ENVIRONMENT)]
    Serve(ServeOptions),
}

/// The flags of `sa-api serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeOptions {
    /// Address and port to listen on.
    #[arg(long, env = "SA_BIND", value_name = "ADDRESS", default_value = "127.0.0.1:8787")]
    pub(crate) bind: SocketAddr,
    /// Largest request body, in bytes, KiB or MiB.
    #[arg(long, env = "SA_BODY_LIMIT", value_name = "SIZE", default_value = "8MiB", value_parser = parse_size)]
    pub(crate) body_limit: usize,
    /// The path a proxy puts in front of ours, such as /asterion; links carry it, and it may be stripped or kept.
    #[arg(long, env = "SA_BASE_PATH", value_name = "PATH", default_value = "", hide_default_value = true, value_parser = parse_base_path)]
    pub(crate) base_path: String,
    /// The providers file; only names and models are read from it, never keys.
    #[arg(long, env = "SA_PROVIDERS", value_name = "FILE")]
    pub(crate) providers: Option<PathBuf>,
    /// Threads that answer requests.
    #[arg(long, env = "SA_THREADS", value_name = "N", default_value = "2", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: u16,
}

impl ServeOptions {
    /// The providers callers may choose among.
    pub(crate) fn catalog(&self) -> Result<Catalog, Problem> {
        let file = self.providers.as_ref().map(|path| {
            let unreadable = format!("the providers file {} cannot be read", path.display());
            std::fs::read_to_string(path)
                .map_err(|why| Problem::usage(unreadable, why, "set SA_PROVIDERS to one that can"))
        });
        let text = file.transpose()?;
        Catalog::load(text.as_deref(), |name| std::env::var(name).ok()).map_err(|why| {
            Problem::usage("the providers cannot be used", why, "correct the file that SA_PROVIDERS names")
        })
    }
}

fn parse_size(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match text[digits.len()..].trim() {
        "" | "B" => 1,
        "KiB" => 1024,
        "MiB" => 1024 * 1024,
        unknown => return Err(format!("{unknown:?} is no unit; write bytes, KiB or MiB, as in 8MiB")),
    };
    let number: usize = digits.parse().map_err(|_| "write a whole number, as in 8MiB".to_owned())?;
    number.checked_mul(unit).filter(|size| *size > 0).ok_or_else(|| "the size must be 1 byte or more".to_owned())
}

/// Without the last slash, so that ours can follow; empty when nothing is added.
fn parse_base_path(text: &str) -> Result<String, String> {
    let path = text.trim_end_matches('/');
    let is_path = path.is_empty() || path.starts_with('/') && !path.starts_with("//");
    let is_plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte));
    if is_path && is_plain {
        Ok(path.to_owned())
    } else {
        Err("write an absolute path of letters, digits and -._~, such as /asterion".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_or_binary_units() {
        assert_eq!(parse_size("8MiB"), Ok(8_388_608));
        assert_eq!(parse_size("64 KiB"), Ok(65_536));
        assert_eq!(parse_size("70000"), Ok(70_000));
        assert!(parse_size("0").is_err() && parse_size("8MB").is_err() && parse_size("x").is_err());
    }

    #[test]
    fn base_path_loses_its_last_slash() {
        assert_eq!(parse_base_path("/a/b/"), Ok("/a/b".to_owned()));
        assert_eq!(parse_base_path("/"), Ok(String::new()));
        assert!(parse_base_path("a").is_err() && parse_base_path("//evil.example").is_err());
        assert!(parse_base_path("/{x}").is_err());
    }

    #[test]
    fn command_line_is_consistent() {
        use clap::CommandFactory;
        Options::command().debug_assert();
    }
}
