//! The calls of one run, on the way to their rows in the ledger. Whatever becomes of the run, also by a panic, what it
//! spent is known.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sa_core::{
    error_kind::ErrorKind,
    ledger::{CallOutcome, LedgerRow, Purpose},
    provider::Provider,
};

use crate::ledger::CallRecord;

/// The calls of one run: those that have ended, and the one under way.
#[derive(Debug, Default)]
pub(crate) struct Tab(Mutex<Calls>);

#[derive(Debug, Default)]
struct Calls {
    ended: Vec<LedgerRow>,
    under_way: Option<Arc<CallRecord>>,
}

impl Tab {
    /// A call begins now.
    pub(crate) fn begin(&self, purpose: Purpose, provider: &Provider, model: &str) -> Arc<CallRecord> {
        let call = Arc::new(CallRecord::begin(purpose, provider, model));
        self.calls().under_way = Some(Arc::clone(&call));
        call
    }

    /// The call under way, if there is one, has ended like this.
    pub(crate) fn end(&self, outcome: CallOutcome, error_kind: Option<ErrorKind>) {
        let mut calls = self.calls();
        if let Some(call) = calls.under_way.take() {
            calls.ended.push(call.row(outcome, error_kind));
        }
    }

    /// The rows of all calls that have ended, in their order. They are handed out once.
    pub(crate) fn rows(&self) -> Vec<LedgerRow> {
        std::mem::take(&mut self.calls().ended)
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        // Nothing that is done under this lock leaves it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
