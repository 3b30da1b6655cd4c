//! `proofs/run thread`: a prompt that continues another is answered with the turns before it in mind.

use std::process::Command;

use sa_harness::{Binary, Process, repository_root};
use serde_json::{Value, json};

use crate::stage::{Api, LIMIT, MODEL, Stage};

const RECENT: &str = "/sa-core/v1/mission/recent";

/// §4 (`correlation_id`, `parent_id`, `source_refs`): each turn is sent with those before it, in their order and in exactly
/// these words, and the response names the entities it was told.
#[tokio::test]
async fn a_continued_prompt_is_sent_with_the_turns_before_it() {
    let stage = Stage::set().await;
    let api = stage.api().await;
    let first = ask(&stage, &api, json!({ "prompt_text": "one" })).await;
    assert_eq!(sent(&stage), request(&[("user", "one")]));
    assert_eq!((&first["context_ids"], &first["parent_id"]), (&json!([]), &Value::Null));

    // One continues a response, the next a prompt, which stands for its response.
    let second = ask(&stage, &api, json!({ "prompt_text": "two", "root_entity_id": first["response_id"] })).await;
    let said = |item: &Value| item["response"]["text"].as_str().unwrap().to_owned();
    assert_eq!(sent(&stage), request(&[("user", "one"), ("assistant", &said(&first)), ("user", "two")]));
    assert_eq!(second["context_ids"], json!([first["prompt_id"], first["response_id"]]));
    assert_eq!(second["parent_id"], first["response_id"]);

    let third = ask(&stage, &api, json!({ "prompt_text": "three", "root_entity_id": second["prompt_id"] })).await;
    let thread = [
        ("user", "one"),
        ("assistant", &*said(&first)),
        ("user", "two"),
        ("assistant", &*said(&second)),
        ("user", "three"),
    ];
    assert_eq!(sent(&stage), request(&thread));
    let told = ["prompt_id", "response_id"].map(|id| [first[id].clone(), second[id].clone()]);
    assert_eq!(third["context_ids"], json!([told[0][0], told[1][0], told[0][1], told[1][1]]));
    for item in [&first, &second, &third] {
        assert_eq!(item["correlation_id"], first["prompt_id"]);
    }
}

/// Contract §5 `depth`: as many earlier turns as are asked for, the nearest ones; none at 0.
#[tokio::test]
async fn depth_says_how_many_turns_are_sent() {
    let stage = Stage::set().await;
    let api = stage.api().await;
    let first = ask(&stage, &api, json!({ "prompt_text": "one" })).await;
    let second = ask(&stage, &api, json!({ "prompt_text": "two", "root_entity_id": first["response_id"] })).await;
    let continued = |text: &str, depth: u8| json!({ "prompt_text": text, "root_entity_id": second["response_id"], "options": { "depth": depth } });

    let nearest = ask(&stage, &api, continued("three", 1)).await;
    let said = second["response"]["text"].as_str().unwrap();
    assert_eq!(sent(&stage), request(&[("user", "two"), ("assistant", said), ("user", "three")]));
    assert_eq!(nearest["context_ids"], json!([second["prompt_id"], second["response_id"]]));

    let alone = ask(&stage, &api, continued("four", 0)).await;
    assert_eq!(sent(&stage), request(&[("user", "four")]));
    assert_eq!(alone["context_ids"], json!([]));
    assert_eq!(alone["correlation_id"], first["prompt_id"], "of the thread all the same");
}

/// Criterion 3: two tabs continue two threads at the same moment. Each prompt is sent with its own thread alone, and is
/// attached to its own parent.
#[tokio::test]
async fn two_tabs_that_continue_two_threads_at_once_do_not_mix_them() {
    let stage = Stage::set().await;
    let api = stage.api().await;
    let (left, right) = (
        ask(&stage, &api, json!({ "prompt_text": "left" })).await,
        ask(&stage, &api, json!({ "prompt_text": "right" })).await,
    );
    let go_on =
        |root: &Value, text: &str| api.prompt(json!({ "prompt_text": text, "root_entity_id": root["response_id"] }));
    let (further_left, further_right) = tokio::join!(go_on(&left, "further left"), go_on(&right, "further right"));
    stage.work_once().await;
    for (root, ids, other) in [(&left, &further_left, "right"), (&right, &further_right, "left")] {
        let item = item(&api, &ids["prompt_id"]).await;
        assert_eq!((&item["state"], &item["parent_id"]), (&json!("succeeded"), &root["response_id"]));
        assert_eq!(item["context_ids"], json!([root["prompt_id"], root["response_id"]]));
        let calls = stage.provider.calls_with(item["prompt_text"].as_str().unwrap());
        assert_eq!((calls.len(), calls[0].body.contains(other)), (1, false), "{}", calls[0].body);
    }
}

