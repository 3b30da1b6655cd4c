//! `sa-api` as its clients see it: a real server on a free port, a real database behind it.

#![cfg(test)]

mod ends;
mod health;
mod jobs;
mod problems;
mod prompt;
mod recent;
mod scope;
mod site;
mod sizes;
mod tokens;
