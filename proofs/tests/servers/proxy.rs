//! LiteLLM in front of made-up models: what a proxy makes of other providers' words. It takes long to install and to start,
//! so it is run by `proofs/run --all`.

use sa_harness::repository_root;

use super::{Server, answer, installed, provider, worker};
use crate::stage::{Stage, succeed};

#[tokio::test]
#[ignore = "installs 400 MB; proofs/run --all runs it"]
async fn a_proxy_in_between_changes_no_verdict() {
    let program = installed("litellm")
        .env("LITELLM_MASTER_KEY", "sk-wire")
        .env("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        .arg("--config")
        .arg(repository_root().join("proofs/servers/litellm.yaml"))
        .args(["--host", "127.0.0.1", "--port"]);
    let server = Server::start(program, "/health/liveliness").await;
    let base = format!("{}/v1", server.base);
    let cases = [
        ("answers", "openai", "answers", "succeeded "),
        ("answers-messages", "anthropic", "answers", "succeeded "),
        // It cannot make up answers in this protocol, and says so in an event under an error status.
        ("answers-responses", "openai-responses", "answers", "queued provider_5xx"),
        ("limited", "openai", "limited", "queued rate_limit"),
        ("broken", "openai", "broken", "queued provider_5xx"),
        ("context", "openai", "context", "failed provider_4xx"),
        ("nobody", "openai", "nobody", "failed provider_4xx"),
    ];
    let providers: String = cases.map(|(name, kind, model, _)| provider(name, kind, &base, model)).concat();
    let stage = Stage::with_providers(&providers).await;
    let mut jobs = Vec::new();
    for (name, _, _, expected) in cases {
        jobs.push((name, expected, stage.submit("hello", &["--prefer-provider", name]).await));
    }
    succeed(worker(&stage).args(["--once", "--batch-size", "10"])).await;
    for (name, expected, job) in jobs {
        let kind = stage.job_text(&job, "error_kind").await.unwrap_or_default();
        let found = format!("{} {kind}", stage.state(&job).await);
        assert_eq!(found, expected, "{name}: {:?}", stage.job_text(&job, "error_message").await);
        if expected == "succeeded " {
            assert!(answer(&stage, &job).await.0.contains("naïve café, 東京, 🦀"), "{name}");
        }
    }
}
