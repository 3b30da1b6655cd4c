//! The committer: one task that writes the ends of all runs, many in one transaction.
//!
//! It keeps what it cannot write: an answer that was paid for outlives an outage of the database, until the ceiling of its
//! run. Whether it still counts is decided by the fence, not by a clock here. Each transaction runs in a task of its own,
//! so that one that is never answered holds up neither the others nor the end of the process.

use std::time::Duration;

use sa_core::{
    repo::{self, Db, Finish, Outcome},
    retry::CEILING,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::{JoinError, JoinHandle, JoinSet},
    time::{Instant, sleep_until, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{
    patience::{Fault, PATIENCE, panicked},
    pause::Pause,
};

/// The most ends in one transaction, in number and in bytes of text: sixteen prompts of 1 MiB would fill a packet.
const LARGEST_BATCH: usize = 64;
const LARGEST_TEXT: usize = 4 * 1024 * 1024;
/// How long to wait for company while ends come in quick succession. A lone one is written at once.
const GATHER: Duration = Duration::from_millis(2);

/// How an end was written, or why it was given up.
pub(crate) type Settled = Result<Outcome, Fault>;

/// What a transaction came to, with the tickets of its ends.
type Round = (Vec<Result<Outcome, (repo::Error, Finish)>>, Vec<Ticket>);

/// Where runs hand in their ends. Clones lead to the same committer.
#[derive(Clone)]
pub(crate) struct Desk {
    queue: mpsc::Sender<Pending>,
}

/// The committer's task.
pub(crate) struct Committer {
    desk: Desk,
    last_call: CancellationToken,
    over: CancellationToken,
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
    /// Writes this end of a run that was claimed at `claimed`. Waits until that is done or given up.
    pub(crate) async fn commit(&self, finish: Finish, claimed: Instant) -> Settled {
        let (reply, settled) = oneshot::channel();
        let ticket = Ticket { due: Instant::now(), give_up: claimed + CEILING, pause: Pause::for_outage(), reply };
        // A committer that is gone has dropped the ticket, which is answer enough.
        let _ = self.queue.send(Pending { finish, ticket }).await;
        settled.await.unwrap_or(Err(Fault::Silent))
    }
}

impl Committer {
    /// Starts the task; `ended` is cancelled when it ends, also by a panic.
    pub(crate) fn start(db: Db, ended: CancellationToken) -> Self {
        let (queue, arrivals) = mpsc::channel(LARGEST_BATCH);
        let (last_call, over) = (CancellationToken::new(), CancellationToken::new());
        let mut work = Work {
            db,
            arrivals,
            backlog: Vec::new(),
            writing: JoinSet::new(),
            last_call: last_call.clone(),
            busy: false,
            away: false,
        };
        let gone = over.clone();
        let task = tokio::spawn(async move {
            let _ended = ended.drop_guard();
            tokio::select! { biased; () = gone.cancelled() => {}, () = work.run() => {} }
        });
        Self { desk: Desk { queue }, last_call, over, task }
    }

    pub(crate) fn desk(&self) -> Desk {
        self.desk.clone()
    }

    /// From now on each end is tried once more and then given up.
    pub(crate) fn last_call(&self) {
        self.last_call.cancel();
    }

    /// From now on nothing is waited for any more: what is not written is given up.
    pub(crate) fn give_up(&self) {
        self.over.cancel();
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
    /// The transactions under way: one, and those that are no longer waited for.
    writing: JoinSet<Round>,
    last_call: CancellationToken,
    /// Whether the last transaction held more than one end.
    busy: bool,
    /// Whether the last transaction failed.
    away: bool,
}

impl Work {
    async fn run(&mut self) {
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
            return self.wait_for_arrival().await;
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
            Some(round) = self.writing.join_next() => self.settle(round),
        }
        true
    }

    async fn wait_for_arrival(&mut self) -> bool {
        let arrival = tokio::select! {
            Some(round) = self.writing.join_next() => {
                self.settle(round);
                return true;
            }
            arrival = self.arrivals.recv() => arrival,
        };
        let open = arrival.is_some();
        self.backlog.extend(arrival);
        if !open && let Some(round) = self.writing.join_next().await {
            self.settle(round);
            return true;
        }
        open
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

    /// Writes this batch. One that is not answered in time is put aside: its ends are in its task, and come out of it.
    async fn write(&mut self, batch: Vec<Pending>) {
        let db = self.db.clone();
        let others = self.writing.len();
        self.writing.spawn(async move {
            let (finishes, tickets): (Vec<_>, Vec<_>) =
                batch.into_iter().map(|pending| (pending.finish, pending.ticket)).unzip();
            (repo::finalize(&db, finishes).await, tickets)
        });
        let end = Instant::now() + PATIENCE;
        while self.writing.len() > others {
            match timeout_at(end, self.writing.join_next()).await {
                Ok(Some(round)) => self.settle(round),
                Ok(None) => break,
                Err(_) => {
                    tracing::warn!(
                        waiting = self.writing.len(),
                        "The database has not answered a commit so far; other ends do not wait for that."
                    );
                    break;
                }
            }
        }
    }

    fn settle(&mut self, round: Result<Round, JoinError>) {
        let (results, tickets) = round.unwrap_or_else(|error| panicked(error));
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
            drop(ticket.reply.send(Err(Fault::Refused(error))));
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
