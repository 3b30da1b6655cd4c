//! A worker's claiming hand.

use std::collections::HashMap;
use std::fmt;
use std::time::Instant;

use super::fairness::Fairness;
use super::levels::{Candidate, FRESH_FOR, Levels};
use super::rows::{Taken, commit, confirmed, lock_candidates, start};
use super::{Claim, Serves};
use crate::id::{ClaimId, ClaimIds, WorkerId};
use crate::job::{Lane, Priority};
use crate::repo::db::Tx;
use crate::repo::error::Fate;
use crate::repo::gate::{self, Gate, Standing};
use crate::repo::{Db, Error};
use crate::viewer::Actor;

/// How many jobs of a lane are looked at for one that nobody holds.
const TRIAL_CANDIDATES: usize = 8;

/// A worker's claiming hand: one a process. It remembers where in each lane and priority level it stopped, so that a claim
/// costs the same whatever the backlog.
///
/// Jobs come in the order of priority, then `scheduled_for`, then id, over all lanes that are open or have an open fallback.
/// Of a lane whose closure has run out one job comes first, as its trial.
pub struct Claimer {
    ids: ClaimIds,
    actor: Actor,
    serves: Serves,
    ceiling: Priority,
    fairness: Fairness,
    levels: Levels,
    /// When lanes whose trial is due were last found without a job for it.
    without_job: HashMap<Lane, Instant>,
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
            ceiling,
            fairness: Fairness::never(),
            levels: Levels::new(ceiling),
            without_job: HashMap::new(),
            unanswered: None,
        }
    }

    /// The same, of whose claims every `every`-th takes the oldest job of any priority up to the ceiling; 0 means none.
    #[must_use]
    pub fn with_fair_every(self, every: u32) -> Self {
        Self { fairness: Fairness::every(every), ..self }
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
        let gates = gate::list(db).await?;
        let mut claims = self.trials(db, &gates, want).await?;
        match self.ordinary(db, &gates, want - claims.len()).await {
            Ok(more) => {
                claims.extend(more);
                Ok(claims)
            }
            Err(error) => {
                // The trials are ours already, and the next call finds them with whatever else may be.
                if !claims.is_empty() {
                    self.unanswered.get_or_insert_default().extend(claims);
                }
                Err(error)
            }
        }
    }

    async fn ordinary(&mut self, db: &Db, gates: &[Gate], want: usize) -> Result<Vec<Claim>, Error> {
        let open = self.open_lanes(gates);
        let mut tried = 0;
        loop {
            tried += 1;
            self.levels.refresh(db, &open).await?;
            if want == 0 || self.levels.is_empty() {
                return Ok(Vec::new());
            }
            let claim = self.ids.mint();
            let error = match self.once(db, &claim, want).await {
                Ok(Taken::Committed(claims)) => {
                    self.levels.note(claims.len(), want);
                    self.fairness.note(claims.len());
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

    /// The lanes served that are open or have an open fallback, with the unnamed lane under the default's gate.
    fn open_lanes(&self, gates: &[Gate]) -> Vec<Lane> {
        let is_open = |lane: &Lane| gates.iter().all(|gate| gate.lane != *lane || gate.is_open());
        let can_be_answered = |lane: &Lane| {
            is_open(lane) || self.serves.fallbacks.get(lane).is_some_and(|others| others.iter().any(is_open))
        };
        let mut open: Vec<_> = self.serves.lanes.iter().filter(|lane| can_be_answered(lane)).cloned().collect();
        if can_be_answered(&self.serves.default) {
            open.push(Lane::default());
        }
        open
    }

    /// One job of each lane whose trial is due, at most `want`.
    async fn trials(&mut self, db: &Db, gates: &[Gate], want: usize) -> Result<Vec<Claim>, Error> {
        let mut claims = Vec::new();
        let due = gates.iter().filter(|gate| gate.standing == Standing::TrialDue);
        for Gate { lane, .. } in due.filter(|gate| self.serves.lanes.contains(&gate.lane)).take(want) {
            if self.without_job.get(lane).is_some_and(|looked| looked.elapsed() < FRESH_FOR) {
                continue;
            }
            let claim = self.ids.mint();
            match db.retrying(|| self.trial_once(db, lane, &claim)).await {
                Ok(Taken::Committed(taken)) if taken.is_empty() => {
                    self.without_job.insert(lane.clone(), Instant::now());
                }
                Ok(Taken::Committed(taken)) => claims.extend(taken),
                Ok(Taken::Unanswered(taken, error)) => {
                    claims.extend(taken);
                    self.unanswered = Some(claims);
                    return Err(error);
                }
                Err(error) if claims.is_empty() => return Err(error),
                // What is ours already is run; the other trials are as due at the next claim.
                Err(_) => break,
            }
        }
        Ok(claims)
    }

    async fn trial_once(&self, db: &Db, lane: &Lane, claim: &ClaimId) -> Result<Taken, Error> {
        let mut lanes = vec![lane.clone()];
        if *lane == self.serves.default {
            lanes.push(Lane::default());
        }
        let mut levels = Levels::new(self.ceiling);
        levels.refresh(db, &lanes).await?;
        let mut tx = db.begin().await?;
        let mut taken = Vec::new();
        if !levels.is_empty() && gate::take_trial(&mut tx, lane, claim).await? {
            let candidates = levels.take(&mut tx, TRIAL_CANDIDATES).await?;
            taken = lock_candidates(&mut tx, claim, &candidates, 1).await?;
            taken.iter_mut().for_each(Claim::becomes_trial);
        }
        if taken.is_empty() {
            return Ok(Taken::Committed(taken));
        }
        start(&mut tx, claim, &taken, &self.actor).await?;
        commit(tx, taken).await
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

    /// Locks the best `want` rows, a window of candidates at a time; rows that others hold or took are passed over. Places
    /// that fairness gives to the oldest come first.
    async fn lock(&mut self, tx: &mut Tx, claim: &ClaimId, want: usize) -> Result<Vec<Claim>, Error> {
        let fair = self.fairness.places(want);
        let mut taken = Vec::new();
        if fair > 0 {
            let oldest = self.levels.take_oldest(tx, fair).await?;
            taken = self.lock_some(tx, claim, oldest, fair).await?;
        }
        let mut window = want;
        for _ in 0..6 {
            let need = want - taken.len();
            if need == 0 {
                break;
            }
            let candidates = self.levels.take(tx, window.max(need)).await?;
            if candidates.is_empty() {
                break;
            }
            taken.extend(self.lock_some(tx, claim, candidates, need).await?);
            window = (window * 2).min(want * 8);
        }
        Ok(taken)
    }

    /// Locks at most `need` of these.
    async fn lock_some(
        &mut self,
        tx: &mut Tx,
        claim: &ClaimId,
        candidates: Vec<Candidate>,
        need: usize,
    ) -> Result<Vec<Claim>, Error> {
        let locked = lock_candidates(tx, claim, &candidates, need).await?;
        if locked.len() == need {
            // Those behind the last row taken were not looked at.
            let last = locked.last().map(Claim::job);
            let seen = candidates.iter().position(|candidate| Some(candidate.id) == last).map_or(0, |at| at + 1);
            self.levels.put_back(candidates.into_iter().skip(seen));
        }
        Ok(locked)
    }
}
