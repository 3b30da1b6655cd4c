//! The steps of a run: the thread, the choice of a model, the answer call, the fallbacks.

use std::{sync::Arc, time::Instant};

use sa_core::{
    entity::{Answer, StateClass},
    error_kind::{ErrorKind, Failure},
    id::{JobId, PromptId},
    job::{ExecutionOptions, Lane},
    ledger::Purpose,
    provider::Provider,
    repo::{self, Context},
    retry::CEILING,
};
use tokio::time::sleep;

use crate::{
    adapter::{Ending, Reply, Request},
    ask::{Asked, Errand, Refused},
    execute::{Tools, Turn},
    gates::{Gates, Noted},
    ledger::CallRecord,
    patience::{self, Fault},
    pause::Pause,
    roster::Leash,
    route,
    tab::Tab,
};

/// One run under way.
pub(crate) struct Run {
    pub(crate) tools: Tools,
    pub(crate) job: JobId,
    pub(crate) prompt: PromptId,
    pub(crate) lane: Lane,
    pub(crate) options: Result<ExecutionOptions, repo::Error>,
    /// An instant before the claim was made.
    pub(crate) since: Instant,
    pub(crate) leash: Leash,
    pub(crate) tab: Arc<Tab>,
    pub(crate) gates: Arc<Gates>,
}

/// Why the provider that should answer did not.
struct Unanswered {
    turn: Turn,
    kind: ErrorKind,
}

impl Run {
    pub(crate) async fn run(self) -> Turn {
        self.steps().await.unwrap_or_else(|turn| turn)
    }

    async fn steps(&self) -> Result<Turn, Turn> {
        let options = self.options.as_ref().map_err(|error| Turn::failed(ErrorKind::Parse, error.to_string()))?;
        let catalog = self.tools.providers.catalog();
        let Some(unrouted) = catalog.model_for(&self.lane, options) else {
            return Err(Turn::failed(ErrorKind::Provider4xx, self.unresolvable(options)));
        };
        let context = self.context(options.depth()).await?;
        let (provider, model) = match &options.router_model {
            Some(router) => self.route(router, &context).await?.unwrap_or(unrouted),
            None => unrouted,
        };
        let unanswered = match self.answer(provider, model, &context).await? {
            Ok(answer) => return Ok(Turn::Answered(answer)),
            Err(unanswered) => unanswered,
        };
        if can_be_answered_elsewhere(unanswered.kind)
            && let Some(answer) = self.fallbacks(provider, model, &context).await?
        {
            return Ok(Turn::Answered(answer));
        }
        Ok(unanswered.turn)
    }

    /// The answer of the provider that was meant, unless its lane is closed.
    async fn answer(
        &self,
        provider: &Provider,
        model: &str,
        context: &Context,
    ) -> Result<Result<Answer, Unanswered>, Turn> {
        let lane = Lane::new(&provider.name);
        let view = self.unless_stopped(self.gates.look()).await?;
        if !self.gates.admits(&view, &lane) {
            let (kind, why) = view.why_closed(&lane);
            let elsewhere = (lane != self.lane).then_some(lane);
            return Ok(Err(Unanswered { turn: Turn::Held(Failure::new(kind, why), elsewhere), kind }));
        }
        let request = self.request(provider, model, context, Request::answer_key(self.job));
        Ok(
            match self
                .ask(Errand { purpose: Purpose::Answer, provider, request, context: Some(context) }, &view)
                .await?
            {
                Asked::Answered(call, reply) => Ok(answer(&call, reply, context)),
                Asked::Refused(refused) => Err(unanswered(refused)),
            },
        )
    }

