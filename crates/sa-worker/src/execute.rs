//! Runs one claim: options, context, one provider call, verdict. What comes out is the way the claim ends.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use sa_core::{
    entity::{Answer, StateClass},
    error_kind::{ErrorKind, Failure},
    id::{EntityId, JobId, PromptId},
    job::{ExecutionOptions, Lane},
    ledger::{CallOutcome, LedgerRow},
    repo::{self, Claim, Context, Db, Finish, Outcome},
    retry::{self, Verdict},
};
use tokio::time::sleep;

use crate::{
    Providers,
    adapter::{AdapterError, Bill, Ending, Reply, Request},
    ledger::CallRecord,
    patience::{self, Fault},
    pause::Pause,
    roster::{Leash, Roster},
};

/// What a run needs beside its claim.
#[derive(Clone)]
pub(crate) struct Tools {
    pub(crate) db: Db,
    pub(crate) providers: Arc<Providers>,
    pub(crate) roster: Arc<Roster>,
}

/// A run that is over, and what the database made of it.
#[derive(Debug)]
pub struct Ran {
    /// The job.
    pub job: JobId,
    /// Its prompt.
    pub prompt: PromptId,
    /// How the run ended.
    pub ended: Ended,
    /// Whether that was written, or the claim had been lost.
    pub outcome: Outcome,
}

/// How a run ended, before the database had its say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With an answer.
    Answered,
    /// It will be tried again.
    Requeued(Failure),
    /// For good.
    Failed(Failure),
    /// Given back, no attempt spent.
    Released,
    /// Its claim was lost while it ran.
    Abandoned,
}

/// The end of a run, ready to be written.
pub(crate) struct End {
    pub(crate) finish: Finish,
    pub(crate) ended: Ended,
}

/// Runs this claim to its end. It is the only holder of the claim, so whatever happens in here, the claim comes out.
pub(crate) async fn execute(tools: &Tools, claim: Claim, leash: &Leash) -> End {
    let run = Run {
        tools: tools.clone(),
        job: claim.job(),
        prompt: claim.prompt(),
        lane: claim.lane().clone(),
        options: claim.options(),
        leash: leash.clone(),
        record: Arc::default(),
    };
    let record = Arc::clone(&run.record);
    // In a task of its own, so that a panic in there ends this run and no other.
    let turn = match tokio::spawn(run.run()).await {
        Ok(turn) => turn,
        Err(error) => {
            let rows = record.get().map(|call| call.row(CallOutcome::MaybeCharged, Some(ErrorKind::Unknown)));
            Turn::failed(ErrorKind::Unknown, panicked(error), rows)
        }
    };
    turn.end(claim)
}

/// What a run found out.
enum Turn {
    Answered(Answer, Vec<LedgerRow>),
    Failed { failure: Failure, retry_after: Option<Duration>, rows: Vec<LedgerRow> },
    Lost(Option<Answer>, Vec<LedgerRow>),
    GivenBack(Vec<LedgerRow>),
}

impl Turn {
    fn failed(kind: ErrorKind, message: impl Into<String>, rows: impl IntoIterator<Item = LedgerRow>) -> Self {
        Self::Failed { failure: Failure::new(kind, message), retry_after: None, rows: rows.into_iter().collect() }
    }

    fn end(self, claim: Claim) -> End {
        match self {
            Self::Answered(answer, rows) => End { finish: claim.succeed(answer, rows), ended: Ended::Answered },
            Self::Failed { failure, retry_after, rows } => {
                let verdict = retry::verdict(failure.kind(), claim.attempt(), claim.max_attempts(), retry_after);
                let (finish, ended) = match verdict {
                    Verdict::Requeue(backoff) => {
                        (claim.requeue(failure.clone(), backoff, rows), Ended::Requeued(failure))
                    }
                    Verdict::Fail => (claim.fail(failure.clone(), rows), Ended::Failed(failure)),
                };
                End { finish, ended }
            }
            Self::Lost(partial, rows) => End { finish: claim.abandon(partial, rows), ended: Ended::Abandoned },
            Self::GivenBack(rows) => End { finish: claim.release(rows), ended: Ended::Released },
        }
    }
}

struct Run {
    tools: Tools,
    job: JobId,
    prompt: PromptId,
    lane: Lane,
    options: Result<ExecutionOptions, repo::Error>,
    leash: Leash,
    record: Arc<OnceLock<CallRecord>>,
}

