//! Why the protocol ends: every step raises a rank that is bounded. So no order of steps goes round in a circle, and a job
//! that always has a step left settles.

use sa_core::state::State;

use crate::protocol::Protocol;
use crate::world::{Beat, Caller, Sighting, World};

/// Compared from left to right: a step may lower what stands to the right of what it raises.
pub type Rank = [usize; 9];

/// How far the world has come.
pub fn rank(protocol: &Protocol, world: &World) -> Rank {
    let count = |holds: &dyn Fn(usize) -> bool| (0..world.jobs.len()).filter(|&job| holds(job)).count();
    let stale = world.seen.iter().filter(|seen| !still_true(world, seen)).count();
    [
        // A claim; attempts and releases bound their number.
        world.jobs.iter().map(|job| usize::from(job.runs)).sum(),
        // A change of state that is not a claim.
        world.jobs.iter().map(|job| standing(job.state)).sum(),
        // A trouble.
        usize::from(u8::MAX - world.troubles),
        // The 15 minutes of a run are over.
        count(&|job| world.jobs[job].over_ceiling),
        // A run ends that had lost its claim.
        usize::MAX - world.runs.len(),
        // A beat comes that can come, or is missed for good.
        count(&|job| (world.jobs[job].beat == Beat::Fresh) == protocol.is_beaten_for(world, job)),
        // A reaper finds that what it saw is over.
        usize::MAX - stale,
        // A reaper sees what is so.
        world.seen.len() - stale,
        // A caller is told.
        world.callers.iter().map(|&caller| knowing(caller)).sum(),
    ]
}

const fn standing(state: State) -> usize {
    match state {
        State::Running => 0,
        State::Queued => 1,
        State::Succeeded | State::Failed | State::Cancelled => 2,
        State::Superseded => 3,
    }
}

const fn knowing(caller: Caller) -> usize {
    match caller {
        Caller::Asks => 0,
        Caller::Read(_) => 1,
        Caller::Unacknowledged => 2,
        Caller::Won | Caller::Told => 3,
    }
}

/// Whether the reaper would take what it saw.
fn still_true(world: &World, seen: &Sighting) -> bool {
    let row = &world.jobs[seen.job];
    row.state == State::Running && row.claim == seen.claim && row.attempt == seen.attempt && row.beat == Beat::Silent
}
