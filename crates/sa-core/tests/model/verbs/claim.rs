//! Take the right to run a job once.

use sa_core::state::Transition;

use crate::fault::Fault;
use crate::protocol::Protocol;
use crate::world::{Phase, Run, Token, World};

/// A worker claims a job. Any time will do: the candidates it read may be as old as they like, the guard decides.
pub fn claim(protocol: &Protocol, world: &mut World, worker: u8, job: usize) -> bool {
    let row = &mut world.jobs[job];
    if !row.take(Transition::CLAIM, protocol.guard(Fault::UnguardedClaim)) {
        return false;
    }
    row.runs += 1;
    let token =
        if protocol.has(Fault::ProcessWideClaimId) { Token::OfWorker(worker) } else { Token::OfClaim(row.runs) };
    row.claim = Some(token);
    let (number, attempt, releases) = (row.runs, row.attempt, row.releases);
    world.runs.push(Run { job, number, worker, token, attempt, releases, phase: Phase::Calling });
    true
}
