//! One sequence of deeds, done to the repository and to its model, which are compared after each.

use std::time::Duration;

use sa_core::death::Here;
use sa_core::entity::{Answer as Text, StateClass};
use sa_core::error_kind::{ErrorKind, Failure};
use sa_core::id::{JobId, LedgerId, OrgId, UserId, WorkerId};
use sa_core::job::{Lane, MaxAttempts, Priority};
use sa_core::ledger::{CallOutcome, LedgerRow, Purpose, Usage};
use sa_core::repo::inspect::JobFilter;
use sa_core::repo::{
    self, Cancelled, Claim, Claimer, Db, Error, Finish, Held, IfWaiting, NewPrompt, Outcome, Retried, Retry, Serves,
};
use sa_core::retry::{Backoff, Verdict, verdict};
use sa_core::state::State;
use sa_core::viewer::{Actor, Scope, Viewer};
use sa_harness::Database;

use super::deed::Deed;
use super::new_prompt;
use crate::reference::{Answer, End, Reference};

const STALE: Duration = Duration::from_secs(225);
const FAR: Duration = Duration::from_secs(3600);

/// A run as its worker has it: the claim is gone once it was finished.
struct Run {
    job: usize,
    number: u64,
    held: Held,
    claim: Option<Claim>,
}

pub struct Subject<'a> {
    database: &'a Database,
    db: &'a Db,
    viewer: Viewer,
    lane: String,
    model: Reference,
    ids: Vec<JobId>,
    runs: Vec<Run>,
}

impl<'a> Subject<'a> {
    /// A viewer and a lane of its own, so that sequences do not meet.
    pub fn new(database: &'a Database, db: &'a Db, sequence: u64) -> Self {
        let viewer = Viewer { org: OrgId(1), user: UserId(sequence) };
        let lane = format!("lane{sequence}");
        Self { database, db, viewer, lane, model: Reference::default(), ids: Vec::new(), runs: Vec::new() }
    }

    pub async fn live(&mut self, deeds: &[Deed]) -> Result<(), String> {
        for deed in deeds {
            self.one(deed).await.map_err(|why| format!("{deed:?}: {why}"))?;
            self.compare().await.map_err(|why| format!("{deed:?}: {why}"))?;
        }
        Ok(())
    }

    async fn one(&mut self, deed: &Deed) -> Result<(), String> {
        match *deed {
            Deed::Submit { priority, max_attempts, waits } => self.submit(priority, max_attempts, waits).await,
            Deed::Claim { want } => self.claim(want).await,
            Deed::Beat { claim } => self.beat(claim).await,
            Deed::End { claim, end } => self.end(claim, end).await,
            Deed::Cancel { job } => self.cancel(job).await,
            Deed::Retry { job } => self.retry(job).await,
            Deed::Silence { job, ran_too_long } => self.silence(job, ran_too_long).await,
        }
    }

    /// States, attempts, revisions and the rest, of every job.
    async fn compare(&self) -> Result<(), String> {
        let filter = JobFilter::all(Scope::Viewer(self.viewer));
        let rows = repo::inspect::list(self.db, &filter, None, 1_000).await.map_err(|error| error.to_string())?;
        if rows.len() != self.model.jobs.len() {
            return Err(format!("{} rows, and {} in the model", rows.len(), self.model.jobs.len()));
        }
        for row in rows {
            let n = self.number(row.id);
            let job = &self.model.jobs[n];
            let in_row = (row.state, row.attempt, row.max_attempts, row.releases, row.revision, row.priority.get());
            let in_model = (job.state, job.attempt, job.max_attempts, job.releases, job.revision, job.priority);
            let errors = (row.error_kind.as_deref(), job.error);
            let successors = (row.successor.map(|id| self.number(id)), job.successor);
            if in_row != in_model || errors.0 != errors.1 || successors.0 != successors.1 {
                return Err(format!("job {n} is {in_row:?}, {errors:?}, {successors:?}, in the model {in_model:?}"));
            }
        }
        Ok(())
    }

