//! What must hold of any input: the pure rules, and the repository beside a small model of it, on a real server.

#![expect(clippy::unwrap_used, reason = "what a test unwraps is what it asserts")]

mod catalog;
mod death;
mod failure;
mod ids;
mod job_options;
mod paging;
mod reference;
mod repository;
mod retry;
mod timestamps;
mod words;
