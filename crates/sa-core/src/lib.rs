#![doc = include_str!("../README.md")]

pub mod death;
pub mod edge;
pub mod entity;
pub mod error_kind;
pub mod event;
pub mod gate;
pub mod id;
pub mod job;
pub mod ledger;
pub mod provider;
pub mod pulse;
pub mod repo;
pub mod retry;
pub mod state;
mod text_enum;
pub mod timestamp;
pub mod viewer;
