//! The protocol as it is keeps every rule.

use std::time::Instant;

use stateright::{Checker, Model};

use crate::protocol::Protocol;
use crate::world::Left;

#[test]
fn the_protocol_keeps_every_rule() {
    let e = |n: &str, d: u8| std::env::var(n).ok().and_then(|v| v.parse().ok()).unwrap_or(d);
    let left = Left { crashes: e("C", 1), pauses: e("P", 1), hangs: e("H", 1), lost_acks: e("L", 1) };
    let started = Instant::now();
    let checker = Protocol::sound(left).checker().threads(2).spawn_bfs().join();
    println!(
        "{left:?}: {} unique states, {} in all, depth {}, {:.1} s",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        started.elapsed().as_secs_f64()
    );
    for (name, path) in checker.discoveries() {
        println!("  {name}: {:?}", path.into_actions());
    }
    checker.assert_properties();
}
