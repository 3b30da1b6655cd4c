use sa_core::id::{EntityId, PromptId, ResponseId};
use sa_core::repo::{self, NewPrompt, Turn};

use crate::arrange::{answer, answered, assert_not_found, claim_one, database, finish, prompt, submit};

fn turn(prompt: &str, response: Option<&str>) -> Turn {
    Turn { prompt: prompt.into(), response: response.map(str::to_owned) }
}

#[tokio::test]
async fn turns_come_oldest_first_with_their_answers() {
    let (_database, db) = database().await;
    let one = answered(&db, "one", "first").await;
    // One continues the prompt, the other the response: both mean the same turn.
    let two = submit(&db, NewPrompt { root: Some(one.prompt_id.into()), ..prompt("two") }).await;
    let claim = claim_one(&db).await;
    let _ = finish(&db, claim.succeed(answer("second"), vec![])).await;
    let response: EntityId = ResponseId::of(two.prompt_id, two.job_id).into();
    let three = submit(&db, NewPrompt { root: Some(response), ..prompt("three") }).await;

    let context = repo::context(&db, three.prompt_id, 10).await.unwrap();
    assert_eq!(context.turns, [turn("one", Some("first")), turn("two", Some("second"))]);
    assert_eq!(context.text, "three");
    assert_eq!(context.source_refs.len(), 4);

    let nearest = repo::context(&db, three.prompt_id, 1).await.unwrap();
    assert_eq!(nearest.turns, [turn("two", Some("second"))]);
    let alone = repo::context(&db, three.prompt_id, 0).await.unwrap();
    assert!(alone.turns.is_empty() && alone.source_refs.is_empty());
}

#[tokio::test]
async fn a_root_without_an_answer_is_sent_alone() {
    let (_database, db) = database().await;
    let one = submit(&db, prompt("one")).await;
    let two = submit(&db, NewPrompt { root: Some(one.prompt_id.into()), ..prompt("two") }).await;
    let context = repo::context(&db, two.prompt_id, 10).await.unwrap();
    assert_eq!(context.turns, [turn("one", None)]);
}

#[tokio::test]
async fn a_prompt_that_is_not_there_is_not_found() {
    let (_database, db) = database().await;
    assert_not_found(repo::context(&db, PromptId::new(), 10).await);
}
