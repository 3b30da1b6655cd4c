//! The protocol of a job's life, checked exhaustively: every order of steps of two workers, a reaper, a canceller and two
//! callers over a prompt's job and its retry.
//!
//! The model takes its edges from [`sa_core::state::Transition`] and its decisions from [`sa_core::retry`], so that it
//! cannot drift from them; what it adds is the guard of each statement in `sa_core::repo`, one file a verb.
//! [`faults`] takes the guards away one at a time and shows what breaks: the model's own test.

mod fault;
mod faults;
mod properties;
mod protocol;
mod rules;
mod sound;
mod verbs;
mod world;
