//! `sa-harness with-server ENGINE -- COMMAND…`: a throwaway server for a whole test run.
//! `sa-harness with-database` does the same with a fresh database, `sa-harness record`: one recording for `proofs/wire/`.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Command, ExitCode, ExitStatus},
};

use anyhow::{Context, Result};
use clap::Parser;
use sa_harness::{Database, Engine, Server, record};

#[derive(Parser)]
#[command(about = "Starts what the proofs need")]
enum Options {
    /// Start a throwaway server, run a command with SA_TEST_SERVER_URL set to it, and end with the command's code
    WithServer {
        /// mariadb or mysql
        engine: Engine,
        /// The command and its arguments
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// The same, with DATABASE_URL set to a fresh migrated database on that server
    WithDatabase {
        /// mariadb or mysql
        engine: Engine,
        /// The command and its arguments
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Send one request to a real server and keep the raw bytes of its answer
    Record {
        /// HOST:PORT
        #[arg(long)]
        upstream: String,
        /// The path to ask for
        #[arg(long, default_value = "/v1/chat/completions")]
        path: String,
        /// A request header, `Name: value`; may be given more than once
        #[arg(long = "header")]
        headers: Vec<String>,
        /// The file with the request's body; without it the request is a GET
        #[arg(long)]
        body: Option<PathBuf>,
        /// Where the answer goes
        #[arg(long)]
        out: PathBuf,
    },
}

fn main() -> Result<ExitCode> {
    match Options::parse() {
        Options::WithServer { engine, command } => with_server(engine, &command),
        Options::WithDatabase { engine, command } => with_database(engine, &command),
        Options::Record { upstream, path, headers, body, out } => {
            let body = body.map(fs::read).transpose().context("the body's file cannot be read")?;
            record(&upstream, &path, &headers, body.as_deref(), &out)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn with_server(engine: Engine, command: &[String]) -> Result<ExitCode> {
    let server = Server::own(engine)?;
    eprintln!("{} {} listens on {}", engine.name(), server.version(), server.url());
    let mut child = child(command)?;
    child.env("SA_TEST_SERVER_URL", server.url()).env("SA_TEST_SERVER_SOCKET", server.socket());
    run(child.env("SA_TEST_ENGINE", engine.name()))
}

fn with_database(engine: Engine, command: &[String]) -> Result<ExitCode> {
    let server = Server::own(engine)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let database = runtime.block_on(Database::fresh_on(&server))?;
    run(child(command)?.env("DATABASE_URL", database.url()))
}

fn child(command: &[String]) -> Result<Command> {
    let (program, args) = command.split_first().context("no command given")?;
    let mut child = Command::new(program);
    child.args(args);
    Ok(child)
}

fn run(child: &mut Command) -> Result<ExitCode> {
    let status = child.status().with_context(|| format!("{} does not run", child.get_program().display()))?;
    Ok(exit_code(status))
}

/// The command's own code; 128 + N when signal N ended it, as shells say it.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}
