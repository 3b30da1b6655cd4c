//! The verbs of a job's life, one a file under the name it has in `sa_core::repo`. Each is one transaction: it happens
//! whole or not at all, and answers whether it changed anything.

pub mod cancel;
pub mod claim;
pub mod finalize;
pub mod heartbeat;
pub mod reclaim;
pub mod supersede;
