//! What is checked, by name. The names are the ones that tests and `docs/guarantees.md` use.

use sa_core::retry::MAX_RELEASES;
use sa_core::state::State;
use stateright::{Model as _, Property};

use crate::protocol::{Action, Protocol};
use crate::rules::{self, Rule};
use crate::verbs::supersede::{RETRIED, told_the_truth};
use crate::world::{Caller, Job, MAX_ATTEMPTS, Phase, Run, World};

pub const TERMINAL_FROZEN: &str = "an ended job is frozen, except into superseded";
pub const NINE_EDGES: &str = "only the nine edges are taken";
pub const NO_ABA: &str = "a stale run never touches a newer claim";
pub const ATTEMPT_RISES: &str = "the attempt rises exactly with requeue and reclaim";
pub const RECLAIM_OF_THE_SILENT: &str = "a run that beats is not reclaimed";
pub const CEILING: &str = "no beat counts past the ceiling";
pub const LEADS_ON: &str = "no step leads back";
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

/// All of them.
pub fn all() -> Vec<Property<Protocol>> {
    let mut all = of_steps();
    all.extend(of_instants());
    all.push(Property::always(SETTLES, |protocol, world: &World| {
        (0..world.jobs.len()).all(|job| world.jobs[job].state.is_terminal() || moves_on(protocol, world, job))
    }));
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
        Property::always(LEADS_ON, |_, world: &World| !world.broken.contains(&Rule::LeadsOn)),
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
/// As no step leads back, a job that always has one settles under any scheduler that lets every process go on. Stateright's
/// own `eventually` would say less: somebody's cancel ends any job, so no path ever stops with a job unsettled.
fn moves_on(protocol: &Protocol, world: &World, job: usize) -> bool {
    let calm = World { troubles: 0, ..world.clone() };
    let mut actions = Vec::new();
    protocol.actions(&calm, &mut actions);
    actions.into_iter().filter(|action| !matches!(action, Action::Cancel { .. } | Action::Retry { .. })).any(|action| {
        protocol.after(&calm, action).is_some_and(|next| next.jobs[job] != calm.jobs[job] || next.seen != calm.seen)
    })
}

/// What must be possible: a model in which it is not would prove nothing by keeping every rule.
fn reachable() -> Vec<Property<Protocol>> {
    let mut reachable = reachable_ends();
    reachable.extend(reachable_races());
    reachable
}

fn reachable_ends() -> Vec<Property<Protocol>> {
    vec![
        Property::sometimes("withdrawn before any claim", |_, world: &World| {
            first(world).state == State::Cancelled && first(world).runs == 0
        }),
        Property::sometimes("cancelled under its run", |_, world: &World| {
            let latest = |run: &Run| run.job == RETRIED && run.number == first(world).runs;
            first(world).state == State::Cancelled && world.runs.iter().any(latest)
        }),
        Property::sometimes("released, then succeeded", |_, world: &World| {
            first(world).state == State::Succeeded && first(world).releases == MAX_RELEASES
        }),
        Property::sometimes("reclaimed, then succeeded", |_, world: &World| {
            // A run of the first attempt that still goes on did not give its claim back: it was taken.
            let zombie = |run: &Run| run.job == RETRIED && run.attempt == 1 && run.phase == Phase::Calling;
            first(world).state == State::Succeeded
                && first(world).attempt == MAX_ATTEMPTS
                && world.runs.iter().any(zombie)
        }),
        Property::sometimes("stuck, having run over the ceiling", |_, world: &World| {
            let hung = |run: &Run| run.job == RETRIED && run.phase == Phase::Hung;
            first(world).state == State::Failed && first(world).attempt == 1 && world.runs.iter().any(hung)
        }),
        Property::sometimes("an answer is replaced", |_, world: &World| {
            first(world).state == State::Superseded && first(world).response
        }),
        Property::sometimes("a failure is replaced", |_, world: &World| {
            first(world).state == State::Superseded && !first(world).response && !first(world).cancelled
        }),
        Property::sometimes("a cancelled job is replaced", |_, world: &World| {
            first(world).state == State::Superseded && first(world).cancelled
        }),
    ]
}

fn reachable_races() -> Vec<Property<Protocol>> {
    vec![
        Property::sometimes("a zombie runs beside the holder", |_, world: &World| {
            let runs = world.runs.iter().filter(|run| run.job == RETRIED).count();
            first(world).state == State::Running && runs == 2
        }),
        Property::sometimes("a zombie of the first job runs beside its successor", |_, world: &World| {
            world.jobs.len() == 2 && (0..2).all(|job| world.runs.iter().any(|run| run.job == job))
        }),
        Property::sometimes("an end is written again after the next claim", |_, world: &World| {
            let doubting = |run: &Run| matches!(run.phase, Phase::Unacknowledged(_)) && !world.holds(run);
            first(world).state == State::Running && world.runs.iter().any(doubting)
        }),
        Property::sometimes(
            "two reapers saw the same",
            |_, world: &World| matches!(world.seen[..], [one, other] if one == other),
        ),
        Property::sometimes("one retry succeeded, the other caller was told", |_, world: &World| {
            let answered = world.jobs.get(1).is_some_and(|job| job.state == State::Succeeded);
            answered && world.callers.contains(&Caller::Told)
        }),
    ]
}

fn first(world: &World) -> &Job {
    &world.jobs[RETRIED]
}