    fn number(&self, id: JobId) -> usize {
        self.ids.iter().position(|known| *known == id).expect("every job was made here")
    }

    async fn submit(&mut self, priority: u8, max_attempts: u8, waits: bool) -> Result<(), String> {
        let now = repo::now(self.db).await.map_err(|error| error.to_string())?;
        let prompt = NewPrompt {
            priority: Priority::new(priority).unwrap(),
            max_attempts: MaxAttempts::new(max_attempts).unwrap(),
            scheduled_for: waits.then(|| now + FAR),
            ..new_prompt(self.viewer, &self.lane)
        };
        let stored = repo::enqueue(self.db, vec![prompt]).await.remove(0).map_err(|error| error.to_string())?;
        self.ids.push(stored.job_id);
        self.model.submit(priority, max_attempts.into(), waits);
        Ok(())
    }

    async fn claim(&mut self, want: usize) -> Result<(), String> {
        let lane = Lane::new(&self.lane);
        let serves = Serves::only(vec![lane]);
        let claims = Claimer::new(WorkerId::new(), serves, Priority::LOWEST).claim(self.db, want).await;
        let claims = claims.map_err(|error| error.to_string())?;
        let first = self.runs.len() as u64;
        let expected = self.model.claim(want, first);
        let claimed: Vec<_> = claims.iter().map(|claim| self.number(claim.job())).collect();
        agree(&claimed, &expected)?;
        for (claim, number) in claims.into_iter().zip(first..) {
            self.runs.push(Run { job: self.number(claim.job()), number, held: claim.held(), claim: Some(claim) });
        }
        Ok(())
    }

    async fn beat(&mut self, which: usize) -> Result<(), String> {
        let Some(run) = chosen(&self.runs, which) else { return Ok(()) };
        let lost = repo::beat(self.db, std::slice::from_ref(&run.held)).await.map_err(|error| error.to_string())?;
        agree(&lost.is_empty(), &self.model.holds(run.job, run.number))
    }

    async fn end(&mut self, which: usize, end: End) -> Result<(), String> {
        let unfinished: Vec<_> = (0..self.runs.len()).filter(|&n| self.runs[n].claim.is_some()).collect();
        let Some(&n) = chosen(&unfinished, which) else { return Ok(()) };
        let run = &mut self.runs[n];
        let finish = finish(run.claim.take().expect("it is unfinished"), end);
        let outcome = repo::finalize(self.db, vec![finish]).await.remove(0).map_err(|(error, _)| error.to_string())?;
        let answer = match outcome {
            Outcome::Written => Answer::Done,
            Outcome::Lost { found } => Answer::Lost(found),
        };
        agree(&answer, &self.model.end(run.job, run.number, end))
    }

    async fn cancel(&mut self, which: usize) -> Result<(), String> {
        let Some(&id) = chosen(&self.ids, which) else { return Ok(()) };
        let (scope, actor) = (Scope::Viewer(self.viewer), Actor::user(self.viewer.user));
        let answer = match repo::cancel(self.db, id, scope, &actor).await {
            Ok(Cancelled { from }) => Answer::Cancelled(from),
            Err(error) => self.conflict(error)?,
        };
        agree(&answer, &self.model.cancel(which % self.ids.len()))
    }

    async fn retry(&mut self, which: usize) -> Result<(), String> {
        let Some(&id) = chosen(&self.ids, which) else { return Ok(()) };
        let terms = new_prompt(self.viewer, &self.lane);
        let asked = Retry {
            job: id,
            scope: Scope::Viewer(self.viewer),
            actor: terms.actor,
            options: terms.options,
            lane: terms.lane,
            priority: None,
            max_attempts: None,
            scheduled_for: None,
            if_waiting: IfWaiting::BringForward,
        };
        let expected = self.model.retry(which % self.ids.len());
        let answer = match repo::retry(self.db, asked).await {
            Ok(Retried::Successor { job, supersedes, .. }) => {
                agree(&supersedes, &id)?;
                self.ids.push(job);
                Answer::Successor(self.ids.len() - 1)
            }
            Ok(Retried::BroughtForward { job, .. }) => {
                agree(&job, &id)?;
                Answer::BroughtForward
            }
            Err(error) => self.conflict(error)?,
        };
        agree(&answer, &expected)
    }

