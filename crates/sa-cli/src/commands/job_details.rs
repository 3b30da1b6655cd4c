//! `sa-cli job-details`: all there is about a job and the chain it belongs to.

use anyhow::Result;
use comfy_table::Cell;
use sa_boot::Exit;
use sa_core::{
    repo::{
        self,
        inspect::{self, EntityRow, EventRow, History, JobRow, LedgerEntry},
    },
    timestamp,
    viewer::Scope,
};
use serde::Serialize;
use time::OffsetDateTime;

use crate::{
    Context,
    job_ref::{JobRef, unknown},
    output::{Output, harmless, line, short, state_cell, when},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The job, by its id or the first 8 or more characters of it.
    #[arg(value_name = "JOB")]
    job: JobRef,
}

#[derive(Serialize)]
struct Details<'a> {
    job: &'a JobRow,
    #[serde(flatten)]
    history: &'a History,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<Exit> {
    let db = context.database().await?;
    let id = args.job.resolve(&db).await?;
    let job = inspect::job(&db, Scope::Everywhere, id).await.map_err(|error| match error {
        repo::Error::NotFound => unknown(id).into(),
        other @ (repo::Error::Database(_) | repo::Error::Corrupt { .. } | repo::Error::Conflict { .. }) => {
            anyhow::Error::from(other)
        }
    })?;
    let history = inspect::history(&db, Scope::Everywhere, job.prompt_id).await?;
    db.close().await;
    context.out.one(&Details { job: &job, history: &history }, id, |out| page(out, &job, &history))?;
    Ok(Exit::Done)
}

fn page(out: &Output, job: &JobRow, history: &History) -> String {
    let mut parts =
        vec![out.table(["JOB", &job.id.to_string()], fields(job).map(|(name, value)| [Cell::new(name), value]))];
    if let Some(prompt) = &history.prompt {
        parts.push(text("prompt", prompt));
    }
    parts.push(section("jobs of this prompt", &out.table(JOBS, history.jobs.iter().map(job_row))));
    parts.push(section("events", &out.table(EVENTS, history.events.iter().map(event_row))));
    if !history.ledger.is_empty() {
        parts.push(section("provider calls", &out.table(CALLS, history.ledger.iter().map(call_row))));
    }
    let answers = history.responses.iter().filter(|response| response.job_id == Some(job.id));
    parts.extend(answers.map(|answer| {
        let from = [&answer.provider, &answer.model].map(|name| name.as_deref().unwrap_or("?"));
        text(&format!("answer ({}, by {})", line(&answer.state_class, 16), line(&from.join(" "), 200)), answer)
    }));
    parts.join("\n\n")
}

