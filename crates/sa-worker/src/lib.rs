//! Claims jobs, calls providers, writes what they answer.
//!
//! A run is: claim, context, the provider calls it takes, verdict, one fenced commit. No transaction is open while a provider is
//! called, and no provider is called without a confirmed claim of our own. While a claim is held it beats from a thread of
//! its own; whoever loses a claim drops its call, and its late result changes nothing.

pub mod adapter;
mod api_key;
mod ask;
mod beat;
mod claim;
mod commit;
mod crew;
mod execute;
mod gates;
mod ledger;
mod once;
mod options;
mod patience;
mod pause;
mod providers;
mod roster;
mod route;
mod run;
mod service;
mod steps;
mod supervisor;
mod tab;

pub use crew::Station;
pub use execute::{Ended, Ran};
pub use options::{Command, Options, ProvidersOptions, RunWorker};
pub use providers::Providers;
pub use run::{execute_here, run};
