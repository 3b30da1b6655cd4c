//! The repository: everything that reads or writes the schema, one verb of a job's life a module, in that order.
//!
//! Verbs that write take many at once, each with its own outcome; one is a batch of one. Each runs in one transaction that
//! is repeated as a whole when the server rolls it back, and none is open while anybody waits for a network.

mod children;
mod db;
mod error;

pub mod cancel;
pub mod changes;
pub mod claim;
pub mod enqueue;
pub mod event;
pub mod finalize;
pub mod gate;
pub mod heartbeat;
pub mod inspect;
pub mod invariants;
pub mod pulse;
pub mod recent;
pub mod reclaim;
pub mod schema;
pub mod supersede;
pub mod thread;
pub mod token;

pub use cancel::{Cancelled, cancel};
pub use claim::{Claim, Claimer, Held, Serves, claim_job, enqueue_claimed};
pub use db::{Db, now};
pub use enqueue::{Enqueued, NewPrompt, enqueue};
pub use error::{DatabaseError, Error};
pub use finalize::{Finish, Outcome, finalize};
pub use heartbeat::{beat, still_held};
pub use recent::{Item, Recent, item, recent};
pub use reclaim::{Reclaimed, reclaim};
pub use supersede::{IfWaiting, Retried, Retry, retry};
pub use thread::{Context, Turn, context};

pub use crate::id::ClaimIds;
