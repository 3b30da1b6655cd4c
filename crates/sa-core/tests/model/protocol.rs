//! The protocol as a state machine of steps: who may do what, and what comes of it.

use sa_core::state::State;
use stateright::{Model, Property};

use crate::fault::Fault;
use crate::properties;
use crate::rules::judge;
use crate::verbs::finalize::{End, finalize, insert_answer};
use crate::verbs::supersede::RETRIED;
use crate::verbs::{cancel, claim, heartbeat, reclaim, supersede};
use crate::world::{Beat, Caller, Guard, MAX_ATTEMPTS, Phase, REAPERS, WORKERS, World};

/// The protocol with the guards it has, among so many troubles.
#[derive(Clone, Debug)]
pub struct Protocol {
    faults: &'static [Fault],
    troubles: u8,
}

/// Whether the answer to a COMMIT that was carried out arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ack {
    Arrives,
    IsLost,
}

/// One step. Runs are named by their place in [`World::runs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Claim {
        worker: u8,
        job: usize,
    },
    Beat {
        run: usize,
    },
    Finish {
        run: usize,
        end: End,
        ack: Ack,
    },
    /// The fault that writes an answer ahead of its end.
    InsertAnswer {
        run: usize,
    },
    Hang {
        run: usize,
    },
    Crash {
        worker: u8,
    },
    FallSilent {
        job: usize,
    },
    PassCeiling {
        job: usize,
    },
    /// A reaper's SELECT.
    See {
        job: usize,
    },
    /// Its UPDATE.
    Take {
        sighting: usize,
    },
    Cancel {
        job: usize,
    },
    Retry {
        caller: usize,
        ack: Ack,
    },
}

impl Action {
    /// The run that takes the step.
    pub const fn run(self) -> Option<usize> {
        match self {
            Self::Beat { run } | Self::Finish { run, .. } | Self::InsertAnswer { run } | Self::Hang { run } => {
                Some(run)
            }
            Self::Claim { .. }
            | Self::Crash { .. }
            | Self::FallSilent { .. }
            | Self::PassCeiling { .. }
            | Self::See { .. }
            | Self::Take { .. }
            | Self::Cancel { .. }
            | Self::Retry { .. } => None,
        }
    }
}

impl Protocol {
    /// sa-core's own.
    pub const fn sound(troubles: u8) -> Self {
        Self { faults: &[], troubles }
    }

    /// The same without these guards.
    pub const fn without(faults: &'static [Fault], troubles: u8) -> Self {
        Self { faults, troubles }
    }

    pub fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    /// `state = ?`, unless that is what is missing.
    pub fn guard(&self, missing: Fault) -> Guard {
        if self.has(missing) { Guard::Nothing } else { Guard::State }
    }

    /// Whether a beat may still come for this row: a run holds it, and is not past the ceiling.
    pub fn is_beaten_for(&self, world: &World, job: usize) -> bool {
        let counts = !world.jobs[job].over_ceiling || self.has(Fault::BeatPastTheCeiling);
        counts && world.runs.iter().any(|run| run.job == job && world.holds(run))
    }

    /// Time is let pass only where it matters: a run that beats and ends is the same run a minute later.
    fn is_held_by_the_hung(&self, world: &World, job: usize) -> bool {
        world.runs.iter().any(|run| run.job == job && run.phase == Phase::Hung && world.holds(run))
    }

    fn of_runs(&self, world: &World, actions: &mut Vec<Action>) {
        for (run, at) in world.runs.iter().enumerate() {
            if world.jobs[at.job].beat == Beat::Silent || !world.holds(at) {
                actions.push(Action::Beat { run });
            }
            match at.phase {
                Phase::Calling => {
                    if world.troubles > 0 {
                        actions.push(Action::Hang { run });
                    }
                    let mut ends = End::possible(self, at);
                    if self.has(Fault::AnswerOutsideTheTransaction) {
                        ends.remove(&End::Succeed);
                        actions.push(Action::InsertAnswer { run });
                    }
                    ends.into_iter().for_each(|end| finishes(world, run, end, actions));
                }
                Phase::Inserted => finishes(world, run, End::Succeed, actions),
                Phase::Unacknowledged(end) => actions.push(Action::Finish { run, end, ack: Ack::Arrives }),
                Phase::Hung => {}
            }
        }
    }

