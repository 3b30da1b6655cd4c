//! The repository on a real server: one module a verb.

#![expect(clippy::unwrap_used, reason = "what a test unwraps is what it asserts")]

mod arrange;
mod bystanders;
mod cancel;
mod changes;
mod claim;
mod claim_stale;
mod enqueue;
mod fair;
mod finalize;
mod finalize_texts;
mod gate;
mod gate_rows;
mod heartbeat;
mod inspect;
mod locks;
mod moves;
mod pulse;
mod recent;
mod reclaim;
mod reclaim_meanwhile;
mod schema;
mod slot;
mod supersede;
mod thread;
mod token;
mod unanswered;
