//! aimock: five protocols and OpenRouter's dialect, with errors that follow the providers' documentation. It needs node, which
//! a machine may lack, and its bytes are recorded for `sa-worker`'s tests; so it is run by `proofs/run --all`.

use sa_harness::repository_root;

use super::{Server, answer, installed, provider, worker};
use crate::stage::{Stage, succeed};

const TEXT: &str = "Hello! I am a recorded answer, in several pieces: naïve café, 東京, 🦀.";

/// Each protocol's name here, its kind, and what stands before its paths.
const PROTOCOLS: [(&str, &str, &str); 6] = [
    ("chat", "openai", "/v1"),
    ("openrouter", "openai", "/api/v1"),
    ("responses", "openai-responses", "/v1"),
    ("messages", "anthropic", "/v1"),
    ("gemini", "gemini", "/v1beta"),
    ("ollama", "ollama", ""),
];

#[tokio::test]
#[ignore = "needs node and npm; proofs/run --all runs it"]
async fn every_protocol_is_answered_refused_and_put_back_as_the_contract_says() {
    let fixtures = repository_root().join("proofs/wire/aimock-fixtures.json");
    let program = installed("aimock").env("AIMOCK_API_KEYS", "sk-wire").arg("--fixtures").arg(&fixtures).arg("--port");
    let server = Server::start(program, "/health").await;
    let providers = PROTOCOLS.map(|(name, kind, path)| provider(name, kind, &format!("{}{path}", server.base), "m"));
    let stage = Stage::with_providers(&providers.concat()).await;
    let mut jobs = Vec::new();
    for (name, ..) in PROTOCOLS {
        for text in ["hello", "no money", "overloaded"] {
            jobs.push((name, text, stage.submit(text, &["--prefer-provider", name]).await));
        }
    }
    succeed(worker(&stage).args(["--once", "--batch-size", "20"])).await;
    for (name, text, job) in jobs {
        let kind = stage.job_text(&job, "error_kind").await.unwrap_or_default();
        let found = format!("{} {kind}", stage.state(&job).await);
        let expected = match text {
            "hello" => "succeeded ",
            // In OpenRouter's shape the mock leaves out all that tells it from a matter of pace.
            "no money" if name == "openrouter" => "queued rate_limit",
            "no money" => "failed quota",
            _ => "queued provider_5xx",
        };
        assert_eq!(found, expected, "{name}: {text}: {:?}", stage.job_text(&job, "error_message").await);
        if text == "hello" {
            assert_eq!(answer(&stage, &job).await, (TEXT.into(), name.into(), "succeeded".into()));
        }
    }
}