    fn of_jobs(&self, world: &World, actions: &mut Vec<Action>) {
        for (job, row) in world.jobs.iter().enumerate() {
            if row.state == State::Queued || self.has(Fault::UnguardedClaim) {
                actions.extend((0..WORKERS).map(|worker| Action::Claim { worker, job }));
            }
            if !row.state.is_terminal() || self.has(Fault::UnfencedCancel) {
                actions.push(Action::Cancel { job });
            }
            if row.state != State::Running {
                continue;
            }
            if row.beat == Beat::Silent && world.seen.len() < REAPERS {
                actions.push(Action::See { job });
            }
            if !row.over_ceiling && (row.beat == Beat::Silent || self.is_held_by_the_hung(world, job)) {
                actions.push(Action::PassCeiling { job });
            }
            if row.beat == Beat::Fresh && (world.troubles > 0 || !self.is_beaten_for(world, job)) {
                actions.push(Action::FallSilent { job });
            }
        }
    }

    /// The world after this step, or nothing if it changed nothing: a guard missed, or a unique key was in the way.
    pub fn after(&self, before: &World, action: Action) -> Option<World> {
        let mut after = before.clone();
        let changed = self.step(&mut after, action);
        (changed && (after.keys_hold() || self.has(Fault::NoUniqueKeys))).then_some(after)
    }

    fn step(&self, world: &mut World, action: Action) -> bool {
        match action {
            Action::Claim { worker, job } => claim::claim(self, world, worker, job),
            Action::Beat { run } => heartbeat::beat(self, world, run),
            Action::Finish { run, end, ack } => {
                world.troubles -= u8::from(ack == Ack::IsLost);
                finalize(self, world, run, end, ack)
            }
            Action::InsertAnswer { run } => insert_answer(self, world, run),
            Action::Hang { run } => {
                world.troubles -= 1;
                world.runs[run].phase = Phase::Hung;
                true
            }
            Action::Crash { worker } => {
                world.troubles -= 1;
                world.runs.retain(|run| run.worker != worker);
                true
            }
            Action::FallSilent { job } => {
                world.troubles -= u8::from(self.is_beaten_for(world, job));
                world.jobs[job].beat = Beat::Silent;
                true
            }
            Action::PassCeiling { job } => {
                world.jobs[job].over_ceiling = true;
                true
            }
            Action::See { job } => reclaim::see(world, job),
            Action::Take { sighting } => reclaim::take(self, world, sighting),
            Action::Cancel { job } => cancel::cancel(self, world, job),
            Action::Retry { caller, ack } => {
                world.troubles -= u8::from(ack == Ack::IsLost);
                supersede::retry(self, world, caller, ack)
            }
        }
    }
}

/// The ways to end this run so, acknowledged or not.
fn finishes(world: &World, run: usize, end: End, actions: &mut Vec<Action>) {
    actions.push(Action::Finish { run, end, ack: Ack::Arrives });
    if world.troubles > 0 {
        actions.push(Action::Finish { run, end, ack: Ack::IsLost });
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.troubles)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.of_jobs(world, actions);
        self.of_runs(world, actions);
        if world.troubles > 0 {
            let busy = |worker: &u8| world.runs.iter().any(|run| run.worker == *worker);
            actions.extend((0..WORKERS).filter(busy).map(|worker| Action::Crash { worker }));
        }
        actions.extend((0..world.seen.len()).map(|sighting| Action::Take { sighting }));
        let found = world.jobs[RETRIED].state;
        let asking = |&caller: &usize| !matches!(world.callers[caller], Caller::Won | Caller::Told);
        for caller in (0..world.callers.len()).filter(|_| found.is_terminal()).filter(asking) {
            actions.push(Action::Retry { caller, ack: Ack::Arrives });
            if world.troubles > 0 && found != State::Superseded {
                actions.push(Action::Retry { caller, ack: Ack::IsLost });
            }
        }
    }

    fn next_state(&self, before: &World, action: Action) -> Option<World> {
        let mut after = self.after(before, action)?;
        let broken = judge(self, before, action, &after);
        after.broken.extend(broken);
        Some(after.canonical())
    }

    /// Cuts off what only faults reach. The sound protocol ends by itself: its runs are bounded by a rule, not by this.
    fn within_boundary(&self, world: &World) -> bool {
        let most_runs = MAX_ATTEMPTS + 2;
        world.jobs.iter().all(|job| u16::from(job.runs) <= most_runs) && world.jobs.len() <= 3
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}
