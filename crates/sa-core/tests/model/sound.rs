//! The protocol as it is keeps every rule, in every order of steps.

use std::time::Instant;

use stateright::{Checker, Model};

use crate::protocol::Protocol;

#[test]
fn the_protocol_keeps_every_rule() {
    exhaust(2);
}

#[test]
#[ignore = "the same with one more trouble: 1.2 million states, half a minute in a debug build; proofs/run --all runs it"]
fn the_protocol_keeps_every_rule_among_three_troubles() {
    exhaust(3);
}

fn exhaust(troubles: u8) {
    let started = Instant::now();
    let checker = Protocol::sound(troubles).checker().threads(2).spawn_bfs().join();
    println!(
        "any {troubles} troubles: {} unique states, {} steps, longest way {}, {:.1?}",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        started.elapsed(),
    );
    checker.assert_properties();
}
