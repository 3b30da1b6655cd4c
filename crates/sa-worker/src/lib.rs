//! Claims jobs, calls providers, writes what they answer.
//!
//! A run is: claim, context, one provider call, verdict, one fenced commit. No transaction is open while a provider is
//! called, and no provider is called without a confirmed claim of our own. While a claim is held it beats from a thread of
//! its own; whoever loses a claim drops its call, and its late result changes nothing.

pub mod adapter;
mod api_key;
mod beat;
mod claim;
mod commit;
mod crew;
mod execute;
mod ledger;
mod once;
mod options;
mod patience;
mod pause;
mod providers;
mod roster;
mod run;
mod service;

pub use crew::Station;
pub use execute::{Ended, Ran};
pub use options::{Command, Options, ProvidersOptions, RunWorker};
pub use providers::Providers;
pub use run::{execute_here, run};
