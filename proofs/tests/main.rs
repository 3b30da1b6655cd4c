//! The claims of the specification, shown on the real binaries and a real server: `proofs/run NAME` runs one.

#![expect(clippy::unwrap_used, reason = "what a proof unwraps is what it asserts")]

mod acknowledged;
mod async_execution;
mod bad_input;
mod bench;
mod casebank;
mod concurrent_safety;
mod crash;
mod database_away;
mod death;
mod docs;
mod explain;
mod fairness;
mod gates;
mod heartbeat;
mod priority_queue;
mod retry;
mod servers;
mod shutdown;
mod slots;
mod specification;
mod stage;
mod supervised;
mod swarm;
mod thread;
mod tidy;
mod upgrade;
