//! `check --invariants` on good rows, and on rows that other hands changed.

use sa_harness::Database;

use crate::cli::{json, run, sql, submit};

#[tokio::test]
async fn good_rows_pass_and_a_broken_one_is_named() {
    let database = Database::fresh().await.unwrap();
    let job = submit(&database, "p").await;
    let output = run(&database, &["check", "--invariants"]).await;
    assert_eq!(output.code, Some(0), "{}", output.stderr);

    sql(&database, "UPDATE sa_job_event SET to_state = 'failed' WHERE job_id = ?", &job).await;
    let output = run(&database, &["check", "--invariants"]).await;
    assert_eq!(output.code, Some(1));
    assert!(output.stdout.contains(&job) && output.stderr.contains("do not hold"), "{output:?}");
}

#[tokio::test]
async fn each_invariant_is_listed_with_its_number() {
    let database = Database::fresh().await.unwrap();
    let checked = json(&database, &["check", "--invariants", "--json"]).await;
    let names: Vec<_> = checked.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert!(names.len() >= 18 && names[0].starts_with("I01"), "{names:?}");
}
