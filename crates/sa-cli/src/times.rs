//! Times as people type them. What is near and what is past is told by the database's clock, not by this host's.

use std::{str::FromStr, time::Duration};

use anyhow::Result;
use sa_boot::Problem;
use sa_core::{
    repo::{self, Db},
    timestamp,
};
use time::OffsetDateTime;

/// How far ahead a job may be scheduled: a year, whichever it is.
const FARTHEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// An instant, in any offset.
pub(crate) fn instant(text: &str) -> Result<OffsetDateTime, String> {
    timestamp::parse(text).ok_or_else(|| "write a time as 2026-12-01T08:00:00Z".to_owned())
}

/// Where a list begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// At an instant.
    At(OffsetDateTime),
    /// So long before now.
    Ago(Duration),
}

impl FromStr for Since {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ago = || humantime::parse_duration(text).ok().map(Self::Ago);
        timestamp::parse(text)
            .map(Self::At)
            .or_else(ago)
            .ok_or_else(|| "write a time as 2026-12-01T08:00:00Z, or how long ago as 30m, 2h or 7d".to_owned())
    }
}

impl Since {
    /// The instant that is meant.
    pub(crate) async fn instant(self, db: &Db) -> Result<OffsetDateTime> {
        match self {
            Self::At(at) => Ok(at),
            // Before all time is when the first job was not there yet, and DATETIME knows no earlier year than 1000.
            Self::Ago(ago) => Ok(before(repo::now(db).await?, ago).unwrap_or(OffsetDateTime::UNIX_EPOCH)),
        }
    }
}

fn before(now: OffsetDateTime, ago: Duration) -> Option<OffsetDateTime> {
    let at = now.checked_sub(ago.try_into().ok()?)?;
    (at > OffsetDateTime::UNIX_EPOCH).then_some(at)
}

/// Makes sure that a job is scheduled for no later than a year from now.
pub(crate) async fn refuse_far(at: Option<OffsetDateTime>, db: &Db) -> Result<()> {
    let Some(at) = at else { return Ok(()) };
    if at <= repo::now(db).await? + FARTHEST {
        return Ok(());
    }
    let why = format_args!("--at is {}, which is more than a year from now", timestamp::format(at));
    Err(Problem::usage("the time is not accepted", why, "say a time within a year").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginning_is_an_instant_or_a_while_ago() {
        let hours = |n: u64| Since::Ago(Duration::from_secs(n * 3600));
        for (text, since) in [("2h", hours(2)), ("7d", hours(7 * 24)), ("30m", Since::Ago(Duration::from_secs(1800)))] {
            assert_eq!(text.parse(), Ok(since), "{text}");
        }
        assert!(matches!("2026-12-01T08:00:00+02:00".parse(), Ok(Since::At(_))));
        for text in ["yesterday", "", "-2h", "9999-12-31T23:59:59-23:59"] {
            assert!(text.parse::<Since>().is_err(), "{text}");
        }
    }

    #[test]
    fn longer_ago_than_there_are_jobs_is_no_instant() {
        let now = OffsetDateTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        assert_eq!(before(now, Duration::from_secs(60)), Some(now - Duration::from_secs(60)));
        assert_eq!(before(now, Duration::from_secs(1_900_000_000)), None);
        assert_eq!(before(now, Duration::MAX), None);
    }
}