    /// The answer of another provider, each of them asked in its order while there is time for it.
    async fn fallbacks(&self, meant: &Provider, model: &str, context: &Context) -> Result<Option<Answer>, Turn> {
        for name in &meant.fallback {
            let Some(provider) = self.tools.providers.catalog().get(name) else { continue };
            let same = provider.models.iter().find(|offered| *offered == model);
            let model = same.unwrap_or(&provider.models[0]);
            if self.since.elapsed() + provider.timeouts(model).total > CEILING {
                continue;
            }
            let view = self.unless_stopped(self.gates.look()).await?;
            if !self.gates.admits(&view, &Lane::new(name)) {
                continue;
            }
            let request = self.request(provider, model, context, Request::fallback_key(self.job, name));
            match self
                .ask(Errand { purpose: Purpose::Fallback, provider, request, context: Some(context) }, &view)
                .await?
            {
                Asked::Answered(call, reply) => return Ok(Some(answer(&call, reply, context))),
                Asked::Refused(Refused { failure, .. }) => {
                    tracing::info!(job.id = %self.job, provider = name, error_kind = %failure.kind(), "A fallback could not answer either.");
                }
            }
        }
        Ok(None)
    }

    /// What the router chose; nothing if it cannot be asked or names nothing that is configured.
    async fn route(&self, router: &str, context: &Context) -> Result<Option<(&Provider, &str)>, Turn> {
        let catalog = self.tools.providers.catalog();
        let Some(provider) = catalog.offering(router) else { return Ok(None) };
        let view = self.unless_stopped(self.gates.look()).await?;
        if !self.gates.admits(&view, &Lane::new(&provider.name)) {
            return Ok(None);
        }
        let request = Request {
            turns: Vec::new(),
            text: route::question(catalog, &context.text),
            model: router.to_owned(),
            max_output_tokens: provider.max_output_tokens,
            idempotency_key: Request::router_key(self.job),
        };
        Ok(match self.ask(Errand { purpose: Purpose::Router, provider, request, context: None }, &view).await? {
            Asked::Answered(_, reply) => route::chosen(catalog, &reply.text),
            Asked::Refused(_) => None,
        })
    }

    fn request(&self, provider: &Provider, model: &str, context: &Context, idempotency_key: String) -> Request {
        Request {
            turns: context.turns.clone(),
            text: context.text.clone(),
            model: model.to_owned(),
            max_output_tokens: provider.max_output_tokens,
            idempotency_key,
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
    pub(crate) async fn unless_stopped<T>(&self, what: impl Future<Output = T>) -> Result<T, Turn> {
        tokio::select! {
            biased;
            () = self.leash.lost.cancelled() => Err(Turn::Lost(None)),
            () = self.leash.give_back.cancelled() => Err(Turn::GivenBack),
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

/// What another provider may cure: the fault lay with this one, not with the request.
fn can_be_answered_elsewhere(kind: ErrorKind) -> bool {
    match kind {
        ErrorKind::RateLimit | ErrorKind::Quota | ErrorKind::Auth | ErrorKind::Timeout | ErrorKind::Provider5xx => true,
        ErrorKind::Provider4xx
        | ErrorKind::Parse
        | ErrorKind::WorkerCrash
        | ErrorKind::Stuck
        | ErrorKind::Unknown
        | ErrorKind::Migration => false,
    }
}

fn unanswered(Refused { failure, retry_after, noted }: Refused) -> Unanswered {
    let kind = failure.kind();
    let turn = match noted {
        Noted::Closed if kind == ErrorKind::RateLimit => Turn::Limited(failure),
        Noted::Closed | Noted::NotClosed => Turn::Failed(failure, retry_after),
    };
    Unanswered { turn, kind }
}

/// A thread that is not there, or not readable, is no more so the next time.
fn unreadable(prompt: PromptId, error: &repo::Error) -> Turn {
    match error {
        repo::Error::NotFound => {
            Turn::failed(ErrorKind::Parse, format!("the prompt {prompt} is not there, or a prompt it continues"))
        }
        repo::Error::Corrupt { .. } => Turn::failed(ErrorKind::Parse, error.to_string()),
        repo::Error::Database(_) | repo::Error::Conflict { .. } => {
            Turn::failed(ErrorKind::Unknown, format!("the thread cannot be read: {error}"))
        }
    }
}

fn answer(call: &CallRecord, reply: Reply, context: &Context) -> Answer {
    Answer {
        text: reply.text,
        provider: call.provider().to_owned(),
        model: call.model(),
        state_class: match reply.ending {
            Ending::Finished => StateClass::Settled,
            Ending::Truncated => StateClass::Truncated,
        },
        source_refs: context.source_refs.clone(),
    }
}
