//! A job as people name it: its id, or the beginning of it.

use std::{fmt, str::FromStr};

use sa_boot::{Exit, Problem};
use sa_core::{
    id::JobId,
    repo::{
        Db,
        inspect::{self, Found},
    },
    viewer::Scope,
};

/// Ids made in the same minute share their first 8 characters, so fewer would hardly ever name one job.
const SHORTEST: usize = 8;

/// A job's id, or at least its first 8 characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobRef(String);

impl FromStr for JobRef {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits: String = text.trim().chars().filter(|c| *c != '-').collect::<String>().to_ascii_lowercase();
        if digits.len() < SHORTEST || digits.len() > 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!("a job is named by its id or the first {SHORTEST} or more characters of it"));
        }
        let mut hyphenated = String::with_capacity(36);
        for (n, digit) in digits.chars().enumerate() {
            if matches!(n, 8 | 12 | 16 | 20) {
                hyphenated.push('-');
            }
            hyphenated.push(digit);
        }
        Ok(Self(hyphenated))
    }
}

impl fmt::Display for JobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JobRef {
    /// The one job that is meant.
    pub(crate) async fn resolve(&self, db: &Db) -> anyhow::Result<JobId> {
        if let Ok(id) = self.0.parse() {
            return Ok(id);
        }
        match inspect::find(db, Scope::Everywhere, &self.0).await? {
            Found::One(id) => Ok(id),
            Found::None => Err(unknown(self).into()),
            Found::Many(candidates) => {
                let candidates: Vec<_> = candidates.iter().map(|id| format!("\n       {id}")).collect();
                let why = format!("these jobs begin like that (10 are shown at most):{}", candidates.concat());
                Err(Problem::usage(format_args!("{self} does not name one job"), why, "give more characters").into())
            }
        }
    }
}

/// The problem of an id that no job has.
pub(crate) fn unknown(job: impl fmt::Display) -> Problem {
    Problem::new(
        Exit::NotFound,
        format_args!("job {job}"),
        "there is no such job",
        "sa-cli list-jobs shows those there are",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_of_eight_or_more_is_a_job_with_or_without_hyphens() {
        let parse = |text: &str| text.parse::<JobRef>().map(|job| job.to_string());
        assert_eq!(parse("0193A1B2-C3d"), Ok("0193a1b2-c3d".into()));
        assert_eq!(parse("0193a1b2c3d4e"), Ok("0193a1b2-c3d4-e".into()));
        assert!(parse("0193a1b").is_err());
        assert!(parse("0193a1b2%").is_err());
        assert!(parse("").is_err());
    }
}
