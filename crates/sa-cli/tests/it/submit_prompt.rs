//! A prompt goes in byte for byte, or not at all.

use sa_harness::Database;

use crate::cli::{LIMIT, cli, json, run};

async fn only_content(database: &Database) -> Vec<u8> {
    sqlx::query_scalar("SELECT CAST(content AS BINARY) FROM sa_entity").fetch_one(database.pool()).await.unwrap()
}

async fn jobs(database: &Database) -> i64 {
    sqlx::query_scalar("SELECT COUNT(*) FROM sa_job").fetch_one(database.pool()).await.unwrap()
}

#[tokio::test]
async fn json_has_the_two_ids_and_the_state() {
    let database = Database::fresh().await.unwrap();

    let submitted =
        json(&database, &["submit-prompt", "hello", "--priority", "7", "--org", "3", "--user", "4", "--json"]).await;

    let row: (String, String, u8, u64, u64) =
        sqlx::query_as("SELECT id, prompt_id, priority, org_id, created_by FROM sa_job")
            .fetch_one(database.pool())
            .await
            .unwrap();
    let keys: Vec<_> = submitted.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["job_id", "prompt_id", "state"]);
    assert_eq!((submitted["job_id"].as_str(), submitted["prompt_id"].as_str()), (Some(&*row.0), Some(&*row.1)));
    assert_eq!((&submitted["state"], row.2, row.3, row.4), (&"queued".into(), 7, 3, 4));
}

#[tokio::test]
async fn words_name_the_job_and_what_to_do_next_and_ids_is_the_job_alone() {
    let database = Database::fresh().await.unwrap();
    let words = run(&database, &["submit-prompt", "hello"]).await;
    assert!(words.stdout.contains("queued: job ") && words.stdout.contains("sa-cli job-details "), "{words:?}");
    let ids = run(&database, &["submit-prompt", "hello", "--output", "ids"]).await;
    assert_eq!(ids.stdout.trim_end().len(), 36, "{ids:?}");
}

#[tokio::test]
async fn standard_input_is_taken_byte_for_byte() {
    let database = Database::fresh().await.unwrap();
    let text = "a\0b\r\n\u{1b}[31m e\u{301} 👩‍🚀 '\"\\ %s\n";

    let output = cli(&database, &["submit-prompt", "-"]).stdin(text).run_to_end(LIMIT).await.unwrap();

    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(only_content(&database).await, text.as_bytes());
}

#[tokio::test]
async fn longest_prompt_is_taken_and_one_byte_more_is_not() {
    let database = Database::fresh().await.unwrap();
    let longest = "é".repeat(1 << 19);
    let taken = cli(&database, &["submit-prompt", "-"]).stdin(longest.clone()).run_to_end(LIMIT).await.unwrap();
    assert_eq!(taken.code, Some(0), "{taken:?}");
    assert_eq!(only_content(&database).await, longest.as_bytes());

    let refused = cli(&database, &["submit-prompt", "-"]).stdin(longest + "!").run_to_end(LIMIT).await.unwrap();
    assert!(refused.code == Some(2) && refused.stderr.contains("1 MiB"), "{refused:?}");
    assert_eq!(jobs(&database).await, 1);
}

#[tokio::test]
async fn bad_input_is_a_usage_error_and_writes_nothing() {
    let database = Database::fresh().await.unwrap();
    for arguments in [
        &["submit-prompt"][..],
        &["submit-prompt", ""],
        &["submit-prompt", "a", "--file", "b"],
        &["submit-prompt", "--file", "/nowhere/at/all"],
        &["submit-prompt", "a", "--priority", "101"],
        &["submit-prompt", "a", "--max-attempts", "0"],
        &["submit-prompt", "a", "--depth", "51"],
        &["submit-prompt", "a", "--at", "yesterday"],
        &["submit-prompt", "a", "--org", "-1"],
        &["submit-prompt", "a", "--root", "x"],
        &["submit-prompt", "a", "--providers", "/nowhere/at/all"],
    ] {
        let output = run(&database, arguments).await;
        assert!(output.code == Some(2) && output.stdout.is_empty(), "{arguments:?}: {output:?}");
    }
    let not_text = cli(&database, &["submit-prompt", "-"]).stdin([0xff]).run_to_end(LIMIT).await.unwrap();
    assert_eq!(not_text.code, Some(2), "{not_text:?}");
    assert_eq!(jobs(&database).await, 0);
}

#[tokio::test]
async fn root_of_another_viewer_is_not_found() {
    let database = Database::fresh().await.unwrap();
    let first = json(&database, &["submit-prompt", "a", "--json"]).await;
    let root = first["prompt_id"].as_str().unwrap();
    let foreign = run(&database, &["submit-prompt", "b", "--root", root, "--user", "2"]).await;
    assert!(foreign.code == Some(3) && foreign.stderr.contains(root), "{foreign:?}");
    assert_eq!(run(&database, &["submit-prompt", "b", "--root", root]).await.code, Some(0));
    assert_eq!(jobs(&database).await, 2);
}

#[tokio::test]
async fn lane_is_that_of_the_configured_model_and_an_unknown_model_is_refused() {
    let database = Database::fresh().await.unwrap();
    let submit =
        |model: &'static str| cli(&database, &["submit-prompt", "a", "--model", model]).env("SA_OPENAI_MODEL", "m-1");

    let taken = submit("m-1").run_to_end(LIMIT).await.unwrap();
    let refused = submit("m-2").run_to_end(LIMIT).await.unwrap();

    assert_eq!(taken.code, Some(0), "{taken:?}");
    assert!(refused.code == Some(2) && refused.stderr.contains("m-2"), "{refused:?}");
    let lane: String = sqlx::query_scalar("SELECT lane FROM sa_job").fetch_one(database.pool()).await.unwrap();
    assert_eq!(lane, "openai");
}

#[tokio::test]
async fn without_providers_the_claiming_worker_chooses_the_lane() {
    let database = Database::fresh().await.unwrap();
    json(&database, &["submit-prompt", "a", "--model", "any", "--json"]).await;
    let lane: String = sqlx::query_scalar("SELECT lane FROM sa_job").fetch_one(database.pool()).await.unwrap();
    assert_eq!(lane, "");
}
