//! What a prompt continues: the turns before it, oldest first.

use std::collections::HashMap;

use sqlx::MySqlConnection;
use time::OffsetDateTime;
use uuid::fmt::Hyphenated as Uuid;

use super::children::json;
use super::{Db, Error};
use crate::entity::{EntityKind, StateClass};
use crate::id::{EntityId, PromptId, ResponseId};

/// One earlier turn of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// What was asked.
    pub prompt: String,
    /// The latest settled response to it; nothing if there is none.
    pub response: Option<String>,
}

/// A prompt with the turns before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Earlier turns, the oldest first.
    pub turns: Vec<Turn>,
    /// The prompt itself.
    pub text: String,
    /// The entities of those turns, in their order.
    pub source_refs: Vec<EntityId>,
}

/// The prompt's text and at most `depth` turns before it. Each turn is a prompt with the response that was continued, or,
/// where the prompt itself was, with its latest; partial ones are left out.
///
/// # Errors
/// `NotFound` if there is no such prompt; `Database`.
pub async fn context(db: &Db, prompt: PromptId, depth: u8) -> Result<Context, Error> {
    db.retrying(|| once(db, prompt, depth)).await
}

async fn once(db: &Db, prompt: PromptId, depth: u8) -> Result<Context, Error> {
    let mut session = db.pool().acquire().await?;
    let mut asked = ancestors(&mut session, prompt, depth).await?;
    if asked.first().map(|(asked, _)| *asked) != Some(prompt) {
        return Err(Error::NotFound);
    }
    asked.truncate(usize::from(depth) + 1);
    let named: HashMap<PromptId, ResponseId> =
        asked.iter().filter_map(|&(asked, named)| Some((asked, named?))).collect();
    let earlier: Vec<PromptId> = asked[1..].iter().rev().map(|&(asked, _)| asked).collect();
    let mut responses = latest_responses(&mut session, &earlier).await?;
    responses.extend(named);
    let mut source_refs = Vec::new();
    for asked in &earlier {
        source_refs.push(EntityId::from(*asked));
        source_refs.extend(responses.get(asked).map(|&response| EntityId::from(response)));
    }
    let mut wanted = source_refs.clone();
    wanted.push(prompt.into());
    let mut texts = texts(&mut session, &wanted).await?;
    let mut text_of = |id: EntityId| texts.remove(&id);
    let mut turns = Vec::with_capacity(earlier.len());
    for asked in &earlier {
        let response = responses.get(asked).and_then(|&response| text_of(response.into()));
        turns.push(Turn { prompt: text_of((*asked).into()).ok_or(Error::NotFound)?, response });
    }
    Ok(Context { turns, text: text_of(prompt.into()).ok_or(Error::NotFound)?, source_refs })
}

/// The prompt and the prompts above it, nearest first; each with the very response that was continued, if one was.
async fn ancestors(
    session: &mut MySqlConnection,
    prompt: PromptId,
    depth: u8,
) -> Result<Vec<(PromptId, Option<ResponseId>)>, Error> {
    let rows = sqlx::query!(
        r#"-- repo::thread
         WITH RECURSIVE up (id, kind, state_class, parent_id, n) AS (
             SELECT e.id, e.kind, e.state_class, e.parent_id, 0 FROM sa_entity e WHERE e.id = ?
             UNION ALL
             SELECT e.id, e.kind, e.state_class, e.parent_id, up.n + 1
               FROM up STRAIGHT_JOIN sa_entity e FORCE INDEX (PRIMARY) ON e.id = up.parent_id
              WHERE up.n < ?
         )
         SELECT up.id AS "id!: Uuid", up.kind AS "kind!: EntityKind", up.state_class AS "class!: StateClass"
           FROM up
          ORDER BY up.n"#,
        prompt,
        // A turn is at most two steps: to the response, and on to its prompt.
        u32::from(depth) * 2,
    )
    .fetch_all(session)
    .await?;
    let mut asked = Vec::new();
    let mut continued = None;
    for row in rows {
        let id = row.id.into_uuid();
        match (row.kind, row.class) {
            (EntityKind::Prompt, _) => asked.push((PromptId::from_uuid(id), continued.take())),
            (EntityKind::Response, StateClass::Settled | StateClass::Truncated) => {
                continued = Some(ResponseId::from_uuid(id));
            }
            (EntityKind::Response, StateClass::Partial) => {}
        }
    }
    Ok(asked)
}

/// Each prompt's latest response that is whole or truncated.
pub(super) async fn latest_responses(
    session: &mut MySqlConnection,
    prompts: &[PromptId],
) -> Result<HashMap<PromptId, ResponseId>, Error> {
    if prompts.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = sqlx::query!(
        r#"-- repo::thread
         SELECT e.id AS "id: ResponseId", e.parent_id AS "prompt!: PromptId", e.created_at AS "at: OffsetDateTime"
           FROM JSON_TABLE(?, '$[*]' COLUMNS (
                    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$'
                )) s
           STRAIGHT_JOIN sa_entity e FORCE INDEX (idx_entity_parent) ON e.parent_id = s.id
          WHERE e.kind = 'response'
            AND e.state_class <> 'partial'"#,
        json(prompts),
    )
    .fetch_all(session)
    .await?;
    let mut latest: HashMap<PromptId, (OffsetDateTime, ResponseId)> = HashMap::new();
    for row in rows {
        let seen = latest.entry(row.prompt).or_insert((row.at, row.id));
        *seen = (*seen).max((row.at, row.id));
    }
    Ok(latest.into_iter().map(|(prompt, (_, response))| (prompt, response)).collect())
}

async fn texts(session: &mut MySqlConnection, ids: &[EntityId]) -> Result<HashMap<EntityId, String>, Error> {
    let rows = sqlx::query!(
        r#"-- repo::thread
         SELECT e.id AS "id: EntityId", e.content
           FROM JSON_TABLE(?, '$[*]' COLUMNS (
                    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PATH '$'
                )) s
           STRAIGHT_JOIN sa_entity e FORCE INDEX (PRIMARY) ON e.id = s.id"#,
        json(ids),
    )
    .fetch_all(session)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.content)).collect())
}
