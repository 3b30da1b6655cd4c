//! Whatever a provider says is stored whole, or cut on purpose, and never makes a job unfinishable.

use sa_core::error_kind::{ErrorKind, Failure};
use sa_core::ledger::CallOutcome;
use sa_core::repo::{self, Outcome};

use crate::arrange::{answer, call, claim_one, claimer, count, database, finish, prompt, row, submit};

/// CB-67: the error text is stored as it came, whatever characters it has.
#[tokio::test]
async fn cb_67_an_error_of_emoji_is_stored_intact() {
    let (_database, db) = database().await;
    let ids = submit(&db, prompt("p")).await;
    let text = "👨‍👩‍👧 said 𝒳 and \"quoted\" \\ ünï".to_owned();
    let claim = claim_one(&db).await;
    assert_eq!(
        finish(&db, claim.fail(Failure::new(ErrorKind::Provider4xx, text.clone()), vec![])).await,
        Outcome::Written
    );
    assert_eq!(row(&db, ids.job_id).await.error_message, Some(text));
}

#[tokio::test]
async fn a_long_error_message_cannot_make_a_job_unfinishable() {
    let (_database, db) = database().await;
    let ids = submit(&db, prompt("p")).await;
    let claim = claim_one(&db).await;
    let endless = Failure::new(ErrorKind::Unknown, "é\u{0}\u{1b}".repeat(1_000_000));
    assert_eq!(finish(&db, claim.fail(endless, vec![])).await, Outcome::Written);
    assert_eq!(row(&db, ids.job_id).await.error_message.unwrap().len(), Failure::MAX_MESSAGE);
}

#[tokio::test]
async fn what_a_provider_says_of_itself_is_cut_to_its_column() {
    let (database, db) = database().await;
    submit(&db, prompt("p")).await;
    let claim = claim_one(&db).await;
    let mut row = call(CallOutcome::Succeeded);
    row.model = "ü".repeat(500);
    row.provider_request_id = Some("r".repeat(9_000));
    let mut long = answer("text");
    long.model = "ü".repeat(500);
    assert_eq!(finish(&db, claim.succeed(long, vec![row])).await, Outcome::Written);
    assert_eq!(count(&database, "SELECT CHAR_LENGTH(model) FROM sa_ledger").await, 128);
}

/// MySQL takes an untyped parameter inside a function for a VARCHAR, and cuts it at 65,532 bytes without a word. So each
/// size is written alone, first and not first, and among others.
#[tokio::test]
async fn answers_come_back_byte_for_byte_in_every_size() {
    let (database, db) = database().await;
    let sizes = [10, 65_532, 65_536, 1 << 20, 7 << 20, 65_533, 0];
    let texts: Vec<String> = sizes.iter().map(|size| "🦀é\0 ".repeat(size / 8 + 1)[..].to_owned()).collect();
    for batch in texts.chunks(1).chain(texts.chunks(3)).chain(texts.chunks(2).rev()) {
        for _ in batch {
            submit(&db, prompt("p")).await;
        }
        let claims = claimer().claim(&db, batch.len()).await.unwrap();
        let jobs: Vec<_> = claims.iter().map(repo::Claim::job).collect();
        let ends = claims
            .into_iter()
            .zip(batch)
            .map(|(claim, text)| claim.succeed(answer(text), vec![call(CallOutcome::Succeeded)]))
            .collect();
        assert!(repo::finalize(&db, ends).await.iter().all(|end| matches!(end, Ok(Outcome::Written))));
        for (job, text) in jobs.iter().zip(batch) {
            let stored: Vec<u8> = sqlx::query_scalar("SELECT CAST(content AS BINARY) FROM sa_entity WHERE job_id = ?")
                .bind(job)
                .fetch_one(database.pool())
                .await
                .unwrap();
            assert_eq!(stored.len(), text.len());
            assert!(stored == text.as_bytes());
        }
    }
}

/// Many long messages in one batch: what travels as JSON is not cut either.
#[tokio::test]
async fn a_batch_of_long_messages_is_stored_whole() {
    let (_database, db) = database().await;
    for _ in 0..20 {
        submit(&db, prompt("p")).await;
    }
    let claims = claimer().claim(&db, 20).await.unwrap();
    let jobs: Vec<_> = claims.iter().map(repo::Claim::job).collect();
    let message = |n: usize| format!("{n}{}", "é".repeat(4_000));
    let ends = claims
        .into_iter()
        .enumerate()
        .map(|(n, claim)| claim.fail(Failure::new(ErrorKind::Unknown, message(n)), vec![]))
        .collect();
    assert!(repo::finalize(&db, ends).await.iter().all(|end| matches!(end, Ok(Outcome::Written))));
    for (n, job) in jobs.iter().enumerate() {
        assert_eq!(row(&db, *job).await.error_message, Some(message(n)));
    }
}
