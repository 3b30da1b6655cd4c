//! One call of one provider, which ends when the run is told to stop.

use std::{sync::Arc, time::Duration};

use sa_core::{
    entity::{Answer, StateClass},
    error_kind::{ErrorKind, Failure},
    job::Lane,
    ledger::{CallOutcome, Purpose},
    provider::Provider,
    repo::Context,
};

use crate::{
    adapter::{AdapterError, Bill, Reply, Request},
    execute::Turn,
    gates::{Noted, View},
    ledger::CallRecord,
    steps::Run,
};

/// One call to be made.
pub(crate) struct Errand<'a> {
    pub(crate) purpose: Purpose,
    pub(crate) provider: &'a Provider,
    pub(crate) request: Request,
    /// The thread that is sent; nothing where the text that comes is no answer to it.
    pub(crate) context: Option<&'a Context>,
}

/// What a provider said.
pub(crate) enum Asked {
    Answered(Arc<CallRecord>, Reply),
    Refused(Refused),
}

/// Why there is no answer, and what that did to the lane.
pub(crate) struct Refused {
    pub(crate) failure: Failure,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) noted: Noted,
}

impl Run {
    /// Makes one call and enters it on the tab.
    pub(crate) async fn ask(&self, errand: Errand<'_>, view: &View) -> Result<Asked, Turn> {
        let Errand { purpose, provider, request, context } = errand;
        let Some(adapter) = self.tools.providers.adapter(&provider.name) else {
            return Err(Turn::failed(ErrorKind::Unknown, format!("{}: no adapter", provider.name)));
        };
        self.unless_stopped(self.tools.roster.well()).await?;
        let call = self.tab.begin(purpose, provider, &request.model);
        let result = tokio::select! {
            biased;
            () = self.leash.lost.cancelled() => {
                self.tab.end(CallOutcome::Cancelled, None);
                return Err(Turn::Lost(context.and_then(|context| partial(&call, context))));
            }
            () = self.leash.give_back.cancelled() => {
                self.tab.end(CallOutcome::MaybeCharged, None);
                return Err(Turn::GivenBack);
            }
            result = adapter.call(&request, &call.received) => result,
        };
        let lane = Lane::new(&provider.name);
        match result {
            Ok(reply) => {
                self.tab.end(CallOutcome::Succeeded, None);
                self.gates.succeeded(view, &lane).await;
                Ok(Asked::Answered(call, reply))
            }
            Err(error) => {
                self.tab.end(outcome(&call, error.bill), Some(error.kind));
                let noted = self.gates.failed(&lane, &error).await;
                let AdapterError { kind, message, retry_after, .. } = error;
                let failure = Failure::new(kind, format!("{}: {message}", provider.name));
                Ok(Asked::Refused(Refused { failure, retry_after, noted }))
            }
        }
    }
}

fn outcome(call: &CallRecord, bill: Bill) -> CallOutcome {
    match bill {
        Bill::MaybeCharged => CallOutcome::MaybeCharged,
        Bill::Known if call.has_begun() => CallOutcome::MaybeCharged,
        Bill::Known => CallOutcome::Failed,
    }
}

/// The text that had arrived when the run was stopped; it may be shown in the job's history, never as an answer.
fn partial(call: &CallRecord, context: &Context) -> Option<Answer> {
    let text = call.received.text();
    let (provider, model, source_refs) = (call.provider().to_owned(), call.model(), context.source_refs.clone());
    (!text.is_empty()).then_some(Answer { text, provider, model, state_class: StateClass::Partial, source_refs })
}
