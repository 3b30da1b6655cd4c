//! Take back what silent workers hold.

use std::time::Duration;

use sa_core::retry::{CEILING, ReclaimVerdict, reclaim_verdict};
use sa_core::state::{State, Transition};

use crate::fault::Fault;
use crate::protocol::Protocol;
use crate::world::{Beat, MAX_ATTEMPTS, REAPERS, Sighting, World};

/// A reaper's SELECT. It may be the second that sees the same.
pub fn see(world: &mut World, job: usize) -> bool {
    let row = &world.jobs[job];
    if world.seen.len() == REAPERS || row.state != State::Running || row.beat == Beat::Fresh {
        return false;
    }
    world.seen.push(Sighting { job, claim: row.claim, attempt: row.attempt, over_ceiling: row.over_ceiling });
    true
}

/// Its UPDATE, some time later. It decides by what it saw and writes only if that is still so; either way it is done with
/// this sighting.
pub fn take(protocol: &Protocol, world: &mut World, sighting: usize) -> bool {
    let seen = world.seen.remove(sighting);
    let row = &mut world.jobs[seen.job];
    let silent = row.beat == Beat::Silent || protocol.has(Fault::ReclaimIgnoresBeat);
    let still_so = row.state == State::Running && row.claim == seen.claim && row.attempt == seen.attempt && silent;
    if !still_so && !protocol.has(Fault::ReaperTrustsItsSelect) {
        return true;
    }
    let running_for = if seen.over_ceiling { CEILING } else { Duration::ZERO };
    let guard = protocol.guard(Fault::ReaperTrustsItsSelect);
    match reclaim_verdict(seen.attempt, MAX_ATTEMPTS, running_for) {
        ReclaimVerdict::Requeue => {
            let met = row.take(Transition::REQUEUE, guard);
            row.attempt += u16::from(met && !protocol.has(Fault::ReclaimSpendsNoAttempt));
        }
        ReclaimVerdict::Stuck(_) => {
            row.take(Transition::FAIL, guard);
        }
    }
    true
}
