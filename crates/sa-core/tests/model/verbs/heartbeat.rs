//! Say that a run is alive, or learn that it is not ours any more.

use super::finalize::fenced;
use crate::fault::Fault;
use crate::protocol::Protocol;
use crate::world::{Beat, Phase, World};

/// A run beats. One that lost its claim learns it here and drops its call, unless its end is already being written.
pub fn beat(protocol: &Protocol, world: &mut World, run: usize) -> bool {
    let beating = world.runs[run];
    let row = &mut world.jobs[beating.job];
    let held = protocol.has(Fault::UnfencedBeat) || fenced(protocol, row, &beating);
    if held && (!row.over_ceiling || protocol.has(Fault::BeatPastTheCeiling)) {
        let recovers = row.beat == Beat::Silent;
        row.beat = Beat::Fresh;
        return recovers;
    }
    match beating.phase {
        Phase::Calling | Phase::Hung => {
            world.runs.remove(run);
            true
        }
        Phase::Unacknowledged(_) | Phase::Inserted => false,
    }
}
