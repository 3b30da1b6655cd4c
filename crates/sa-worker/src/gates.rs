//! The gates as a run sees them, and what its calls do to them.
//!
//! A gate that cannot be read or written holds nobody up: the call decides, and the next one tells the database.

use std::sync::atomic::{AtomicBool, Ordering};

use sa_core::{
    error_kind::ErrorKind,
    gate::{Effect, effect, trial_effect},
    id::ClaimId,
    job::Lane,
    repo::{
        Db,
        gate::{self, Gate, Standing},
    },
};

use crate::{
    adapter::AdapterError,
    patience::{self, Fault},
};

/// What one run tells the gates.
pub(crate) struct Gates {
    db: Db,
    claim: ClaimId,
    /// The lane whose trial this run is.
    trial: Option<Lane>,
    /// Whether the trial has found out something.
    decided: AtomicBool,
}

/// The gates as they stood a moment ago.
#[derive(Debug, Default)]
pub(crate) struct View(Vec<Gate>);

/// What a failed call did to its gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Noted {
    /// The lane is closed.
    Closed,
    /// It is not, or that could not be written.
    NotClosed,
}

impl Gates {
    pub(crate) fn new(db: Db, claim: ClaimId, trial: Option<Lane>) -> Self {
        Self { db, claim, trial, decided: AtomicBool::new(false) }
    }

    pub(crate) async fn look(&self) -> View {
        let db = self.db.clone();
        View(told(patience::ask(async move { gate::list(&db).await }).await).unwrap_or_default())
    }

    /// Whether this run may call the lane's provider: it is open, or this run is its trial.
    pub(crate) fn admits(&self, view: &View, lane: &Lane) -> bool {
        self.trial.as_ref() == Some(lane) || view.gate(lane).is_none_or(Gate::is_open)
    }

    /// A call was answered. A healthy lane costs nothing.
    pub(crate) async fn succeeded(&self, view: &View, lane: &Lane) {
        if self.trial.as_ref() == Some(lane) {
            self.decided.store(true, Ordering::Relaxed);
        } else if view.gate(lane).is_none() {
            return;
        }
        let (db, lane, claim) = (self.db.clone(), lane.clone(), self.claim.clone());
        told(patience::ask(async move { gate::succeeded(&db, &lane, &claim).await }).await);
    }

    /// A call failed.
    pub(crate) async fn failed(&self, lane: &Lane, error: &AdapterError) -> Noted {
        let trial = self.trial.as_ref() == Some(lane);
        let effect = if error.forbidden {
            Effect::None
        } else if trial {
            trial_effect(error.kind, error.retry_after)
        } else {
            effect(error.kind, error.retry_after)
        };
        let closes = matches!(effect, Effect::Close(_));
        if trial && closes {
            self.decided.store(true, Ordering::Relaxed);
        }
        let (db, kind, name) = (self.db.clone(), error.kind, lane.clone());
        let noted = told(patience::ask(async move { gate::failed(&db, &name, kind, effect).await }).await);
        match noted {
            Some(()) if closes => {
                tracing::warn!(%lane, error_kind = %kind, "The lane is closed; its jobs wait.");
                Noted::Closed
            }
            Some(()) | None => Noted::NotClosed,
        }
    }

    /// The run is over. A trial that found out nothing leaves the next one free.
    pub(crate) async fn leave(&self) {
        if let Some(lane) = self.trial.clone().filter(|_| !self.decided.load(Ordering::Relaxed)) {
            let (db, claim) = (self.db.clone(), self.claim.clone());
            told(patience::ask(async move { gate::trial_over(&db, &lane, &claim).await }).await);
        }
    }
}

impl View {
    fn gate(&self, lane: &Lane) -> Option<&Gate> {
        self.0.iter().find(|gate| gate.lane == *lane)
    }

    /// Why the lane is not called, as a kind and in words.
    pub(crate) fn why_closed(&self, lane: &Lane) -> (ErrorKind, String) {
        let Some(gate) = self.gate(lane) else { return (ErrorKind::RateLimit, format!("lane {lane} is closed")) };
        let kind = gate.reason.unwrap_or(ErrorKind::RateLimit);
        let until = match gate.standing {
            Standing::Closed(left) => format!("for {} s more", left.as_secs() + 1),
            Standing::TrialDue | Standing::OnTrial | Standing::Open => "until a trial call succeeds".to_owned(),
        };
        (kind, format!("lane {lane} is closed {until} ({kind}, closure {} in a row); no call was made", gate.closures))
    }
}

fn told<T>(answer: Result<T, Fault>) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer),
        Err(Fault::Silent) => {
            tracing::warn!("The gates could not be reached in time; the run goes on without them.");
            None
        }
        Err(Fault::Refused(error)) if error.is_unreachable() => {
            tracing::debug!(%error, "The gates cannot be reached; the run goes on without them.");
            None
        }
        Err(Fault::Refused(error)) => {
            tracing::error!(%error, "The gates cannot be read or written; the run goes on without them.");
            None
        }
    }
}
