//! How long the database is waited for, and what is known when it has said nothing.

use std::{fmt, time::Duration};

use sa_boot::{Exit, Problem};
use sa_core::repo;
use tokio::{
    task::{JoinError, JoinHandle},
    time::timeout,
};

/// How long one call of the database may take before others no longer wait for it. Repeated and rolled back as it may
/// be, a call that is answered at all is answered by then.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Why a call of the database came to nothing.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It was answered so.
    Refused(repo::Error),
    /// It was not answered in time; what became of it is not known.
    Silent,
}

impl Fault {
    /// The same with its exit code.
    #[must_use]
    pub(crate) fn into_error(self) -> anyhow::Error {
        match self {
            Self::Refused(error) => error.into(),
            Self::Silent => {
                let remedy =
                    "check the database server and the way to it; what was claimed is taken back by the reaper";
                Problem::new(Exit::DatabaseUnreachable, "the database does not answer", self, remedy).into()
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::Silent => f.write_str("no answer came in time"),
        }
    }
}

/// Makes a call in a task of its own and waits for it, not for ever.
///
/// A call is never dropped half-way: what it had sent might be done, and its connection would be handed on in the middle
/// of a conversation (design/reliability.md, finding 1). A task runs to its end, whoever still waits.
pub(crate) async fn ask<T: Send + 'static>(
    call: impl Future<Output = Result<T, repo::Error>> + Send + 'static,
) -> Result<T, Fault> {
    let mut task = tokio::spawn(call);
    answer(&mut task, PATIENCE).await
}

/// Waits so long for a call that was begun.
pub(crate) async fn answer<T>(task: &mut JoinHandle<Result<T, repo::Error>>, patience: Duration) -> Result<T, Fault> {
    match timeout(patience, task).await {
        Ok(joined) => joined.unwrap_or_else(|error| panicked(error)).map_err(Fault::Refused),
        Err(_) => Err(Fault::Silent),
    }
}

/// A panic in a task is a bug that must not be hidden.
pub(crate) fn panicked(error: JoinError) -> ! {
    match error.try_into_panic() {
        Ok(payload) => std::panic::resume_unwind(payload),
        Err(_) => unreachable!("these tasks are never aborted while somebody waits for them"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_silent_call_is_not_waited_for_and_still_runs_to_its_end() {
        let (say, said) = tokio::sync::oneshot::channel();
        let mut call = tokio::spawn(async { said.await.map_err(|_| repo::Error::NotFound) });
        let fault = answer(&mut call, Duration::ZERO).await.expect_err("nobody has said anything");
        assert_eq!(Exit::of(&fault.into_error()), Exit::DatabaseUnreachable);
        say.send("late").expect("the call was not dropped");
        assert_eq!(answer(&mut call, PATIENCE).await.expect("it was said"), "late");
    }
}
