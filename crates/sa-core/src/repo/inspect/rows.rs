//! The rows as operators see them: every column, times in RFC 3339.

use serde::Serialize;
use sqlx::FromRow;
use time::OffsetDateTime;

use crate::id::{EntityId, JobId, LedgerId, OrgId, PromptId, ResponseId, UserId};
use crate::job::{ExecutionOptions, Priority};
use crate::repo::Error;
use crate::state::State;
use crate::timestamp::{serialize, serialize_option};
use crate::viewer::Viewer;

/// A row of `sa_job`, with the job that replaced it.
#[derive(Clone, Debug, Serialize, FromRow)]
#[expect(missing_docs, reason = "the columns are explained in the migration")]
pub struct JobRow {
    pub id: JobId,
    pub prompt_id: PromptId,
    pub state: State,
    pub priority: Priority,
    pub lane: String,
    #[serde(serialize_with = "serialize")]
    pub scheduled_for: OffsetDateTime,
    pub attempt: u16,
    pub max_attempts: u16,
    pub releases: u8,
    pub held_reason: Option<String>,
    #[serde(serialize_with = "serialize_option")]
    pub held_since: Option<OffsetDateTime>,
    pub execution_options: String,
    pub worker_claim: Option<String>,
    #[serde(serialize_with = "serialize_option")]
    pub claimed_at: Option<OffsetDateTime>,
    #[serde(serialize_with = "serialize_option")]
    pub started_at: Option<OffsetDateTime>,
    #[serde(serialize_with = "serialize_option")]
    pub running_heartbeat_at: Option<OffsetDateTime>,
    #[serde(serialize_with = "serialize_option")]
    pub finished_at: Option<OffsetDateTime>,
    pub response_id: Option<ResponseId>,
    pub error_kind: Option<String>,
    pub error_message: Option<String>,
    pub supersedes: Option<JobId>,
    pub successor: Option<JobId>,
    pub revision: u32,
    pub org_id: OrgId,
    pub created_by: UserId,
    #[serde(serialize_with = "serialize")]
    pub created_at: OffsetDateTime,
    #[serde(serialize_with = "serialize")]
    pub updated_at: OffsetDateTime,
}

impl JobRow {
    /// Whose job it is.
    #[must_use]
    pub const fn viewer(&self) -> Viewer {
        Viewer { org: self.org_id, user: self.created_by }
    }

    /// What the caller asked for.
    ///
    /// # Errors
    /// `Corrupt` if the row's options are not JSON of the known types.
    pub fn options(&self) -> Result<ExecutionOptions, Error> {
        serde_json::from_str(&self.execution_options).map_err(|_| Error::Corrupt {
            table: "sa_job",
            column: "execution_options",
            id: self.id.to_string(),
        })
    }
}

/// A row of `sa_job_event`.
#[derive(Clone, Debug, Serialize, FromRow)]
#[expect(missing_docs, reason = "the columns are explained in the migration")]
pub struct EventRow {
    pub seq: u64,
    pub job_id: JobId,
    pub from_state: Option<State>,
    pub to_state: State,
    pub attempt: u16,
    pub revision: u32,
    pub claim: Option<String>,
    pub actor: String,
    pub reason: String,
    pub error_kind: Option<String>,
    pub error_message: Option<String>,
    #[serde(serialize_with = "serialize")]
    pub at: OffsetDateTime,
}

/// A row of `sa_ledger`.
#[derive(Clone, Debug, Serialize, FromRow)]
#[expect(missing_docs, reason = "the columns are explained in the migration")]
pub struct LedgerEntry {
    pub id: LedgerId,
    pub job_id: JobId,
    pub attempt: u16,
    pub claim: String,
    pub purpose: String,
    pub provider: String,
    pub model: String,
    pub tokens_in: Option<u32>,
    pub tokens_cached: Option<u32>,
    pub tokens_out: Option<u32>,
    pub tokens_reasoning: Option<u32>,
    pub cost_micro_usd: Option<u64>,
    pub first_token_ms: Option<u32>,
    pub total_ms: u32,
    pub outcome: String,
    pub error_kind: Option<String>,
    pub provider_request_id: Option<String>,
    pub response_id: Option<ResponseId>,
    #[serde(serialize_with = "serialize")]
    pub at: OffsetDateTime,
}

/// A row of `sa_entity`.
#[derive(Clone, Debug, Serialize, FromRow)]
#[expect(missing_docs, reason = "the columns are explained in the migration")]
pub struct EntityRow {
    pub id: EntityId,
    pub kind: String,
    pub job_id: Option<JobId>,
    pub org_id: OrgId,
    pub created_by: UserId,
    pub correlation_id: EntityId,
    pub parent_id: Option<EntityId>,
    pub source_refs: String,
    pub truth_class: String,
    pub state_class: String,
    pub provider: Option<String>,
    pub model: Option<String>,
    pub content: String,
    #[serde(serialize_with = "serialize")]
    pub created_at: OffsetDateTime,
}
