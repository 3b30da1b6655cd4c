//! Take back what silent workers hold.

use std::time::Duration;

use sa_core::retry::{CEILING, ReclaimVerdict, reclaim_verdict};
use sa_core::state::{State, Transition};

use crate::fault::Fault;
use crate::protocol::Protocol;
use crate::world::{Beat, MAX_ATTEMPTS, Sighting, World};

/// The reaper's SELECT.
pub fn see(world: &mut World, job: usize) -> bool {
    let row = &world.jobs[job];
    if world.seen.is_some() || row.state != State::Running || row.beat == Beat::Fresh {
        return false;
    }
    let seen = Sighting { job, claim: row.claim, attempt: row.attempt, over_ceiling: row.over_ceiling };
    world.seen = Some(seen);
    true
}

/// The reaper's UPDATE, some time later. It decides by what it saw and writes only if that is still so.
pub fn take(protocol: &Protocol, world: &mut World) -> bool {
    let Some(seen) = world.seen.take() else { return false };
    let row = &mut world.jobs[seen.job];
    let unmoved = row.state == State::Running && row.claim == seen.claim && row.attempt == seen.attempt;
    let silent = row.beat == Beat::Silent || protocol.has(Fault::ReclaimIgnoresBeat);
    if !(unmoved && silent) && !protocol.has(Fault::ReaperTrustsItsSelect) {
        return true;
    }
    let running_for = if seen.over_ceiling { CEILING } else { Duration::ZERO };
    let guard = protocol.guard(Fault::ReaperTrustsItsSelect);
    match reclaim_verdict(seen.attempt, MAX_ATTEMPTS, running_for) {
        ReclaimVerdict::Requeue => {
            row.take(Transition::REQUEUE, guard);
            row.attempt += u16::from(!protocol.has(Fault::ReclaimSpendsNoAttempt));
        }
        ReclaimVerdict::Stuck(_) => {
            row.take(Transition::FAIL, guard);
        }
    }
    true
}
