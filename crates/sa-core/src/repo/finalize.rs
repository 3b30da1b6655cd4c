//! End runs under their claims: succeed, requeue, release, fail. Whoever no longer holds the claim changes nothing.

mod answers;
mod lost;
mod moves;

use super::children::{NewLedger, insert_ledger};
use super::claim::{Claim, Held};
use super::db::Tx;
use super::error::Fate;
use super::event::{Change, Changed, record};
use super::{Db, Error};
use crate::entity::Answer;
use crate::error_kind::{ErrorKind, Failure};
use crate::event::Reason;
use crate::id::{JobId, ResponseId, WorkerId};
use crate::job::Lane;
use crate::ledger::{CallOutcome, LedgerRow};
use crate::retry::{Backoff, ReleaseVerdict, release_verdict};
use crate::state::{State, Transition};
use crate::viewer::Actor;

/// A run that ended and is to be written. Made from a [`Claim`], which it consumes: a job cannot be finished twice.
///
/// ```compile_fail,E0382
/// # use sa_core::{entity::Answer, repo::Claim};
/// # fn twice(claim: Claim, answer: Answer) {
/// let first = claim.succeed(answer.clone(), Vec::new());
/// let second = claim.succeed(answer, Vec::new());
/// # }
/// ```
/// Once compiles:
/// ```
/// # use sa_core::{entity::Answer, repo::{Claim, Finish}};
/// # fn once(claim: Claim, answer: Answer) -> Finish {
/// claim.succeed(answer, Vec::new())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a run that is not finalized runs again after the stale limit"]
pub struct Finish {
    claim: Claim,
    end: End,
    ledger: Vec<LedgerRow>,
}

/// How a run ended.
#[derive(Debug)]
enum End {
    Succeed(Answer),
    Requeue(Requeue),
    /// Back into the queue until a lane opens: its own, or this one from now on.
    Hold(Failure, Option<Lane>),
    Fail(Failure),
    Abandon(Option<Answer>),
}

/// Back into the queue, and on what terms.
#[derive(Debug)]
struct Requeue {
    /// Nothing for a release without fault.
    failure: Option<Failure>,
    backoff: Backoff,
    /// Without, it is a release.
    spends_attempt: bool,
}

impl Claim {
    /// The provider answered: the answer becomes the response entity.
    pub fn succeed(self, answer: Answer, ledger: Vec<LedgerRow>) -> Finish {
        Finish { claim: self, end: End::Succeed(answer), ledger }
    }

    /// The run failed and is to be repeated after a wait; spends an attempt.
    pub fn requeue(self, failure: Failure, backoff: Backoff, ledger: Vec<LedgerRow>) -> Finish {
        let requeue = Requeue { failure: Some(failure), backoff, spends_attempt: true };
        Finish { claim: self, end: End::Requeue(requeue), ledger }
    }

    /// A closed lane holds the job: no attempt is spent and its place is kept, so that it is run when the lane opens. With
    /// `lane`, that lane's gate holds it from now on.
    pub fn hold(self, failure: Failure, lane: Option<Lane>, ledger: Vec<LedgerRow>) -> Finish {
        Finish { claim: self, end: End::Hold(failure, lane), ledger }
    }

    /// The run failed for good.
    pub fn fail(self, failure: Failure, ledger: Vec<LedgerRow>) -> Finish {
        Finish { claim: self, end: End::Fail(failure), ledger }
    }

    /// The run is given back without fault of its own, its place in the queue kept and no attempt spent; from the
    /// eleventh time on it spends one.
    pub fn release(self, ledger: Vec<LedgerRow>) -> Finish {
        let crashed = || Failure::new(ErrorKind::WorkerCrash, "released more than 10 times without coming to an end");
        let requeue =
            |failure, spends_attempt| End::Requeue(Requeue { failure, backoff: Backoff::NONE, spends_attempt });
        let end = match release_verdict(self.releases(), self.attempt(), self.max_attempts()) {
            ReleaseVerdict::Release => requeue(None, false),
            ReleaseVerdict::Requeue => requeue(Some(crashed()), true),
            ReleaseVerdict::Stuck => End::Fail(Failure::new(ErrorKind::Stuck, crashed().message())),
        };
        Finish { claim: self, end, ledger }
    }

