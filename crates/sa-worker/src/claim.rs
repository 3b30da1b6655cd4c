//! Claims jobs, each claim in a task of its own: a database that does not answer must not keep the worker from hearing
//! that it is to stop, and a claim that was dropped half-way could have been made without anybody knowing.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use sa_core::repo::{self, Claim, Claimer, Db};
use tokio::{
    sync::Mutex,
    task::JoinHandle,
    time::{sleep_until, timeout_at},
};

use crate::{
    crew::Station,
    options::Order,
    patience::{self, Fault, PATIENCE},
    pause::Pause,
};

/// How long a worker that ends looks for claims it was not told of.
pub(crate) const LAST_LOOK: Duration = Duration::from_secs(5);

/// A worker's claiming hand.
pub(crate) struct Hand {
    db: Db,
    claimer: Arc<Mutex<Claimer>>,
    under_way: Option<JoinHandle<Result<Vec<Claim>, repo::Error>>>,
    /// An instant before the first claim of those not answered well so far.
    asked: Option<Instant>,
}

/// Jobs that are ours to run.
pub(crate) struct Taken {
    pub(crate) claims: Vec<Claim>,
    /// An instant before they were claimed.
    pub(crate) since: Instant,
}

impl Hand {
    pub(crate) fn new(station: &Station, order: Order) -> Self {
        let claimer = Claimer::new(station.worker, station.providers.serves(), order.ceiling);
        let claimer = claimer.with_fair_every(order.fair_every);
        Self { db: station.db.clone(), claimer: Arc::new(Mutex::new(claimer)), under_way: None, asked: None }
    }

    /// Claims at most `want` jobs, or as many as an earlier call wanted whose answer comes now. Dropping this loses
    /// nothing: the next call goes on with it.
    pub(crate) async fn claim(&mut self, want: usize) -> Result<Taken, Fault> {
        if self.asked.is_some() {
            // Apart from new claims, because these are older: their last beat is as old as they are.
            let found = self.ask(0).await?;
            if !found.claims.is_empty() {
                return Ok(found);
            }
        }
        self.ask(want).await
    }

    /// Looks for claims whose answer is still out, for at most so long.
    pub(crate) async fn find_unanswered(&mut self, limit: Duration) -> Option<Taken> {
        let end = tokio::time::Instant::now() + limit;
        let mut pause = Pause::for_outage();
        while self.asked.is_some() {
            match timeout_at(end, self.ask(0)).await {
                Ok(Ok(found)) => return Some(found).filter(|found| !found.claims.is_empty()),
                Ok(Err(fault)) => tracing::debug!(%fault, "Unanswered claims could not be looked up."),
                Err(_) => {}
            }
            let next = tokio::time::Instant::now() + pause.take_spread();
            if next >= end {
                tracing::warn!("Claims may have been made that were not answered; the reaper takes such jobs back.");
                return None;
            }
            sleep_until(next).await;
        }
        None
    }

    async fn ask(&mut self, want: usize) -> Result<Taken, Fault> {
        let since = *self.asked.get_or_insert_with(Instant::now);
        let (db, claimer) = (&self.db, &self.claimer);
        let task = self.under_way.get_or_insert_with(|| {
            let (db, claimer) = (db.clone(), Arc::clone(claimer));
            tokio::spawn(async move { claimer.lock().await.claim(&db, want).await })
        });
        let answer = patience::answer(task, PATIENCE).await;
        if !matches!(answer, Err(Fault::Silent)) {
            self.under_way = None;
        }
        let claims = answer?;
        self.asked = None;
        Ok(Taken { claims, since })
    }
}
