//! The statements of the bare client: plain SQL, prepared, many rows each.

use std::iter::repeat_n;
use std::sync::Arc;

/// The text of each, made once, for batches of one size.
pub struct Statements {
    pub claim: Arc<str>,
    pub end: Arc<str>,
    pub event: Arc<str>,
    pub entity: Arc<str>,
    pub edge: Arc<str>,
    pub ledger: Arc<str>,
    pub audit: Arc<str>,
    pub job: Arc<str>,
}

impl Statements {
    pub fn of(batch: usize) -> Self {
        let insert = |into: &str, row: &str| format!("INSERT INTO {into} VALUES {}", list(row, ", ", batch)).into();
        Self {
            claim: claim(batch).into(),
            end: end(batch).into(),
            event: insert(
                "sa_job_event (job_id, prompt_id, org_id, created_by, from_state, to_state, attempt, revision, claim,
                               actor, reason, at)",
                "(?, ?, 1, ?, ?, ?, 1, ?, ?, ?, ?, UTC_TIMESTAMP(6))",
            ),
            entity: insert(
                "sa_entity (id, kind, job_id, org_id, created_by, correlation_id, parent_id, causation_id, source_refs,
                            truth_class, state_class, provider, model, content, created_at)",
                "(?, ?, ?, 1, ?, ?, ?, ?, '[]', ?, 'settled', ?, ?, ?, UTC_TIMESTAMP(6))",
            ),
            edge: insert(
                "sa_edge (id, kind, from_id, to_id, org_id, created_by, created_at)",
                "(?, 'flows-to', ?, ?, 1, ?, UTC_TIMESTAMP(6))",
            ),
            ledger: insert(
                "sa_ledger (id, job_id, prompt_id, org_id, attempt, claim, purpose, provider, model, tokens_in,
                            tokens_cached, tokens_out, tokens_reasoning, cost_micro_usd, first_token_ms, total_ms,
                            outcome, provider_request_id, response_id, at)",
                "(?, ?, ?, 1, 1, ?, 'answer', ?, ?, ?, NULL, ?, NULL, ?, ?, ?, 'succeeded', ?, ?, UTC_TIMESTAMP(6))",
            ),
            audit: insert(
                "sa_audit (subject_kind, subject_id, job_id, actor, reason, org_id, created_by, at)",
                "(?, ?, ?, ?, ?, 1, ?, UTC_TIMESTAMP(6))",
            ),
            job: insert(
                "sa_job (id, prompt_id, state, priority, lane, scheduled_for, max_attempts, execution_options, org_id,
                         created_by, created_at, updated_at)",
                "(?, ?, 'queued', ?, ?, UTC_TIMESTAMP(6), ?, '{}', 1, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))",
            ),
        }
    }
}

fn claim(batch: usize) -> String {
    format!(
        "UPDATE sa_job
            SET state = 'running', worker_claim = ?, claimed_at = UTC_TIMESTAMP(6), started_at = UTC_TIMESTAMP(6),
                running_heartbeat_at = UTC_TIMESTAMP(6), revision = revision + 1, updated_at = UTC_TIMESTAMP(6)
          WHERE id IN ({})",
        list("?", ", ", batch)
    )
}

fn end(batch: usize) -> String {
    format!(
        "UPDATE sa_job
            SET state = 'succeeded', response_id = CASE id {} END, finished_at = UTC_TIMESTAMP(6),
                revision = revision + 1, updated_at = UTC_TIMESTAMP(6)
          WHERE id IN ({})",
        list("WHEN ? THEN ?", " ", batch),
        list("?", ", ", batch)
    )
}

fn list(one: &str, between: &str, count: usize) -> String {
    repeat_n(one, count).collect::<Vec<_>>().join(between)
}
