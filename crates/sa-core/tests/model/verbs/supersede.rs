//! Run the prompt again: a new job that replaces the first.

use sa_core::state::{State, Transition};

use crate::fault::Fault;
use crate::protocol::{Ack, Protocol};
use crate::world::{Caller, Job, World};

/// The job both callers retry.
pub const RETRIED: usize = 0;

/// A caller's retry. Reading, replacing and inserting happen under one row lock.
pub fn retry(protocol: &Protocol, world: &mut World, caller: usize, ack: Ack) -> bool {
    let found = match world.callers[caller] {
        Caller::Asks if protocol.has(Fault::RetryTrustsItsRead) => return read(world, caller),
        Caller::Asks | Caller::Unacknowledged => world.jobs[RETRIED].state,
        Caller::Read(found) => found,
        Caller::Won | Caller::Told => return false,
    };
    let Some(edge) = Transition::supersession_of(found) else {
        // Queued or running: refused, and the caller is free to ask again.
        return found == State::Superseded && tell(protocol, world, caller);
    };
    let mut replaced = world.clone();
    if !replaced.jobs[RETRIED].take(edge, protocol.guard(Fault::RetryTrustsItsRead)) {
        return false;
    }
    replaced.jobs.push(Job::successor(RETRIED, caller));
    if !replaced.keys_hold() && !protocol.has(Fault::NoUniqueKeys) {
        return tell(protocol, world, caller);
    }
    replaced.callers[caller] = match ack {
        Ack::Arrives => Caller::Won,
        Ack::IsLost => Caller::Unacknowledged,
    };
    *world = replaced;
    true
}

/// Reads the row without a lock.
fn read(world: &mut World, caller: usize) -> bool {
    let found = world.jobs[RETRIED].state;
    if Transition::supersession_of(found).is_none() {
        return false;
    }
    world.callers[caller] = Caller::Read(found);
    true
}

/// A successor is there: the caller's own, if an acknowledgement was lost, or the other's.
fn tell(protocol: &Protocol, world: &mut World, caller: usize) -> bool {
    let ours = world.successors(RETRIED).any(|row| row.author == Some(caller));
    let ours = ours && !protocol.has(Fault::RetryForgetsItsOwn);
    world.callers[caller] = if ours { Caller::Won } else { Caller::Told };
    true
}

/// What a caller was told is what happened.
pub fn told_the_truth(world: &World) -> bool {
    world.callers.iter().enumerate().all(|(caller, told)| {
        let ours = world.successors(RETRIED).any(|row| row.author == Some(caller));
        match told {
            Caller::Asks | Caller::Read(_) => !ours,
            Caller::Unacknowledged | Caller::Won => ours,
            Caller::Told => !ours && world.successors(RETRIED).count() == 1,
        }
    })
}
