//! What is large, what is odd, what is slow.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use serde_json::json;

use crate::site::{Site, see};

const MIB: usize = 1024 * 1024;

/// Submits a text and reads it back as a client would.
async fn round_trip(site: &Site, text: &str) -> String {
    let seen = see(site.post("/prompt").json(&json!({"prompt_text": text}))).await;
    assert_eq!(seen.status, 202, "{}", seen.text);
    let id = seen.json()["prompt_id"].clone();
    let recent = see(site.get("/mission/recent")).await.json();
    let item = recent["entities"].as_array().unwrap().iter().find(|item| item["prompt_id"] == id).unwrap().clone();
    item["prompt_text"].as_str().unwrap().to_owned()
}

/// CB-69.
#[tokio::test(flavor = "multi_thread")]
async fn long_prompts_come_back_whole() {
    let site = Site::open().await;
    for length in [70_000, 65_535, 65_536, MIB] {
        let text: String = (0..length).map(|n| char::from(b'a' + u8::try_from(n % 23).unwrap())).collect();
        assert!(round_trip(&site, &text).await == text, "{length} bytes come back as they were");
    }
}

/// CB-70.
#[tokio::test(flavor = "multi_thread")]
async fn prompt_over_a_mebibyte_is_refused_and_the_pool_lives() {
    let site = Site::open().await;
    for text in ["x".repeat(MIB + 1), "\u{1F600}".repeat(MIB / 4 + 1), "y".repeat(7 * MIB)] {
        let seen = see(site.post("/prompt").json(&json!({"prompt_text": text}))).await;
        let problem = seen.problem(413, "too_large");
        assert_eq!(problem["limit"], MIB);
        assert!(problem["detail"].as_str().unwrap().contains("prompt_text is larger than 1048576 bytes"));
    }
    assert_eq!(site.rows().await, (0, 0));
    // The limit is one of decoded bytes: escapes may make the body six times as long.
    let escaped = format!(r#"{{"prompt_text":"{}"}}"#, "\\u0041".repeat(MIB));
    let seen = see(site.post("/prompt").header("content-type", "application/json").body(escaped)).await;
    assert_eq!(seen.status, 202, "{}", seen.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn body_and_options_have_limits_of_their_own() {
    let site = Site::open().await;
    let large = json!({"prompt_text": "z".repeat(9 * MIB)});
    let seen = see(site.post("/prompt").json(&large)).await;
    assert_eq!(seen.problem(413, "too_large")["limit"], 8 * MIB);

    let options = json!({"prompt_text": "x", "options": {"model": "m".repeat(64 * 1024)}});
    let seen = see(site.post("/prompt").json(&options)).await;
    let problem = seen.problem(413, "too_large");
    assert_eq!(problem["limit"], 64 * 1024);
    assert!(problem["detail"].as_str().unwrap().starts_with("options is larger"));

    // Without a length told in advance, too.
    let chunks = (0..9).map(|_| Ok::<_, std::io::Error>(vec![b' '; MIB]));
    let body = reqwest::Body::wrap_stream(futures_util::stream::iter(chunks));
    let seen = see(site.post("/prompt").header("content-type", "application/json").body(body)).await;
    assert_eq!(seen.problem(413, "too_large")["limit"], 8 * MIB);
    assert_eq!(site.rows().await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn limit_of_bodies_is_a_setting_and_includes_its_last_byte() {
    let body = r#"{"prompt_text":"x"}"#;
    let site = Site::open_with(|api| api.with_body_limit(body.len())).await;
    let send = |text: String| site.post("/prompt").header("content-type", "application/json").body(text);
    assert_eq!(see(send(body.to_owned())).await.status, 202);
    assert_eq!(see(send(format!("{body} "))).await.problem(413, "too_large")["limit"], body.len());
}

/// CB-72.
#[tokio::test(flavor = "multi_thread")]
async fn odd_characters_come_back_byte_for_byte() {
    let site = Site::open().await;
    let combining = format!("e{}", "\u{301}".repeat(10_000));
    for text in [
        "\0",
        "a\0b\0",
        "\u{202E}drowssap",
        "\u{1F469}\u{200D}\u{1F4BB}",
        "e\u{301} \u{e9}",
        "\u{FEFF}x",
        "\u{FFFF}\u{10FFFF}",
        " \t\r\n ",
        "'; DROP TABLE sa_job; --",
        "\\u0000 \\ \"",
        &combining,
    ] {
        assert!(round_trip(&site, text).await == text, "{text:?} comes back as it was");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_body_is_cut_off() {
    let site = Site::open_with(|api| api.with_body_deadline(Duration::from_millis(200))).await;
    let (address, token) = (site.address, site.token.clone());
    let answer = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let head = format!(
            "POST /sa-core/v1/prompt HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: 100\r\n\r\n{{\"prompt_text\":"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = vec![0; 4096];
        let length = stream.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..length]).into_owned()
    });
    let answer = answer.await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("urn:asterion:problem:slow_body"), "{answer}");
}
