//! The log of calls, by which proofs count what the worker really sent.

use std::{collections::BTreeMap, time::Instant};

use super::Shared;

/// One request and how its answer went.
#[derive(Clone, Debug)]
pub struct Call {
    /// Counted from 1 over the provider's life.
    pub number: usize,
    /// Method and path, such as `POST /v1/chat/completions`.
    pub request: String,
    /// Names in lower case; of a repeated header the last value.
    pub headers: BTreeMap<String, String>,
    /// The body; bytes that are not UTF-8 are replaced.
    pub body: String,
    /// When the request was complete.
    pub started: Instant,
    /// When the answer was over, for whatever reason; `None` while it runs.
    pub ended: Option<Instant>,
    /// How it went so far.
    pub outcome: Outcome,
}

/// How the answer to a call went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has not ended: held by a gate, hanging, or being sent.
    Running,
    /// All of it was sent.
    Completed,
    /// We ended the connection, as the reply said.
    Cut,
    /// The client closed the connection before the answer was complete.
    ClientGone,
}

impl Call {
    /// Whether the client went away before the answer was complete.
    #[must_use]
    pub fn client_gone(&self) -> bool {
        self.outcome == Outcome::ClientGone
    }
}

impl Shared {
    /// Enters a call and returns its number.
    pub(super) fn begin(&self, request: String, headers: BTreeMap<String, String>, body: String) -> usize {
        let mut calls = self.calls();
        let number = calls.len() + 1;
        let (started, outcome) = (Instant::now(), Outcome::Running);
        calls.push(Call { number, request, headers, body, started, ended: None, outcome });
        number
    }

    /// Notes how a call ended.
    pub(super) fn end(&self, number: usize, outcome: Outcome) {
        let call = &mut self.calls()[number - 1];
        call.ended = Some(Instant::now());
        call.outcome = outcome;
    }
}
