//! What must never happen: rules of single steps, judged from outside, and rules of every instant.

use sa_core::retry::MAX_RELEASES;
use sa_core::state::{State, Transition};

use crate::protocol::{Action, Protocol};
use crate::rank::rank;
use crate::world::{Beat, Job, MAX_ATTEMPTS, World};

/// A rule about a step, which no single instant can show. The model notes in the world which were broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// An ended job changes in nothing but its state, and that only to superseded.
    TerminalFrozen,
    /// Only the nine edges are ever taken.
    NineEdges,
    /// A run changes only the row that stands for it: a stale run neither ends nor keeps alive a newer claim.
    NoAba,
    /// The attempt rises by one with each requeue and reclaim, and never else.
    AttemptRises,
    /// A reclaim takes only what is silent: a run that beats keeps its claim.
    ReclaimOfTheSilent,
    /// No beat counts past the 15-minute ceiling.
    CeilingEndsTheLease,
    /// Every step leads on: none undoes what another did, so that all come to an end.
    LeadsOn,
}

/// Which rules the step from one world to the next broke.
pub fn judge(protocol: &Protocol, before: &World, action: Action, after: &World) -> Vec<Rule> {
    let leads_on = rank(protocol, before) < rank(protocol, after);
    let broken = (!leads_on).then_some(Rule::LeadsOn).into_iter();
    broken.chain(judge_rows(before, action, after)).collect()
}

fn judge_rows(before: &World, action: Action, after: &World) -> impl Iterator<Item = Rule> {
    let steps = before.jobs.iter().zip(&after.jobs).enumerate().filter(|(_, (old, new))| old != new);
    steps.flat_map(move |(job, (old, new))| {
        let run = action.run().map(|run| before.runs[run]);
        [
            (Rule::TerminalFrozen, terminal_frozen(old, new)),
            (Rule::NineEdges, nine_edges(old, new)),
            (Rule::NoAba, run.is_none_or(|run| run.job == job && run.number == old.runs)),
            (Rule::AttemptRises, attempt_rises(old, new)),
            (Rule::ReclaimOfTheSilent, !matches!(action, Action::Take { .. }) || old.beat == Beat::Silent),
            (Rule::CeilingEndsTheLease, !(matches!(action, Action::Beat { .. }) && old.over_ceiling)),
        ]
        .into_iter()
        .filter_map(|(rule, kept)| (!kept).then_some(rule))
    })
}

fn terminal_frozen(old: &Job, new: &Job) -> bool {
    if !old.state.is_terminal() {
        return true;
    }
    let superseded = old.state != State::Superseded && new.state == State::Superseded;
    superseded && *new == Job { state: State::Superseded, ..old.clone() }
}

fn nine_edges(old: &Job, new: &Job) -> bool {
    old.state == new.state || Transition::ALL.iter().any(|edge| (edge.from(), edge.to()) == (old.state, new.state))
}

fn attempt_rises(old: &Job, new: &Job) -> bool {
    let given_back = old.state == State::Running && new.state == State::Queued;
    let released = new.releases > old.releases;
    new.attempt == old.attempt + u16::from(given_back && !released)
}

/// Each attempt is one run and each release one more, and both have an end.
pub fn runs_bounded(job: &Job) -> bool {
    let released = u16::from(job.releases - Job::releases_before(job.supersedes));
    (1..=MAX_ATTEMPTS).contains(&job.attempt)
        && job.releases <= MAX_RELEASES
        && u16::from(job.runs) <= MAX_ATTEMPTS + released
}

/// A queued row carries no claim, a running one does.
pub fn claimed_as_its_state_says(job: &Job) -> bool {
    match job.state {
        State::Queued => job.claim.is_none(),
        State::Running => job.claim.is_some(),
        State::Succeeded | State::Failed | State::Cancelled | State::Superseded => true,
    }
}

/// Whoever answered was the job's last claim.
pub fn answered_by_its_last_claim(job: &Job) -> bool {
    job.answers.iter().all(|&run| run == job.runs)
}

/// A response belongs to a job that succeeded, and such a job has one.
pub fn no_orphan(job: &Job) -> bool {
    let names_one = job.response && matches!(job.state, State::Succeeded | State::Superseded);
    names_one != job.answers.is_empty() && job.response == names_one
}

/// What was acknowledged as cancelled is that for good, and has no answer.
pub fn cancel_final(job: &Job) -> bool {
    let ended = matches!(job.state, State::Cancelled | State::Superseded);
    !job.cancelled || (ended && !job.response && job.answers.is_empty())
}

/// One job of the prompt is live, at most.
pub fn one_live_job(world: &World) -> bool {
    world.jobs.iter().filter(|job| !job.state.is_terminal()).count() <= 1
}

/// A superseded job has one successor, any other none.
pub fn one_successor(world: &World) -> bool {
    world.jobs.iter().enumerate().all(|(job, row)| {
        let expected = usize::from(row.state == State::Superseded);
        world.successors(job).count() == expected
    })
}
