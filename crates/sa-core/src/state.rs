//! The state machine: six states, nine edges, and no way to write a tenth.

use crate::text_enum::text_enum;

text_enum! {
    /// Where a job stands. Terminal means: never executed again.
    State {
        /// Created; waiting for a worker.
        Queued = "queued",
        /// Claimed by a worker; the provider is asked.
        Running = "running",
        /// Answered; the response entity is there.
        Succeeded = "succeeded",
        /// Attempts used up, or an error that a repetition does not cure.
        Failed = "failed",
        /// Ended by a user or an operator.
        Cancelled = "cancelled",
        /// Replaced by a newer job of the same prompt.
        Superseded = "superseded",
    }
}

impl State {
    /// Whether the job will never be executed again. The only way out is to be superseded.
    ///
    /// ```
    /// use sa_core::state::State;
    /// assert!(State::Cancelled.is_terminal());
    /// assert!(!State::Running.is_terminal());
    /// ```
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Queued | Self::Running => false,
            Self::Succeeded | Self::Failed | Self::Cancelled | Self::Superseded => true,
        }
    }
}

/// A legal change of state. Only the nine constants exist: an illegal one has no spelling.
///
/// ```
/// use sa_core::state::{State, Transition};
/// assert_eq!(Transition::CLAIM.to(), State::Running);
/// ```
/// A forged one does not compile:
/// ```compile_fail,E0451
/// use sa_core::state::{State, Transition};
/// let undo = Transition { from: State::Succeeded, to: State::Queued };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    from: State,
    to: State,
}

impl Transition {
    /// The state it leaves.
    #[must_use]
    pub const fn from(self) -> State {
        self.from
    }

    /// The state it enters.
    #[must_use]
    pub const fn to(self) -> State {
        self.to
    }
}

/// One list from which the constants, `ALL`, the documentation and the diagram come.
macro_rules! transitions {
    ($($(#[$doc:meta])* $name:ident: $from:ident => $to:ident, $trigger:literal;)+) => {
        impl Transition {
            $($(#[$doc])* pub const $name: Self = Self { from: State::$from, to: State::$to };)+

            /// All nine, in the order of the specification.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// What sets it off, in the specification's words.
            #[must_use]
            pub fn trigger(self) -> &'static str {
                [$((Self::$name, $trigger),)+]
                    .into_iter()
                    .find_map(|(edge, trigger)| (edge == self).then_some(trigger))
                    .expect("every transition is one of the constants: its fields are private")
            }
        }
    };
}

transitions! {
    /// A worker wins the claim.
    CLAIM: Queued => Running, "worker successfully claims";
    /// Cancelled before any claim.
    WITHDRAW: Queued => Cancelled, "user/operator action before claim";
    /// The answer is written.
    SUCCEED: Running => Succeeded, "adapter OK + response entity written";
    /// Given back: a transient failure with attempts left, a reclaim, or a release.
    REQUEUE: Running => Queued, "transient failure; attempts left; backoff";
    /// Ended by an error: not retryable, attempts used up, or stuck.
    FAIL: Running => Failed, "retry budget exhausted, non-retryable error, or stuck";
    /// Cancelled while running; an answer that still arrives is discarded.
    KILL: Running => Cancelled, "operator kill; a late response is discarded";
    /// A retry replaces the result.
    SUPERSEDE_SUCCEEDED: Succeeded => Superseded, "user-initiated retry replaces result";
    /// A retry replaces a failure.
    SUPERSEDE_FAILED: Failed => Superseded, "user-initiated retry";
    /// A retry after a cancel.
    SUPERSEDE_CANCELLED: Cancelled => Superseded, "user-initiated retry after cancel";
}

impl Transition {
    /// The cancel of a job found in this state, or nothing if it has already ended.
    #[must_use]
    pub const fn cancel_of(found: State) -> Option<Self> {
        match found {
            State::Queued => Some(Self::WITHDRAW),
            State::Running => Some(Self::KILL),
            State::Succeeded | State::Failed | State::Cancelled | State::Superseded => None,
        }
    }

    /// The supersession of a job found in this state, or nothing if it still runs or was superseded before.
    #[must_use]
    pub const fn supersession_of(found: State) -> Option<Self> {
        match found {
            State::Succeeded => Some(Self::SUPERSEDE_SUCCEEDED),
            State::Failed => Some(Self::SUPERSEDE_FAILED),
            State::Cancelled => Some(Self::SUPERSEDE_CANCELLED),
            State::Queued | State::Running | State::Superseded => None,
        }
    }
}

/// The machine as a Mermaid diagram, for the documentation.
#[must_use]
pub fn mermaid() -> String {
    let mut diagram = String::from("stateDiagram-v2\n    [*] --> queued: enqueue\n");
    for edge in Transition::ALL {
        diagram.push_str(&format!("    {} --> {}: {}\n", edge.from, edge.to, edge.trigger()));
    }
    diagram
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The specification's table, typed in a second time and by hand: 36 pairs, nine of them legal.
    #[test]
    fn all_36_pairs_are_as_the_specification_has_them() {
        use State::{Cancelled, Failed, Queued, Running, Succeeded, Superseded};
        let legal = [
            (Queued, Running),
            (Queued, Cancelled),
            (Running, Succeeded),
            (Running, Queued),
            (Running, Failed),
            (Running, Cancelled),
            (Succeeded, Superseded),
            (Failed, Superseded),
            (Cancelled, Superseded),
        ];
        let mut pairs = 0;
        for &from in State::ALL {
            for &to in State::ALL {
                let exists = Transition::ALL.iter().any(|edge| (edge.from, edge.to) == (from, to));
                assert_eq!(exists, legal.contains(&(from, to)), "{from} to {to}");
                pairs += 1;
            }
        }
        assert_eq!(pairs, 36);
        assert_eq!(Transition::ALL.len(), 9);
    }

    #[test]
    fn cancel_and_supersession_are_edges_out_of_the_state_they_were_asked_for() {
        for &found in State::ALL {
            for edge in [Transition::cancel_of(found), Transition::supersession_of(found)].into_iter().flatten() {
                assert_eq!(edge.from, found);
            }
        }
    }

    #[test]
    fn each_state_has_the_ways_out_that_it_has() {
        use State::{Cancelled, Failed, Queued, Running, Succeeded, Superseded};
        let expected = [
            (Queued, false, Some(Transition::WITHDRAW), None),
            (Running, false, Some(Transition::KILL), None),
            (Succeeded, true, None, Some(Transition::SUPERSEDE_SUCCEEDED)),
            (Failed, true, None, Some(Transition::SUPERSEDE_FAILED)),
            (Cancelled, true, None, Some(Transition::SUPERSEDE_CANCELLED)),
            (Superseded, true, None, None),
        ];
        for (state, terminal, cancel, supersession) in expected {
            assert_eq!(state.is_terminal(), terminal, "{state}");
            assert_eq!(Transition::cancel_of(state), cancel, "{state}");
            assert_eq!(Transition::supersession_of(state), supersession, "{state}");
        }
    }

    #[test]
    fn the_diagram_has_the_start_and_every_edge() {
        let diagram = mermaid();
        assert!(diagram.starts_with("stateDiagram-v2\n    [*] --> queued: enqueue\n"));
        assert_eq!(diagram.lines().count(), 2 + Transition::ALL.len());
        assert!(diagram.contains("    running --> failed: retry budget exhausted, non-retryable error, or stuck\n"));
    }
}
