//! Runs one claim: options, context, the calls it takes, verdict. What comes out is the way the claim ends.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use sa_core::{
    entity::Answer,
    error_kind::{ErrorKind, Failure},
    gate::{HoldVerdict, hold_verdict},
    id::{JobId, PromptId},
    job::Lane,
    ledger::CallOutcome,
    repo::{Claim, Db, Finish, Outcome},
    retry::{self, Verdict},
};

use crate::{
    Providers,
    gates::Gates,
    roster::{Leash, Roster},
    steps::Run,
    tab::Tab,
};

/// What a run needs beside its claim.
#[derive(Clone)]
pub(crate) struct Tools {
    pub(crate) db: Db,
    pub(crate) providers: Arc<Providers>,
    pub(crate) roster: Arc<Roster>,
}

/// A run that is over, and what the database made of it.
#[derive(Debug)]
pub struct Ran {
    /// The job.
    pub job: JobId,
    /// Its prompt.
    pub prompt: PromptId,
    /// How the run ended.
    pub ended: Ended,
    /// Whether that was written, or the claim had been lost.
    pub outcome: Outcome,
}

/// How a run ended, before the database had its say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With an answer.
    Answered,
    /// It will be tried again.
    Requeued(Failure),
    /// It waits for a closed lane, no attempt spent.
    Held(Failure),
    /// For good.
    Failed(Failure),
    /// Given back, no attempt spent.
    Released,
    /// Its claim was lost while it ran.
    Abandoned,
}

/// The end of a run, ready to be written.
pub(crate) struct End {
    pub(crate) finish: Finish,
    pub(crate) ended: Ended,
}

/// Runs this claim, which was made after `since`, to its end. It is the only holder of the claim, so whatever happens in
/// here, the claim comes out.
pub(crate) async fn execute(tools: &Tools, claim: Claim, since: Instant, leash: &Leash) -> End {
    let (tab, gates) = (Arc::<Tab>::default(), Arc::new(gates_of(tools, &claim)));
    let run = Run {
        tools: tools.clone(),
        job: claim.job(),
        prompt: claim.prompt(),
        lane: claim.lane().clone(),
        options: claim.options(),
        since,
        leash: leash.clone(),
        tab: Arc::clone(&tab),
        gates: Arc::clone(&gates),
    };
    // In a task of its own, so that a panic in there ends this run and no other.
    let turn = match tokio::spawn(run.run()).await {
        Ok(turn) => turn,
        Err(error) => {
            tab.end(CallOutcome::MaybeCharged, Some(ErrorKind::Unknown));
            Turn::failed(ErrorKind::Unknown, panicked(error))
        }
    };
    gates.leave().await;
    turn.end(claim, &tab)
}

/// The gates as this run meets them. A job that names no lane is under the default's.
fn gates_of(tools: &Tools, claim: &Claim) -> Gates {
    let lane = if claim.lane().is_unresolved() { tools.providers.default_lane() } else { claim.lane().clone() };
    Gates::new(tools.db.clone(), claim.id().clone(), claim.is_trial().then_some(lane))
}

/// What a run found out.
pub(crate) enum Turn {
    /// This is the answer.
    Answered(Answer),
    /// It failed, and may be repeated; the provider asked to be left alone for so long.
    Failed(Failure, Option<Duration>),
    /// A 429 refused it, and its lane is closed now.
    Limited(Failure),
    /// A closed lane holds it: its own, or this one from now on.
    Held(Failure, Option<Lane>),
    /// The claim is gone, and this is the text that had arrived.
    Lost(Option<Answer>),
    /// The process stops, or cannot beat.
    GivenBack,
}

impl Turn {
    pub(crate) fn failed(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::Failed(Failure::new(kind, message), None)
    }

    fn end(self, claim: Claim, tab: &Tab) -> End {
        let rows = tab.rows();
        match self {
            Self::Answered(answer) => End { finish: claim.succeed(answer, rows), ended: Ended::Answered },
            Self::Failed(failure, retry_after) => {
                let verdict = retry::verdict(failure.kind(), claim.attempt(), claim.max_attempts(), retry_after);
                let (finish, ended) = match verdict {
                    Verdict::Requeue(backoff) => {
                        (claim.requeue(failure.clone(), backoff, rows), Ended::Requeued(failure))
                    }
                    Verdict::Fail => (claim.fail(failure.clone(), rows), Ended::Failed(failure)),
                };
                End { finish, ended }
            }
            Self::Limited(failure) => match hold_verdict(claim.held_for()) {
                HoldVerdict::Hold => {
                    End { finish: claim.hold(failure.clone(), None, rows), ended: Ended::Held(failure) }
                }
                HoldVerdict::Fail => End { finish: claim.fail(failure.clone(), rows), ended: Ended::Failed(failure) },
            },
            Self::Held(failure, lane) => {
                End { finish: claim.hold(failure.clone(), lane, rows), ended: Ended::Held(failure) }
            }
            Self::Lost(partial) => End { finish: claim.abandon(partial, rows), ended: Ended::Abandoned },
            Self::GivenBack => End { finish: claim.release(rows), ended: Ended::Released },
        }
    }
}

/// What a panic said may hold a prompt, so only that there was one is kept.
fn panicked(error: tokio::task::JoinError) -> String {
    match error.try_into_panic() {
        Ok(payload) => {
            drop(payload);
            "the worker's own code failed (a panic); its log says where".to_owned()
        }
        Err(error) => format!("the worker's own code was stopped: {error}"),
    }
}
