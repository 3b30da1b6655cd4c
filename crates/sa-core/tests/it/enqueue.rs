use sa_core::id::EntityId;
use sa_core::repo::{self, NewPrompt};
use sa_core::state::State;
use sa_core::viewer::Viewer;

use crate::arrange::{STRANGER, answered, assert_not_found, count, database, prompt, reasons, row, submit};

#[tokio::test]
async fn a_prompt_is_stored_with_its_queued_job_event_and_audit_row() {
    let (database, db) = database().await;
    let ids = submit(&db, prompt("hello")).await;
    let job = row(&db, ids.job_id).await;
    assert_eq!((job.state, job.attempt, job.revision), (State::Queued, 1, 1));
    assert_eq!(job.prompt_id, ids.prompt_id);
    assert_eq!(reasons(&database, ids.job_id).await, ["enqueue"]);
    assert_eq!(count(&database, "SELECT COUNT(*) FROM sa_audit WHERE reason = 'submitted'").await, 1);
}

#[tokio::test]
async fn texts_come_back_byte_for_byte_in_every_batch_size() {
    let (database, db) = database().await;
    let mut texts = vec![
        "nul \0 inside".to_owned(),
        "👨‍👩‍👧 and 𝒳".to_owned(),
        format!("a{}", "\u{301}".repeat(10_000)),
        "trailing  ".to_owned(),
        "\u{202e}right to left".to_owned(),
        "null".to_owned(),
        "🦀".repeat(1_048_576 / 4),
        "x".repeat(65_536),
    ];
    texts.extend((0..12).map(|n| format!("prompt {n} \\ \" ' ? :a %s")));
    // Forwards and backwards, so that long texts come first and after short ones.
    for size in [1, 3, 20, 8, 2] {
        let batch: Vec<_> = texts.iter().take(size).map(|text| prompt(text)).collect();
        let ids: Vec<_> = repo::enqueue(&db, batch).await.into_iter().map(Result::unwrap).collect();
        for (ids, text) in ids.iter().zip(&texts) {
            let stored: Vec<u8> = sqlx::query_scalar("SELECT CAST(content AS BINARY) FROM sa_entity WHERE id = ?")
                .bind(ids.prompt_id)
                .fetch_one(database.pool())
                .await
                .unwrap();
            assert!(stored == text.as_bytes(), "{} bytes in a batch of {size}", text.len());
        }
    }
}

#[tokio::test]
async fn a_continuation_inherits_the_thread_of_its_root() {
    let (database, db) = database().await;
    let first = answered(&db, "first", "one").await;
    let second = submit(&db, NewPrompt { root: Some(first.prompt_id.into()), ..prompt("second") }).await;
    let (thread, parent): (EntityId, EntityId) =
        sqlx::query_as("SELECT correlation_id, parent_id FROM sa_entity WHERE id = ?")
            .bind(second.prompt_id)
            .fetch_one(database.pool())
            .await
            .unwrap();
    assert_eq!((thread, parent), (first.prompt_id.into(), first.prompt_id.into()));
}

#[tokio::test]
async fn a_foreign_or_absent_root_is_refused_and_its_neighbours_are_stored() {
    let (database, db) = database().await;
    let foreign = submit(&db, NewPrompt { viewer: STRANGER, ..prompt("theirs") }).await;
    let batch = vec![
        prompt("fine"),
        NewPrompt { root: Some(foreign.prompt_id.into()), ..prompt("stolen") },
        NewPrompt { root: Some(EntityId::new()), ..prompt("nowhere") },
        NewPrompt { viewer: STRANGER, root: Some(foreign.prompt_id.into()), ..prompt("their own") },
    ];
    let mut outcomes = repo::enqueue(&db, batch).await;
    assert!(outcomes.remove(0).is_ok());
    assert_not_found(outcomes.remove(0));
    assert_not_found(outcomes.remove(0));
    assert!(outcomes.remove(0).is_ok());
    assert_eq!(count(&database, "SELECT COUNT(*) FROM sa_entity").await, 3);
    assert_eq!(count(&database, "SELECT COUNT(*) FROM sa_job").await, 3);
    assert_eq!(count(&database, "SELECT COUNT(*) FROM sa_job_event").await, 3);
}

#[tokio::test]
async fn a_text_the_server_will_not_take_fails_alone() {
    let (database, db) = database().await;
    let packet: u64 = sqlx::query_scalar("SELECT @@max_allowed_packet").fetch_one(database.pool()).await.unwrap();
    let batch = vec![prompt("before"), prompt(&"x".repeat(usize::try_from(packet).unwrap() + 1)), prompt("after")];
    let outcomes = repo::enqueue(&db, batch).await;
    let stored: Vec<bool> = outcomes.iter().map(Result::is_ok).collect();
    assert_eq!(stored, [true, false, true]);
    assert_eq!(count(&database, "SELECT COUNT(*) FROM sa_job").await, 2);
}

#[tokio::test]
async fn a_time_ahead_holds_the_job_and_the_past_does_not() {
    let (database, db) = database().await;
    let in_an_hour: time::OffsetDateTime =
        sqlx::query_scalar("SELECT UTC_TIMESTAMP(6) + INTERVAL 1 HOUR").fetch_one(database.pool()).await.unwrap();
    let later = submit(&db, NewPrompt { scheduled_for: Some(in_an_hour), ..prompt("later") }).await;
    let past = in_an_hour - time::Duration::days(400);
    let now = submit(&db, NewPrompt { scheduled_for: Some(past), ..prompt("now") }).await;
    let (later, now) = (row(&db, later.job_id).await, row(&db, now.job_id).await);
    assert_eq!((later.scheduled_for, later.held_reason.as_deref()), (in_an_hour, Some("schedule")));
    assert_eq!(now.held_reason, None);
    assert!(now.scheduled_for > past + time::Duration::days(399));
}

#[tokio::test]
async fn prompts_of_many_viewers_share_a_batch() {
    let (database, db) = database().await;
    let viewer = |n| Viewer { org: sa_core::id::OrgId(n), user: sa_core::id::UserId(u64::MAX - n) };
    let batch: Vec<_> = (0..40).map(|n| NewPrompt { viewer: viewer(n), ..prompt("one of many") }).collect();
    assert!(repo::enqueue(&db, batch).await.iter().all(Result::is_ok));
    assert_eq!(count(&database, "SELECT COUNT(DISTINCT created_by) FROM sa_entity").await, 40);
    assert_eq!(count(&database, "SELECT COUNT(DISTINCT created_by) FROM sa_job").await, 40);
}

#[tokio::test]
async fn long_options_are_stored_whole() {
    let (_database, db) = database().await;
    let options =
        |n| sa_core::job::ExecutionOptions { model: Some(format!("{n}{}", "m".repeat(60_000))), ..Default::default() };
    let batch = (0..3).map(|n| NewPrompt { options: options(n), ..prompt("p") }).collect();
    for (n, stored) in repo::enqueue(&db, batch).await.into_iter().enumerate() {
        assert_eq!(row(&db, stored.unwrap().job_id).await.options().unwrap(), options(n));
    }
}
