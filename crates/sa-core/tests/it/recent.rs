use std::collections::HashMap;

use sa_core::id::PromptId;
use sa_core::repo::{self, NewPrompt};
use sa_core::state::State;
use time::OffsetDateTime;

use crate::arrange::{STRANGER, VIEWER, answered, assert_not_found, database, prompt, retry_of, sql, submit};

#[tokio::test]
async fn an_item_has_the_shape_that_clients_read() {
    let (_database, db) = database().await;
    let ids = answered(&db, "question", "answer").await;
    let item = serde_json::to_value(repo::item(&db, VIEWER, ids.prompt_id).await.unwrap()).unwrap();
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    let sorted = |list: &str| {
        let mut words: Vec<_> = list.split(' ').collect();
        words.sort_unstable();
        words.join(" ")
    };
    assert_eq!(
        sorted(&keys(&item)),
        sorted(
            "prompt_id prompt_text state response_id context_ids parent_id correlation_id created_at updated_at job response"
        )
    );
    assert_eq!(
        sorted(&keys(&item["job"])),
        sorted(
            "id state revision priority attempt max_attempts scheduled_for held_reason started_at finished_at error_kind \
             error_message supersedes"
        )
    );
    assert_eq!(
        sorted(&keys(&item["response"])),
        sorted("id text provider model state_class promoted verdict created_at")
    );
    assert_eq!(item["response"]["text"], "answer");
    assert_eq!(item["response_id"], item["response"]["id"]);
    let at = item["created_at"].as_str().unwrap();
    assert!(at.ends_with('Z') && at.len() == "2026-12-01T08:22:28.000000Z".len(), "{at}");
}

#[tokio::test]
async fn only_the_viewers_own_prompts_are_seen() {
    let (_database, db) = database().await;
    let theirs = submit(&db, NewPrompt { viewer: STRANGER, ..prompt("theirs") }).await;
    submit(&db, prompt("mine")).await;
    let seen = repo::recent(&db, VIEWER, None, 50).await.unwrap();
    assert_eq!(seen.entities.iter().map(|item| item.prompt_text.as_str()).collect::<Vec<_>>(), ["mine"]);
    assert_not_found(repo::item(&db, VIEWER, theirs.prompt_id).await);
    assert_not_found(repo::item(&db, VIEWER, PromptId::new()).await);
}

#[tokio::test]
async fn a_retried_prompt_is_there_once_with_its_newest_job() {
    let (_database, db) = database().await;
    let ids = answered(&db, "p", "a").await;
    repo::retry(&db, retry_of(ids.job_id)).await.unwrap();
    let seen = repo::recent(&db, VIEWER, Some(OffsetDateTime::UNIX_EPOCH), 50).await.unwrap().entities;
    assert_eq!(seen.len(), 1);
    assert_eq!((seen[0].state, seen[0].job.supersedes), (State::Queued, Some(ids.job_id)));
    assert_eq!(seen[0].response.as_ref().unwrap().text, "a");
}

#[tokio::test]
async fn pages_hold_ties_together_and_miss_nothing() {
    let (database, db) = database().await;
    let batch = (0..23).map(|n| prompt(&format!("p{n}"))).collect();
    assert!(repo::enqueue(&db, batch).await.iter().all(Result::is_ok));
    // Five rows an instant, long enough ago that as_of does not hold a page back.
    sql(
        &database,
        "UPDATE sa_job j JOIN (SELECT id, ROW_NUMBER() OVER (ORDER BY id) AS n FROM sa_job) k ON k.id = j.id
            SET j.updated_at = UTC_TIMESTAMP(6) - INTERVAL 1 DAY + INTERVAL FLOOR(k.n / 5) SECOND",
    )
    .await;
    let (mut since, mut seen, mut pages) = (OffsetDateTime::UNIX_EPOCH, HashMap::new(), 0);
    loop {
        let page = repo::recent(&db, VIEWER, Some(since), 3).await.unwrap();
        pages += 1;
        assert!(page.entities.is_sorted_by_key(|item| item.created_at), "display order");
        seen.extend(page.entities.iter().map(|item| (item.prompt_id, item.job.revision)));
        if !page.has_more {
            break;
        }
        assert!(page.as_of > since, "each page moves on");
        since = page.as_of;
    }
    assert_eq!(seen.len(), 23);
    assert!(pages > 2);
}

#[tokio::test]
async fn as_of_lags_so_that_a_late_commit_is_seen_by_the_next_page() {
    let (database, db) = database().await;
    let now: OffsetDateTime = sqlx::query_scalar("SELECT UTC_TIMESTAMP(6)").fetch_one(database.pool()).await.unwrap();
    let page = repo::recent(&db, VIEWER, None, 50).await.unwrap();
    let lag = now - page.as_of;
    assert!(lag > time::Duration::seconds(3) && lag <= time::Duration::seconds(5), "{lag}");
    assert!(!page.has_more);
}

#[tokio::test]
async fn without_since_the_last_fifty_are_answered() {
    let (_database, db) = database().await;
    let batch = (0..55).map(|n| prompt(&format!("p{n}"))).collect();
    assert!(repo::enqueue(&db, batch).await.iter().all(Result::is_ok));
    assert_eq!(repo::recent(&db, VIEWER, None, 200).await.unwrap().entities.len(), 50);
}
