//! The protocol of a job's life, checked exhaustively: every order of steps of two workers, two reapers, a canceller and
//! two callers over a prompt's job and the job that a retry replaces it by.
//!
//! The edges are [`sa_core::state::Transition`]'s and the decisions [`sa_core::retry`]'s, so that the model cannot drift
//! from them. What it adds is the guard of each statement in `sa_core::repo`, one file a verb, under the same name.
//! [`rules`] says what must never happen, [`properties`] gives it names, [`rank`] shows that everything comes to an end.
//! [`faults`] takes the guards away, one at a time, and shows what breaks: the model's own test.
//!
//! Bounds: two attempts and one free release for the first job, two attempts for its successor, and two troubles of any
//! kind ([`world::World::troubles`]). A cancel may come at any moment, any step may be as late as it likes.
//!
//! Left out: time (backoff, `scheduled_for`, bringing forward), lanes and gates, batches (each row is fenced by itself),
//! revisions, events, ledger and partial answers, CHECK constraints, and the isolation of the server, which the tests
//! against a real one are for. A claim whose acknowledgement is lost needs no step of its own: found again it is a slow
//! run, not found it is a crash.

mod fault;
mod faults;
mod properties;
mod protocol;
mod rank;
mod rules;
mod sound;
mod verbs;
mod world;