impl Run {
    async fn run(self) -> Turn {
        let options = match &self.options {
            Ok(options) => options,
            Err(error) => return Turn::failed(ErrorKind::Parse, error.to_string(), None),
        };
        let Some((provider, model)) = self.tools.providers.catalog().model_for(&self.lane, options) else {
            return Turn::failed(ErrorKind::Provider4xx, self.unresolvable(options), None);
        };
        let Some(adapter) = self.tools.providers.adapter(&provider.name) else {
            return Turn::failed(ErrorKind::Unknown, format!("{}: no adapter", provider.name), None);
        };
        let context = match self.context(options.depth()).await {
            Ok(context) => context,
            Err(turn) => return turn,
        };
        if let Err(turn) = self.unless_stopped(self.tools.roster.well()).await {
            return turn;
        }
        let request = Request {
            turns: context.turns,
            text: context.text,
            model: model.to_owned(),
            max_output_tokens: provider.max_output_tokens,
            idempotency_key: Request::answer_key(self.job),
        };
        let call = self.record.get_or_init(|| CallRecord::begin(provider, model));
        tokio::select! {
            biased;
            () = self.leash.lost.cancelled() => {
                let partial = partial(call, context.source_refs);
                Turn::Lost(partial, vec![call.row(CallOutcome::Cancelled, None)])
            }
            () = self.leash.give_back.cancelled() => Turn::GivenBack(vec![call.row(CallOutcome::MaybeCharged, None)]),
            result = adapter.call(&request, &call.received) => match result {
                Ok(reply) => answered(call, reply, context.source_refs),
                Err(error) => failed(call, error),
            },
        }
    }

    /// The thread so far. A database that is away is waited for: the claim is ours until it is lost.
    async fn context(&self, depth: u8) -> Result<Context, Turn> {
        let mut pause = Pause::for_outage();
        loop {
            let (db, prompt) = (self.tools.db.clone(), self.prompt);
            let reading = patience::ask(async move { repo::context(&db, prompt, depth).await });
            match self.unless_stopped(reading).await? {
                Ok(context) => return Ok(context),
                Err(Fault::Silent) => {}
                Err(Fault::Refused(error)) if error.is_unreachable() => {}
                Err(Fault::Refused(error)) => return Err(unreadable(prompt, &error)),
            }
            self.unless_stopped(sleep(pause.take_spread())).await?;
        }
    }

    /// Waits for this, unless the run is told to stop before.
    async fn unless_stopped<T>(&self, what: impl Future<Output = T>) -> Result<T, Turn> {
        tokio::select! {
            biased;
            () = self.leash.lost.cancelled() => Err(Turn::Lost(None, Vec::new())),
            () = self.leash.give_back.cancelled() => Err(Turn::GivenBack(Vec::new())),
            done = what => Ok(done),
        }
    }

    /// Why nobody here can answer: the row asks for what is not configured. Asking again would not change that.
    fn unresolvable(&self, options: &ExecutionOptions) -> String {
        match self.tools.providers.catalog().lane_for(options) {
            Err(error) => error.to_string(),
            Ok(_) => format!("provider {:?} of this job does not offer the model it asks for", self.lane.as_str()),
        }
    }
}

/// A thread that is not there, or not readable, is no more so the next time.
fn unreadable(prompt: PromptId, error: &repo::Error) -> Turn {
    match error {
        repo::Error::NotFound => {
            Turn::failed(ErrorKind::Parse, format!("the prompt {prompt} is not there, or a prompt it continues"), None)
        }
        repo::Error::Corrupt { .. } => Turn::failed(ErrorKind::Parse, error.to_string(), None),
        repo::Error::Database(_) | repo::Error::Conflict { .. } => {
            Turn::failed(ErrorKind::Unknown, format!("the thread cannot be read: {error}"), None)
        }
    }
}

fn answered(call: &CallRecord, reply: Reply, source_refs: Vec<EntityId>) -> Turn {
    let answer = Answer {
        text: reply.text,
        provider: call.provider().to_owned(),
        model: call.model(),
        state_class: match reply.ending {
            Ending::Finished => StateClass::Settled,
            Ending::Truncated => StateClass::Truncated,
        },
        source_refs,
    };
    Turn::Answered(answer, vec![call.row(CallOutcome::Succeeded, None)])
}

fn failed(call: &CallRecord, error: AdapterError) -> Turn {
    let outcome = match error.bill {
        Bill::MaybeCharged => CallOutcome::MaybeCharged,
        Bill::Known if call.has_begun() => CallOutcome::MaybeCharged,
        Bill::Known => CallOutcome::Failed,
    };
    let failure = Failure::new(error.kind, format!("{}: {}", call.provider(), error.message));
    let rows = vec![call.row(outcome, Some(error.kind))];
    Turn::Failed { failure, retry_after: error.retry_after, rows }
}

/// The text that had arrived when the run was stopped; it may be shown in the job's history, never as an answer.
fn partial(call: &CallRecord, source_refs: Vec<EntityId>) -> Option<Answer> {
    let text = call.received.text();
    let (provider, model) = (call.provider().to_owned(), call.model());
    (!text.is_empty()).then_some(Answer { text, provider, model, state_class: StateClass::Partial, source_refs })
}

/// What a panic said may hold a prompt, so only that there was one is kept.
fn panicked(error: tokio::task::JoinError) -> String {
    match error.try_into_panic() {
        Ok(payload) => {
            drop(payload);
            "the worker's own code failed (a panic); its log says where".to_owned()
        }
        Err(error) => format!("the worker's own code was stopped: {error}"),
    }
}