/// A thread of two turns with a real model on a real server. That the first turn reached it is its own word: it counts more
/// tokens sent than for the same prompt alone.
#[tokio::test]
async fn a_real_model_answers_two_turns_of_a_thread() {
    let (_server, settings) = real_model().await;
    let stage = Stage::with_settings(&settings).await;
    let api = stage.api().await;
    let ask = async |text: &str, root: &Value, depth: u8| {
        let options = json!({ "prefer_provider": "real", "depth": depth });
        let mut body = json!({ "prompt_text": text, "options": options });
        if !root.is_null() {
            body["root_entity_id"] = root.clone();
        }
        ask(&stage, &api, body).await
    };
    let first = ask("My name is Ada. Say hello to me.", &Value::Null, 10).await;
    let second = ask("What is my name?", &first["response_id"], 10).await;
    let alone = ask("What is my name?", &first["response_id"], 0).await;
    for item in [&first, &second, &alone] {
        let response = &item["response"];
        println!("{} → {}", item["prompt_text"], response["text"]);
        assert!(!response["text"].as_str().unwrap().trim().is_empty());
        assert_eq!((&response["provider"], &response["model"]), (&json!("real"), &json!("smollm2-135m")));
        assert_eq!(item["correlation_id"], first["prompt_id"]);
    }
    assert_eq!(second["context_ids"], json!([first["prompt_id"], first["response_id"]]));
    assert_eq!(alone["context_ids"], json!([]));
    let sent: Vec<u32> =
        sqlx::query_scalar("SELECT tokens_in FROM sa_ledger ORDER BY id").fetch_all(stage.pool()).await.unwrap();
    assert!(sent[1] > sent[0] && sent[1] > sent[2], "{sent:?}");
    assert_eq!(stage.provider.calls().len(), 0);
}

/// Submits, works, and returns the prompt's item as the viewer sees it, answered.
async fn ask(stage: &Stage, api: &Api, body: Value) -> Value {
    let ids = api.prompt(body).await;
    stage.work_once().await;
    let item = item(api, &ids["prompt_id"]).await;
    assert_eq!(item["state"], "succeeded", "{item}");
    item
}

async fn item(api: &Api, prompt: &Value) -> Value {
    let recent = api.get(RECENT).await;
    let items = recent["entities"].as_array().unwrap();
    items.iter().find(|item| item["prompt_id"] == *prompt).unwrap().clone()
}

/// The body of the last call.
fn sent(stage: &Stage) -> Value {
    serde_json::from_str(&stage.provider.calls().last().unwrap().body).unwrap()
}

/// The whole body that these messages make.
fn request(messages: &[(&str, &str)]) -> Value {
    let message = |&(role, content): &(&str, &str)| json!({ "role": role, "content": content });
    json!({
        "model": MODEL,
        "messages": messages.iter().map(message).collect::<Vec<_>>(),
        "stream": true,
        "stream_options": { "include_usage": true },
    })
}

/// The small real model of `deploy/model`, running, and its `[[provider]]`. The script fetches it when it is not there.
async fn real_model() -> (Process, String) {
    let script = || Command::new(repository_root().join("deploy/model")).output();
    let output = tokio::task::spawn_blocking(script).await.unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let value = |key: &str| lines.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    let command = format!("exec {} --port 0", value("LLAMA_CMD="));
    let mut server = Binary::at("sh").args(["-c", &command]).spawn().unwrap();
    let line = server.wait_for_output("serving at", LIMIT).await.unwrap();
    let url = line.split_whitespace().last().unwrap();
    let settings = format!(
        "[[provider]]\nname = \"real\"\nkind = \"openai\"\nbase_url = \"{url}/v1\"\nauth = \"none\"\n\
         models = [\"{}\"]\nmax_output_tokens = 32\n",
        value("MODEL_NAME=")
    );
    (server, settings)
}