    /// The claim is known to be lost: only what the run cost is kept, and of a cancelled run the text already received.
    pub fn abandon(self, partial: Option<Answer>, ledger: Vec<LedgerRow>) -> Finish {
        Finish { claim: self, end: End::Abandon(partial), ledger }
    }
}

impl Finish {
    /// The job that ended its run.
    #[must_use]
    pub const fn job(&self) -> JobId {
        self.claim.job()
    }

    /// The claim it ended under.
    #[must_use]
    pub fn held(&self) -> Held {
        self.claim.held()
    }

    /// Bytes of text it carries: what a batch is measured by.
    #[must_use]
    pub fn text_len(&self) -> usize {
        match &self.end {
            End::Succeed(answer) | End::Abandon(Some(answer)) => answer.text.len(),
            End::Requeue(_) | End::Hold(..) | End::Fail(_) | End::Abandon(None) => 0,
        }
    }

    fn response_id(&self) -> ResponseId {
        ResponseId::of(self.claim.prompt(), self.claim.job())
    }

    /// The edge it takes; nothing if the claim is known to be lost.
    const fn edge(&self) -> Option<Transition> {
        match &self.end {
            End::Succeed(_) => Some(Transition::SUCCEED),
            End::Requeue(_) | End::Hold(..) => Some(Transition::REQUEUE),
            End::Fail(_) => Some(Transition::FAIL),
            End::Abandon(_) => None,
        }
    }

    fn reason(&self) -> Reason {
        match &self.end {
            End::Succeed(_) => Reason::Success,
            End::Requeue(Requeue { spends_attempt: true, .. }) => Reason::Transient,
            End::Requeue(Requeue { spends_attempt: false, .. }) => Reason::Release,
            End::Hold(..) => Reason::Gate,
            End::Fail(_) => Reason::Failure,
            End::Abandon(_) => Reason::Partial,
        }
    }
}

/// What became of a finished run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// It is in the database.
    Written,
    /// The claim was lost before; the row was found in this state and is unchanged. The run's cost was recorded.
    Lost {
        /// The state of the job.
        found: State,
    },
}

/// Writes the ends of runs, each fenced by its own claim; the answers come in the order of the batch.
///
/// The batch shares one transaction; if that fails, each is written in one of its own, so that none fails for another. A
/// failure whose values the database will not take is written with the message "unstorable".
///
/// # Errors
/// Per run, with the unspent [`Finish`], to be tried again while its claim may still be held.
pub async fn finalize(db: &Db, batch: Vec<Finish>) -> Vec<Result<Outcome, (Error, Finish)>> {
    let held = match write(db, &batch).await {
        Ok(held) => held.into_iter().map(Ok).collect::<Vec<_>>(),
        Err(error) if batch.len() == 1 => vec![Err(error)],
        // A server that is away is away for each of them, and each would wait for it in its turn.
        Err(Error::Database(error)) if matches!(error.fate(), Fate::Away | Fate::Unknown) => {
            batch.iter().map(|_| Err(error.again().into())).collect()
        }
        Err(error) => {
            tracing::debug!(%error, runs = batch.len(), "A batch could not be written and is written one by one.");
            let mut each = Vec::with_capacity(batch.len());
            for one in batch.chunks(1) {
                each.push(write(db, one).await.map(|held| held[0]));
            }
            each
        }
    };
    let mut outcomes = Vec::with_capacity(batch.len());
    for (finish, held) in batch.into_iter().zip(held) {
        outcomes.push(match held {
            Ok(true) => Ok(Outcome::Written),
            Ok(false) => lost::settle(db, finish).await,
            Err(error) if error.fate() == Fate::Data => unstorable(db, finish, error).await,
            Err(error) => Err((error, finish)),
        });
    }
    outcomes
}

