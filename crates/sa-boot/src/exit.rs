//! How a process ends: its exit code, and the one message about an error.

use std::{
    fmt::{self, Display},
    io::Write,
    process::ExitCode,
};

use sa_core::repo;

use crate::LogFormat;

/// The exit codes of all binaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is done.
    Done = 0,
    /// It failed, for a reason that has no code of its own.
    Failed = 1,
    /// It was called or configured wrongly.
    Usage = 2,
    /// What was named does not exist.
    NotFound = 3,
    /// The state of the job forbids it.
    Refused = 4,
    /// The database cannot be reached.
    DatabaseUnreachable = 5,
    /// Nothing is wrong; the same call may work later (`EX_TEMPFAIL`).
    TryAgain = 75,
}

impl Exit {
    /// The code for an error: that of the [`Problem`] or repository error in its chain, else [`Exit::Failed`].
    #[must_use]
    pub fn of(error: &anyhow::Error) -> Self {
        let of_repo = |error: &repo::Error| match error {
            repo::Error::Database(_) if error.is_busy() => Some(Self::TryAgain),
            repo::Error::Database(_) => error.is_unreachable().then_some(Self::DatabaseUnreachable),
            repo::Error::NotFound => Some(Self::NotFound),
            repo::Error::Conflict { .. } => Some(Self::Refused),
            repo::Error::Corrupt { .. } => None,
        };
        let of_cause = |cause: &(dyn std::error::Error + 'static)| {
            cause.downcast_ref().map(Problem::exit).or_else(|| cause.downcast_ref().and_then(of_repo))
        };
        error.chain().find_map(of_cause).unwrap_or(Self::Failed)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error in the three lines its reader needs: what, why, what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    exit: Exit,
    what: String,
    why: String,
    remedy: String,
}

impl Problem {
    /// A problem that ends the process with `exit`. None of the texts may hold a secret.
    pub fn new(exit: Exit, what: impl Display, why: impl Display, remedy: impl Display) -> Self {
        Self { exit, what: what.to_string(), why: why.to_string(), remedy: remedy.to_string() }
    }

    /// A wrong call or setting: exit code 2.
    pub fn usage(what: impl Display, why: impl Display, remedy: impl Display) -> Self {
        Self::new(Exit::Usage, what, why, remedy)
    }

    /// The code the process ends with.
    #[must_use]
    pub fn exit(&self) -> Exit {
        self.exit
    }
}

impl Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.what, self.why, self.remedy)
    }
}

impl std::error::Error for Problem {}

/// Tells of an error once, at the boundary, on standard error.
pub(crate) fn report(error: &anyhow::Error, format: LogFormat) -> Exit {
    let exit = Exit::of(error);
    if exit == Exit::Done {
        return exit;
    }
    let Problem { what, why, remedy, .. } = explain(error, exit);
    match format {
        LogFormat::Json => tracing::error!(why, remedy, exit = exit as u8, "{what}"),
        LogFormat::Text => {
            let told = [("\n  why: ", why), ("\n  do : ", remedy)].into_iter().filter(|(_, text)| !text.is_empty());
            let told: String = told.flat_map(|(label, text)| [label.to_owned(), text]).collect();
            // A closed standard error leaves nobody to tell.
            let _ = writeln!(std::io::stderr(), "{}: {what}{told}", program());
        }
    }
    exit
}

fn explain(error: &anyhow::Error, exit: Exit) -> Problem {
    if let Some(problem) = error.chain().find_map(|cause| cause.downcast_ref::<Problem>()) {
        return problem.clone();
    }
    let what = error.to_string();
    let mut why = String::new();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        // Many errors print their source themselves, which would be said twice.
        if !what.contains(&cause) && !why.contains(&cause) {
            why = if why.is_empty() { cause } else { format!("{why}: {cause}") };
        }
    }
    let remedy = match exit {
        Exit::DatabaseUnreachable => "start the database server, or check DATABASE_URL; nothing is lost, so try again",
        Exit::Done | Exit::Failed | Exit::Usage | Exit::NotFound | Exit::Refused | Exit::TryAgain => "",
    };
    Problem { exit, what, why, remedy: remedy.to_owned() }
}

fn program() -> String {
    let path = std::env::args_os().next().unwrap_or_default();
    std::path::Path::new(&path).file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