/// Only what is there: a queued job has neither claim nor end.
fn fields(job: &JobRow) -> impl Iterator<Item = (&'static str, Cell)> {
    let words = |text: String| Some(Cell::new(text));
    let time = |at: Option<OffsetDateTime>| at.map(|at| Cell::new(timestamp::format(at)));
    let stored = |text: &Option<String>| text.as_ref().map(|text| Cell::new(line(text, usize::MAX)));
    [
        ("state", Some(state_cell(job.state))),
        ("prompt", words(job.prompt_id.to_string())),
        ("viewer", words(format!("user {} of organisation {}", job.created_by, job.org_id))),
        ("priority", words(job.priority.to_string())),
        ("lane", (!job.lane.is_empty()).then(|| Cell::new(line(&job.lane, 64)))),
        ("attempt", words(format!("{} of {}", job.attempt, job.max_attempts))),
        ("releases", (job.releases > 0).then(|| Cell::new(job.releases))),
        ("options", stored(&Some(job.execution_options.clone()))),
        ("error kind", stored(&job.error_kind)),
        ("error", stored(&job.error_message)),
        ("held by", stored(&job.held_reason)),
        ("held since", time(job.held_since)),
        ("claim", stored(&job.worker_claim)),
        ("created", time(Some(job.created_at))),
        ("scheduled", time(Some(job.scheduled_for))),
        ("started", time(job.started_at)),
        ("last beat", time(job.running_heartbeat_at)),
        ("finished", time(job.finished_at)),
        ("updated", time(Some(job.updated_at))),
        ("revision", words(job.revision.to_string())),
        ("supersedes", job.supersedes.map(|id| Cell::new(id.to_string()))),
        ("superseded by", job.successor.map(|id| Cell::new(id.to_string()))),
        ("response", job.response_id.map(|id| Cell::new(id.to_string()))),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
}

fn section(title: &str, body: &str) -> String {
    format!("{title}\n{}", indented(body))
}

/// Indented, so that no line of a text can pass for one of ours.
fn text(title: &str, entity: &EntityRow) -> String {
    section(&format!("{title} {}", entity.id), &harmless(&entity.content))
}

fn indented(body: &str) -> String {
    let lines: Vec<_> = body.split('\n').map(|line| format!("    {line}").trim_end().to_owned()).collect();
    lines.join("\n")
}

const JOBS: [&str; 5] = ["JOB", "STATE", "ATTEMPT", "CREATED", "FINISHED"];

fn job_row(job: &JobRow) -> [Cell; 5] {
    [
        Cell::new(short(job.id)),
        state_cell(job.state),
        Cell::new(format!("{}/{}", job.attempt, job.max_attempts)),
        Cell::new(when(job.created_at)),
        Cell::new(job.finished_at.map(when).unwrap_or_default()),
    ]
}

const EVENTS: [&str; 7] = ["AT", "JOB", "CHANGE", "ATTEMPT", "REASON", "BY", "ERROR"];

fn event_row(event: &EventRow) -> [Cell; 7] {
    let change = match event.from_state {
        None => format!("→ {}", event.to_state),
        Some(from) if from == event.to_state => format!("{from} (note)"),
        Some(from) => format!("{from} → {}", event.to_state),
    };
    [
        Cell::new(when(event.at)),
        Cell::new(short(event.job_id)),
        Cell::new(change),
        Cell::new(event.attempt),
        Cell::new(line(&event.reason, 16)),
        Cell::new(line(&event.actor, 96)),
        Cell::new(error(event.error_kind.as_deref(), event.error_message.as_deref())),
    ]
}

const CALLS: [&str; 10] =
    ["AT", "ATTEMPT", "FOR", "PROVIDER", "MODEL", "TOKENS IN", "TOKENS OUT", "USD", "MS", "OUTCOME"];

fn call_row(call: &LedgerEntry) -> [Cell; 10] {
    let number = |number: Option<u32>| Cell::new(number.map_or_else(|| "?".to_owned(), |number| number.to_string()));
    let dollars = call
        .cost_micro_usd
        .map_or_else(|| "?".to_owned(), |micro| format!("{}.{:06}", micro / 1_000_000, micro % 1_000_000));
    let outcome = match &call.error_kind {
        Some(kind) => format!("{} ({})", line(&call.outcome, 16), line(kind, 32)),
        None => line(&call.outcome, 16),
    };
    [
        Cell::new(when(call.at)),
        Cell::new(call.attempt),
        Cell::new(line(&call.purpose, 16)),
        Cell::new(line(&call.provider, 64)),
        Cell::new(line(&call.model, 128)),
        number(call.tokens_in),
        number(call.tokens_out),
        Cell::new(dollars),
        Cell::new(call.total_ms),
        Cell::new(outcome),
    ]
}

/// An error in one cell.
pub(crate) fn error(kind: Option<&str>, message: Option<&str>) -> String {
    /// How much of a message a table shows.
    const WIDTH: usize = 60;
    let parts: Vec<_> = [kind, message].into_iter().flatten().map(|text| line(text, WIDTH)).collect();
    parts.join(": ")
}
