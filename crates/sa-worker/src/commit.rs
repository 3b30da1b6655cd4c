//! The committer: one task that writes the ends of all runs, many in one transaction.
//!
//! It keeps what it cannot write: an answer that was paid for outlives an outage of the database, until the ceiling of its
//! run. Whether it still counts is decided by the fence, not by a clock here.

use std::time::Duration;

use sa_core::{
    repo::{self, Db, Finish, Outcome},
    retry::CEILING,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::{Instant, sleep_until, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::pause::Pause;

/// The most ends in one transaction, in number and in bytes of text: sixteen prompts of 1 MiB would fill a packet.
const LARGEST_BATCH: usize = 64;
const LARGEST_TEXT: usize = 4 * 1024 * 1024;
/// How long to wait for company while ends come in quick succession. A lone one is written at once.
const GATHER: Duration = Duration::from_millis(2);

/// How an end was written, or why it was given up.
pub(crate) type Settled = Result<Outcome, repo::Error>;

/// Where runs hand in their ends. Clones lead to the same committer.
#[derive(Clone)]
pub(crate) struct Desk {
    queue: mpsc::Sender<Pending>,
}

/// The committer's task.
pub(crate) struct Committer {
    desk: Desk,
    last_call: CancellationToken,
    task: JoinHandle<()>,
}

struct Pending {
    finish: Finish,
    ticket: Ticket,
}

struct Ticket {
    due: Instant,
    give_up: Instant,
    pause: Pause,
    reply: oneshot::Sender<Settled>,
}

impl Desk {
    /// Writes this end of a run that was claimed at `claimed`. Waits until that is done.
    pub(crate) async fn commit(&self, finish: Finish, claimed: Instant) -> Settled {
        let (reply, settled) = oneshot::channel();
        let ticket = Ticket { due: Instant::now(), give_up: claimed + CEILING, pause: Pause::for_outage(), reply };
        let handed_in = self.queue.send(Pending { finish, ticket }).await.is_ok();
        assert!(handed_in, "the committer lives as long as a desk does");
        settled.await.expect("the committer answers every ticket before it drops it")
    }
}

impl Committer {
    pub(crate) fn start(db: Db) -> Self {
        let (queue, arrivals) = mpsc::channel(LARGEST_BATCH);
        let last_call = CancellationToken::new();
        let work = Work { db, arrivals, backlog: Vec::new(), last_call: last_call.clone(), busy: false, away: false };
        Self { desk: Desk { queue }, last_call, task: tokio::spawn(work.run()) }
    }

    pub(crate) fn desk(&self) -> Desk {
        self.desk.clone()
    }

    /// From now on each end is tried once more and then given up.
    pub(crate) fn last_call(&self) {
        self.last_call.cancel();
    }

    /// Ends the task, once all other desks are gone and all is written.
    pub(crate) async fn close(self) {
        drop(self.desk);
        // Only a panic ends the task early, and that is on the log already.
        let _ = self.task.await;
    }
}

struct Work {
    db: Db,
    arrivals: mpsc::Receiver<Pending>,
    backlog: Vec<Pending>,
    last_call: CancellationToken,
    /// Whether the last transaction held more than one end.
    busy: bool,
    /// Whether the last transaction failed.
    away: bool,
}

impl Work {
    async fn run(mut self) {
        while self.wait().await {
            self.gather().await;
            let batch = self.take_due();
            if !batch.is_empty() {
                self.busy = batch.len() > 1;
                self.write(batch).await;
            }
        }
    }

    /// Waits for something to write; false when nothing will come any more.
    async fn wait(&mut self) -> bool {
        if self.backlog.is_empty() {
            let arrival = self.arrivals.recv().await;
            let open = arrival.is_some();
            self.backlog.extend(arrival);
            return open;
        }
        let soonest = self.backlog.iter().map(|pending| pending.ticket.due).min();
        let pause = async {
            match soonest {
                Some(due) if !self.last_call.is_cancelled() => {
                    tokio::select! { () = sleep_until(due) => {}, () = self.last_call.cancelled() => {} }
                }
                Some(_) | None => {}
            }
        };
        tokio::select! {
            () = pause => {}
            Some(arrival) = self.arrivals.recv() => self.backlog.push(arrival),
        }
        true
    }

    /// Adds what is there already, and under load what comes in the next moment.
    async fn gather(&mut self) {
        let until = Instant::now() + GATHER;
        let mut bytes = 0;
        while self.backlog.len() < LARGEST_BATCH && bytes < LARGEST_TEXT {
            let arrival = match self.arrivals.try_recv() {
                Ok(arrival) => Some(arrival),
                Err(_) if self.busy => timeout_at(until, self.arrivals.recv()).await.ok().flatten(),
                Err(_) => None,
            };
            let Some(arrival) = arrival else { break };
            bytes += arrival.finish.text_len();
            self.backlog.push(arrival);
        }
    }

    /// The ends whose time has come, as many as fit into one transaction.
    fn take_due(&mut self) -> Vec<Pending> {
        let (now, last_call) = (Instant::now(), self.last_call.is_cancelled());
        let (mut number, mut bytes) = (0, 0);
        let fits = |pending: &mut Pending| {
            let due = last_call || pending.ticket.due <= now;
            let fits =
                due && number < LARGEST_BATCH && (number == 0 || bytes + pending.finish.text_len() <= LARGEST_TEXT);
            if fits {
                number += 1;
                bytes += pending.finish.text_len();
            }
            fits
        };
        self.backlog.extract_if(.., fits).collect()
    }

    async fn write(&mut self, batch: Vec<Pending>) {
        let (finishes, tickets): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|pending| (pending.finish, pending.ticket)).unzip();
        let results = repo::finalize(&self.db, finishes).await;
        let mut failed = false;
        for (result, ticket) in results.into_iter().zip(tickets) {
            match result {
                // A run that no longer waits has nothing to do with the answer.
                Ok(outcome) => drop(ticket.reply.send(Ok(outcome))),
                Err((error, finish)) => {
                    failed = true;
                    self.keep_or_give_up(error, finish, ticket);
                }
            }
        }
        if self.away && !failed {
            tracing::info!("Ends of runs can be written again.");
        }
        self.away = failed;
    }

    fn keep_or_give_up(&mut self, error: repo::Error, finish: Finish, mut ticket: Ticket) {
        let curable = match &error {
            repo::Error::Database(_) => true,
            // The job is gone, or no such end is allowed: that will not change.
            repo::Error::Corrupt { .. } | repo::Error::NotFound | repo::Error::Conflict { .. } => false,
        };
        if !curable || self.last_call.is_cancelled() || Instant::now() >= ticket.give_up {
            drop(ticket.reply.send(Err(error)));
            return;
        }
        if !self.away {
            tracing::warn!(%error, "The end of a run could not be written; it is kept and tried again.");
            self.away = true;
        }
        ticket.due = Instant::now() + ticket.pause.take_spread();
        self.backlog.push(Pending { finish, ticket });
    }
}
