//! The rows that a change brings along: entities, edges, audit and ledger rows, many in a statement.
//!
//! Each value is bound straight to its column, in statements of sixteen, four and one row. Through one JSON parameter the
//! rows cost half as much again, texts several times as much, and a value that does not fit would be cut or made NULL
//! instead of refused; inside a function or a SELECT list MySQL takes a text for a VARCHAR and cuts it at 65,532 bytes
//! without a word.

mod shapes;

use serde::Serialize;
use sqlx::MySqlConnection;
use uuid::fmt::Hyphenated;

use self::shapes::insert_in_shapes;
use super::Error;
use crate::edge::EdgeKind;
use crate::entity::{EntityKind, StateClass};
use crate::error_kind::ErrorKind;
use crate::id::{ClaimId, EntityId, JobId, LedgerId, OrgId, PromptId, ResponseId, UserId};
use crate::ledger::{CallOutcome, LedgerRow, Purpose};
use crate::viewer::{Actor, Viewer};

/// Most bytes of text in one statement: far below the packet that any server takes.
const LARGEST_TEXT: usize = 4 * 1024 * 1024;

/// The parameter of a `JSON_TABLE`.
pub(super) fn json(rows: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(rows).expect("rows of ids, numbers and texts are always JSON")
}

/// An entity to be written.
pub(super) struct NewEntity<'a> {
    pub(super) id: EntityId,
    pub(super) kind: EntityKind,
    pub(super) job: Option<JobId>,
    pub(super) viewer: Viewer,
    pub(super) thread: EntityId,
    pub(super) parent: Option<EntityId>,
    pub(super) source_refs: &'a [EntityId],
    pub(super) state_class: StateClass,
    pub(super) provider: Option<&'a str>,
    pub(super) model: Option<String>,
    pub(super) content: &'a str,
}

/// The entity as its columns.
struct EntityRow<'a> {
    id: EntityId,
    kind: EntityKind,
    job: Option<JobId>,
    org: OrgId,
    user: UserId,
    thread: EntityId,
    parent: Option<EntityId>,
    source_refs: String,
    truth_class: &'static str,
    state_class: StateClass,
    provider: Option<&'a str>,
    model: Option<String>,
    content: &'a str,
}

impl<'a> From<NewEntity<'a>> for EntityRow<'a> {
    fn from(new: NewEntity<'a>) -> Self {
        Self {
            id: new.id,
            kind: new.kind,
            job: new.job,
            org: new.viewer.org,
            user: new.viewer.user,
            thread: new.thread,
            parent: new.parent,
            source_refs: json(new.source_refs),
            truth_class: match new.kind {
                EntityKind::Prompt => "authored",
                EntityKind::Response => "generated",
            },
            state_class: new.state_class,
            provider: new.provider,
            model: new.model,
            content: new.content,
        }
    }
}

/// Inserts the entities, as many in a statement as their texts allow.
pub(super) async fn insert_entities(tx: &mut MySqlConnection, new: Vec<NewEntity<'_>>) -> Result<(), Error> {
    let rows: Vec<_> = new.into_iter().map(EntityRow::from).collect();
    let mut rest = &rows[..];
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |row: &&EntityRow<'_>| {
            bytes += row.content.len() + row.source_refs.len();
            bytes <= LARGEST_TEXT
        };
        let (now, later) = rest.split_at(rest.iter().take_while(fits).count().max(1));
        insert_entity_rows(tx, now).await?;
        rest = later;
    }
    Ok(())
}

insert_in_shapes!(
    fn insert_entity_rows(EntityRow<'_>),
    "-- repo::children
     INSERT INTO sa_entity (id, kind, job_id, org_id, created_by, correlation_id, parent_id, causation_id, source_refs,
                            truth_class, state_class, provider, model, content, created_at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6))",
    ", (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6))",
    [id, kind, job, org, user, thread, parent, parent, source_refs, truth_class, state_class, provider, model, content]
);

/// An edge to be written, with its audit row.
pub(super) struct NewEdge {
    pub(super) id: Hyphenated,
    pub(super) kind: EdgeKind,
    pub(super) from: EntityId,
    pub(super) to: EntityId,
    pub(super) job: JobId,
    pub(super) org: OrgId,
    pub(super) user: UserId,
    pub(super) reason: &'static str,
}

impl NewEdge {
    pub(super) fn new_id() -> Hyphenated {
        uuid::Uuid::now_v7().hyphenated()
    }
}

