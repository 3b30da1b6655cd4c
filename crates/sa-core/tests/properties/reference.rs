//! What the repository promises, as a small program over a list: it knows no SQL and nothing of claims but their number.

use sa_core::state::State;

/// One job as the model has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub prompt: usize,
    pub state: State,
    pub attempt: u16,
    pub max_attempts: u16,
    pub releases: u8,
    pub revision: u32,
    pub priority: u8,
    pub error: Option<&'static str>,
    /// Whether it waits for a time that lies far ahead.
    pub waits: bool,
    /// Its place among the due ones of its priority.
    pub place: u64,
    /// The number of the claim that holds it, or held it last.
    pub claim: Option<u64>,
    pub successor: Option<usize>,
}

/// What a verb is to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It did what was asked.
    Done,
    /// The claim was lost; the job is in this state.
    Lost(State),
    /// This job stands in the way, in this state.
    Conflict(usize, State),
    /// It was cancelled from this state.
    Cancelled(State),
    /// This new job replaces it.
    Successor(usize),
    /// It waits no longer.
    BroughtForward,
}

/// How a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Succeed,
    /// Again, at once or far ahead.
    Again {
        at_once: bool,
    },
    Fail,
    Release,
}

#[derive(Clone, Debug, Default)]
pub struct Reference {
    pub jobs: Vec<Job>,
    moments: u64,
}

impl Reference {
    fn now(&mut self) -> u64 {
        self.moments += 1;
        self.moments
    }

    fn change(&mut self, job: usize, to: State) -> &mut Job {
        let job = &mut self.jobs[job];
        job.state = to;
        job.revision += 1;
        job
    }

    pub fn submit(&mut self, priority: u8, max_attempts: u16, waits: bool) {
        let place = self.now();
        let prompt = self.jobs.len();
        self.jobs.push(Job {
            prompt,
            state: State::Queued,
            attempt: 1,
            max_attempts,
            releases: 0,
            revision: 1,
            priority,
            error: None,
            waits,
            place,
            claim: None,
            successor: None,
        });
    }

    /// The jobs that a claim takes, in order; they now run under the claims of these numbers.
    pub fn claim(&mut self, want: usize, first_claim: u64) -> Vec<usize> {
        let mut due: Vec<_> =
            (0..self.jobs.len()).filter(|&n| self.jobs[n].state == State::Queued && !self.jobs[n].waits).collect();
        due.sort_by_key(|&n| (self.jobs[n].priority, self.jobs[n].place));
        due.truncate(want);
        for (&n, claim) in due.iter().zip(first_claim..) {
            let job = self.change(n, State::Running);
            (job.claim, job.error) = (Some(claim), None);
        }
        due
    }

    pub fn holds(&self, job: usize, claim: u64) -> bool {
        self.jobs[job].state == State::Running && self.jobs[job].claim == Some(claim)
    }

    pub fn end(&mut self, job: usize, claim: u64, end: End) -> Answer {
        if !self.holds(job, claim) {
            return Answer::Lost(self.jobs[job].state);
        }
        match end {
            End::Succeed => self.change(job, State::Succeeded).error = None,
            End::Fail => self.change(job, State::Failed).error = Some("auth"),
            End::Again { .. } if self.jobs[job].attempt == self.jobs[job].max_attempts => {
                self.change(job, State::Failed).error = Some("timeout");
            }
            End::Again { at_once } => {
                self.requeue(job, "timeout");
                self.jobs[job].waits = !at_once;
            }
            End::Release => {
                let job = self.change(job, State::Queued);
                job.releases += 1;
                (job.claim, job.error) = (None, None);
            }
        }
        Answer::Done
    }

    fn requeue(&mut self, job: usize, error: &'static str) {
        let place = self.now();
        let job = self.change(job, State::Queued);
        job.attempt += 1;
        (job.claim, job.error, job.place) = (None, Some(error), place);
    }

    pub fn cancel(&mut self, job: usize) -> Answer {
        let from = self.jobs[job].state;
        match from {
            State::Queued | State::Running => {
                self.change(job, State::Cancelled).error = None;
                Answer::Cancelled(from)
            }
            State::Cancelled => Answer::Cancelled(from),
            State::Succeeded | State::Failed => Answer::Conflict(job, from),
            State::Superseded => Answer::Conflict(self.jobs[job].successor.unwrap(), from),
        }
    }

    pub fn retry(&mut self, job: usize) -> Answer {
        match self.jobs[job].state {
            State::Superseded => Answer::Conflict(self.jobs[job].successor.unwrap(), State::Superseded),
            State::Running => Answer::Conflict(job, State::Running),
            State::Queued if !self.jobs[job].waits => Answer::Conflict(job, State::Queued),
            State::Queued => {
                let place = self.now();
                let job = self.change(job, State::Queued);
                (job.waits, job.place) = (false, place);
                Answer::BroughtForward
            }
            State::Succeeded | State::Failed | State::Cancelled => {
                let (successor, place) = (self.jobs.len(), self.now());
                let old = self.change(job, State::Superseded);
                old.successor = Some(successor);
                let new =
                    Job { state: State::Queued, attempt: 1, releases: 0, revision: old.revision + 1, ..old.clone() };
                self.jobs.push(Job { error: None, waits: false, place, claim: None, successor: None, ..new });
                Answer::Successor(successor)
            }
        }
    }

    /// The worker of a running job fell silent. Answers the state it is taken to.
    pub fn reclaim(&mut self, job: usize, ran_too_long: bool) -> State {
        if ran_too_long || self.jobs[job].attempt == self.jobs[job].max_attempts {
            self.change(job, State::Failed).error = Some("stuck");
        } else {
            self.requeue(job, "worker_crash");
            self.jobs[job].waits = false;
        }
        self.jobs[job].state
    }
}
