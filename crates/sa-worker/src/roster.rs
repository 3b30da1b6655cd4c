//! The claims this process holds, and how each run is told to stop.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use sa_core::{id::JobId, repo::Held};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How a run is told to stop. A run whose answer is whole no longer listens.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leash {
    /// Cancelled when the claim is found lost: the job was cancelled, or was taken back.
    pub(crate) lost: CancellationToken,
    /// Cancelled when the claim is to be given back, because the process stops or cannot beat.
    pub(crate) give_back: CancellationToken,
}

/// Whether this process can show that it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beating {
    /// The last beat arrived.
    Well,
    /// It did not, or none was sent yet: nothing new may start.
    Failing,
}

/// Shared between the runs, which come and go, and the thread that beats for them.
#[derive(Debug)]
pub(crate) struct Roster {
    entries: Mutex<HashMap<JobId, Entry>>,
    beating: watch::Sender<Beating>,
}

#[derive(Debug)]
struct Entry {
    held: Held,
    /// When the last beat that arrived was sent: the database has a time no earlier.
    beaten: Instant,
    leash: Leash,
}

/// A claim's place in the roster: it beats until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    roster: Arc<Roster>,
    held: Held,
}

impl Roster {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { entries: Mutex::default(), beating: watch::Sender::new(Beating::Failing) })
    }

    /// Beats for this claim from now on; `since` is an instant before it was made.
    pub(crate) fn hold(self: &Arc<Self>, held: Held, since: Instant) -> (Place, Leash) {
        let leash = Leash::default();
        let entry = Entry { held: held.clone(), beaten: since, leash: leash.clone() };
        if let Some(older) = self.entries().insert(held.job, entry) {
            // The database gave the job to us again, so our earlier claim to it is gone.
            older.leash.lost.cancel();
        }
        (Place { roster: Arc::clone(self), held }, leash)
    }

    pub(crate) fn held(&self) -> Vec<Held> {
        self.entries().values().map(|entry| entry.held.clone()).collect()
    }

    /// These beats were sent at `at` and have arrived.
    pub(crate) fn beaten(&self, beats: &[Held], at: Instant) {
        let mut entries = self.entries();
        for held in beats {
            if let Some(entry) = entries.get_mut(&held.job).filter(|entry| entry.held.claim == held.claim) {
                entry.beaten = at;
            }
        }
    }

    /// The database was asked about `asked`, and of those the claims on `lost` are gone. A job may have been claimed anew
    /// meanwhile; that claim is not meant.
    pub(crate) fn lose(&self, asked: &[Held], lost: &[JobId]) {
        let mut entries = self.entries();
        for held in asked.iter().filter(|held| lost.contains(&held.job)) {
            if entries.get(&held.job).is_some_and(|entry| entry.held.claim == held.claim)
                && let Some(entry) = entries.remove(&held.job)
            {
                entry.leash.lost.cancel();
            }
        }
    }

    /// Gives back what has not beaten for so long, before others may take it for dead. Says how many that were.
    pub(crate) fn fence(&self, limit: Duration) -> usize {
        let entries = self.entries();
        let overdue = entries.values().filter(|entry| entry.beaten.elapsed() >= limit);
        overdue
            .filter(|entry| !entry.leash.give_back.is_cancelled())
            .map(|entry| entry.leash.give_back.cancel())
            .count()
    }

    /// Gives back everything that still runs.
    pub(crate) fn give_back_all(&self) {
        self.entries().values().for_each(|entry| entry.leash.give_back.cancel());
    }

    /// Tells everybody how the beats are; says whether that is news.
    pub(crate) fn tell(&self, beating: Beating) -> bool {
        self.beating.send_replace(beating) != beating
    }

    pub(crate) fn beating(&self) -> Beating {
        *self.beating.borrow()
    }

    /// Ends when the beats are well.
    pub(crate) async fn well(&self) {
        let mut changes = self.beating.subscribe();
        // The sender lives in self, so the channel cannot close while this runs.
        let _ = changes.wait_for(|beating| *beating == Beating::Well).await;
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<JobId, Entry>> {
        // Nothing that is done under this lock leaves it half done.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut entries = self.roster.entries();
        if entries.get(&self.held.job).is_some_and(|entry| entry.held.claim == self.held.claim) {
            entries.remove(&self.held.job);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sa_core::id::ClaimId;

    fn claim(name: &str) -> ClaimId {
        serde_json::from_value(name.into()).unwrap()
    }

    fn held(job: JobId, name: &str) -> Held {
        Held { job, claim: claim(name), attempt: 1 }
    }

    #[test]
    fn lost_claim_stops_its_run_and_no_newer_one() {
        let (roster, job) = (Roster::new(), JobId::new());
        let (_first, first) = roster.hold(held(job, "w.1"), Instant::now());
        let asked = roster.held();
        let (_second, second) = roster.hold(held(job, "w.2"), Instant::now());
        assert!(first.lost.is_cancelled(), "claimed anew means lost before");
        roster.lose(&asked, &[job]);
        assert!(!second.lost.is_cancelled());
        roster.lose(&roster.held(), &[job]);
        assert!(second.lost.is_cancelled());
        assert!(roster.held().is_empty());
    }

    #[test]
    fn place_of_an_older_claim_takes_the_newer_one_not_with_it() {
        let (roster, job) = (Roster::new(), JobId::new());
        let (first, _) = roster.hold(held(job, "w.1"), Instant::now());
        let (second, _) = roster.hold(held(job, "w.2"), Instant::now());
        drop(first);
        assert_eq!(roster.held().len(), 1);
        drop(second);
        assert!(roster.held().is_empty());
    }

    #[test]
    fn only_what_did_not_beat_is_fenced() {
        let roster = Roster::new();
        let long_ago = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
        let (_old, old) = roster.hold(held(JobId::new(), "w.1"), long_ago);
        let (_new, new) = roster.hold(held(JobId::new(), "w.2"), Instant::now());
        assert_eq!(roster.fence(Duration::from_secs(50)), 1);
        assert!(old.give_back.is_cancelled() && !new.give_back.is_cancelled());
        assert_eq!(roster.fence(Duration::from_secs(50)), 0, "told once");
        roster.beaten(&roster.held(), Instant::now());
        roster.give_back_all();
        assert!(new.give_back.is_cancelled());
    }

    #[tokio::test]
    async fn news_about_the_beats_is_told_once() {
        let roster = Roster::new();
        assert!(!roster.tell(Beating::Failing));
        assert!(roster.tell(Beating::Well));
        roster.well().await;
        assert_eq!(roster.beating(), Beating::Well);
    }
}
