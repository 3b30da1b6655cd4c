//! End a job on somebody's word.

use sa_core::state::Transition;

use crate::fault::Fault;
use crate::protocol::Protocol;
use crate::world::{Guard, World};

/// Cancels a job. Asked once more, because an acknowledgement was lost, it finds it cancelled: no step of its own.
pub fn cancel(protocol: &Protocol, world: &mut World, job: usize) -> bool {
    let row = &mut world.jobs[job];
    let met = match Transition::cancel_of(row.state) {
        Some(edge) => row.take(edge, Guard::State),
        // What was read as running a moment ago is written as cancelled now, whatever became of it.
        None if protocol.has(Fault::UnfencedCancel) => row.take(Transition::KILL, Guard::Nothing),
        None => false,
    };
    row.cancelled |= met;
    met
}
