//! Acting on many jobs: each one has its own outcome, and the worst decides how the process ends.

use anyhow::Result;
use sa_boot::Exit;
use sa_core::{id::JobId, repo::Db, viewer::Actor};

use crate::{
    job_ref::JobRef,
    output::{harmless, note},
};

/// A job that was asked for: known, or not there.
pub(crate) type Resolved = Result<JobId>;

/// Finds the jobs that are meant. One that is not there fails alone, later; one that could be several stops it all,
/// before anything is done.
pub(crate) async fn resolve(jobs: &[JobRef], db: &Db) -> Result<Vec<Resolved>> {
    let mut resolved = Vec::with_capacity(jobs.len());
    for job in jobs {
        let found = job.resolve(db).await;
        match &found {
            Err(error) if Exit::of(error) != Exit::NotFound => return found.map(|_| Vec::new()),
            Ok(_) | Err(_) => resolved.push(found),
        }
    }
    Ok(resolved)
}

/// Does `act` for each job, tells of each failure on standard error, and answers the code: 5, else 1, else 3, else 4, else 0.
pub(crate) async fn each(jobs: Vec<Resolved>, mut act: impl AsyncFnMut(JobId) -> Result<()>) -> Result<Exit> {
    let mut worst = Exit::Done;
    for job in jobs {
        let done = match job {
            Ok(job) => act(job).await,
            Err(error) => Err(error),
        };
        let Err(error) = done else { continue };
        let exit = Exit::of(&error);
        // Without a database the rest would wait for it, one by one, and fail as well.
        if exit == Exit::DatabaseUnreachable {
            return Err(error);
        }
        note(harmless(&format!("{error:#}")));
        worst = if severity(exit) > severity(worst) { exit } else { worst };
    }
    Ok(worst)
}

fn severity(exit: Exit) -> u8 {
    match exit {
        Exit::Done => 0,
        Exit::Refused => 1,
        Exit::NotFound => 2,
        Exit::TryAgain | Exit::Usage => 3,
        Exit::Failed => 4,
        Exit::DatabaseUnreachable => 5,
    }
}

/// Who acts: the person behind `sudo`, where there is one.
pub(crate) fn operator() -> Actor {
    let name = ["SUDO_USER", "USER", "LOGNAME"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|n| !n.is_empty()));
    Actor::operator(name.as_deref().unwrap_or("unknown"))
}
