//! llama.cpp's server with a small real model, on the three protocols it speaks.

use std::process::Command;

use sa_harness::{Binary, repository_root};

use super::{Server, answer, output_of, provider, worker};
use crate::stage::{Stage, succeed};

const PROTOCOLS: [(&str, &str); 3] = [("chat", "openai"), ("responses", "openai-responses"), ("messages", "anthropic")];

/// A thread of two turns, so that the model's own words go back to it in each protocol's form.
#[tokio::test]
async fn a_real_model_answers_a_thread_on_every_protocol_it_speaks() {
    let values = output_of(&mut Command::new(repository_root().join("deploy/model")));
    let command = values.lines().find_map(|line| line.strip_prefix("LLAMA_CMD=")).unwrap();
    let program = Binary::at("/bin/sh").args(["-c", &format!("exec {command} --port \"$0\"")]);
    let server = Server::start(program, "/health").await;
    let base = format!("{}/v1", server.base);
    let providers =
        PROTOCOLS.map(|(name, kind)| provider(name, kind, &base, "smollm2-135m") + "max_output_tokens = 48\n");
    let stage = Stage::with_providers(&providers.concat()).await;
    let mut first = Vec::new();
    for (name, _) in PROTOCOLS {
        let ids = stage.submit_ids("Say hello in one short sentence.", &["--prefer-provider", name]).await;
        first.push((name, ids));
    }
    succeed(worker(&stage).arg("--once")).await;
    let mut jobs = Vec::new();
    for (name, ids) in first {
        let prompt = ids["prompt_id"].as_str().unwrap();
        jobs.push((name, ids["job_id"].as_str().unwrap().to_owned()));
        jobs.push((name, stage.submit("Say it again.", &["--prefer-provider", name, "--root", prompt]).await));
    }
    succeed(worker(&stage).arg("--once")).await;
    for (name, job) in jobs {
        let message = stage.job_text(&job, "error_message").await;
        assert_eq!(stage.state(&job).await, "succeeded", "{name}: {message:?}");
        let (text, provider, outcome) = answer(&stage, &job).await;
        assert!(!text.trim().is_empty(), "{name}");
        assert_eq!((provider.as_str(), outcome.as_str()), (name, "succeeded"));
    }
    let counted =
        "SELECT COUNT(*) FROM sa_ledger WHERE tokens_in > 0 AND tokens_out > 0 AND first_token_ms IS NOT NULL";
    assert_eq!(stage.count(counted).await, 6, "every call was counted by the server itself");
}
