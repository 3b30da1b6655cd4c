//! What a step starts from: the rows, the runs, the reaper's memory, the callers, and how much may still go wrong.

use std::collections::BTreeSet;

use sa_core::retry::MAX_RELEASES;
use sa_core::state::{State, Transition};

use crate::rules::Rule;
use crate::verbs::finalize::End;

/// How many attempts each job has. With two there is one that repeats and one that is the last.
pub const MAX_ATTEMPTS: u16 = 2;

/// Workers. Two are needed for a zombie beside the holder; a third could only repeat what the second does.
pub const WORKERS: u8 = 2;

/// Reapers. Any number may run; what two can do to each other, more can.
pub const REAPERS: usize = 2;

/// One instant of the whole system.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// The rows of `sa_job`: one prompt's first job and, once it was retried, its successors.
    pub jobs: Vec<Job>,
    /// What workers have in hand, in order, so that the same runs are the same world. A zombie is a run as any other.
    pub runs: Vec<Run>,
    /// What reapers saw and have not acted upon yet, in order.
    pub seen: Vec<Sighting>,
    /// Two people who retry the first job at once.
    pub callers: [Caller; 2],
    /// How many more things may go wrong: a worker dies with all its runs and starts again, or a worker that could beat
    /// does not for longer than the stale limit and runs on, or a call never ends, or a COMMIT is carried out and not
    /// acknowledged.
    pub troubles: u8,
    /// Rules that a step has broken: see [`crate::rules::judge`].
    pub broken: BTreeSet<Rule>,
}

/// A row, and what a spectator knows of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Job {
    pub state: State,
    pub attempt: u16,
    pub releases: u8,
    /// `worker_claim`
    pub claim: Option<Token>,
    /// `running_heartbeat_at`, as the reaper judges it.
    pub beat: Beat,
    /// `started_at` is 15 minutes ago or more.
    pub over_ceiling: bool,
    /// `response_id` is set.
    pub response: bool,
    pub supersedes: Option<usize>,
    /// Spectator: runs started so far. The number of the latest is the truth that a claim id stands for.
    pub runs: u8,
    /// Spectator: which runs inserted a settled response entity.
    pub answers: Vec<u8>,
    /// Spectator: somebody was told that it is cancelled.
    pub cancelled: bool,
    /// Spectator: which caller's retry inserted it.
    pub author: Option<usize>,
}

/// Whether a `WHERE` says `state = ?`. Only faults leave it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    State,
    Nothing,
}

impl Job {
    /// The releases a job begins with: the first has all but one behind it and the successor all of them, since the others
    /// would make paths longer and show nothing new.
    pub const fn releases_before(supersedes: Option<usize>) -> u8 {
        match supersedes {
            None => MAX_RELEASES - 1,
            Some(_) => MAX_RELEASES,
        }
    }

    fn queued() -> Self {
        Self {
            state: State::Queued,
            attempt: 1,
            releases: Self::releases_before(None),
            claim: None,
            beat: Beat::Fresh,
            over_ceiling: false,
            response: false,
            supersedes: None,
            runs: 0,
            answers: Vec::new(),
            cancelled: false,
            author: None,
        }
    }

    /// The row that a caller's retry of `supersedes` inserts.
    pub fn successor(supersedes: usize, author: usize) -> Self {
        let supersedes = Some(supersedes);
        Self { releases: Self::releases_before(supersedes), supersedes, author: Some(author), ..Self::queued() }
    }

    /// The only way a row's state changes: along an edge of sa-core, from where it begins. Answers whether the row was met.
    pub fn take(&mut self, edge: Transition, guard: Guard) -> bool {
        if guard == Guard::State && self.state != edge.from() {
            return false;
        }
        self.state = edge.to();
        self.beat = Beat::Fresh;
        self.over_ceiling = false;
        if self.state == State::Queued {
            self.claim = None;
        }
        true
    }
}

