//! `sa-cli`: what an operator does from a shell. One command a file under `commands`; all output goes through `output`.

mod acts;
mod commands;
mod job_ref;
mod migration;
mod options;
mod output;
mod times;

use std::future::Future;

use sa_boot::{BootOptions, Exit, Pool, Problem, Shutdown};
use sa_core::repo::Db;

use options::Command;
pub use options::Options;
use output::Output;

/// What every command is given.
struct Context {
    boot: BootOptions,
    out: Output,
    shutdown: Shutdown,
}

impl Context {
    /// One connection: a person types one command at a time.
    async fn database(&self) -> anyhow::Result<Db> {
        self.boot.database(Pool::of(1)).await
    }
}

/// Runs the command.
///
/// # Errors
/// What ended it; [`Exit::of`] knows its code.
pub async fn run(options: Options, shutdown: Shutdown) -> anyhow::Result<Exit> {
    let context = Context { boot: options.boot, out: Output::new(options.output), shutdown };
    match options.command {
        // Stopped half-way, a migration would need a person, and a claimed job would wait for the reaper: these two are
        // not cut off.
        Command::Migrate(args) => commands::migrate::run(args, &context).await,
        Command::RunPrompt(args) => commands::run_prompt::run(args, &context).await,
        Command::CreateToken(args) => interruptible(&context, commands::create_token::run(args, &context)).await,
        Command::SubmitPrompt(args) => interruptible(&context, commands::submit_prompt::run(args, &context)).await,
        Command::ListJobs(args) => interruptible(&context, commands::list_jobs::run(args, &context)).await,
        Command::JobDetails(args) => interruptible(&context, commands::job_details::run(args, &context)).await,
        Command::CancelJob(args) => interruptible(&context, commands::cancel_job::run(args, &context)).await,
        Command::RetryJob(args) => interruptible(&context, commands::retry_job::run(args, &context)).await,
        Command::ProviderOpen(args) => interruptible(&context, commands::provider_open::run(args, &context)).await,
        Command::Check(args) => interruptible(&context, commands::check::run(args, &context)).await,
    }
}

/// The rest leave when they are asked to: the server rolls back what was not committed.
async fn interruptible(context: &Context, command: impl Future<Output = anyhow::Result<Exit>>) -> anyhow::Result<Exit> {
    tokio::select! {
        result = command => result,
        () = context.shutdown.requested() => {
            Err(Problem::new(Exit::Failed, "interrupted", "a signal asked to stop", "look before you repeat it: list-jobs").into())
        }
    }
}
