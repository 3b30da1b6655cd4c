use sa_core::id::{EntityId, PromptId, ResponseId};
use sa_core::ledger::CallOutcome;
use sa_core::repo::{self, NewPrompt, Turn};
use sa_core::viewer::{Actor, Scope};

use crate::arrange::{VIEWER, answer, answered, assert_not_found, call, claim_one, database, finish, prompt, submit};

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
    let _ = finish(&db, claim.succeed(answer("second"), vec![call(CallOutcome::Succeeded)])).await;
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

/// A prompt root stands for its latest response; a response root stands for itself, also after a retry.
#[tokio::test]
async fn a_response_that_was_continued_stands_for_itself() {
    let (_database, db) = database().await;
    let one = answered(&db, "one", "first answer").await;
    let first: EntityId = ResponseId::of(one.prompt_id, one.job_id).into();
    let on_response = submit(&db, NewPrompt { root: Some(first), ..prompt("on the response") }).await;
    let on_prompt = submit(&db, NewPrompt { root: Some(one.prompt_id.into()), ..prompt("on the prompt") }).await;
    let mut claims = crate::arrange::claimer().claim(&db, 2).await.unwrap();
    for claim in claims.drain(..) {
        let _ = finish(&db, claim.succeed(answer("later"), vec![call(CallOutcome::Succeeded)])).await;
    }
    repo::retry(&db, crate::arrange::retry_of(one.job_id)).await.unwrap();
    let claim = claim_one(&db).await;
    let _ = finish(&db, claim.succeed(answer("second answer"), vec![call(CallOutcome::Succeeded)])).await;
    let turns = |ids: sa_core::repo::Enqueued| {
        let db = db.clone();
        async move { repo::context(&db, ids.prompt_id, 10).await.unwrap().turns }
    };
    assert_eq!(turns(on_response).await, [turn("one", Some("first answer"))]);
    assert_eq!(turns(on_prompt).await, [turn("one", Some("second answer"))]);
}

/// Other threads lie beside this one, and in this one other answers than those that count: a partial one, and the prompts
/// that continue from it.
#[tokio::test]
async fn only_whole_answers_of_the_thread_itself_are_turns() {
    let (_database, db) = database().await;
    answered(&db, "elsewhere", "before").await;
    let one = answered(&db, "one", "first").await;
    repo::retry(&db, crate::arrange::retry_of(one.job_id)).await.unwrap();
    let claim = claim_one(&db).await;
    repo::cancel(&db, claim.job(), Scope::Everywhere, &Actor::operator("o")).await.unwrap();
    let _ = finish(&db, claim.succeed(answer("half an ans"), vec![call(CallOutcome::Succeeded)])).await;
    answered(&db, "elsewhere", "after").await;
    let two = submit(&db, NewPrompt { root: Some(one.prompt_id.into()), ..prompt("two") }).await;
    let _running = claim_one(&db).await;
    let beside = submit(&db, NewPrompt { root: Some(one.prompt_id.into()), ..prompt("beside") }).await;
    for (ids, text) in [(two, "two"), (beside, "beside")] {
        let context = repo::context(&db, ids.prompt_id, 10).await.unwrap();
        assert_eq!((context.turns, context.text.as_str()), (vec![turn("one", Some("first"))], text));
    }
    let item = repo::item(&db, VIEWER, one.prompt_id).await.unwrap();
    assert_eq!(item.response.unwrap().text, "first", "neither a partial nor a prompt that continues is its answer");
}
