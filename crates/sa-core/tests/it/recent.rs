use std::collections::HashMap;

use sa_core::id::{OrgId, PromptId, ResponseId};
use sa_core::repo::{self, NewPrompt};
use sa_core::state::State;
use sa_core::viewer::Viewer;
use time::OffsetDateTime;

use crate::arrange::{
    STRANGER, VIEWER, answered, assert_not_found, claimer, count, database, prompt, retry_of, sql, submit,
};

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

/// What one viewer asks for, in each of the ways to ask: nothing of the organisation's other users, nothing of the same user
/// number elsewhere, nothing that was superseded, whichever of them changed last.
#[tokio::test]
async fn each_way_to_ask_is_the_viewers_own() {
    let (database, db) = database().await;
    let mine = answered(&db, "mine", "a").await;
    repo::retry(&db, retry_of(mine.job_id)).await.unwrap();
    let mut theirs = Vec::new();
    for viewer in [STRANGER, Viewer { org: OrgId(8), user: VIEWER.user }] {
        theirs.push(submit(&db, NewPrompt { viewer, ..prompt("theirs") }).await);
    }
    // All of one instant, so that the look at that very instant meets them all.
    sql(&database, "UPDATE sa_job SET updated_at = '2026-01-01'").await;
    let at = time::macros::datetime!(2026-01-01 00:00 UTC);
    for since in [None, Some(at), Some(at - time::Duration::seconds(1))] {
        let page = repo::recent(&db, VIEWER, since, 50).await.unwrap();
        let seen: Vec<_> = page.entities.iter().map(|item| (item.prompt_id, item.state)).collect();
        assert_eq!(seen, [(mine.prompt_id, State::Queued)], "since {since:?}");
    }
    assert!(repo::recent(&db, VIEWER, Some(at + time::Duration::seconds(1)), 50).await.unwrap().entities.is_empty());
    assert_eq!(repo::item(&db, VIEWER, mine.prompt_id).await.unwrap().state, State::Queued);
    for theirs in theirs {
        assert_not_found(repo::item(&db, VIEWER, theirs.prompt_id).await);
    }
}

/// Pages are cut by the viewer's own rows: those of others, and superseded ones, fill none.
#[tokio::test]
async fn rows_of_others_fill_no_page() {
    let (database, db) = database().await;
    let mut mine = Vec::new();
    for n in 0..3 {
        let ids = answered(&db, &format!("mine {n}"), "a").await;
        repo::retry(&db, retry_of(ids.job_id)).await.unwrap();
        for viewer in [STRANGER, Viewer { org: OrgId(8), user: VIEWER.user }] {
            submit(&db, NewPrompt { viewer, ..prompt("theirs") }).await;
            claimer().claim(&db, 9).await.unwrap();
        }
        mine.push(ids.prompt_id);
    }
    sql(
        &database,
        "UPDATE sa_job j JOIN (SELECT id, ROW_NUMBER() OVER (ORDER BY id) AS n FROM sa_job) k ON k.id = j.id
            SET j.updated_at = '2026-01-01' + INTERVAL k.n SECOND",
    )
    .await;
    let page = repo::recent(&db, VIEWER, Some(OffsetDateTime::UNIX_EPOCH), 2).await.unwrap();
    assert_eq!(page.entities.iter().map(|item| item.prompt_id).collect::<Vec<_>>(), mine[..2]);
    assert!(page.has_more);
    let last = repo::recent(&db, VIEWER, Some(page.as_of), 2).await.unwrap();
    assert_eq!(last.entities.iter().map(|item| item.prompt_id).collect::<Vec<_>>(), mine[1..], "and the one at as_of");
    assert!(!last.has_more);
}

/// The fifty that changed last are fifty prompts: what was superseded takes no place, however lately.
#[tokio::test]
async fn superseded_jobs_take_no_place_on_the_first_page() {
    let (database, db) = database().await;
    database.not_judged("it supersedes jobs by hand, which leaves no event and no successor");
    let batch = (0..60).map(|n| prompt(&format!("p{n}"))).collect();
    assert!(repo::enqueue(&db, batch).await.iter().all(Result::is_ok));
    sql(&database, "UPDATE sa_job SET state = 'superseded', finished_at = created_at").await;
    submit(&db, prompt("mine")).await;
    sql(&database, "UPDATE sa_job SET updated_at = '2001-01-01' WHERE state = 'queued'").await;
    assert_eq!(repo::recent(&db, VIEWER, None, 50).await.unwrap().entities.len(), 1);
}

/// Where the feed may be taken up: behind the last event that is old enough for all before it to be visible.
#[tokio::test]
async fn the_feed_is_taken_up_behind_what_is_settled() {
    let (database, db) = database().await;
    submit(&db, prompt("old")).await;
    submit(&db, prompt("new")).await;
    assert_eq!(repo::recent(&db, VIEWER, None, 50).await.unwrap().last_event_id, 0, "nothing is settled yet");
    sql(&database, "UPDATE sa_job_event SET at = at - INTERVAL 11 SECOND ORDER BY seq LIMIT 1").await;
    let settled = count(&database, "SELECT CAST(MIN(seq) AS SIGNED) FROM sa_job_event").await;
    let page = repo::recent(&db, VIEWER, None, 50).await.unwrap();
    assert_eq!(i64::try_from(page.last_event_id).unwrap(), settled);
}

/// Edges of other kinds lead from a response too. They are no verdict and take none back.
#[tokio::test]
async fn only_verdicts_and_promotions_judge_a_response() {
    let (database, db) = database().await;
    let ids = answered(&db, "p", "a").await;
    let response = ResponseId::of(ids.prompt_id, ids.job_id);
    let edges = [("verdict", None, Some("good")), ("flows-to", Some(response), None)];
    for (n, (kind, to, verdict)) in edges.into_iter().enumerate() {
        sqlx::query(
            "INSERT INTO sa_edge (id, kind, from_id, to_id, verdict, org_id, created_by, created_at)
             VALUES (?, ?, ?, ?, ?, 7, 42, UTC_TIMESTAMP(6) + INTERVAL ? SECOND)",
        )
        .bind(uuid::Uuid::now_v7().as_hyphenated())
        .bind(kind)
        .bind(response)
        .bind(to)
        .bind(verdict)
        .bind(u32::try_from(n).unwrap())
        .execute(database.pool())
        .await
        .unwrap();
    }
    let judged = repo::item(&db, VIEWER, ids.prompt_id).await.unwrap().response.unwrap();
    assert_eq!((judged.promoted, judged.verdict.as_deref()), (false, Some("good")));
}
