//! What an answer brings along: the response entity, its edges and audit rows.

use std::collections::HashMap;

use super::{End, Finish, actor_of};
use crate::edge::EdgeKind;
use crate::entity::{Answer, EntityKind, StateClass};
use crate::id::{EntityId, PromptId, ResponseId};
use crate::repo::Error;
use crate::repo::children::{NewAudit, NewEdge, NewEntity, clipped, insert_audit, insert_edges, insert_entities, json};
use crate::repo::db::Tx;
use crate::repo::thread::latest_responses;

/// An answer with the run it belongs to.
pub(super) struct Written<'a> {
    pub(super) finish: &'a Finish,
    pub(super) answer: &'a Answer,
    pub(super) state_class: StateClass,
}

/// Inserts what the answers among these runs bring along. A retry's answer also says which earlier one it replaces.
pub(super) async fn insert(tx: &mut Tx, ours: &[&Finish]) -> Result<(), Error> {
    let written: Vec<_> = ours.iter().filter_map(|finish| Written::of(finish)).collect();
    if written.is_empty() {
        return Ok(());
    }
    let replaced = replaced(tx, &written).await?;
    insert_responses(tx, &written).await?;
    let mut edges = Vec::with_capacity(written.len());
    for Written { finish, .. } in &written {
        edges.push(edge(finish, EdgeKind::FlowsTo, finish.claim.prompt().into(), "answered"));
        if let Some(&old) = replaced.get(&finish.claim.prompt()) {
            edges.push(edge(finish, EdgeKind::SupersededBy, old.into(), "superseded"));
        }
    }
    write_edges(tx, &written, &edges, "answered").await
}

/// Inserts the edges, and the audit rows of entities and edges.
pub(super) async fn write_edges(
    tx: &mut Tx,
    written: &[Written<'_>],
    edges: &[NewEdge],
    reason: &'static str,
) -> Result<(), Error> {
    insert_edges(tx.session(), edges).await?;
    let actor = actor_of(&written[0].finish.claim);
    let mut audit: Vec<_> = written.iter().map(|written| audit_of(written.finish, reason)).collect();
    audit.extend(edges.iter().map(|edge| NewAudit::of_edge(edge, &actor)));
    insert_audit(tx.session(), &audit).await
}

impl<'a> Written<'a> {
    fn of(finish: &'a Finish) -> Option<Self> {
        match &finish.end {
            End::Succeed(answer) => Some(Self { finish, answer, state_class: answer.state_class }),
            End::Requeue(_) | End::Hold(..) | End::Fail(_) | End::Abandon(_) => None,
        }
    }
}

pub(super) fn edge(finish: &Finish, kind: EdgeKind, from: EntityId, reason: &'static str) -> NewEdge {
    let viewer = finish.claim.viewer();
    NewEdge {
        id: NewEdge::new_id(),
        kind,
        from,
        to: finish.response_id().into(),
        job: finish.job(),
        org: viewer.org,
        user: viewer.user,
        reason,
    }
}

fn audit_of(finish: &Finish, reason: &'static str) -> NewAudit {
    let viewer = finish.claim.viewer();
    NewAudit {
        kind: "entity",
        subject: finish.response_id().as_uuid().hyphenated(),
        job: finish.job(),
        org: viewer.org,
        user: viewer.user,
        actor: actor_of(&finish.claim),
        reason,
    }
}

/// The response that each retry among these replaces: its prompt's latest until now.
async fn replaced(tx: &mut Tx, written: &[Written<'_>]) -> Result<HashMap<PromptId, ResponseId>, Error> {
    let retried: Vec<_> = written
        .iter()
        .filter(|written| written.finish.claim.supersedes().is_some())
        .map(|written| written.finish.claim.prompt())
        .collect();
    if retried.is_empty() {
        return Ok(HashMap::new());
    }
    latest_responses(tx.session(), &retried).await
}

pub(super) async fn insert_responses(tx: &mut Tx, written: &[Written<'_>]) -> Result<(), Error> {
    let threads = threads(tx, written).await?;
    let responses = written.iter().map(|written| {
        // Without its prompt a response has no thread that it could belong to.
        let thread = threads.get(&written.finish.claim.prompt()).ok_or(Error::NotFound)?;
        Ok(response(written, *thread))
    });
    insert_entities(tx.session(), responses.collect::<Result<_, Error>>()?).await
}

fn response<'a>(&Written { finish, answer, state_class }: &Written<'a>, thread: EntityId) -> NewEntity<'a> {
    NewEntity {
        id: finish.response_id().into(),
        kind: EntityKind::Response,
        job: Some(finish.job()),
        viewer: finish.claim.viewer(),
        thread,
        parent: Some(finish.claim.prompt().into()),
        source_refs: &answer.source_refs,
        state_class,
        provider: Some(&answer.provider),
        model: Some(clipped(&answer.model, 128)),
        content: &answer.text,
    }
}

/// The thread of each prompt that was answered.
async fn threads(tx: &mut Tx, written: &[Written<'_>]) -> Result<HashMap<PromptId, EntityId>, Error> {
    let prompts: Vec<_> = written.iter().map(|written| written.finish.claim.prompt()).collect();
    let rows = sqlx::query!(
        r#"-- repo::finalize
         SELECT e.id AS "id: PromptId", e.correlation_id AS "thread: EntityId"
           FROM JSON_TABLE(?, '$[*]' COLUMNS (
                    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$'
                )) s
           STRAIGHT_JOIN sa_entity e FORCE INDEX (PRIMARY) ON e.id = s.id"#,
        json(&prompts),
    )
    .fetch_all(tx.session())
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.thread)).collect())
}