/// The values were refused: the job must not stay unfinishable for that. What the run cost is kept if it can be.
async fn unstorable(db: &Db, finish: Finish, error: Error) -> Result<Outcome, (Error, Finish)> {
    tracing::error!(job.id = %finish.job(), %error, "The end of a run could not be stored and is stored without its text.");
    let mut bare = finish.claim.fail(Failure::new(ErrorKind::Unknown, "unstorable"), finish.ledger);
    let mut written = write(db, std::slice::from_ref(&bare)).await;
    if matches!(&written, Err(error) if error.fate() == Fate::Data) {
        bare.ledger.clear();
        written = write(db, std::slice::from_ref(&bare)).await;
    }
    match written {
        Ok(held) if held[0] => Ok(Outcome::Written),
        Ok(_) => lost::settle(db, bare).await,
        Err(error) => Err((error, bare)),
    }
}

/// Writes what is still held in one transaction, and says which it was. An unanswered COMMIT is looked up by its events.
async fn write(db: &Db, batch: &[Finish]) -> Result<Vec<bool>, Error> {
    for _ in 0..3 {
        let error = match db.retrying(|| once(db, batch)).await {
            Err(error) => error,
            done => return done,
        };
        if error.fate() != Fate::Unknown {
            return Err(error);
        }
        let written = db.retrying(|| lost::written(db, batch)).await?;
        if written.iter().any(|written| *written) {
            return Ok(written);
        }
    }
    Err(Error::from(sqlx::Error::PoolTimedOut))
}

async fn once(db: &Db, batch: &[Finish]) -> Result<Vec<bool>, Error> {
    let mut tx = db.begin().await?;
    let held = moves::fence(&mut tx, batch).await?;
    let ours: Vec<&Finish> =
        batch.iter().filter(|finish| finish.edge().is_some() && held.contains(&finish.job())).collect();
    if ours.is_empty() {
        return Ok(vec![false; batch.len()]);
    }
    moves::move_rows(&mut tx, &ours).await?;
    answers::insert(&mut tx, &ours).await?;
    insert_ledger(tx.session(), &ours.iter().flat_map(|finish| ledger_of(finish)).collect::<Vec<_>>()).await?;
    events(&mut tx, &ours).await?;
    tx.commit().await?;
    Ok(batch.iter().map(|finish| finish.edge().is_some() && held.contains(&finish.job())).collect())
}

fn ledger_of(finish: &Finish) -> impl Iterator<Item = NewLedger<'_>> {
    let response = matches!(finish.end, End::Succeed(_)).then(|| finish.response_id());
    finish.ledger.iter().map(move |row| NewLedger {
        job: finish.job(),
        prompt: finish.claim.prompt(),
        org: finish.claim.viewer().org,
        attempt: finish.claim.attempt(),
        claim: finish.claim.id(),
        response: response.filter(|_| row.outcome == CallOutcome::Succeeded),
        row,
        outcome: row.outcome,
    })
}

/// The events, grouped by what they say; a batch comes from one worker, so the groups are few.
async fn events(tx: &mut Tx, ours: &[&Finish]) -> Result<(), Error> {
    for reason in [Reason::Success, Reason::Failure, Reason::Transient, Reason::Release, Reason::Gate] {
        for edge in [Transition::SUCCEED, Transition::FAIL, Transition::REQUEUE] {
            let of = |finish: &&&Finish| finish.reason() == reason && finish.edge() == Some(edge);
            let group: Vec<_> = ours.iter().filter(of).collect();
            let Some(first) = group.first() else { continue };
            let actor = actor_of(&first.claim);
            let jobs: Vec<_> =
                group.iter().map(|finish| Changed { id: finish.job(), claim: Some(finish.claim.id()) }).collect();
            let change = Change { from: Some(edge.from()), to: edge.to(), actor: &actor, reason };
            record(tx.session(), &jobs, &change).await?;
        }
    }
    Ok(())
}

/// The worker whose claim it is: the claim begins with its uuid.
fn actor_of(claim: &Claim) -> Actor {
    let worker = claim.id().as_str().split('.').next().and_then(|uuid| uuid.parse::<WorkerId>().ok());
    worker.map_or_else(|| Actor::operator("sync"), Actor::worker)
}
