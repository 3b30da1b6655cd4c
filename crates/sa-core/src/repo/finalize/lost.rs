//! Runs whose claim was lost: what they cost is kept, and of a cancelled one the text already paid for.

use serde::Serialize;

use super::answers::{Written, edge, insert_responses, write_edges};
use super::{End, Finish, Outcome, actor_of};
use crate::edge::EdgeKind;
use crate::entity::{Answer, StateClass};
use crate::event::Reason;
use crate::id::{ClaimId, JobId};
use crate::ledger::CallOutcome;
use crate::repo::children::{NewLedger, insert_ledger, json};
use crate::repo::db::Tx;
use crate::repo::error::Fate;
use crate::repo::event::{Change, Changed, record};
use crate::repo::{DatabaseError, Db, Error};
use crate::state::{State, Transition};

/// Whether each of these ends is in the database after all: its event is, with this claim, this new state and a worker's
/// reason. The row alone could not tell, since after a requeue it carries no claim; nor could an event of the reaper's.
pub(super) async fn written(db: &Db, batch: &[Finish]) -> Result<Vec<bool>, Error> {
    #[derive(Serialize)]
    struct Sought<'a> {
        job: JobId,
        claim: &'a str,
        to: Option<State>,
        reason: Reason,
    }
    let sought: Vec<_> = batch
        .iter()
        .map(|finish| Sought {
            job: finish.job(),
            claim: finish.claim.id().as_str(),
            to: finish.edge().map(Transition::to),
            reason: finish.reason(),
        })
        .collect();
    let found = sqlx::query_scalar!(
        r#"-- repo::finalize
         SELECT e.job_id AS "id: JobId"
           FROM JSON_TABLE(?, '$[*]' COLUMNS (
                    job CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$.job',
                    claim VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin PATH '$.claim',
                    to_state VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin PATH '$.to',
                    reason VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin PATH '$.reason'
                )) s
           STRAIGHT_JOIN sa_job_event e FORCE INDEX (idx_event_job) ON e.job_id = s.job
          WHERE e.claim = s.claim
            AND e.to_state = s.to_state
            AND e.reason = s.reason"#,
        json(&sought),
    )
    .fetch_all(db.pool())
    .await?;
    Ok(batch.iter().map(|finish| found.contains(&finish.job())).collect())
}

/// Records what a lost run cost, in a transaction of its own.
pub(super) async fn settle(db: &Db, finish: Finish) -> Result<Outcome, (Error, Finish)> {
    match db.retrying(|| written(db, std::slice::from_ref(&finish))).await {
        // An earlier try was committed without an answer.
        Ok(written) if written[0] => return Ok(Outcome::Written),
        Ok(_) => {}
        Err(error) => return Err((error, finish)),
    }
    match db.retrying(|| once(db, &finish)).await {
        Ok(found) => Ok(Outcome::Lost { found }),
        // The cost is there already: an earlier try was committed without an answer.
        Err(error) if error.fate() == Fate::Duplicate => match db.retrying(|| state(db, finish.job())).await {
            Ok(found) => Ok(Outcome::Lost { found }),
            Err(error) => Err((error, finish)),
        },
        Err(error) => Err((error, finish)),
    }
}

async fn state(db: &Db, job: JobId) -> Result<State, Error> {
    sqlx::query_scalar!(
        r#"-- repo::finalize
         SELECT state AS "state: State" FROM sa_job WHERE id = ?"#,
        job,
    )
    .fetch_optional(db.pool())
    .await?
    .ok_or(Error::NotFound)
}

async fn once(db: &Db, finish: &Finish) -> Result<State, Error> {
    let mut tx = db.begin().await?;
    let row = sqlx::query!(
        r#"-- repo::finalize
         SELECT state AS "state: State", worker_claim AS "claim: ClaimId", attempt
           FROM sa_job
          WHERE id = ?
            FOR UPDATE"#,
        finish.job(),
    )
    .fetch_optional(tx.session())
    .await?
    .ok_or(Error::NotFound)?;
    let ours = row.claim.as_ref() == Some(finish.claim.id());
    if row.state == State::Running && ours && row.attempt == finish.claim.attempt() && finish.edge().is_some() {
        return Err(DatabaseError::undecided().into());
    }
    let rows: Vec<_> = finish.ledger.iter().map(|row| discarded(finish, row)).collect();
    insert_ledger(tx.session(), &rows).await?;
    if row.state == State::Cancelled
        && ours
        && let Some(answer) = text_of(finish)
    {
        keep_partial(&mut tx, finish, answer).await?;
    }
    tx.commit().await?;
    Ok(row.state)
}

fn discarded<'a>(finish: &'a Finish, row: &'a crate::ledger::LedgerRow) -> NewLedger<'a> {
    let outcome = match row.outcome {
        CallOutcome::Succeeded => CallOutcome::Discarded,
        CallOutcome::Failed | CallOutcome::Cancelled | CallOutcome::Discarded | CallOutcome::MaybeCharged => {
            row.outcome
        }
    };
    NewLedger {
        job: finish.job(),
        prompt: finish.claim.prompt(),
        org: finish.claim.viewer().org,
        attempt: finish.claim.attempt(),
        claim: finish.claim.id(),
        response: None,
        row,
        outcome,
    }
}

fn text_of(finish: &Finish) -> Option<&Answer> {
    match &finish.end {
        End::Succeed(answer) | End::Abandon(Some(answer)) => Some(answer).filter(|answer| !answer.text.is_empty()),
        End::Requeue(_) | End::Hold(..) | End::Fail(_) | End::Abandon(None) => None,
    }
}

/// Keeps the text of a run that was cancelled under it. Its id is the job's one response id, so it can be kept only once.
async fn keep_partial(tx: &mut Tx, finish: &Finish, answer: &Answer) -> Result<(), Error> {
    let written = [Written { finish, answer, state_class: StateClass::Partial }];
    insert_responses(tx, &written).await?;
    let edges = [edge(finish, EdgeKind::FlowsTo, finish.claim.prompt().into(), "partial")];
    write_edges(tx, &written, &edges, "partial").await?;
    let actor = actor_of(&finish.claim);
    let jobs = [Changed { id: finish.job(), claim: Some(finish.claim.id()) }];
    let change = Change { from: Some(State::Cancelled), to: State::Cancelled, actor: &actor, reason: Reason::Partial };
    record(tx.session(), &jobs, &change).await
}
