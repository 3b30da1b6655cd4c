//! `GET /mission/recent`: pages, tags, parameters.

use serde_json::Value;

use crate::site::{Site, see};

#[tokio::test(flavor = "multi_thread")]
async fn page_has_the_shape_of_the_contract() {
    let site = Site::open().await;
    site.submit("question").await;
    site.answer("answer").await;
    let seen = see(site.get("/mission/recent")).await;
    assert_eq!(seen.header("cache-control"), Some("private, no-cache"));
    let page = seen.json();
    let names: Vec<_> = page.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["as_of", "entities", "has_more", "last_event_id"]);
    assert_eq!(page["has_more"], false);
    let as_of = page["as_of"].as_str().unwrap();
    assert!(as_of.ends_with('Z') && as_of.len() == 27, "{as_of}");
    let item = &page["entities"][0];
    for name in [
        "prompt_id",
        "prompt_text",
        "state",
        "response_id",
        "context_ids",
        "parent_id",
        "correlation_id",
        "created_at",
        "updated_at",
        "job",
        "response",
    ] {
        assert!(item.get(name).is_some(), "{name} is missing: {item}");
    }
    assert_eq!((&item["prompt_text"], &item["state"]), (&Value::from("question"), &Value::from("succeeded")));
    assert_eq!(item["response"]["text"], "answer");
    assert_eq!(item["response"]["id"], item["response_id"]);
    assert_eq!(item["job"]["revision"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_follow_each_other_by_as_of_until_all_is_seen() {
    let site = Site::open().await;
    for n in 0..7 {
        site.submit(&format!("prompt {n}")).await;
    }
    // What is younger than 5 s is asked for again, because somebody may still commit behind it.
    sqlx::query("UPDATE sa_job SET updated_at = updated_at - INTERVAL 1 MINUTE")
        .execute(site.database.pool())
        .await
        .unwrap();
    let mut since = "1970-01-01T00:00:00Z".to_owned();
    let mut texts = std::collections::BTreeSet::new();
    for page_number in 1.. {
        let page = see(site.get(&format!("/mission/recent?since={since}&limit=2"))).await.json();
        for item in page["entities"].as_array().unwrap() {
            texts.insert(item["prompt_text"].as_str().unwrap().to_owned());
        }
        assert!(page["as_of"].as_str().unwrap() >= since.as_str() || page_number == 1);
        since = page["as_of"].as_str().unwrap().to_owned();
        if page["has_more"] == false {
            break;
        }
        assert!(page_number < 10, "the pages end");
    }
    assert_eq!(texts.len(), 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn unchanged_page_is_304_until_something_changes() {
    let site = Site::open().await;
    let job = site.submit("x").await;
    let first = see(site.get("/mission/recent")).await;
    let tag = first.header("etag").unwrap().to_owned();
    let again = || site.get("/mission/recent").header("if-none-match", format!("\"other\", {tag}"));
    let same = see(again()).await;
    assert_eq!((same.status.as_u16(), same.text.as_str()), (304, ""));
    assert_eq!(same.header("etag"), Some(tag.as_str()));
    assert_eq!(same.header("cache-control"), Some("private, no-cache"));
    assert_eq!(see(site.get("/mission/recent").header("if-none-match", "*")).await.status, 304);
    assert_eq!(see(site.get("/mission/recent").header("if-none-match", "W/\"stale\"")).await.status, 200);
    assert_eq!(see(site.get("/mission/recent").header("if-none-match", "nonsense")).await.status, 200);
    see(site.post(&format!("/jobs/{job}/cancel"))).await;
    let changed = see(again()).await;
    assert_eq!(changed.status, 200);
    assert_ne!(changed.header("etag"), Some(tag.as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_checked_by_name() {
    let site = Site::open().await;
    let matrix: &[(&str, &[&str])] = &[
        ("limit=0", &["limit"]),
        ("limit=201", &["limit"]),
        ("limit=", &["limit"]),
        ("limit=ten", &["limit"]),
        ("limit=-1", &["limit"]),
        ("since=", &["since"]),
        ("since=yesterday", &["since"]),
        ("since=2026-01-01", &["since"]),
        ("since=1764576000", &["since"]),
        ("since=9999-12-31T23:59:59-23:59", &["since"]),
        ("since=x&limit=x", &["since", "limit"]),
        ("sinse=2026-01-01T00:00:00Z", &["sinse"]),
        ("limit=1&limit=2", &["limit"]),
    ];
    for (query, fields) in matrix {
        let seen = see(site.get(&format!("/mission/recent?{query}"))).await;
        assert_eq!(&seen.refused_fields(), fields, "{query}");
    }
    for query in [
        "limit=1",
        "limit=200",
        "since=2026-01-01T00:00:00+00:00",
        "since=2026-01-01T00:00:00%2B00:00",
        "since=0000-01-01T00:00:00%2B23:59",
        "since=9999-12-31T23:59:59.999999Z",
        "since=2026-01-01T00:00:00.123456789Z",
    ] {
        assert_eq!(see(site.get(&format!("/mission/recent?{query}"))).await.status, 200, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn head_is_get_without_the_page() {
    let site = Site::open().await;
    let path = "/sa-core/v1/mission/recent";
    let seen = see(site.request(reqwest::Method::HEAD, path).bearer_auth(&site.token)).await;
    assert_eq!((seen.status.as_u16(), seen.text.as_str()), (200, ""));
    assert!(seen.header("etag").is_some());
}
