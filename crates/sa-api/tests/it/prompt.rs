//! `POST /prompt`: what is taken, and the whole matrix of what is not.

use sa_core::viewer::Role;
use serde_json::{Value, json};

use crate::site::{Site, see};

#[tokio::test(flavor = "multi_thread")]
async fn prompt_is_accepted_with_the_way_to_its_job() {
    let site = Site::open().await;
    let seen = see(site.post("/prompt").json(&json!({"prompt_text": "hello"}))).await;
    assert_eq!(seen.status, 202, "{}", seen.text);
    let body = seen.json();
    assert_eq!(body["state"], "queued");
    assert_eq!(body.as_object().unwrap().len(), 3);
    let location = format!("/sa-core/v1/jobs/{}", body["job_id"].as_str().unwrap());
    assert_eq!(seen.header("location"), Some(location.as_str()));
    assert_eq!(seen.header("retry-after"), Some("2"));
    assert_eq!(seen.header("cache-control"), Some("no-store"));
    assert_eq!(site.rows().await, (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn options_end_up_in_the_job() {
    let site = Site::open().await;
    let options = json!({"model": "large", "depth": 0, "priority": 0, "max_attempts": 20,
                         "scheduled_for": "2001-01-01T00:00:00Z", "router_model": null});
    let body = json!({"prompt_text": "x", "root_entity_id": null, "options": options});
    let seen = see(site.post("/prompt").json(&body)).await;
    assert_eq!(seen.status, 202, "{}", seen.text);
    let (lane, stored, priority, tries, late): (String, String, u8, u16, bool) = sqlx::query_as(
        "SELECT lane, execution_options, priority, max_attempts, scheduled_for > UTC_TIMESTAMP(6) FROM sa_job",
    )
    .fetch_one(site.database.pool())
    .await
    .unwrap();
    assert_eq!((lane.as_str(), priority, tries, late), ("two", 0, 20, false), "the past means now");
    assert_eq!(serde_json::from_str::<Value>(&stored).unwrap(), json!({"model": "large", "depth": 0}));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_unacceptable_field_is_named_and_nothing_is_written() {
    let site = Site::open().await;
    let matrix: &[(Value, &[&str])] = &[
        (json!({}), &["prompt_text"]),
        (json!([]), &["body"]),
        (json!("text"), &["body"]),
        (json!({"prompt_text": ""}), &["prompt_text"]),
        (json!({"prompt_text": null}), &["prompt_text"]),
        (json!({"prompt_text": 5}), &["prompt_text"]),
        (json!({"prompt_text": ["x"]}), &["prompt_text"]),
        (json!({"prompt_text": "x", "org_id": 2}), &["org_id"]),
        (json!({"prompt_text": "x", "created_by": 2, "role": "operator"}), &["created_by", "role"]),
        (json!({"prompt_text": "x", "root_entity_id": "nonsense"}), &["root_entity_id"]),
        (json!({"prompt_text": "x", "root_entity_id": 5}), &["root_entity_id"]),
        (json!({"prompt_text": "x", "root_entity_id": "01890000-0000-7000-8000-000000000000"}), &["root_entity_id"]),
        (json!({"prompt_text": "x", "options": "fast"}), &["options"]),
        (json!({"prompt_text": "x", "options": []}), &["options"]),
        (
            json!({"prompt_text": "", "options": {"priority": 101, "depth": 51}}),
            &["prompt_text", "options.depth", "options.priority"],
        ),
    ];
    for (body, fields) in matrix {
        let seen = see(site.post("/prompt").json(body)).await;
        assert_eq!(&seen.refused_fields(), fields, "{body}");
    }
    assert_eq!(site.rows().await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_unacceptable_option_is_named() {
    let site = Site::open().await;
    let matrix: &[(&str, &str)] = &[
        (r#""priority":101"#, "options.priority"),
        (r#""priority":-1"#, "options.priority"),
        (r#""priority":1.0"#, "options.priority"),
        (r#""priority":1e1"#, "options.priority"),
        (r#""priority":"1""#, "options.priority"),
        (r#""priority":true"#, "options.priority"),
        (r#""priority":99999999999999999999999"#, "options.priority"),
        (r#""max_attempts":0"#, "options.max_attempts"),
        (r#""max_attempts":21"#, "options.max_attempts"),
        (r#""max_attempts":65535"#, "options.max_attempts"),
        (r#""depth":51"#, "options.depth"),
        (r#""model":"unheard-of""#, "options.model"),
        (r#""model":"""#, "options.model"),
        (r#""model":7"#, "options.model"),
        (r#""prefer_provider":"three""#, "options.prefer_provider"),
        (r#""model":"large","prefer_provider":"one""#, "options.prefer_provider"),
        (r#""router_model":"unheard-of""#, "options.router_model"),
        (r#""scheduled_for":"tomorrow""#, "options.scheduled_for"),
        (r#""scheduled_for":"2999-01-01T00:00:00Z""#, "options.scheduled_for"),
        (r#""scheduled_for":"9999-12-31T23:59:59-23:59""#, "options.scheduled_for"),
        (r#""scheduled_for":1764576000"#, "options.scheduled_for"),
        (r#""priority":1,"priority":2"#, "options.priority"),
    ];
    for (option, field) in matrix {
        let body = format!(r#"{{"prompt_text":"x","options":{{{option}}}}}"#);
        let seen = see(site.post("/prompt").header("content-type", "application/json").body(body)).await;
        assert_eq!(seen.refused_fields(), [*field], "{option}");
    }
    assert_eq!(site.rows().await, (0, 0));
}

/// CB-104: a caller chooses among what is configured; it never says where a key is sent.
#[tokio::test(flavor = "multi_thread")]
async fn hostile_options_are_unknown_fields() {
    let site = Site::open().await;
    for option in ["api_base", "base_url", "api_key", "headers", "extra_query", "__proto__", "Priority", "", "a\u{0}b"]
    {
        let body = json!({"prompt_text": "x", "options": {option: "http://169.254.169.254"}});
        let seen = see(site.post("/prompt").json(&body)).await;
        assert_eq!(seen.refused_fields(), [format!("options.{option}")]);
    }
    assert_eq!(site.rows().await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_json_is_told_as_such() {
    let site = Site::open().await;
    let texts: &[&[u8]] = &[
        b"",
        b"prompt_text=hello",
        br#"{"prompt_text":"x""#,
        br#"{"prompt_text":"x"} more"#,
        br#"{"prompt_text":'x'}"#,
        br#"{"prompt_text":"x",}"#,
        br#"{"prompt_text":NaN}"#,
        br#"{"prompt_text":"\ud800"}"#,
        br#"{"prompt_text":"\udc00\ud800"}"#,
        br#"{"prompt_text":"x","options":{"model":"\ud800"}}"#,
        b"{\"prompt_text\":\"\xff\xfe\"}",
        b"\xef\xbb\xbf{\"prompt_text\":\"x\"}",
        b"{\"prompt_text\":\"a\0b\"}",
    ];
    for text in texts {
        let seen = see(site.post("/prompt").header("content-type", "application/json").body(text.to_vec())).await;
        let problem = seen.problem(400, "not_json");
        assert!(problem.get("errors").is_none());
    }
    assert_eq!(site.rows().await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn tree_of_any_depth_is_refused_unbuilt() {
    let site = Site::open().await;
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
        let tree = format!("{}1{}", open.repeat(500_000), close.repeat(500_000));
        let body = format!(r#"{{"prompt_text":"x","tree":{tree}}}"#);
        let seen = see(site.post("/prompt").header("content-type", "application/json").body(body)).await;
        assert_eq!(seen.refused_fields(), ["tree"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_json_is_read() {
    let site = Site::open().await;
    let send = |name: &str, value: &str| site.post("/prompt").header(name, value).body(r#"{"prompt_text":"x"}"#);
    for media_type in ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16"] {
        see(send("content-type", media_type)).await.problem(415, "media_type");
    }
    see(site.post("/prompt").body(r#"{"prompt_text":"x"}"#)).await.problem(415, "media_type");
    let compressed = send("content-type", "application/json").header("content-encoding", "gzip");
    see(compressed).await.problem(415, "media_type");
    assert_eq!(see(send("content-type", "application/json; charset=utf-8")).await.status, 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn prompt_continues_a_thread_of_its_own_viewer_only() {
    let site = Site::open().await;
    let first = see(site.post("/prompt").json(&json!({"prompt_text": "one"}))).await.json();
    let next = json!({"prompt_text": "two", "root_entity_id": first["prompt_id"]});
    assert_eq!(see(site.post("/prompt").json(&next)).await.status, 202);

    let stranger = site.token(1, 8, Role::Viewer).await;
    let continuing =
        |root: &str| site.post_as(&stranger, "/prompt").json(&json!({"prompt_text": "two", "root_entity_id": root}));
    let foreign = see(continuing(first["prompt_id"].as_str().unwrap())).await;
    let absent = see(continuing("01890000-0000-7000-8000-000000000000")).await;
    let malformed = see(continuing("nonsense")).await;
    assert_eq!(foreign.refused_fields(), ["root_entity_id"]);
    assert_eq!(foreign.without_instance(), absent.without_instance());
    assert_eq!(foreign.without_instance(), malformed.without_instance());
    assert_eq!(site.rows().await, (2, 2));
}
