//! What is checked, by name. The names are the ones that tests and `docs/guarantees.md` use.

use sa_core::retry::MAX_RELEASES;
use sa_core::state::State;
use stateright::{Model, Property};

use crate::protocol::{Action, Protocol};
use crate::rules::{self, Rule};
use crate::verbs::supersede::told_the_truth;
use crate::world::{Caller, Left, MAX_ATTEMPTS, Phase, World};

pub const TERMINAL_FROZEN: &str = "an ended job is frozen, except into superseded";
pub const NINE_EDGES: &str = "only the nine edges are taken";
pub const NO_ABA: &str = "a stale run never touches a newer claim";
pub const ATTEMPT_RISES: &str = "the attempt rises exactly with requeue and reclaim";
pub const RECLAIM_OF_THE_SILENT: &str = "a run that beats is not reclaimed";
pub const CEILING: &str = "no beat counts past the ceiling";
pub const RUNS_BOUNDED: &str = "runs are at most attempts and free releases";
pub const CLAIM_AS_STATE: &str = "a queued row carries no claim, a running one does";
pub const ONE_RESPONSE: &str = "a job has at most one settled response";
pub const LAST_CLAIM: &str = "a response is the last claim's";
pub const NO_ORPHAN: &str = "no response without its job, no success without a response";
pub const CANCEL_FINAL: &str = "a cancel is final";
pub const ONE_LIVE_JOB: &str = "a prompt has at most one live job";
pub const ONE_SUCCESSOR: &str = "a superseded job has exactly one successor";
pub const CALLERS_KNOW: &str = "a caller is told what happened";
pub const SETTLES: &str = "every job settles";
pub const FIRST_SETTLES: &str = "the first job settles in the end";

/// All of them.
pub fn all() -> Vec<Property<Protocol>> {
    let mut all = of_steps();
    all.extend(of_instants());
    all.push(Property::always(SETTLES, |protocol, world: &World| {
        (0..world.jobs.len()).all(|job| world.jobs[job].state.is_terminal() || moves_on(protocol, world, job))
    }));
    all.push(Property::eventually(FIRST_SETTLES, |_, world: &World| world.jobs[0].state.is_terminal()));
    all.extend(reachable());
    all
}

fn of_steps() -> Vec<Property<Protocol>> {
    vec![
        Property::always(TERMINAL_FROZEN, |_, world: &World| !world.broken.contains(&Rule::TerminalFrozen)),
        Property::always(NINE_EDGES, |_, world: &World| !world.broken.contains(&Rule::NineEdges)),
        Property::always(NO_ABA, |_, world: &World| !world.broken.contains(&Rule::NoAba)),
        Property::always(ATTEMPT_RISES, |_, world: &World| !world.broken.contains(&Rule::AttemptRises)),
        Property::always(RECLAIM_OF_THE_SILENT, |_, world: &World| !world.broken.contains(&Rule::ReclaimOfTheSilent)),
        Property::always(CEILING, |_, world: &World| !world.broken.contains(&Rule::CeilingEndsTheLease)),
    ]
}

fn of_instants() -> Vec<Property<Protocol>> {
    vec![
        Property::always(RUNS_BOUNDED, |_, world: &World| world.jobs.iter().all(rules::runs_bounded)),
        Property::always(CLAIM_AS_STATE, |_, world: &World| world.jobs.iter().all(rules::claimed_as_its_state_says)),
        Property::always(ONE_RESPONSE, |_, world: &World| world.jobs.iter().all(|job| job.answers.len() <= 1)),
        Property::always(LAST_CLAIM, |_, world: &World| world.jobs.iter().all(rules::answered_by_its_last_claim)),
        Property::always(NO_ORPHAN, |_, world: &World| world.jobs.iter().all(rules::no_orphan)),
        Property::always(CANCEL_FINAL, |_, world: &World| world.jobs.iter().all(rules::cancel_final)),
        Property::always(ONE_LIVE_JOB, |_, world: &World| rules::one_live_job(world)),
        Property::always(ONE_SUCCESSOR, |_, world: &World| rules::one_successor(world)),
        Property::always(CALLERS_KNOW, |_, world: &World| told_the_truth(world)),
    ]
}

/// Whether the system has a step that moves this job on with nothing more going wrong and nobody helping.
///
/// Steps cannot go round in circles, since each spends something that is bounded. So a job that always has one settles
/// under any scheduler that lets every process go on.
fn moves_on(protocol: &Protocol, world: &World, job: usize) -> bool {
    let calm = World { left: Left::NOTHING, ..world.clone() };
    let mut actions = Vec::new();
    protocol.actions(&calm, &mut actions);
    actions.into_iter().filter(|action| !matches!(action, Action::Cancel { .. } | Action::Retry { .. })).any(|action| {
        protocol
            .next_state(&calm, action)
            .is_some_and(|next| next.jobs[job] != calm.jobs[job] || next.seen != calm.seen)
    })
}

/// What must be possible: a model in which it is not would prove nothing by keeping every rule.
fn reachable() -> Vec<Property<Protocol>> {
    vec![
        Property::sometimes("reclaimed, then succeeded", |_, world: &World| {
            // A run of the first attempt that still goes on did not give its claim back: it was taken.
            let zombie = |run: &&crate::world::Run| run.phase == Phase::Calling && run.attempt == 1;
            world.jobs[0].state == State::Succeeded
                && world.jobs[0].attempt == MAX_ATTEMPTS
                && world.runs.iter().any(|run| zombie(&run) && run.job == 0)
        }),
        Property::sometimes("released, then succeeded", |_, world: &World| {
            world.jobs[0].state == State::Succeeded && world.jobs[0].releases == MAX_RELEASES
        }),
        Property::sometimes("a zombie runs beside the holder", |_, world: &World| {
            world.jobs[0].state == State::Running && world.runs.iter().filter(|run| run.job == 0).count() == 2
        }),
        Property::sometimes("cancelled under its run", |_, world: &World| {
            let latest = |run: &crate::world::Run| run.job == 0 && run.number == world.jobs[0].runs;
            world.jobs[0].state == State::Cancelled && world.runs.iter().any(latest)
        }),
        Property::sometimes("stuck, having run over the ceiling", |_, world: &World| {
            let hung = |run: &crate::world::Run| run.job == 0 && run.phase == Phase::Hung;
            world.jobs[0].state == State::Failed && world.jobs[0].attempt == 1 && world.runs.iter().any(hung)
        }),
        Property::sometimes("an end is written again after the job moved on", |_, world: &World| {
            let doubting = |run: &crate::world::Run| matches!(run.phase, Phase::Unacknowledged(_));
            world.jobs[0].state == State::Running && world.runs.iter().any(|run| doubting(run) && !world.holds(run))
        }),
        Property::sometimes("a retry succeeded, and the other caller was told", |_, world: &World| {
            world.jobs.get(1).is_some_and(|job| job.state == State::Succeeded) && world.callers.contains(&Caller::Told)
        }),
    ]
}
