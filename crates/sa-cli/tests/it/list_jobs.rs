//! Lists are filtered, cut, and continued where they were cut.

use sa_harness::Database;
use serde_json::Value;

use crate::cli::{fail, json, run, sql, start, submit};

async fn ids(database: &Database, args: &[&str]) -> Vec<String> {
    let jobs = json(database, &[&["list-jobs", "--json"], args].concat()).await;
    jobs.as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn filters_choose_and_the_newest_come_first() {
    let database = Database::fresh().await.unwrap();
    let (first, second, third) =
        (submit(&database, "a").await, submit(&database, "b").await, submit(&database, "c").await);
    fail(&database, &first).await;
    start(&database, &second).await;
    let prompt = json(&database, &["submit-prompt", "d", "--org", "2", "--priority", "9", "--json"]).await;
    let fourth = prompt["job_id"].as_str().unwrap().to_owned();

    assert_eq!(ids(&database, &[]).await, [&*fourth, &third, &second, &first]);
    assert_eq!(ids(&database, &["--state", "failed,running"]).await, [&*second, &first]);
    assert_eq!(ids(&database, &["--error-kind", "auth"]).await, [&*first]);
    assert_eq!(ids(&database, &["--org", "2"]).await, [&*fourth]);
    assert_eq!(ids(&database, &["--user", "2"]).await, [""; 0]);
    assert_eq!(ids(&database, &["--priority", "9"]).await, [&*fourth]);
    assert_eq!(ids(&database, &["--prompt", prompt["prompt_id"].as_str().unwrap()]).await, [&*fourth]);
    assert_eq!(ids(&database, &["--lane", "nobody"]).await, [""; 0]);
    assert_eq!(ids(&database, &["--since", "2999-01-01T00:00:00Z"]).await, [""; 0]);
    assert_eq!(ids(&database, &["--since", "2001-01-01T00:00:00Z"]).await.len(), 4);
}

#[tokio::test]
async fn list_begins_so_long_before_the_databases_now() {
    let database = Database::fresh().await.unwrap();
    let (old, new) = (submit(&database, "a").await, submit(&database, "b").await);
    sql(&database, "UPDATE sa_job SET created_at = UTC_TIMESTAMP(6) - INTERVAL 3 HOUR WHERE id = ?", &old).await;

    for ago in ["30m", "2h"] {
        assert_eq!(ids(&database, &["--since", ago]).await, [&*new], "{ago}");
    }
    for ago in ["7d", "1000years"] {
        assert_eq!(ids(&database, &["--since", ago]).await, [&*new, &old], "{ago}");
    }
    assert_eq!(run(&database, &["list-jobs", "--since", "yesterday"]).await.code, Some(2));
}

#[tokio::test]
async fn cut_list_says_how_to_go_on() {
    let database = Database::fresh().await.unwrap();
    let (first, second) = (submit(&database, "a").await, submit(&database, "b").await);

    let page = run(&database, &["list-jobs", "--limit", "1", "--output", "ids"]).await;

    assert_eq!(page.stdout.trim_end(), second);
    assert!(page.stderr.contains(&format!("--after {second}")), "{page:?}");
    assert_eq!(ids(&database, &["--after", &second]).await, [first]);
}

#[tokio::test]
async fn table_shows_the_beginning_of_an_id_and_json_the_whole() {
    let database = Database::fresh().await.unwrap();
    let job = submit(&database, "a").await;

    let table = run(&database, &["list-jobs"]).await;
    let lines = run(&database, &["list-jobs", "--output", "ndjson"]).await;

    assert!(table.stdout.contains(&job[..18]) && !table.stdout.contains(&job), "{table:?}");
    assert!(table.stdout.contains("· queued"), "{table:?}");
    let line: Value = serde_json::from_str(lines.stdout.trim_end()).unwrap();
    assert_eq!((line["id"].as_str(), &line["state"]), (Some(&*job), &"queued".into()));
    assert!(line["created_at"].as_str().unwrap().ends_with('Z'), "{line}");
}

#[tokio::test]
async fn empty_list_is_no_error_and_prints_no_data() {
    let database = Database::fresh().await.unwrap();
    let table = run(&database, &["list-jobs"]).await;
    assert_eq!((table.code, table.stdout.as_str()), (Some(0), ""));
    assert_eq!(json(&database, &["list-jobs", "--json"]).await, Value::Array(vec![]));
}

#[tokio::test]
async fn unknown_state_is_a_usage_error() {
    let database = Database::fresh().await.unwrap();
    let output = run(&database, &["list-jobs", "--state", "done"]).await;
    assert!(output.code == Some(2) && output.stderr.contains("succeeded"), "{output:?}");
}
