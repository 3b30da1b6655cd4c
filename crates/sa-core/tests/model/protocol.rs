//! The protocol as a state machine of steps: who may do what, and what comes of it.

use sa_core::state::State;
use stateright::{Model, Property};

use crate::fault::Fault;
use crate::properties;
use crate::rules::judge;
use crate::verbs::finalize::{End, Ended, finalize, insert_answer};
use crate::verbs::{cancel, claim, heartbeat, reclaim, supersede};
use crate::world::{Beat, Caller, Guard, Left, MAX_ATTEMPTS, Phase, WORKERS, World};

/// The protocol with the guards it has, among so many disturbances.
#[derive(Clone, Debug)]
pub struct Protocol {
    faults: &'static [Fault],
    left: Left,
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
    Claim { worker: u8, job: usize },
    Beat { run: usize },
    Finish { run: usize, ended: Ended, ack: Ack },
    FinishAgain { run: usize, end: End },
    InsertAnswer { run: usize },
    Hang { run: usize },
    Crash { worker: u8 },
    FallSilent { job: usize },
    PassCeiling { job: usize },
    See { job: usize },
    Take,
    Cancel { job: usize },
    Retry { caller: usize, ack: Ack },
}

impl Action {
    /// The run that takes the step.
    pub const fn run(self) -> Option<usize> {
        match self {
            Self::Beat { run }
            | Self::Finish { run, .. }
            | Self::FinishAgain { run, .. }
            | Self::InsertAnswer { run }
            | Self::Hang { run } => Some(run),
            Self::Claim { .. }
            | Self::Crash { .. }
            | Self::FallSilent { .. }
            | Self::PassCeiling { .. }
            | Self::See { .. }
            | Self::Take
            | Self::Cancel { .. }
            | Self::Retry { .. } => None,
        }
    }
}

impl Protocol {
    /// sa-core's own.
    pub const fn sound(left: Left) -> Self {
        Self { faults: &[], left }
    }

    /// The same without these guards.
    pub const fn without(faults: &'static [Fault], left: Left) -> Self {
        Self { faults, left }
    }

    pub fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    /// `state = ?`, unless that is what is missing.
    pub fn guard(&self, missing: Fault) -> Guard {
        if self.has(missing) { Guard::Nothing } else { Guard::State }
    }

    /// Whether a beat may still come for this row: a run holds it, and is not past the ceiling.
    fn is_beaten_for(&self, world: &World, job: usize) -> bool {
        let counts = !world.jobs[job].over_ceiling || self.has(Fault::BeatPastTheCeiling);
        counts && world.runs.iter().any(|run| run.job == job && world.holds(run))
    }

    fn of_runs(&self, world: &World, actions: &mut Vec<Action>) {
        for (run, at) in world.runs.iter().enumerate() {
            actions.push(Action::Beat { run });
            match at.phase {
                Phase::Calling => {
                    if world.left.hangs > 0 {
                        actions.push(Action::Hang { run });
                    }
                    let outside = self.has(Fault::AnswerOutsideTheTransaction);
                    if outside {
                        actions.push(Action::InsertAnswer { run });
                    }
                    let ends = Ended::ALL.into_iter().filter(|&ended| !(outside && ended == Ended::Answered));
                    ends.for_each(|ended| finishes(world, run, ended, actions));
                }
                Phase::Inserted => finishes(world, run, Ended::Answered, actions),
                Phase::Unacknowledged(end) => actions.push(Action::FinishAgain { run, end }),
                Phase::Hung => {}
            }
        }
    }

    fn of_jobs(&self, world: &World, actions: &mut Vec<Action>) {
        for (job, row) in world.jobs.iter().enumerate() {
            actions.extend((0..WORKERS).map(|worker| Action::Claim { worker, job }));
            actions.push(Action::Cancel { job });
            if row.state != State::Running {
                continue;
            }
            actions.push(Action::See { job });
            if !row.over_ceiling {
                actions.push(Action::PassCeiling { job });
            }
            if row.beat == Beat::Fresh && (world.left.pauses > 0 || !self.is_beaten_for(world, job)) {
                actions.push(Action::FallSilent { job });
            }
        }
    }

    fn step(&self, world: &mut World, action: Action) -> bool {
        match action {
            Action::Claim { worker, job } => claim::claim(self, world, worker, job),
            Action::Beat { run } => heartbeat::beat(self, world, run),
            Action::Finish { run, ended, ack } => {
                world.left.lost_acks -= u8::from(ack == Ack::IsLost);
                let end = End::of(self, &world.runs[run], ended);
                finalize(self, world, run, end, ack)
            }
            Action::FinishAgain { run, end } => finalize(self, world, run, end, Ack::Arrives),
            Action::InsertAnswer { run } => insert_answer(self, world, run),
            Action::Hang { run } => {
                world.left.hangs -= 1;
                world.runs[run].phase = Phase::Hung;
                true
            }
            Action::Crash { worker } => {
                world.left.crashes -= 1;
                world.runs.retain(|run| run.worker != worker);
                true
            }
            Action::FallSilent { job } => {
                world.left.pauses -= u8::from(self.is_beaten_for(world, job));
                world.jobs[job].beat = Beat::Silent;
                true
            }
            Action::PassCeiling { job } => {
                world.jobs[job].over_ceiling = true;
                true
            }
            Action::See { job } => reclaim::see(world, job),
            Action::Take => reclaim::take(self, world),
            Action::Cancel { job } => cancel::cancel(self, world, job),
            Action::Retry { caller, ack } => {
                world.left.lost_acks -= u8::from(ack == Ack::IsLost);
                supersede::retry(self, world, caller, ack)
            }
        }
    }
}

/// The ways to end this run so, acknowledged or not.
fn finishes(world: &World, run: usize, ended: Ended, actions: &mut Vec<Action>) {
    actions.push(Action::Finish { run, ended, ack: Ack::Arrives });
    if world.left.lost_acks > 0 {
        actions.push(Action::Finish { run, ended, ack: Ack::IsLost });
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.left)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.of_jobs(world, actions);
        self.of_runs(world, actions);
        if world.left.crashes > 0 {
            let busy = |worker: &u8| world.runs.iter().any(|run| run.worker == *worker);
            actions.extend((0..WORKERS).filter(busy).map(|worker| Action::Crash { worker }));
        }
        actions.push(Action::Take);
        for caller in 0..world.callers.len() {
            actions.push(Action::Retry { caller, ack: Ack::Arrives });
            if world.left.lost_acks > 0 && world.callers[caller] != Caller::Unacknowledged {
                actions.push(Action::Retry { caller, ack: Ack::IsLost });
            }
        }
    }

    fn next_state(&self, before: &World, action: Action) -> Option<World> {
        let mut after = before.clone();
        if !self.step(&mut after, action) {
            return None;
        }
        after.runs.sort_unstable();
        let broken: Vec<_> = judge(before, action, &after).collect();
        after.broken.extend(broken);
        Some(after)
    }

    /// Only faults lead out of it: the sound protocol ends by itself, which the bound on runs is the property of.
    fn within_boundary(&self, world: &World) -> bool {
        let most_runs = MAX_ATTEMPTS + 2;
        world.jobs.iter().all(|job| u16::from(job.runs) <= most_runs) && world.jobs.len() <= 3
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}