    fn conflict(&self, error: Error) -> Result<Answer, String> {
        match error {
            Error::Conflict { id, found } => Ok(Answer::Conflict(self.number(id), found)),
            Error::NotFound | Error::Database(_) | Error::Corrupt { .. } => Err(error.to_string()),
        }
    }

    async fn silence(&mut self, which: usize, ran_too_long: bool) -> Result<(), String> {
        let running: Vec<_> = (0..self.ids.len()).filter(|&n| self.model.jobs[n].state == State::Running).collect();
        let silent = chosen(&running, which).copied();
        if let Some(n) = silent {
            self.move_back(n, ran_too_long).await;
        }
        let reclaimed = repo::reclaim(self.db, STALE, &Here::default(), &Actor::reaper("here"))
            .await
            .map_err(|error| error.to_string())?;
        let taken: Vec<_> = reclaimed.iter().map(|taken| (self.number(taken.job), taken.to)).collect();
        let expected: Vec<_> = silent.map(|n| (n, self.model.reclaim(n, ran_too_long))).into_iter().collect();
        agree(&taken, &expected)
    }

    /// The beat alone, or the whole life of the prompt, whose times must stay in order.
    async fn move_back(&self, n: usize, ran_too_long: bool) {
        let beat = "UPDATE sa_job SET running_heartbeat_at = running_heartbeat_at - INTERVAL 1 HOUR WHERE id = ?";
        let life = "UPDATE sa_job
                       SET created_at = created_at - INTERVAL 20 MINUTE, claimed_at = claimed_at - INTERVAL 20 MINUTE,
                           started_at = started_at - INTERVAL 20 MINUTE, finished_at = finished_at - INTERVAL 20 MINUTE
                     WHERE prompt_id = (SELECT prompt_id FROM (SELECT prompt_id FROM sa_job WHERE id = ?) p)";
        for statement in [Some(beat), ran_too_long.then_some(life)].into_iter().flatten() {
            sqlx::query(statement).bind(self.ids[n]).execute(self.database.pool()).await.unwrap();
        }
    }
}

fn agree<T: PartialEq + std::fmt::Debug>(repository: &T, model: &T) -> Result<(), String> {
    if repository == model { Ok(()) } else { Err(format!("{repository:?}, by the model {model:?}")) }
}

/// One of those that are there.
fn chosen<T>(there: &[T], which: usize) -> Option<&T> {
    there.get(which % there.len().max(1))
}

fn finish(claim: Claim, end: End) -> Finish {
    let call = |outcome| {
        vec![LedgerRow {
            id: LedgerId::new(),
            purpose: Purpose::Answer,
            provider: "echo".into(),
            model: "echo".into(),
            usage: Usage::default(),
            cost_micro_usd: None,
            first_token_ms: None,
            total_ms: 1,
            outcome,
            error_kind: None,
            provider_request_id: None,
        }]
    };
    match end {
        End::Succeed => {
            let (provider, model) = ("echo".to_owned(), "echo".to_owned());
            let answer =
                Text { text: "hi".into(), provider, model, state_class: StateClass::Settled, source_refs: vec![] };
            claim.succeed(answer, call(CallOutcome::Succeeded))
        }
        End::Fail => claim.fail(Failure::new(ErrorKind::Auth, "no"), call(CallOutcome::Failed)),
        End::Release => claim.release(Vec::new()),
        End::Again { at_once } => {
            let failure = Failure::new(ErrorKind::Timeout, "late");
            let far = (!at_once).then_some(FAR);
            match verdict(ErrorKind::Timeout, claim.attempt(), claim.max_attempts(), far) {
                Verdict::Fail => claim.fail(failure, call(CallOutcome::Failed)),
                Verdict::Requeue(backoff) => {
                    let backoff = if at_once { Backoff::NONE } else { backoff };
                    claim.requeue(failure, backoff, call(CallOutcome::Failed))
                }
            }
        }
    }
}
