//! The rows that a change brings along: entities, edges, audit and ledger rows, many in a statement.
//!
//! Ids and numbers travel in one JSON parameter, so that one statement serves any number of rows. The texts of entities are
//! bound straight to their column instead: through JSON they would cost several times as much, and inside a function or a
//! SELECT list MySQL takes such a parameter for a VARCHAR and cuts it at 65,532 bytes without a word.

use serde::Serialize;
use sqlx::MySqlConnection;

use super::Error;
use crate::edge::EdgeKind;
use crate::entity::{EntityKind, StateClass};
use crate::error_kind::ErrorKind;
use crate::id::{EntityId, JobId, LedgerId, OrgId, PromptId, ResponseId, UserId};
use crate::ledger::{CallOutcome, LedgerRow};
use crate::viewer::{Actor, Viewer};

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

pub(super) async fn insert_entity(tx: &mut MySqlConnection, new: &NewEntity<'_>) -> Result<(), Error> {
    let truth_class = match new.kind {
        EntityKind::Prompt => "authored",
        EntityKind::Response => "generated",
    };
    sqlx::query!(
        "-- repo::children
         INSERT INTO sa_entity (id, kind, job_id, org_id, created_by, correlation_id, parent_id, causation_id, source_refs,
                                truth_class, state_class, provider, model, content, created_at)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6))",
        new.id,
        new.kind,
        new.job,
        new.viewer.org,
        new.viewer.user,
        new.thread,
        new.parent,
        new.parent,
        json(new.source_refs),
        truth_class,
        new.state_class,
        new.provider,
        new.model,
        new.content,
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// An edge to be written, with its audit row.
#[derive(Serialize)]
pub(super) struct NewEdge {
    pub(super) id: uuid::Uuid,
    pub(super) kind: EdgeKind,
    pub(super) from: EntityId,
    pub(super) to: EntityId,
    pub(super) job: JobId,
    pub(super) org: OrgId,
    pub(super) user: UserId,
    pub(super) reason: &'static str,
}

impl NewEdge {
    pub(super) fn new_id() -> uuid::Uuid {
        uuid::Uuid::now_v7()
    }
}

pub(super) async fn insert_edges(tx: &mut MySqlConnection, edges: &[NewEdge]) -> Result<(), Error> {
    if edges.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        "-- repo::children
         INSERT INTO sa_edge (id, kind, from_id, to_id, org_id, created_by, created_at)
         SELECT s.id, s.kind, s.from_id, s.to_id, s.org_id, s.created_by, UTC_TIMESTAMP(6)
           FROM JSON_TABLE(?, '$[*]' COLUMNS (
                    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$.id',
                    kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin PATH '$.kind',
                    from_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$.from',
                    to_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$.to',
                    org_id BIGINT UNSIGNED PATH '$.org',
                    created_by BIGINT UNSIGNED PATH '$.user'
                )) s",
        json(edges),
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// An audit row to be written.
#[derive(Serialize)]
pub(super) struct NewAudit {
    pub(super) kind: &'static str,
    pub(super) subject: uuid::Uuid,
    pub(super) job: JobId,
    pub(super) org: OrgId,
    pub(super) user: UserId,
    pub(super) actor: String,
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
            actor: actor.to_string(),
            reason: edge.reason,
        }
    }
}

pub(super) async fn insert_audit(tx: &mut MySqlConnection, rows: &[NewAudit]) -> Result<(), Error> {
    sqlx::query!(
        "-- repo::children
         INSERT INTO sa_audit (subject_kind, subject_id, job_id, actor, reason, org_id, created_by, at)
         SELECT s.kind, s.subject, s.job, s.actor, s.reason, s.org_id, s.created_by, UTC_TIMESTAMP(6)
           FROM JSON_TABLE(?, '$[*]' COLUMNS (
                    kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin PATH '$.kind',
                    subject CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$.subject',
                    job CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$.job',
                    actor VARCHAR(96) CHARACTER SET ascii COLLATE ascii_bin PATH '$.actor',
                    reason VARCHAR(64) CHARACTER SET utf8mb4 PATH '$.reason',
                    org_id BIGINT UNSIGNED PATH '$.org',
                    created_by BIGINT UNSIGNED PATH '$.user'
                )) s",
        json(rows),
    )
    .execute(tx)
    .await?;
    Ok(())
}