/// A claim id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Token {
    /// Fresh for each claim of the job.
    OfClaim(u8),
    /// The same for all claims of a worker: a fault.
    OfWorker(u8),
}

impl Token {
    fn of_the_other_worker(self) -> Self {
        match self {
            Self::OfClaim(_) => self,
            Self::OfWorker(worker) => Self::OfWorker(WORKERS - 1 - worker),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Beat {
    Fresh,
    Silent,
}

/// One execution of a job by a worker, with what its claim remembers of the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Run {
    pub job: usize,
    /// Spectator: which of the job's runs it is.
    pub number: u8,
    pub worker: u8,
    pub token: Token,
    pub attempt: u16,
    pub releases: u8,
    pub phase: Phase,
}

impl Run {
    fn of_the_other_worker(self) -> Self {
        Self { worker: WORKERS - 1 - self.worker, token: self.token.of_the_other_worker(), ..self }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// The provider is asked, or has answered and the end is not yet written: nobody outside can tell these apart.
    Calling,
    /// The provider never answers and no time-out ends it: a worker with a bug.
    Hung,
    /// The end was committed, and the acknowledgement lost: the worker will try again.
    Unacknowledged(End),
    /// The response entity was inserted by itself, before the end is written: a fault.
    Inserted,
}

/// A silent run as the reaper's SELECT showed it. The row may have moved on since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sighting {
    pub job: usize,
    pub claim: Option<Token>,
    pub attempt: u16,
    pub over_ceiling: bool,
}

/// How far a caller got with the retry of the first job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Caller {
    Asks,
    /// Read the row some time ago and is about to write: a fault, since the real one holds a lock in between.
    Read(State),
    /// The retry was committed, and the acknowledgement lost: asks again.
    Unacknowledged,
    Won,
    /// Told that somebody else's successor is there.
    Told,
}

impl World {
    /// One prompt, queued.
    pub fn new(troubles: u8) -> Self {
        Self {
            jobs: vec![Job::queued()],
            runs: Vec::new(),
            seen: Vec::new(),
            callers: [Caller::Asks; 2],
            troubles,
            broken: BTreeSet::new(),
        }
    }

    /// Whether this is the run that the job's row stands for.
    pub fn holds(&self, run: &Run) -> bool {
        let row = &self.jobs[run.job];
        row.state == State::Running && row.runs == run.number
    }

    /// The same world with like things in one order: workers and callers are numbered, and their numbers mean nothing.
    pub fn canonical(mut self) -> Self {
        if self.callers[0] > self.callers[1] {
            self.callers.swap(0, 1);
            for row in &mut self.jobs {
                row.author = row.author.map(|caller| 1 - caller);
            }
        }
        self.seen.sort_unstable();
        self.runs.sort_unstable();
        let mut swapped: Vec<Run> = self.runs.iter().map(|&run| run.of_the_other_worker()).collect();
        swapped.sort_unstable();
        if swapped < self.runs {
            self.runs = swapped;
            for row in &mut self.jobs {
                row.claim = row.claim.map(Token::of_the_other_worker);
            }
            for seen in &mut self.seen {
                seen.claim = seen.claim.map(Token::of_the_other_worker);
            }
            self.seen.sort_unstable();
        }
        self
    }

    /// Who supersedes this job.
    pub fn successors(&self, job: usize) -> impl Iterator<Item = &Job> {
        self.jobs.iter().filter(move |row| row.supersedes == Some(job))
    }

    /// `UNIQUE (supersedes)`, `UNIQUE (prompt_id, in_flight)`, and the response id that is derived from the job's: a
    /// transaction that would break one is rolled back.
    pub fn keys_hold(&self) -> bool {
        (0..self.jobs.len()).all(|job| self.successors(job).count() <= 1)
            && self.jobs.iter().filter(|row| !row.state.is_terminal()).count() <= 1
            && self.jobs.iter().all(|row| row.answers.len() <= 1)
    }
}
