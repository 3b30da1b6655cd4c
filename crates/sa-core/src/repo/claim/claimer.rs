//! A worker's claiming hand.

use std::fmt;

use super::levels::Levels;
use super::rows::{Taken, commit, confirmed, lock_candidates, start};
use super::{Claim, Serves};
use crate::id::{ClaimId, ClaimIds, WorkerId};
use crate::job::{Lane, Priority};
use crate::repo::db::Tx;
use crate::repo::error::Fate;
use crate::repo::{Db, Error, gate};
use crate::viewer::Actor;

/// A worker's claiming hand: one a process. It remembers where in each lane and priority level it stopped, so that a claim
/// costs the same whatever the backlog.
///
/// Jobs come in the order of priority, then `scheduled_for`, then id, over all open lanes.
pub struct Claimer {
    ids: ClaimIds,
    actor: Actor,
    serves: Serves,
    levels: Levels,
    /// A claim whose COMMIT got no answer. Its jobs may be ours, and are looked for before any other is taken.
    unanswered: Option<Vec<Claim>>,
}

impl fmt::Debug for Claimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claimer").field("ids", &self.ids).field("serves", &self.serves).finish_non_exhaustive()
    }
}

impl Claimer {
    /// The claiming hand of this worker, which takes jobs of these lanes at priorities up to `ceiling`.
    #[must_use]
    pub fn new(worker: WorkerId, serves: Serves, ceiling: Priority) -> Self {
        Self {
            ids: ClaimIds::new(worker),
            actor: Actor::worker(worker),
            serves,
            levels: Levels::new(ceiling),
            unanswered: None,
        }
    }

    /// Claims at most `want` jobs that are due, the most urgent first; fewer if there are no more.
    ///
    /// First of all it looks for what an earlier call claimed without an answer: with a `want` of 0 it does only that, for
    /// a worker that stops.
    ///
    /// # Errors
    /// `Database`: then nothing is claimed, or the next call finds it.
    pub async fn claim(&mut self, db: &Db, want: usize) -> Result<Vec<Claim>, Error> {
        if let Some(unanswered) = &self.unanswered {
            let ours = db.retrying(|| confirmed(db, unanswered)).await?;
            let claims = self.unanswered.take().into_iter().flatten();
            return Ok(claims.filter(|claim| ours.contains(&claim.job())).collect());
        }
        if want == 0 {
            return Ok(Vec::new());
        }
        let open = self.open_lanes(db).await?;
        let mut tried = 0;
        loop {
            tried += 1;
            self.levels.refresh(db, &open).await?;
            if self.levels.is_empty() {
                return Ok(Vec::new());
            }
            let claim = self.ids.mint();
            let error = match self.once(db, &claim, want).await {
                Ok(Taken::Committed(claims)) => {
                    self.levels.note(claims.len(), want);
                    return Ok(claims);
                }
                Ok(Taken::Unanswered(claims, error)) => {
                    self.levels.forget();
                    self.unanswered = Some(claims);
                    return Err(error);
                }
                Err(error) => error,
            };
            // The cursors went past rows that were not taken after all.
            self.levels.forget();
            if error.fate() != Fate::RolledBack || tried == 5 {
                return Err(error);
            }
        }
    }

    /// The lanes served whose gate is open, with the unnamed lane under the default's gate.
    async fn open_lanes(&self, db: &Db) -> Result<Vec<Lane>, Error> {
        let closed = db.retrying(|| gate::closed(db)).await?;
        let mut open: Vec<_> = self.serves.lanes.iter().filter(|lane| !closed.contains(lane)).cloned().collect();
        if !closed.contains(&self.serves.default) {
            open.push(Lane::default());
        }
        Ok(open)
    }

    async fn once(&mut self, db: &Db, claim: &ClaimId, want: usize) -> Result<Taken, Error> {
        let mut tx = db.begin().await?;
        let taken = self.lock(&mut tx, claim, want).await?;
        if taken.is_empty() {
            return Ok(Taken::Committed(taken));
        }
        start(&mut tx, claim, &taken, &self.actor).await?;
        commit(tx, taken).await
    }

    /// Locks the best `want` rows, a window of candidates at a time; rows that others hold or took are passed over.
    async fn lock(&mut self, tx: &mut Tx, claim: &ClaimId, want: usize) -> Result<Vec<Claim>, Error> {
        let mut taken = Vec::new();
        let mut window = want;
        for _ in 0..6 {
            let need = want - taken.len();
            let candidates = self.levels.take(tx, window.max(need)).await?;
            if candidates.is_empty() {
                break;
            }
            let locked = lock_candidates(tx, claim, &candidates, need).await?;
            let last = locked.last().map(Claim::job);
            let filled = locked.len() == need;
            taken.extend(locked);
            if filled {
                // Those behind the last row taken were not looked at.
                let seen = candidates.iter().position(|candidate| Some(candidate.id) == last).map_or(0, |at| at + 1);
                self.levels.put_back(candidates.into_iter().skip(seen));
                break;
            }
            window = (window * 2).min(want * 8);
        }
        Ok(taken)
    }
}