/// Whose run a ledger row belongs to.
pub(super) struct NewLedger<'a> {
    pub(super) job: JobId,
    pub(super) prompt: PromptId,
    pub(super) org: OrgId,
    pub(super) attempt: u16,
    pub(super) claim: &'a str,
    pub(super) response: Option<ResponseId>,
    pub(super) row: &'a LedgerRow,
    /// The row's own outcome, or what became of it meanwhile.
    pub(super) outcome: CallOutcome,
}

#[derive(Serialize)]
struct LedgerJson<'a> {
    id: LedgerId,
    job: JobId,
    prompt: PromptId,
    org: OrgId,
    attempt: u16,
    claim: &'a str,
    purpose: &'a str,
    provider: &'a str,
    model: String,
    tokens: [Option<u32>; 4],
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

pub(super) async fn insert_ledger(tx: &mut MySqlConnection, rows: &[NewLedger<'_>]) -> Result<(), Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = rows.iter().map(ledger_json).collect();
    sqlx::query!(
        "-- repo::children
         INSERT INTO sa_ledger (id, job_id, prompt_id, org_id, attempt, claim, purpose, provider, model, tokens_in,
                                tokens_cached, tokens_out, tokens_reasoning, cost_micro_usd, first_token_ms, total_ms,
                                outcome, error_kind, provider_request_id, response_id, at)
         SELECT s.id, s.job, s.prompt, s.org_id, s.attempt, s.claim, s.purpose, s.provider, s.model, s.tokens_in,
                s.tokens_cached, s.tokens_out, s.tokens_reasoning, s.cost, s.first_ms, s.total_ms,
                s.outcome, s.error_kind, s.request, s.response, UTC_TIMESTAMP(6)
           FROM JSON_TABLE(?, '$[*]' COLUMNS (
                    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$.id',
                    job CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$.job',
                    prompt CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$.prompt',
                    org_id BIGINT UNSIGNED PATH '$.org',
                    attempt SMALLINT UNSIGNED PATH '$.attempt',
                    claim VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.claim',
                    purpose VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin PATH '$.purpose',
                    provider VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.provider',
                    model VARCHAR(128) CHARACTER SET utf8mb4 PATH '$.model',
                    tokens_in INT UNSIGNED PATH '$.tokens[0]',
                    tokens_cached INT UNSIGNED PATH '$.tokens[1]',
                    tokens_out INT UNSIGNED PATH '$.tokens[2]',
                    tokens_reasoning INT UNSIGNED PATH '$.tokens[3]',
                    cost BIGINT UNSIGNED PATH '$.cost',
                    first_ms INT UNSIGNED PATH '$.first',
                    total_ms INT UNSIGNED PATH '$.total',
                    outcome VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin PATH '$.outcome',
                    error_kind VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin PATH '$.error',
                    request VARCHAR(255) CHARACTER SET utf8mb4 PATH '$.request',
                    response CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$.response'
                )) s",
        json(&rows),
    )
    .execute(tx)
    .await?;
    Ok(())
}

fn ledger_json<'a>(new: &NewLedger<'a>) -> LedgerJson<'a> {
    let LedgerRow { usage, .. } = new.row;
    LedgerJson {
        id: new.row.id,
        job: new.job,
        prompt: new.prompt,
        org: new.org,
        attempt: new.attempt,
        claim: new.claim,
        purpose: new.row.purpose.as_str(),
        provider: &new.row.provider,
        model: clipped(&new.row.model, 128),
        tokens: [usage.tokens_in, usage.tokens_cached, usage.tokens_out, usage.tokens_reasoning],
        cost: new.row.cost_micro_usd,
        first: new.row.first_token_ms,
        total: new.row.total_ms,
        outcome: new.outcome,
        error: new.row.error_kind,
        request: new.row.provider_request_id.as_deref().map(|id| clipped(id, 255)),
        response: new.response,
    }
}
