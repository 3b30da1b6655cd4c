//! The whole history of a job, by its id or the beginning of it.

use sa_harness::Database;

use crate::cli::{fail, json, run, run_by_echo, submit};

async fn answered(database: &Database, text: &str) -> String {
    let ran = json(database, &["run-prompt", text, "--json"]).await;
    ran["job_id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn json_has_job_chain_events_calls_and_answer() {
    let database = Database::fresh().await.unwrap();
    let first = submit(&database, "why is the sky blue?").await;
    fail(&database, &first).await;
    let second = json(&database, &["retry-job", &first, "--json"]).await;
    let second = second[0]["job_id"].as_str().unwrap();
    run_by_echo(&database, second).await;

    let details = json(&database, &["job-details", second, "--json"]).await;

    assert_eq!((&details["job"]["id"], &details["job"]["state"]), (&second.into(), &"succeeded".into()));
    assert_eq!(details["prompt"]["content"], "why is the sky blue?");
    let chain: Vec<_> = details["jobs"].as_array().unwrap().iter().map(|job| &job["state"]).collect();
    assert_eq!(chain, ["superseded", "succeeded"]);
    let reasons: Vec<_> = details["events"].as_array().unwrap().iter().map(|event| &event["reason"]).collect();
    assert_eq!(reasons, ["enqueue", "supersede", "enqueue", "claim", "success"]);
    assert_eq!(details["ledger"][0]["outcome"], "succeeded");
    assert_eq!(details["responses"][0]["id"], details["job"]["response_id"]);
}

#[tokio::test]
async fn page_shows_prompt_events_calls_and_answer() {
    let database = Database::fresh().await.unwrap();
    let job = answered(&database, "first line\nsecond line").await;

    let page = run(&database, &["job-details", &job[..20]]).await;

    assert_eq!(page.code, Some(0), "{page:?}");
    for part in [
        &*job,
        "✓ succeeded",
        "1 of 3",
        "    first line\n    second line",
        "queued → running",
        "running → succeeded",
        "provider calls",
        "answer (settled, by echo echo)",
    ] {
        assert!(page.stdout.contains(part), "{part:?} in {}", page.stdout);
    }
}

#[tokio::test]
async fn unknown_job_is_not_found() {
    let database = Database::fresh().await.unwrap();
    for job in ["01900000-0000-7000-8000-000000000000", "0190abcd"] {
        let missing = run(&database, &["job-details", job]).await;
        assert!(missing.code == Some(3) && missing.stdout.is_empty() && missing.stderr.contains(job), "{missing:?}");
    }
}