insert_in_shapes!(
    /// Inserts the edges.
    pub(super) fn insert_edges(NewEdge),
    "-- repo::children
     INSERT INTO sa_edge (id, kind, from_id, to_id, org_id, created_by, created_at)
     VALUES (?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6))",
    ", (?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6))",
    [id, kind, from, to, org, user]
);

/// An audit row to be written.
pub(super) struct NewAudit {
    pub(super) kind: &'static str,
    pub(super) subject: Hyphenated,
    pub(super) job: JobId,
    pub(super) org: OrgId,
    pub(super) user: UserId,
    pub(super) actor: Actor,
    pub(super) reason: &'static str,
}

impl NewAudit {
    pub(super) fn of_edge(edge: &NewEdge, actor: &Actor) -> Self {
        Self {
            kind: "edge",
            subject: edge.id,
            job: edge.job,
            org: edge.org,
            user: edge.user,
            actor: actor.clone(),
            reason: edge.reason,
        }
    }
}

insert_in_shapes!(
    /// Inserts the audit rows.
    pub(super) fn insert_audit(NewAudit),
    "-- repo::children
     INSERT INTO sa_audit (subject_kind, subject_id, job_id, actor, reason, org_id, created_by, at)
     VALUES (?, ?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6))",
    ", (?, ?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6))",
    [kind, subject, job, actor, reason, org, user]
);

/// Whose run a ledger row belongs to.
pub(super) struct NewLedger<'a> {
    pub(super) job: JobId,
    pub(super) prompt: PromptId,
    pub(super) org: OrgId,
    pub(super) attempt: u16,
    pub(super) claim: &'a ClaimId,
    pub(super) response: Option<ResponseId>,
    pub(super) row: &'a LedgerRow,
    /// The row's own outcome, or what became of it meanwhile.
    pub(super) outcome: CallOutcome,
}

/// The ledger row as its columns.
struct LedgerColumns<'a> {
    id: LedgerId,
    job: JobId,
    prompt: PromptId,
    org: OrgId,
    attempt: u16,
    claim: &'a ClaimId,
    purpose: Purpose,
    provider: &'a str,
    model: String,
    tokens_in: Option<u32>,
    tokens_cached: Option<u32>,
    tokens_out: Option<u32>,
    tokens_reasoning: Option<u32>,
    cost: Option<u64>,
    first: Option<u32>,
    total: u32,
    outcome: CallOutcome,
    error: Option<ErrorKind>,
    request: Option<String>,
    response: Option<ResponseId>,
}

/// At most `max` characters of what a provider said of itself: a longer name would be refused by its column.
pub(super) fn clipped(text: &str, max: usize) -> String {
    text.chars().take(max).collect()
}

impl<'a> From<&NewLedger<'a>> for LedgerColumns<'a> {
    fn from(new: &NewLedger<'a>) -> Self {
        let LedgerRow { usage, .. } = new.row;
        Self {
            id: new.row.id,
            job: new.job,
            prompt: new.prompt,
            org: new.org,
            attempt: new.attempt,
            claim: new.claim,
            purpose: new.row.purpose,
            provider: &new.row.provider,
            model: clipped(&new.row.model, 128),
            tokens_in: usage.tokens_in,
            tokens_cached: usage.tokens_cached,
            tokens_out: usage.tokens_out,
            tokens_reasoning: usage.tokens_reasoning,
            cost: new.row.cost_micro_usd,
            first: new.row.first_token_ms,
            total: new.row.total_ms,
            outcome: new.outcome,
            error: new.row.error_kind,
            request: new.row.provider_request_id.as_deref().map(|id| clipped(id, 255)),
            response: new.response,
        }
    }
}

pub(super) async fn insert_ledger(tx: &mut MySqlConnection, rows: &[NewLedger<'_>]) -> Result<(), Error> {
    let rows: Vec<_> = rows.iter().map(LedgerColumns::from).collect();
    insert_ledger_rows(tx, &rows).await
}

insert_in_shapes!(
    fn insert_ledger_rows(LedgerColumns<'_>),
    "-- repo::children
     INSERT INTO sa_ledger (id, job_id, prompt_id, org_id, attempt, claim, purpose, provider, model, tokens_in,
                            tokens_cached, tokens_out, tokens_reasoning, cost_micro_usd, first_token_ms, total_ms,
                            outcome, error_kind, provider_request_id, response_id, at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6))",
    ", (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6))",
    [
        id, job, prompt, org, attempt, claim, purpose, provider, model, tokens_in, tokens_cached, tokens_out,
        tokens_reasoning, cost, first, total, outcome, error, request, response
    ]
);
