//! `proofs/run servers`: the worker before servers that are not ours: a real model, a mock of five protocols, a proxy, and a
//! judge of clients.

mod judge;
mod mock;
mod model;
mod proxy;

use std::{net::TcpListener, path::PathBuf, process::Command, time::Duration};

use sa_harness::{Binary, Process, repository_root, wait_until};
use serde_json::Value;

use crate::stage::Stage;

/// A model has to be loaded, a proxy to read its price list.
const START_LIMIT: Duration = Duration::from_secs(120);

/// A running server; dropping it ends it.
struct Server {
    _process: Process,
    base: String,
}

impl Server {
    /// Starts this program, with its port as the last argument, and waits until it answers on `path`.
    async fn start(program: Binary, path: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = program.arg(port.to_string()).spawn().unwrap();
        let base = format!("http://127.0.0.1:{port}");
        let health = format!("{base}{path}");
        let answers = async || reqwest::get(&health).await.is_ok_and(|answer| answer.status().is_success());
        if let Err(error) = wait_until(&format!("{health} to answer"), START_LIMIT, answers).await {
            panic!("{error}\n{}", process.stderr());
        }
        Self { _process: process, base }
    }

    async fn get(&self, path: &str) -> Value {
        reqwest::get(format!("{}{path}", self.base)).await.unwrap().json().await.unwrap()
    }
}

/// The program of a server that `proofs/servers/install` provides.
fn installed(name: &str) -> Binary {
    Binary::at(PathBuf::from(
        output_of(Command::new(repository_root().join("proofs/servers/install")).arg(name)).trim(),
    ))
}

fn output_of(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// One `[[provider]]`, with a key for those that look at it.
fn provider(name: &str, kind: &str, base_url: &str, model: &str) -> String {
    format!(
        "[[provider]]\nname = \"{name}\"\nkind = \"{kind}\"\nbase_url = \"{base_url}\"\nmodels = [\"{model}\"]\n\
         api_key_env = \"PROOF_KEY\"\n"
    )
}

/// The worker with the key of [`provider`].
fn worker(stage: &Stage) -> Binary {
    stage.worker().env("PROOF_KEY", "sk-wire")
}

/// The text that answers a job, and its row in the ledger: provider and outcome.
async fn answer(stage: &Stage, job: &str) -> (String, String, String) {
    let sql = "SELECT e.content, l.provider, l.outcome FROM sa_job j \
               JOIN sa_entity e ON e.id = j.response_id JOIN sa_ledger l ON l.response_id = e.id WHERE j.id = ?";
    sqlx::query_as(sql).bind(job).fetch_one(stage.pool()).await.unwrap()
}
