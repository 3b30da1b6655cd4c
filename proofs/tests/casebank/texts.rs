//! Texts that are long or strange: rows CB-69 and CB-72.

use serde_json::{Value, json};

use super::{asked, details, post_raw};
use crate::stage::{Api, Stage};

const MIB: usize = 1024 * 1024;

/// The prompts a viewer sees in `recent`, by id.
async fn recent_texts(api: &Api) -> Vec<(Value, Value)> {
    let page = api.get("/sa-core/v1/mission/recent").await;
    let entities = page["entities"].as_array().unwrap().clone();
    entities.into_iter().map(|item| (item["prompt_id"].clone(), item["prompt_text"].clone())).collect()
}

/// Submits the texts, runs them, and shows that each comes out of API, row and provider request byte for byte.
async fn come_back(stage: &Stage, api: &Api, texts: &[String]) -> Vec<String> {
    let mut jobs = Vec::new();
    let mut expected = Vec::new();
    for text in texts {
        let ids = api.prompt(json!({ "prompt_text": text })).await;
        let stored: Vec<u8> = sqlx::query_scalar("SELECT CAST(content AS BINARY) FROM sa_entity WHERE id = ?")
            .bind(ids["prompt_id"].as_str().unwrap())
            .fetch_one(stage.pool())
            .await
            .unwrap();
        assert!(stored == text.as_bytes(), "{} bytes were stored as {}", text.len(), stored.len());
        jobs.push(ids["job_id"].as_str().unwrap().to_owned());
        expected.push((ids["prompt_id"].clone(), Value::from(text.as_str())));
    }
    stage.work_once().await;
    for job in &jobs {
        assert_eq!(stage.state(job).await, "succeeded");
    }
    assert!(recent_texts(api).await == expected, "recent shows what was sent");
    let mut sent: Vec<_> = stage.provider.calls().iter().map(asked).collect();
    let mut wanted = texts.to_vec();
    sent.sort();
    wanted.sort();
    assert!(sent == wanted, "the provider is asked what was sent");
    jobs
}

/// CB-69: nothing is trimmed at the sizes where columns, packets and parsers trim: what goes in comes out of the database
/// and goes to the provider. One byte over the cap is refused and leaves nothing.
#[tokio::test]
async fn cb_69_long_prompts_come_back_byte_for_byte_or_are_refused() {
    let stage = Stage::set().await;
    let api = stage.api().await;
    let texts = ["ä🦀".repeat(35_000), "x".repeat(65_536), format!("{}é", "y".repeat(MIB - 2))];
    assert_eq!((texts[0].chars().count(), texts[2].len()), (70_000, MIB));
    come_back(&stage, &api, &texts).await;

    let before = stage.contents().await;
    for (text, bytes) in [("z".repeat(MIB + 1), MIB + 1), (format!("{}é", "z".repeat(MIB - 1)), MIB + 1)] {
        assert_eq!(text.len(), bytes);
        let refused = post_raw(&api, json!({ "prompt_text": text }).to_string()).await;
        assert_eq!(refused.status(), 413);
        let problem: Value = refused.json().await.unwrap();
        assert_eq!(problem["limit"], MIB);
        assert!(problem["detail"].as_str().unwrap().contains("prompt_text"), "{problem}");
    }
    assert_eq!(stage.contents().await, before);
}

/// CB-72: NUL, an override of the writing direction and 10,000 combining marks are text like any other, and a terminal is
/// shown what could disturb it as an escape. Half a surrogate pair is no JSON.
#[tokio::test]
async fn cb_72_strange_prompts_come_back_byte_for_byte_and_are_printed_escaped() {
    let stage = Stage::set().await;
    let api = stage.api().await;
    let texts = ["a\0b".to_owned(), "abc\u{202e}fdp.exe".to_owned(), format!("e{}", "\u{301}".repeat(10_000))];
    let jobs = come_back(&stage, &api, &texts).await;

    for (job, text) in jobs.iter().zip(&texts) {
        assert!(details(&stage, job).await["prompt"]["content"] == **text, "JSON carries the text itself");
        let page = stage.cli(&["job-details", job]).await.stdout;
        assert!(!page.contains(['\0', '\u{202e}']), "{page:?}");
    }
    for (job, escaped) in [(&jobs[0], "a\\u{0}b"), (&jobs[1], "abc\\u{202e}fdp.exe")] {
        let page = stage.cli(&["job-details", job]).await.stdout;
        assert!(page.contains(escaped), "{page}");
    }

    let before = stage.contents().await;
    for body in [r#"{"prompt_text":"\ud800"}"#, r#"{"prompt_text":"a\udc00b"}"#, r#"{"prompt_text":"\ud800\u0041"}"#] {
        let refused = post_raw(&api, body).await;
        assert_eq!(refused.status(), 400, "{body}");
        let problem: Value = refused.json().await.unwrap();
        assert_eq!(problem["type"], "urn:asterion:problem:not_json", "{body}");
    }
    assert_eq!(stage.contents().await, before);
}
