//! What can be done to jobs, at random.

use proptest::prelude::*;

use crate::reference::End;

/// One step. Numbers choose among what is there at that moment.
#[derive(Clone, Debug)]
pub enum Deed {
    Submit {
        priority: u8,
        max_attempts: u8,
        waits: bool,
    },
    Claim {
        want: usize,
    },
    /// Of one claim that was ever given, lost or not.
    Beat {
        claim: usize,
    },
    End {
        claim: usize,
        end: End,
    },
    Cancel {
        job: usize,
    },
    Retry {
        job: usize,
    },
    /// The beat of a running job is moved back, and the reaper runs.
    Silence {
        job: usize,
        ran_too_long: bool,
    },
}

/// Few jobs and many deeds, so that the deeds meet: a stale run is to end while its job runs anew.
pub fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    prop::collection::vec(deed(), 15..35)
}

fn deed() -> impl Strategy<Value = Deed> {
    let any_of = || 0..64_usize;
    let end = prop_oneof![
        3 => Just(End::Succeed),
        2 => any::<bool>().prop_map(|at_once| End::Again { at_once }),
        1 => Just(End::Fail),
        1 => Just(End::Release),
    ];
    let submit = (prop::sample::select(vec![10, 50, 90]), 2..5_u8, prop::bool::weighted(0.15));
    prop_oneof![
        2 => submit.prop_map(|(priority, max_attempts, waits)| Deed::Submit { priority, max_attempts, waits }),
        6 => (1..4_usize).prop_map(|want| Deed::Claim { want }),
        2 => any_of().prop_map(|claim| Deed::Beat { claim }),
        5 => (any_of(), end).prop_map(|(claim, end)| Deed::End { claim, end }),
        1 => any_of().prop_map(|job| Deed::Cancel { job }),
        3 => any_of().prop_map(|job| Deed::Retry { job }),
        4 => (any_of(), prop::bool::weighted(0.2)).prop_map(|(job, ran_too_long)| Deed::Silence { job, ran_too_long }),
    ]
}
